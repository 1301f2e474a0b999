// Parts that are loaded when they are first needed.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

import { Note, Spinner } from "./parts";
import type { EditorProps } from "./editor";

/** A component whose code comes later. After an update of the server its old files are gone: then the page has to be loaded again. */
export function lazy<P extends object>(load: () => Promise<{ default: ComponentType<P> }>): ComponentType<P> {
  let loaded: ComponentType<P> | undefined;
  return function Lazy(props: P) {
    const [, draw] = useState(0);
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (!loaded)
        load().then(
          (module) => {
            loaded = module.default;
            draw((n) => n + 1);
          },
          () => setFailed(true),
        );
    }, []);
    if (loaded) {
      const Loaded = loaded;
      return <Loaded {...props} />;
    }
    if (failed)
      return (
        <Note bad>
          A part of this page could not be loaded. <button type="button" class="link" onClick={() => location.reload()}>Reload the page</button>
        </Note>
      );
    return <Spinner />;
  };
}

export const Editor = lazy<EditorProps>(() => import("./editor"));
