// The playground: a notebook in a sealed box.
import { useEffect, useRef, useState } from "preact/hooks";

import "../styles/play.css";
import { SignIn } from "../account";
import { get, identity, online, send } from "../api";
import { authState, signedIn } from "../session";
import { useStore } from "../store";
import { Icon } from "../ui/icon";
import { lazy } from "../ui/lazy";
import { attempt, IconButton, Spinner, useInterval, useLoad } from "../ui/parts";
import { focusOn, joinBelow, runCell, step, stop } from "./actions";
import { addCell, deleted, duplicate, extra, head, move, order, remove, saved, selected, setKind, undelete, untouched } from "./book";
import { box, boxWords, endBox, ensureBox, liveSession, look, lost, sessionPath, signInNeeded, time, wishes, writeAddress, type ServerLimits } from "./box";
import { CellView } from "./cell";
import { filesOf, type Dropped } from "./drop";
import { importText, openFromAddress, reattach } from "./open";
import { runAll } from "./run";
import { owner } from "./storage";
import { askRestart, Ending, PANELS, Toolbar, type PanelName } from "./toolbar";

const Files = lazy(() => import("./files"));
const Variables = lazy(() => import("./variables"));
const Packages = lazy(() => import("./packages"));
const Terminals = lazy(() => import("./terminal"));
const BoxSettings = lazy(() => import("./settings"));
const ShareDialog = lazy(() => import("./share"));
const KeysDialog = lazy(() => import("./keys"));

const PANEL = "glovebox.play.panel";
const narrow = () => window.matchMedia("(max-width: 60rem)").matches;

function storedPanel(): PanelName | null {
  if (narrow()) return null;
  try {
    const name = localStorage.getItem(PANEL);
    return PANELS.find((one) => one.name === name)?.name ?? null;
  } catch {
    return null; // only convenience
  }
}

/** What this is, for those who see it for the first time. */
function Intro({ onBox }: { onBox(): void }) {
  const limits = useLoad((signal) => get<ServerLimits>("/v1/limits", signal), []);
  const health = useLoad((signal) => get<{ template?: string }>("/health", signal), []);
  const wish = useStore(wishes);
  const normal = limits.value?.session;
  return (
    <section class="intro" aria-labelledby="intro">
      <h1 id="intro">Run Python in a sealed box</h1>
      <p>Press <strong>Run</strong>, or <kbd>Shift+Enter</kbd>, and a fresh box starts in milliseconds. Your variables, files and terminal live in it; nothing in it can reach this machine or the network. Each cell tells what it used.</p>
      {normal && (
        <ul class="facts" aria-label="The box">
          <li><Icon name="box" /> {wish.template ?? health.value?.template ?? "the default template"}</li>
          <li><Icon name="gauge" /> {boxWords({ ...normal, ...wish })}</li>
          <li><Icon name="play" /> {time(wish.timeout ?? normal.timeout)} a cell</li>
          <li><button type="button" class="link" onClick={onBox}>Change</button></li>
        </ul>
      )}
    </section>
  );
}

function Banner() {
  const state = useStore(box);
  const gone = useStore(lost);
  const fresh = (all: boolean) =>
    void attempt(async () => {
      await ensureBox();
      if (all) runAll();
    });
  if (state.is === "ended" && state.unsure)
    return (
      <p class="play-banner warn" role="alert">
        <span>{state.why}</span>
        <button type="button" class="primary" onClick={() => void reattach(extra.session ?? new URLSearchParams(location.search).get("session"))}>Try again</button>
        <button type="button" onClick={() => fresh(false)}>Start a new one</button>
      </p>
    );
  if (state.is === "ended")
    return (
      <p class="play-banner" role="alert">
        <span><strong>{state.why}</strong> Its variables and files are gone; the notebook is all here.</span>
        <button type="button" class="primary" onClick={() => fresh(true)}>Start a new one and run all</button>
        <button type="button" onClick={() => fresh(false)}>Only start a new one</button>
      </p>
    );
  if (gone)
    return (
      <p class="play-banner warn" role="alert">
        <span>{gone}</span>
        <button type="button" class="primary" onClick={runAll}>Run all</button>
        <IconButton icon="close" label="Close this message" onClick={() => lost.set("")} />
      </p>
    );
  return null;
}

function Undo() {
  const list = useStore(deleted);
  const last = list.at(-1);
  const [hidden, setHidden] = useState<unknown>(null);
  useEffect(() => {
    if (!last) return;
    const timer = setTimeout(() => setHidden(last), 10_000);
    return () => clearTimeout(timer);
  }, [last]);
  if (!last || hidden === last) return null;
  return <p class="undo" role="status">A cell was deleted. <button type="button" class="link" onClick={undelete}>Undo</button> <IconButton icon="close" label="Dismiss" onClick={() => setHidden(last)} /></p>;
}

/** Keys on a selected cell. Two-key commands are told apart by the time between them. */
function useKeys(open: { keys(): void; panels(): void }) {
  const last = useRef({ key: "", at: 0 });
  return (event: KeyboardEvent) => {
    const target = event.target as HTMLElement;
    if (target.closest(".editor, input, textarea, select, dialog, iframe, [role=menu]") || event.defaultPrevented) return;
    const id = selected.get();
    if (!id) return;
    const onCell = target.dataset.cell !== undefined;
    const twice = last.current.key === event.key && event.timeStamp - last.current.at < 800;
    last.current = { key: event.ctrlKey || event.metaKey || event.altKey ? "" : event.key, at: event.timeStamp };
    const done = () => {
      event.preventDefault();
      last.current.key = "";
    };
    if (event.key === "Enter") {
      if (event.shiftKey) runCell(id, "next");
      else if (event.ctrlKey || event.metaKey) runCell(id, "stay");
      else if (event.altKey) runCell(id, "insert");
      else if (onCell) focusOn(id, "edit");
      else return;
      return done();
    }
    if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
      move(id, event.key === "ArrowUp" ? -1 : 1);
      focusOn(id, "command");
      return done();
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    switch (event.key) {
      case "ArrowUp": case "k": if (!onCell && event.key === "ArrowUp") return; step(id, -1, "command"); return done();
      case "ArrowDown": case "j": if (!onCell && event.key === "ArrowDown") return; step(id, 1, "command"); return done();
      case "a": focusOn(addCell("above", id), "command"); return done();
      case "b": focusOn(addCell("below", id), "command"); return done();
      case "m": setKind(id, "markdown"); return done();
      case "y": setKind(id, "code"); return done();
      case "c": focusOn(duplicate(id), "command"); return done();
      case "M": joinBelow(id); return done();
      case "z": undelete(); focusOn(selected.get(), "command"); return done();
      case "d": if (!twice) return; remove(id); focusOn(selected.get(), "command"); return done();
      case "i": if (twice) { stop(); done(); } return;
      case "0": if (twice) { void askRestart(); done(); } return;
      case "o": open.panels(); return done();
      case "h": case "?": open.keys(); return done();
    }
  };
}

function Insert({ after }: { after: string }) {
  return (
    <div class="insert">
      <button type="button" aria-label="Insert a code cell here" onClick={() => focusOn(addCell("below", after), "edit")}><Icon name="add" size={14} /> Code</button>
      <button type="button" aria-label="Insert a Markdown cell here" onClick={() => focusOn(addCell("below", after, "markdown"), "edit")}><Icon name="add" size={14} /> Markdown</button>
    </div>
  );
}

export default function View() {
  const state = useStore(authState);
  useStore(identity);
  const refused = useStore(signInNeeded);
  const who = owner();
  useEffect(() => signInNeeded.set(false), [who]);
  if ((state?.authentication || refused) && !signedIn()) return <SignIn why="The playground runs code on this server, so it wants to know who you are." />;
  return <Playground key={who} who={who} />;
}

function Playground({ who }: { who: string }) {
  const [ready, setReady] = useState(false);
  const [panel, setPanel] = useState<PanelName | null>(storedPanel());
  const [dialog, setDialog] = useState<{ is: "box"; focus?: string } | { is: "share" } | { is: "keys" } | null>(null);
  const [over, setOver] = useState(false);
  const [dropped, setDropped] = useState<Dropped[] | null>(null);
  const list = useStore(order);
  const fresh = useStore(untouched);
  const { id: notebook, title } = useStore(head);
  const up = useStore(online);
  const notStored = useStore(saved) === "failed";
  const lastPanel = useRef<PanelName>("files");

  useEffect(() => void openFromAddress(who).finally(() => setReady(true)), [who]);
  useEffect(() => {
    document.title = `${title} · Playground · Glovebox`;
  }, [title]);
  useEffect(() => {
    if (ready) writeAddress(); // a copy has a name of its own
  }, [notebook]);
  useInterval(() => void look(), 20_000);
  useEffect(() => {
    // The server is back: is the box?
    if (!up) return;
    const now = box.get();
    const id = liveSession()?.session_id ?? new URLSearchParams(location.search).get("session");
    if (now.is === "live") void look();
    else if (now.is === "ended" && id && ready) void reattach(id);
  }, [up]);

  const show = (next: PanelName | null) => {
    if (next) lastPanel.current = next;
    setPanel(next);
    try {
      if (next) localStorage.setItem(PANEL, next);
      else localStorage.removeItem(PANEL);
    } catch {
      // only convenience
    }
  };
  const keys = useKeys({ keys: () => setDialog({ is: "keys" }), panels: () => show(panel ? null : lastPanel.current) });
  const onSetting = useRef((setting: string) => setDialog({ is: "box", focus: setting })).current;
  /** One notebook is opened; everything else goes to the files of the box. */
  const takeDrop = async (data: DataTransfer) => {
    const files = await attempt(() => filesOf(data));
    const [one] = files ?? [];
    if (!files || !one) return;
    if (files.length === 1 && /\.ipynb$/i.test(one.file.name)) return importText(await one.file.text(), one.file.name);
    show("files");
    setDropped((old) => [...(old ?? []), ...files]);
  };
  const keep = () => {
    const live = liveSession();
    if (live) void attempt(() => send("POST", `${sessionPath(live.session_id)}/keepalive`)).then(look);
  };

  if (!ready) return <div class="center"><Spinner /></div>;
  return (
    <div class="play">
      <Toolbar panel={panel} onPanel={show} onBox={() => setDialog({ is: "box" })} onShare={() => setDialog({ is: "share" })} onKeys={() => setDialog({ is: "keys" })} />
      {notStored && <p class="play-banner warn" role="alert"><span>This browser could not store the notebook. Download it before you leave.</span></p>}
      <Ending onKeep={keep} />
      <Banner />
      <div class={`play-body ${panel === "terminal" ? "with-dock" : panel ? "with-side" : ""}`}>
        <div
          class={over ? "play-scroll over" : "play-scroll"} onKeyDown={keys}
          onDragOver={(event) => {
            if (!event.dataTransfer?.types.includes("Files")) return;
            event.preventDefault();
            setOver(true);
          }}
          onDragLeave={() => setOver(false)}
          onDropCapture={(event) => {
            setOver(false);
            if (!event.dataTransfer?.types.includes("Files")) return;
            event.preventDefault();
            event.stopPropagation(); // an editor would put the text of the file into its cell
            void takeDrop(event.dataTransfer);
          }}
        >
          <div class={fresh ? "notebook fresh" : "notebook"}>
            {fresh ? <Intro onBox={() => setDialog({ is: "box" })} /> : <h1 class="visually-hidden">{title}</h1>}
            {list.map((id) => (
              <div key={id} class="cell-slot"><CellView id={id} onSetting={onSetting} /><Insert after={id} /></div>
            ))}
            <div class="add-cells">
              <button type="button" onClick={() => focusOn(addCell("below", list.at(-1) ?? null), "edit")}><Icon name="add" /> Code</button>
              <button type="button" onClick={() => focusOn(addCell("below", list.at(-1) ?? null, "markdown"), "edit")}><Icon name="add" /> Markdown</button>
            </div>
          </div>
        </div>
        {panel && (
          <aside class={panel === "terminal" ? "dock" : "side"} aria-label={PANELS.find((one) => one.name === panel)!.label}>
            <div class="panel-head">
              <h2>{PANELS.find((one) => one.name === panel)!.label}</h2>
              <IconButton icon="close" label="Close the panel" onClick={() => show(null)} />
            </div>
            <div class="panel-content">
              {panel === "files" && <Files dropped={dropped} onTaken={() => setDropped(null)} onOpenNotebook={(text, name) => void importText(text, name)} />}
              {panel === "variables" && <Variables />}
              {panel === "packages" && <Packages />}
              {panel === "terminal" && <Terminals />}
            </div>
          </aside>
        )}
      </div>
      <Undo />
      {dialog?.is === "box" && <BoxSettings {...(dialog.focus ? { focus: dialog.focus } : {})} onClose={() => setDialog(null)} onNewBox={() => void attempt(async () => {
        await endBox();
        await ensureBox();
      })} />}
      {dialog?.is === "share" && <ShareDialog onClose={() => setDialog(null)} />}
      {dialog?.is === "keys" && <KeysDialog onClose={() => setDialog(null)} />}
    </div>
  );
}
