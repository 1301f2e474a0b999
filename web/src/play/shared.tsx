// A notebook that somebody shared: read-only, with what its cells printed and drew.
import { useState } from "preact/hooks";

import "../styles/play.css";
import { SignIn } from "../account";
import { get, identity, Problem, saveBlob } from "../api";
import { ago, timeOf } from "../format";
import { navigate, usePlace } from "../router";
import { authState, signedIn } from "../session";
import { useStore } from "../store";
import { Icon } from "../ui/icon";
import { attempt, Note, Spinner, useLoad } from "../ui/parts";
import { StaticCell } from "./cell";
import { fileNameOf, readNotebook } from "./notebook";
import { openCopy } from "./open";
import { owner } from "./storage";

interface Shared {
  share_id: string;
  title: string;
  created: string | number;
  expires: string | number | null;
  notebook: unknown;
}

function idOf(path: string): string {
  const name = path.replace(/^\/shared\//, "");
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // not copied completely; the server knows no such share
  }
}

export default function SharedView() {
  const { path } = usePlace();
  useStore(identity);
  const who = owner(); // not the identity itself: new tokens are no reason to load again
  const state = useStore(authState);
  const id = idOf(path);
  const [refused, setRefused] = useState(false);
  const shared = useLoad(async (signal) => {
    try {
      const share = await get<Shared>(`/v1/shares/${encodeURIComponent(id)}`, signal);
      document.title = `${share.title} · Glovebox`;
      return { share, ...readNotebook(share.notebook, share.title) };
    } catch (error) {
      setRefused(error instanceof Problem && error.status === 401);
      if (error instanceof Problem && error.status === 404) throw new Error("There is no such notebook. Its link was taken back or has ended, or was not copied completely.");
      throw error;
    }
  }, [id, who]);
  if ((state?.authentication || refused) && !signedIn()) return <SignIn why="Shared notebooks are for those who may use this server." />;
  if (!shared.value) return <div class="center">{shared.error ? <div class="page narrow"><h1>Shared notebook</h1><Note bad>{shared.error}</Note></div> : <Spinner />}</div>;
  const { share, notebook, warnings } = shared.value;
  return (
    <div class="play">
      <div class="play-scroll">
        <div class="notebook shared">
          <header class="shared-head">
            <div class="grow">
              <h1>{share.title}</h1>
              <small>Shared {ago(share.created)}, read-only{share.expires ? `; the link ends ${timeOf(share.expires)}` : ""}</small>
            </div>
            <button type="button" onClick={() => saveBlob(new Blob([JSON.stringify(share.notebook, null, 1)], { type: "application/x-ipynb+json" }), fileNameOf(share.title, "ipynb"))}><Icon name="down" /> .ipynb</button>
            <button type="button" class="primary" onClick={() => void attempt(async () => {
              await openCopy(structuredClone(notebook), owner());
              navigate("/play");
            })}><Icon name="code" /> Open a copy</button>
          </header>
          {warnings.map((line) => <Note key={line}>{line}</Note>)}
          {notebook.cells.map((cell, at) => <StaticCell key={cell.id} cell={cell} at={at} />)}
        </div>
      </div>
    </div>
  );
}
