// The tables of a source: what is known about them, and what people wrote.
import { useEffect, useState } from "preact/hooks";

import { get, say, send } from "../api";
import { ago, bytes, count, plural } from "../format";
import { Icon } from "../ui/icon";
import { Field, Note, Spinner, toast, useLoad } from "../ui/parts";
import type { Source, SourceColumn, SourceTable } from "./types";

const listText = (list?: string[]): string => (list ?? []).join(", ");
const listOf = (text: string): string[] => text.split(",").map((one) => one.trim()).filter(Boolean);

interface Notes {
  description: string;
  synonyms: string;
  columns: Record<string, { description: string; unit: string; synonyms: string; masked: boolean }>;
}

const notesOf = (table: SourceTable): Notes => ({
  description: table.description ?? "",
  synonyms: listText(table.synonyms),
  columns: Object.fromEntries(table.columns.map((one) => [one.name, { description: one.description ?? "", unit: one.unit ?? "", synonyms: listText(one.synonyms), masked: Boolean(one.masked) }])),
});

/** What was changed, as a PATCH: null removes. */
export function notesChange(before: Notes, now: Notes): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  if (now.description.trim() !== before.description) body.description = now.description.trim() || null;
  if (listText(listOf(now.synonyms)) !== before.synonyms) body.synonyms = listOf(now.synonyms).length ? listOf(now.synonyms) : null;
  const columns: Record<string, unknown>[] = [];
  for (const [name, note] of Object.entries(now.columns)) {
    const was = before.columns[name]!;
    const one: Record<string, unknown> = { name };
    if (note.description.trim() !== was.description) one.description = note.description.trim() || null;
    if (note.unit.trim() !== was.unit) one.unit = note.unit.trim() || null;
    if (listText(listOf(note.synonyms)) !== was.synonyms) one.synonyms = listOf(note.synonyms).length ? listOf(note.synonyms) : null;
    if (note.masked !== was.masked) one.masked = note.masked ? true : null;
    if (Object.keys(one).length > 1) columns.push(one);
  }
  if (columns.length) body.columns = columns;
  return body;
}

function ColumnName({ column }: { column: SourceColumn }) {
  return (
    <>
      <code>{column.name}</code>
      {column.key && <span class="badge" title="Part of the primary key">key</span>}
      {column.masked && <span class="badge warn" title="Its values never leave the source">masked</span>}
      {column.gone && <span class="badge bad" title="It has notes, but is not there any more">gone</span>}
    </>
  );
}

const typeText = (column: SourceColumn): string => `${column.source_type ?? column.type ?? ""}${column.nullable === false ? ", never missing" : ""}`;
const samplesText = (column: SourceColumn): string => (column.samples ?? []).map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join(", ");

function Columns({ table }: { table: SourceTable }) {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={`Columns of ${table.name}`}>
      <table class="plain catalogue">
        <thead><tr><th scope="col">Column</th><th scope="col">Type</th><th scope="col">Meaning</th><th scope="col">Values</th></tr></thead>
        <tbody>
          {table.columns.map((column) => (
            <tr key={column.name}>
              <th scope="row"><ColumnName column={column} /></th>
              <td>{typeText(column)}{column.references && <small> → {column.references}</small>}</td>
              <td>{column.description || column.comment}{column.unit && <span class="badge">{column.unit}</span>}{column.synonyms?.length ? <small> also: {listText(column.synonyms)}</small> : null}</td>
              <td class="values">{samplesText(column)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function EditTable({ source, table, onClose, onSaved }: { source: Source; table: SourceTable; onClose(): void; onSaved(table: SourceTable): void }) {
  const [before] = useState(() => notesOf(table));
  const [notes, setNotes] = useState<Notes>(before);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const setColumn = (name: string, change: Partial<Notes["columns"][string]>) => setNotes((old) => ({ ...old, columns: { ...old.columns, [name]: { ...old.columns[name]!, ...change } } }));
  const save = async (event: Event) => {
    event.preventDefault();
    const body = notesChange(before, notes);
    if (!Object.keys(body).length) return onClose();
    setBusy(true);
    try {
      onSaved(await send<SourceTable>("PATCH", `/api/v1/sources/${source.source_id}/tables/${encodeURIComponent(table.name)}`, body));
      toast("Saved");
      onClose();
    } catch (problem) {
      setError(say(problem));
      setBusy(false);
    }
  };
  const maskable = source.kind !== "files";
  return (
    <form onSubmit={save}>
      <div class="columns">
        <Field label="What a row is">{(id) => <textarea id={id} rows={2} maxLength={4000} placeholder={table.comment || "One row for each order."} value={notes.description} onInput={(event) => setNotes({ ...notes, description: event.currentTarget.value })} />}</Field>
        <Field label="What people call it" hint="With commas between">{(id) => <input id={id} value={notes.synonyms} placeholder="sales, bookings" onInput={(event) => setNotes({ ...notes, synonyms: event.currentTarget.value })} />}</Field>
      </div>
      <div class="scroll-x" tabIndex={0} role="region" aria-label={`Columns of ${table.name}`}>
        <table class="plain catalogue">
          <thead><tr><th scope="col">Column</th><th scope="col">Meaning</th><th scope="col">Unit</th><th scope="col">Also called</th>{maskable && <th scope="col">Masked</th>}</tr></thead>
          <tbody>
            {table.columns.map((column) => {
              const note = notes.columns[column.name]!;
              return (
                <tr key={column.name}>
                  <th scope="row"><code>{column.name}</code><br /><small>{typeText(column)}</small></th>
                  <td><input aria-label={`Meaning of ${column.name}`} value={note.description} placeholder={column.comment ?? ""} onInput={(event) => setColumn(column.name, { description: event.currentTarget.value })} /></td>
                  <td><input class="short" aria-label={`Unit of ${column.name}`} value={note.unit} maxLength={100} onInput={(event) => setColumn(column.name, { unit: event.currentTarget.value })} /></td>
                  <td><input aria-label={`Other names of ${column.name}`} value={note.synonyms} onInput={(event) => setColumn(column.name, { synonyms: event.currentTarget.value })} /></td>
                  {maskable && <td><input type="checkbox" aria-label={`Mask ${column.name}`} checked={note.masked} onChange={() => setColumn(column.name, { masked: !note.masked })} /></td>}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {maskable ? <p class="hint">A masked column is never read: no value of it is kept, and a query that might read it is refused.</p> : <p class="hint">Columns of files cannot be masked, because programs read the files whole.</p>}
      {error && <Note bad>{error}</Note>}
      <div class="row end"><button type="button" onClick={onClose}>Cancel</button><button class="primary" disabled={busy}>Save</button></div>
    </form>
  );
}

function TableItem({ source, name, brief, operator }: { source: Source; name: string; brief: SourceTable; operator: boolean }) {
  const [open, setOpen] = useState(false);
  const [editing, setEditing] = useState(false);
  const [whole, setWhole] = useState<SourceTable | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    if (!open || whole) return;
    get<SourceTable>(`/api/v1/sources/${source.source_id}/tables/${encodeURIComponent(name)}`).then(setWhole, (problem: unknown) => setError(say(problem)));
  }, [open]);
  const table = whole ?? brief;
  const facts = [table.kind && table.kind !== "table" ? table.kind : "", table.rows !== undefined ? `about ${plural(table.rows, "row")}` : "", table.bytes ? bytes(table.bytes) : "", table.partitioning ?? "", plural(table.columns.length, "column")].filter(Boolean);
  return (
    <section class={open ? "table-item open" : "table-item"}>
      <h3>
        <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
          <Icon name="chevron" size={16} /> <code>{name}</code>
          {table.row_security && <span class="badge" title="Each user sees different rows">row policies</span>}
          {table.gone && <span class="badge bad">gone {ago(table.gone)}</span>}
          <small>{facts.join(" · ")}</small>
        </button>
      </h3>
      {!open && (table.description || table.comment) && <p class="table-about">{table.description || table.comment}</p>}
      {open && (
        <div class="table-body">
          {error && <Note bad>{error}</Note>}
          {editing ? (
            <EditTable source={source} table={table} onClose={() => setEditing(false)} onSaved={setWhole} />
          ) : (
            <>
              <div class="row">
                <p class="grow">{table.description || table.comment || <span class="hint">Nobody has written what a row of it is.</span>}{table.synonyms?.length ? <small> Also called {listText(table.synonyms)}.</small> : null}</p>
                {operator && <button type="button" onClick={() => setEditing(true)}><Icon name="edit" size={16} /> Write about it</button>}
              </div>
              {!whole && !error ? <Spinner /> : <Columns table={table} />}
            </>
          )}
        </div>
      )}
    </section>
  );
}

const SHOWN = 60;

export function Catalogue({ source, operator, turn }: { source: Source; operator: boolean; turn: number }) {
  const [q, setQ] = useState("");
  const [asked, setAsked] = useState("");
  const [shown, setShown] = useState(SHOWN);
  useEffect(() => {
    const timer = setTimeout(() => { setAsked(q.trim()); setShown(SHOWN); }, 250);
    return () => clearTimeout(timer);
  }, [q]);
  const tables = useLoad((signal) => get<{ tables: SourceTable[] }>(`/api/v1/sources/${source.source_id}/tables${asked ? `?q=${encodeURIComponent(asked)}` : ""}`, signal), [source.source_id, asked, turn]);
  const list = tables.value?.tables ?? [];
  return (
    <section aria-label="Catalogue">
      <div class="row catalogue-head">
        <h2 class="grow">Catalogue <small>{tables.value ? plural(list.length, "table") : ""}</small></h2>
        <input type="search" placeholder="Search tables and columns" aria-label="Search tables and columns" value={q} maxLength={200} onInput={(event) => setQ(event.currentTarget.value)} />
      </div>
      {tables.error && <Note bad>{tables.error}</Note>}
      {tables.loading && !tables.value && <Spinner />}
      {tables.value && !list.length && <p class="empty">{asked ? "No table has all of these words" : operator ? "No tables are known. Read the catalogue." : "You can read no table of this source."}</p>}
      {list.slice(0, shown).map((table) => <TableItem key={`${table.name} ${turn}`} source={source} name={table.name} brief={table} operator={operator} />)}
      {list.length > shown && <button type="button" class="wide" onClick={() => setShown(shown + SHOWN)}>Show more of {count(list.length)} tables</button>}
    </section>
  );
}
