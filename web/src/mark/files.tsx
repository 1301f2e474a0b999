// Files of a question: uploads with their progress, and what is in them.
import { useEffect, useState } from "preact/hooks";

import { download, isAbort, say, upload } from "../api";
import { bytes, count, plural } from "../format";
import { store, useStore, type Store } from "../store";
import { Icon } from "../ui/icon";
import { attempt, Dialog, IconButton, Note, Progress, Spinner, toast } from "../ui/parts";
import { attachments, forgotten, keepAttachment, loadAttachment, onOther } from "./data";
import type { Attachment, ProfileColumn, ProfileTable } from "./types";

export interface Pending {
  key: number;
  name: string;
  size: number;
  done: number; // 0 to 1
  id: string | null;
  error: string;
  abort: AbortController;
}

let lastKey = 0;
export const MOST_FILES = 20;

/** Files that will go with the next question. */
export const pendingFiles: Store<Pending[]> = store<Pending[]>([]);

onOther(() => {
  for (const one of pendingFiles.get()) one.abort.abort();
  pendingFiles.set([]);
});

const change = (key: number, by: Partial<Pending>) => pendingFiles.set((list) => list.map((one) => (one.key === key ? { ...one, ...by } : one)));

export async function addFile(file: File): Promise<void> {
  if (pendingFiles.get().length >= MOST_FILES) {
    toast(`A question can have ${MOST_FILES} files. ${file.name || "A pasted file"} was not attached.`, true);
    return;
  }
  const one: Pending = { key: ++lastKey, name: file.name || "pasted", size: file.size, done: 0, id: null, error: "", abort: new AbortController() };
  pendingFiles.set((list) => [...list, one]);
  const form = new FormData();
  form.append("file", file, one.name);
  try {
    const made = await upload<Attachment>("POST", "/api/v1/attachments", form, (done, total) => change(one.key, { done: total ? done / total : 0 }), one.abort.signal);
    if (one.abort.signal.aborted) return;
    keepAttachment(made);
    change(one.key, { id: made.attachment_id, done: 1 });
  } catch (error) {
    if (!isAbort(error)) change(one.key, { error: say(error) });
  }
}

export const addFiles = (files: Iterable<File>): void => {
  const list = [...files];
  const room = Math.max(0, MOST_FILES - pendingFiles.get().length);
  for (const file of list.slice(0, room)) void addFile(file);
  const out = list.length - room;
  if (out > 0) toast(`A question can have ${MOST_FILES} files. ${out === 1 ? `${list.at(-1)!.name || "One"} was` : `${out} were`} not attached.`, true);
};

/** Takes a file back before it is sent. What is uploaded already stays among the attachments of the account. */
export function dropFile(one: Pending): void {
  one.abort.abort();
  pendingFiles.set((list) => list.filter((other) => other.key !== one.key));
}

function PendingChip({ one }: { one: Pending }) {
  const [look, setLook] = useState(false);
  const file = useStore(attachments).get(one.id ?? "");
  return (
    <li class={one.error ? "chip file bad" : "chip file"}>
      <Icon name={one.error || file?.profile?.error ? "warning" : "file"} size={15} />
      {file ? (
        <button type="button" class="link chip-name" onClick={() => setLook(true)} title="What is in it">{one.name}</button>
      ) : (
        <span class="chip-name" title={one.name}>{one.name}</span>
      )}
      <small>{one.error || (file ? summary(file) : one.done >= 1 ? "looking into it…" : bytes(one.size))}</small>
      <IconButton icon="close" label={`Remove ${one.name}`} onClick={() => dropFile(one)} />
      {!one.id && !one.error && <Progress value={one.done >= 1 ? null : one.done} label={`Upload of ${one.name}`} />}
      {look && file && <ProfileDialog file={file} onClose={() => setLook(false)} />}
    </li>
  );
}

export function PendingFiles() {
  const list = useStore(pendingFiles);
  if (!list.length) return null;
  return <ul class="chips" aria-label="Files for the next question">{list.map((one) => <PendingChip key={one.key} one={one} />)}</ul>;
}

/** "2,005 rows, 9 columns" */
export function summary(file: Attachment): string {
  const profile = file.profile;
  if (profile?.error) return `${bytes(file.size)}, could not be read`;
  if (!profile) return bytes(file.size);
  const parts = profile.sheets?.length ? [plural(profile.sheets.length, "sheet")] : profile.tables?.length ? [plural(profile.tables.length, "table")] : [];
  if (profile.rows !== undefined) parts.push(`${profile.rows_exact === false ? "over " : ""}${plural(profile.rows, "row")}`);
  if (profile.columns_total) parts.push(plural(profile.columns_total, "column"));
  return parts.join(", ") || bytes(file.size);
}

/** A file of a question that was asked. */
export function FileChip({ id }: { id: string }) {
  const file = useStore(attachments).get(id);
  const gone = useStore(forgotten).has(id);
  const [look, setLook] = useState(false);
  const [problem, setProblem] = useState("");
  const load = () => {
    setProblem("");
    loadAttachment(id).catch((error: unknown) => setProblem(say(error)));
  };
  useEffect(() => {
    if (!file && !gone) load();
  }, [id]);
  if (gone) return <li class="chip file"><Icon name="file" size={15} /> <span class="chip-name">a file that was deleted</span></li>;
  if (!file && problem) return <li class="chip file bad" title={problem}><Icon name="warning" size={15} /> <span class="chip-name">a file that could not be described</span> <button type="button" class="link" onClick={load}>Try again</button></li>;
  if (!file) return <li class="chip file"><Spinner /></li>;
  return (
    <li>
      <button type="button" class="chip file" onClick={() => setLook(true)} title={`What is in ${file.name}`}>
        <Icon name="file" size={15} /> <span class="chip-name">{file.name}</span> <small>{summary(file)}</small>
      </button>
      {look && <ProfileDialog file={file} onClose={() => setLook(false)} />}
    </li>
  );
}

const some = (values?: unknown[]): string => (values ?? []).slice(0, 8).map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join(", ");

function range(column: ProfileColumn): string {
  const parts: string[] = [];
  if (column.min !== undefined && column.max !== undefined) parts.push(`${String(column.min)} to ${String(column.max)}`);
  else if (column.values?.length) parts.push(some(column.values) + (column.values.length > 8 ? ", …" : ""));
  else if (column.examples?.length) parts.push(`such as ${some(column.examples.slice(0, 3))}`);
  if (column.formats?.length) parts.push(`written ${column.formats.join(", ")}`);
  return parts.join("; ");
}

function ColumnsTable({ table }: { table: ProfileTable }) {
  const facts = [
    table.rows !== undefined ? `${table.rows_exact === false ? "over " : ""}${plural(table.rows, "row")}` : "",
    table.columns_total ? plural(table.columns_total, "column") : "",
    table.header === false ? "no header row" : "",
  ].filter(Boolean);
  return (
    <section>
      {table.name && <h3>{table.name}</h3>}
      <p>{facts.join(", ")}{" "}{table.duplicate_rows ? <span class="badge warn">{plural(table.duplicate_rows, "row")} that occur twice</span> : null}</p>
      {table.notes?.map((note, i) => <Note key={i}>{note}</Note>)}
      {table.columns?.length ? (
        <div class="scroll-x" tabIndex={0} role="region" aria-label={`Columns${table.name ? ` of ${table.name}` : ""}`}>
          <table class="plain profile">
            <thead><tr><th scope="col">Column</th><th scope="col">Type</th><th scope="col" class="number">Missing</th><th scope="col" class="number">Different</th><th scope="col">Values</th></tr></thead>
            <tbody>
              {table.columns.map((column, i) => (
                <tr key={i}>
                  <th scope="row">{column.name}</th>
                  <td>{column.type}{column.odd ? <span class="badge warn">{count(column.odd)} are not</span> : null}</td>
                  <td class="number">{column.nulls ? <span class="badge warn">{count(column.nulls)}</span> : "0"}</td>
                  <td class="number">{column.distinct === undefined ? "" : `${column.distinct_exact === false ? "over " : ""}${count(column.distinct)}`}</td>
                  <td class="values">{range(column)}{column.notes?.length ? <small> {column.notes.join("; ")}</small> : null}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : null}
    </section>
  );
}

export function ProfileDialog({ file, onClose }: { file: Attachment; onClose(): void }) {
  const profile = file.profile;
  const tables = [...(profile?.sheets ?? []), ...(profile?.tables ?? [])];
  return (
    <Dialog title={file.name} wide onClose={onClose}>
      <p class="row">
        <span>{[bytes(file.size), profile?.format, profile?.encoding, profile?.delimiter ? `delimiter ${profile.delimiter === "\t" ? "tab" : profile.delimiter}` : ""].filter(Boolean).join(" · ")}</span>
        <button type="button" class="link" onClick={() => void attempt(() => download(`/api/v1/attachments/${file.attachment_id}/content`, file.name))}>Download</button>
      </p>
      {profile?.error && <Note bad>This file was not looked into: {profile.error}</Note>}
      {profile && (profile.columns?.length || profile.rows !== undefined) && <ColumnsTable table={profile} />}
      {tables.map((table, i) => <ColumnsTable key={i} table={table} />)}
      {!profile && <Note>Nothing is known about the content of this file.</Note>}
      <small>This was found out in a throw-away box when the file was attached. The model sees the same.</small>
    </Dialog>
  );
}
