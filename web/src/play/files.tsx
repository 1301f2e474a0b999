// The files of the box: upload with progress, by button or by drag and drop; download, rename, delete, new folder, preview.
import { useEffect, useRef, useState } from "preact/hooks";

import { download, get, isAbort, say, send, upload } from "../api";
import { ago, bytes, plural } from "../format";
import { useStore } from "../store";
import { Icon, type IconName } from "../ui/icon";
import { lazy } from "../ui/lazy";
import { attempt, confirmed, Dialog, Field, IconButton, Menu, Note, Progress, toast } from "../ui/parts";
import { box, ensureBox, liveSession, noticeEnd, sessionPath } from "./box";
import { filesOf, type Dropped } from "./drop";
import { finished } from "./run";

export interface Entry {
  path: string;
  kind: "file" | "directory" | "link" | "other";
  size: number;
  mtime: number;
  path_base64?: string;
}

interface Listing {
  files: Entry[];
  more: boolean;
  incomplete: boolean;
}

const Preview = lazy(() => import("./preview"));

export const pathUrl = (session: string, path: string): string => `${sessionPath(session)}/files/${path.split("/").map(encodeURIComponent).join("/")}`;
export const nameOf = (path: string): string => path.replace(/^.*\//, "");

interface Upload {
  id: number;
  name: string;
  part: number | null;
  error: string;
  abort: AbortController;
}

function iconOf(entry: Entry): IconName {
  if (entry.kind === "directory") return "folder";
  if (entry.kind === "link") return "link";
  if (/\.(csv|tsv|parquet|xlsx?)$/i.test(entry.path)) return "table";
  if (/\.(py|ipynb|json|sql|sh)$/i.test(entry.path)) return "code";
  if (/\.(png|jpe?g|gif|webp|svg|html?)$/i.test(entry.path)) return "chart";
  return "file";
}

interface FilesProps {
  /** Dropped on the notebook: to be uploaded once. */
  dropped: Dropped[] | null;
  onTaken(): void;
  onOpenNotebook(text: string, name: string): void;
}

export default function Files({ dropped, onTaken, onOpenNotebook }: FilesProps) {
  const state = useStore(box);
  const turn = useStore(finished);
  const [dir, setDir] = useState("");
  const [list, setList] = useState<Listing | null>(null);
  const [error, setError] = useState("");
  const [uploads, setUploads] = useState<Upload[]>([]);
  const [over, setOver] = useState(false);
  const [shown, setShown] = useState<Entry | null>(null);
  const [asking, setAsking] = useState<{ kind: "folder" } | { kind: "rename"; entry: Entry } | null>(null);
  const picker = useRef<HTMLInputElement>(null);
  const session = state.is === "live" ? state.session.session_id : null;
  const shownDir = useRef(dir);
  shownDir.current = dir;

  const load = async (after?: string) => {
    const id = liveSession()?.session_id;
    if (!id) return;
    const other = () => shownDir.current !== dir || liveSession()?.session_id !== id; // another folder or box is shown by now
    const query = new URLSearchParams({ limit: "500", ...(dir ? { dir } : {}), ...(after ? { after } : {}) });
    try {
      const more = await get<Listing>(`${sessionPath(id)}/files?${query.toString()}`);
      if (other()) return;
      setList((old) => (after && old ? { ...more, files: [...old.files, ...more.files] } : more));
      setError("");
    } catch (problem) {
      if (!other() && !noticeEnd(problem)) setError(say(problem));
    }
  };
  useEffect(() => {
    setList(null);
    setError("");
    if (session) void load();
  }, [session, dir]);
  useEffect(() => {
    if (turn && session) void load();
  }, [turn]);
  useEffect(() => setDir(""), [session]);

  const sendFiles = async (files: Dropped[]) => {
    if (!files.length) return;
    const live = await attempt(ensureBox);
    if (!live) return;
    for (const { file, path } of files) {
      const id = Math.random();
      const abort = new AbortController();
      const change = (next: Partial<Upload>) => setUploads((old) => old.map((one) => (one.id === id ? { ...one, ...next } : one)));
      setUploads((old) => [...old, { id, name: path, part: 0, error: "", abort }]);
      try {
        await upload("PUT", pathUrl(live.session_id, dir ? `${dir}/${path}` : path), file, (done, total) => change({ part: total ? done / total : null }), abort.signal);
        setUploads((old) => old.filter((one) => one.id !== id));
      } catch (problem) {
        if (isAbort(problem)) setUploads((old) => old.filter((one) => one.id !== id));
        else change({ error: say(problem), part: null });
        if (noticeEnd(problem)) break;
      }
    }
    await load();
  };

  useEffect(() => {
    if (!dropped) return;
    onTaken();
    void sendFiles(dropped);
  }, [dropped]);

  const remove = async (entry: Entry) => {
    const folder = entry.kind === "directory";
    if (!(await confirmed(`Delete ${nameOf(entry.path)}?`, folder ? "The folder and everything in it is deleted from the box." : "The file is deleted from the box.", "Delete"))) return;
    await attempt(() => send("DELETE", `${pathUrl(session!, entry.path)}${folder ? "?recursive=true" : ""}`));
    await load();
  };

  const parts = dir ? dir.split("/") : [];
  const sorted = [...(list?.files ?? [])].sort((a, b) => Number(b.kind === "directory") - Number(a.kind === "directory") || a.path.localeCompare(b.path, undefined, { numeric: true }));
  return (
    <div
      class={over ? "files over" : "files"}
      onDragOver={(event) => {
        if (!event.dataTransfer?.types.includes("Files")) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={(event) => !(event.currentTarget as HTMLElement).contains(event.relatedTarget as Node | null) && setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        event.stopPropagation();
        setOver(false);
        if (event.dataTransfer) void filesOf(event.dataTransfer).then(sendFiles);
      }}
    >
      <div class="panel-tools">
        <button type="button" onClick={() => picker.current!.click()}><Icon name="up" /> Upload</button>
        <IconButton icon="folder" label="New folder" onClick={() => setAsking({ kind: "folder" })} />
        <IconButton icon="refresh" label="Look again" disabled={!session} onClick={() => void load()} />
        <IconButton icon="down" label="Download everything as tar.gz" disabled={!session || !list?.files.length} onClick={() => void attempt(() => download(`${sessionPath(session!)}/archive`, "workspace.tar.gz"))} />
        <input ref={picker} type="file" multiple hidden aria-label="Files to upload" onChange={() => {
          const files = [...(picker.current!.files ?? [])].map((file) => ({ file, path: file.name }));
          picker.current!.value = "";
          void sendFiles(files);
        }} />
      </div>
      <nav class="crumbs" aria-label="Folder">
        <button type="button" class="link" onClick={() => setDir("")}>/workspace</button>
        {parts.map((part, i) => <span key={i}> / <button type="button" class="link" aria-current={i === parts.length - 1 ? "page" : undefined} onClick={() => setDir(parts.slice(0, i + 1).join("/"))}>{part}</button></span>)}
      </nav>
      {uploads.map((one) => (
        <div key={one.id} class={one.error ? "upload bad" : "upload"}>
          <span class="grow">{one.name}{one.error && `: ${one.error}`}</span>
          {!one.error && <Progress value={one.part} label={`Upload of ${one.name}`} />}
          <IconButton icon="close" label={one.error ? "Dismiss" : `Cancel the upload of ${one.name}`} onClick={() => (one.error ? setUploads((old) => old.filter((other) => other.id !== one.id)) : one.abort.abort())} />
        </div>
      ))}
      {error && <Note bad>{error} {dir && <button type="button" class="link" onClick={() => setDir("")}>Back to /workspace</button>}</Note>}
      {list?.incomplete && <Note>There are too many files to list all of them.</Note>}
      {sorted.length > 0 && (
        <ul class="entries" aria-label="Files">
          {sorted.map((entry) => (
            <li key={entry.path}>
              <button type="button" class="entry" title={entry.path} disabled={entry.path_base64 !== undefined || entry.kind === "other" || entry.kind === "link"}
                onClick={() => (entry.kind === "directory" ? setDir(entry.path) : setShown(entry))}>
                <Icon name={iconOf(entry)} /><span class="entry-name">{nameOf(entry.path)}</span>
                <small>{entry.kind === "directory" ? "" : bytes(entry.size)}</small>
              </button>
              {entry.path_base64 === undefined && (
                <Menu label={`More about ${nameOf(entry.path)}`} items={[
                  ...(entry.kind === "file" ? [
                    { label: "Preview", icon: "eye" as const, run: () => setShown(entry) },
                    { label: "Download", icon: "down" as const, run: () => void attempt(() => download(pathUrl(session!, entry.path), nameOf(entry.path))) },
                  ] : entry.kind === "directory" ? [{ label: "Download as tar.gz", icon: "down" as const, run: () => void attempt(() => download(`${sessionPath(session!)}/archive?dir=${encodeURIComponent(entry.path)}`, `${nameOf(entry.path)}.tar.gz`)) }] : []),
                  { label: "Rename or move", icon: "edit", run: () => setAsking({ kind: "rename", entry }) },
                  { label: "Delete", icon: "trash", danger: true, run: () => void remove(entry) },
                ]} />
              )}
            </li>
          ))}
        </ul>
      )}
      {list?.more && <button type="button" class="wide" onClick={() => void load(list.files.at(-1)?.path)}>Show more</button>}
      {!sorted.length && !error && (
        <div class="empty">
          <p>{session && !list ? "Loading…" : dir ? "This folder is empty." : "No files yet."}</p>
          <p>Drop files here, or let your code write some: they appear by themselves. Programs see them in <code>/workspace</code>.</p>
        </div>
      )}
      {list && sorted.length > 0 && <small class="panel-foot">{plural(sorted.length, "entry", "entries")}{sorted[0] && `, last change ${ago(Math.max(...sorted.map((one) => one.mtime)))}`}</small>}
      {shown && session && <Preview key={shown.path} session={session} entry={shown} onClose={() => setShown(null)} onOpenNotebook={onOpenNotebook} />}
      {asking && <Ask asking={asking} dir={dir} onClose={() => setAsking(null)} onDone={() => {
        setAsking(null);
        void load();
      }} />}
    </div>
  );
}

function Ask({ asking, dir, onClose, onDone }: { asking: { kind: "folder" } | { kind: "rename"; entry: Entry }; dir: string; onClose(): void; onDone(): void }) {
  const [path, setPath] = useState(asking.kind === "rename" ? asking.entry.path : "");
  const [error, setError] = useState("");
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      const live = await ensureBox();
      if (asking.kind === "folder") await send("POST", `${sessionPath(live.session_id)}/directories`, { path: dir ? `${dir}/${path.trim()}` : path.trim() });
      else if (path.trim() !== asking.entry.path) await send("POST", `${sessionPath(live.session_id)}/move`, { from: asking.entry.path, to: path.trim() });
      if (asking.kind === "rename") toast("Moved");
      onDone();
    } catch (problem) {
      setError(say(problem));
    }
  };
  return (
    <Dialog title={asking.kind === "folder" ? "New folder" : `Rename or move ${nameOf(asking.entry.path)}`} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <Field label={asking.kind === "folder" ? "Name" : "New path"} {...(asking.kind === "rename" ? { hint: "Below /workspace. Missing folders are made." } : {})}>
          {(id) => <input id={id} required autofocus value={path} onInput={(event) => setPath(event.currentTarget.value)} />}
        </Field>
        {error && <Note bad>{error}</Note>}
        <div class="row end"><button type="button" onClick={onClose}>Cancel</button><button class="primary">{asking.kind === "folder" ? "Create" : "Move"}</button></div>
      </form>
    </Dialog>
  );
}
