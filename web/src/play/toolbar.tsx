// The bar above the notebook: its name, what runs, the box, and the panels.
import { useEffect, useState } from "preact/hooks";

import { ago, bytes, duration } from "../format";
import { useStore } from "../store";
import { Icon, type IconName } from "../ui/icon";
import { attempt, confirmed, Dialog, IconButton, Menu, Note, Spinner, useLoad } from "../ui/parts";
import { stop } from "./actions";
import { clearOutputs, extra, head, saved, setTitle, untouched } from "./book";
import { box, closeBox, liveSession, type BoxState } from "./box";
import { exportIpynb, exportScript, importText, openById, startNew } from "./open";
import { restart, runAll, runs } from "./run";
import { listStored, removeStored } from "./storage";

export type PanelName = "files" | "variables" | "packages" | "terminal";

export const PANELS: { name: PanelName; label: string; icon: IconName }[] = [
  { name: "files", label: "Files", icon: "folder" },
  { name: "variables", label: "Variables", icon: "table" },
  { name: "packages", label: "Packages", icon: "package" },
  { name: "terminal", label: "Terminal", icon: "terminal" },
];

export async function askRestart(): Promise<void> {
  if (!liveSession()) return;
  if (await confirmed("Restart the interpreter?", "All variables are gone then. Files, packages and the notebook stay.", "Restart")) await attempt(restart);
}

function BoxChip({ state, running, onClick }: { state: BoxState; running: boolean; onClick(): void }) {
  let text: string;
  let look = "";
  if (state.is === "none") text = "No box yet";
  else if (state.is === "starting") text = "Starting…";
  else if (state.is === "ended") [text, look] = [state.unsure ? "Box not reached" : "Box ended", "bad"];
  else if (running) [text, look] = ["Running", "busy"];
  else [text, look] = ["Ready", "good"];
  const session = state.is === "live" ? state.session : null;
  return (
    <button type="button" class={`box-chip ${look}`} onClick={onClick} title="The box: template, limits, a new one">
      <span class="dot" aria-hidden="true" /> {text}
      {session && <span class="box-words">{session.template} · {bytes(session.limits.memory)}</span>}
    </button>
  );
}

function Recent({ onClose }: { onClose(): void }) {
  const list = useLoad(() => listStored(), []);
  const here = head.get().id;
  return (
    <Dialog title="Notebooks in this browser" onClose={onClose}>
      {list.error && <Note bad>{list.error}</Note>}
      {list.loading && !list.value && <Spinner />}
      {list.value?.length === 0 && <p class="empty">None yet. A notebook is stored as soon as you change it.</p>}
      <ul class="package-list" aria-label="Notebooks in this browser">
        {list.value?.map((one) => (
          <li key={one.id}>
            <button type="button" class="entry grow" onClick={() => {
              onClose();
              if (one.id !== here) void attempt(() => openById(one.id));
            }}><Icon name="docs" /><span class="entry-name">{one.title}</span><small>{one.id === here ? "open" : ago(one.updated / 1000)}</small></button>
            <IconButton icon="trash" label={`Delete ${one.title}`} disabled={one.id === here} onClick={() => void confirmed(`Delete ${one.title}?`, "The notebook is deleted from this browser, and its box is closed.", "Delete").then(async (yes) => {
              if (!yes) return;
              await attempt(() => removeStored(one.id));
              if (one.session && one.session !== extra.session && !list.value!.some((other) => other.id !== one.id && other.session === one.session)) await closeBox(one.session);
              list.reload();
            })} />
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

export function pickFile(): void {
  const input = document.createElement("input");
  input.type = "file";
  input.accept = ".ipynb,.py,application/json";
  input.onchange = () => {
    const file = input.files?.[0];
    if (file) void file.text().then((text) => importText(text, file.name));
  };
  input.click();
}

interface ToolbarProps {
  panel: PanelName | null;
  onPanel(panel: PanelName | null): void;
  onBox(): void;
  onShare(): void;
  onKeys(): void;
}

export function Toolbar({ panel, onPanel, onBox, onShare, onKeys }: ToolbarProps) {
  const { title } = useStore(head);
  const kept = useStore(saved);
  const fresh = useStore(untouched);
  const state = useStore(box);
  const running = Object.keys(useStore(runs)).length > 0;
  const [recent, setRecent] = useState(false);
  const [draft, setDraft] = useState(title);
  useEffect(() => setDraft(title), [title]);
  return (
    <div class="play-bar" role="toolbar" aria-label="Notebook">
      <Menu label="Notebook" icon="menu" items={[
        { label: "New notebook", icon: "add", run: () => void attempt(startNew) },
        { label: "Notebooks in this browser…", icon: "docs", run: () => setRecent(true) },
        { label: "Open .ipynb or .py…", icon: "folder", run: pickFile },
        { label: "Download .ipynb", icon: "down", run: exportIpynb },
        { label: "Download .py", icon: "down", run: exportScript },
        { label: "Share a read-only copy…", icon: "share", run: onShare },
        { label: "Clear all outputs", icon: "close", disabled: running, run: clearOutputs },
        { label: "Keys", icon: "key", run: onKeys },
      ]} />
      <input class="play-title" aria-label="Title of the notebook" value={draft} maxLength={120} onInput={(event) => setDraft(event.currentTarget.value)}
        onBlur={() => draft.trim() && draft !== title && setTitle(draft.trim())}
        onKeyDown={(event) => {
          if (event.key === "Enter") event.currentTarget.blur();
        }} />
      <span class="play-saved" aria-hidden="true">{fresh ? "" : kept === "failed" ? "Not stored!" : kept === "saving" ? "Storing…" : "Stored in this browser"}</span>
      <span class="play-run">
        {running
          ? <button type="button" class="danger" onClick={stop}><Icon name="stop" /> Stop</button>
          : <button type="button" class="primary" onClick={runAll}><Icon name="play" /> Run all</button>}
        <IconButton icon="refresh" label="Restart the interpreter" disabled={state.is !== "live"} onClick={() => void askRestart()} />
      </span>
      <BoxChip state={state} running={running} onClick={onBox} />
      <span class="play-panels" role="group" aria-label="Panels">
        {PANELS.map((one) => (
          <button key={one.name} type="button" class="panel-button" aria-pressed={panel === one.name} aria-label={one.label} title={one.label} onClick={() => onPanel(panel === one.name ? null : one.name)}>
            <Icon name={one.icon} /> <span aria-hidden="true">{one.label}</span>
          </button>
        ))}
      </span>
      {recent && <Recent onClose={() => setRecent(false)} />}
    </div>
  );
}

/** A word when the box is about to end. */
export function Ending({ onKeep }: { onKeep(): void }) {
  const state = useStore(box);
  if (state.is !== "live" || state.session.expires_in > 300 || state.session.state === "running") return null;
  return <p class="play-banner warn" role="status"><span>The box has not been used for a while and ends in {duration(state.session.expires_in * 1000)}, with its variables and files.</span> <button type="button" onClick={onKeep}>Keep it</button></p>;
}
