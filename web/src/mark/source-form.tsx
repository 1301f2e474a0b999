// Adding and changing a data source: every setting that it can have. Secrets go in and never come out.
import { useState } from "preact/hooks";

import { say, send } from "../api";
import { Icon, type IconName } from "../ui/icon";
import { Dialog, Field, IconButton, Note, Spinner } from "../ui/parts";
import { addBody, changeBody, formOf, NEW_SOURCE, type Kind, type SourceForm } from "./source-body";
import type { Source } from "./types";

const KINDS: { kind: Kind; label: string; hint: string; icon: IconName }[] = [
  { kind: "postgresql", label: "PostgreSQL", hint: "A database; queries run read-only", icon: "database" },
  { kind: "bigquery", label: "BigQuery", hint: "A project of Google Cloud", icon: "chart" },
  { kind: "files", label: "Files", hint: "A directory of this machine", icon: "folder" },
];

interface Props {
  source: Source | null; // null: a new one
  onClose(): void;
  onDone(source: Source): void;
}

type TextName = { [K in keyof SourceForm]: SourceForm[K] extends string ? K : never }[keyof SourceForm];

export default function SourceDialog({ source, onClose, onDone }: Props) {
  const [before] = useState<SourceForm>(() => (source ? formOf(source) : NEW_SOURCE));
  const [form, setForm] = useState<SourceForm>(before);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const set = (change: Partial<SourceForm>) => setForm((old) => ({ ...old, ...change }));
  const submit = async (event: Event) => {
    event.preventDefault();
    setError("");
    setBusy(true);
    try {
      const made = source
        ? await send<Source>("PATCH", `/api/v1/sources/${source.source_id}`, changeBody(form, before))
        : await send<Source>("POST", "/api/v1/sources", addBody(form));
      onDone(made);
    } catch (problem) {
      setError(say(problem));
      setBusy(false);
    }
  };
  const input = (name: TextName, label: string, hint?: string, more: Record<string, unknown> = {}) => (
    <Field label={label} hint={hint}>
      {(id) => <input id={id} value={form[name] as string} autocomplete="off" spellcheck={false} onInput={(event) => set({ [name]: event.currentTarget.value })} {...more} />}
    </Field>
  );
  const area = (name: TextName, label: string, hint?: string, more: Record<string, unknown> = {}) => (
    <Field label={label} hint={hint}>
      {(id) => <textarea id={id} rows={3} value={form[name] as string} autocomplete="off" spellcheck={false} onInput={(event) => set({ [name]: event.currentTarget.value })} {...more} />}
    </Field>
  );
  const kept = source?.has_secret ? "Leave it empty to keep the one that is stored. It is never shown." : "It is sealed before it is stored, and never shown again.";
  return (
    <Dialog title={source ? `Change ${source.name}` : "Add a data source"} wide onClose={onClose}>
      <form class="source-form" onSubmit={submit}>
        {!source && (
          <div class="kinds" role="radiogroup" aria-label="Kind">
            {KINDS.map((one) => (
              <label key={one.kind} class={form.kind === one.kind ? "kind on" : "kind"}>
                <input type="radio" name="kind" checked={form.kind === one.kind} onChange={() => set({ kind: one.kind })} />
                <Icon name={one.icon} size={20} /> <span><strong>{one.label}</strong><small>{one.hint}</small></span>
              </label>
            ))}
          </div>
        )}
        <div class="columns">
          {input("name", "Name", "What programs call it in mark.query(): a-z, 0-9 and _", { required: true, pattern: "[a-z][a-z0-9_]*", placeholder: "shop" })}
          {input("description", "Description (optional)", "What it is about, for people and models")}
        </div>
        {form.kind === "postgresql" && (
          <>
            {input("url", "Address", "The login should be able to read what it should, and nothing else.", { required: true, placeholder: "postgresql://mark@db.example.com/shop?sslmode=verify-full" })}
            <div class="columns">
              {input("password", "Password", kept, { type: "password", autocomplete: "new-password" })}
              {input("schemas", "Schemas (optional)", "Only tables in these, with commas between", { placeholder: "all" })}
            </div>
            <details open={Boolean(form.role || form.variables || form.ca)}>
              <summary>Roles, variables, certificate</summary>
              <div class="columns">
                {input("role", "Role (optional)", "That queries run as, where access names none")}
                {area("variables", "Variables (optional)", "For row policies, one in a line; {email}, {user_id} and {key} are the caller's", { placeholder: "app.user = {email}" })}
              </div>
              {area("ca", "Certificate of the CA (optional)", "PEM; the system's certificates otherwise", { placeholder: "-----BEGIN CERTIFICATE-----" })}
            </details>
          </>
        )}
        {form.kind === "bigquery" && (
          <>
            <div class="columns">
              {input("project", "Project", "That pays for the queries", { required: true })}
              {input("dataset", "Dataset (optional)", "Only tables in this")}
            </div>
            {area("credentials", "Key of the service account", source ? kept : "The JSON file that Google made. It is sealed before it is stored, and never shown again.", source ? {} : { required: true, placeholder: '{"type": "service_account", …}' })}
            <details open={Boolean(form.location || form.price_per_tib || form.url)}>
              <summary>Location, price, address</summary>
              <div class="columns">
                {input("location", "Location (optional)", "Of the data, such as EU")}
                {input("price_per_tib", "Price per TiB in US dollars (optional)", "6.25 unless you say otherwise", { inputMode: "decimal" })}
              </div>
              {input("url", "Address of the API (optional)", "Google's, unless you say otherwise")}
            </details>
          </>
        )}
        {form.kind === "files" && input("directory", "Directory", "An absolute path on the machine of the service, with CSV, Parquet, Excel, JSON or SQLite files", { required: true, placeholder: "/srv/archive" })}
        {form.kind !== "files" && (
          <details open={Boolean(form.rows || form.bytes || form.seconds || form.cost || form.bytes_billed)}>
            <summary>Limits of one query</summary>
            <div class="columns four">
              {input("rows", "Rows", "5,000,000 by default", { inputMode: "numeric" })}
              {input("bytes", "Bytes", "1 GiB by default", { inputMode: "numeric" })}
              {input("seconds", "Seconds", "300 by default", { inputMode: "numeric" })}
              {form.kind === "postgresql" ? input("cost", "Cost", "In the planner's units; any by default", { inputMode: "decimal" }) : input("bytes_billed", "Bytes billed", "10 GiB by default", { inputMode: "numeric" })}
            </div>
          </details>
        )}
        <AccessRows form={form} set={set} />
        <NoteRows form={form} set={set} />
        <label class="choice"><input type="checkbox" checked={form.samples} onChange={() => set({ samples: !form.samples })} /> Keep a few values of columns, for people and the model to see</label>
        <div class="dialog-end">
          {error && <Note bad>{error}</Note>}
          <div class="row end">
            {busy && <span class="busy"><Spinner /> {source ? "Saving; the catalogue may be read again…" : "Connecting and reading the catalogue…"}</span>}
            <button type="button" onClick={onClose}>Cancel</button>
            <button class="primary" disabled={busy}>{source ? "Save" : "Add"}</button>
          </div>
        </div>
      </form>
    </Dialog>
  );
}

interface RowsProps {
  form: SourceForm;
  set(change: Partial<SourceForm>): void;
}

const replaced = <T,>(list: T[], at: number, change: Partial<T>): T[] => list.map((one, i) => (i === at ? { ...one, ...change } : one));
const without = <T,>(list: T[], at: number): T[] => list.filter((_, i) => i !== at);

function AccessRows({ form, set }: RowsProps) {
  const database = form.kind === "postgresql";
  const rows = form.access;
  const change = (at: number, by: Partial<SourceForm["access"][number]>) => set({ access: replaced(rows, at, by) });
  return (
    <details open>
      <summary>Who may use it</summary>
      <p class="hint">An e-mail address, <code>key:ID</code>, or <code>*</code> for everyone. {database && "A person can have a role or a login of their own in the database."}</p>
      {rows.map((row, i) => (
        <div key={i} class={database ? "access-row wide" : "access-row"}>
          <input aria-label="Who" placeholder="ann@example.com" value={row.who} onInput={(event) => change(i, { who: event.currentTarget.value })} />
          {database && <input aria-label="Role" placeholder="role" value={row.role ?? ""} onInput={(event) => change(i, { role: event.currentTarget.value })} />}
          {database && <input aria-label="Login" placeholder="login" autocomplete="off" value={row.login ?? ""} onInput={(event) => change(i, { login: event.currentTarget.value })} />}
          {database && <input aria-label="Password of the login" type="password" autocomplete="new-password" placeholder={row.has_password ? "kept" : "password"} value={row.password ?? ""} onInput={(event) => change(i, { password: event.currentTarget.value })} />}
          <IconButton icon="trash" label={`Remove ${row.who || "this row"}`} onClick={() => set({ access: without(rows, i) })} />
        </div>
      ))}
      <button type="button" class="link" onClick={() => set({ access: [...rows, { who: "" }] })}>Add somebody</button>
      {rows.length === 0 && <Note>Nobody may use it.</Note>}
    </details>
  );
}

function NoteRows({ form, set }: RowsProps) {
  return (
    <details open={form.joins.length > 0 || form.examples.length > 0}>
      <summary>Joins and example questions</summary>
      <p class="hint">Joins besides the foreign keys, which are known.</p>
      {form.joins.map((row, i) => (
        <div key={i} class="access-row three">
          <input aria-label="Left column" placeholder="shop.orders.product" value={row.left} onInput={(event) => set({ joins: replaced(form.joins, i, { left: event.currentTarget.value }) })} />
          <input aria-label="Right column" placeholder="shop.products.product" value={row.right} onInput={(event) => set({ joins: replaced(form.joins, i, { right: event.currentTarget.value }) })} />
          <input aria-label="Note" placeholder="note" value={row.note ?? ""} onInput={(event) => set({ joins: replaced(form.joins, i, { note: event.currentTarget.value }) })} />
          <IconButton icon="trash" label="Remove this join" onClick={() => set({ joins: without(form.joins, i) })} />
        </div>
      ))}
      <button type="button" class="link" onClick={() => set({ joins: [...form.joins, { left: "", right: "" }] })}>Add a join</button>
      <p class="hint">Questions that people ask, with the SQL that answers them.</p>
      {form.examples.map((row, i) => (
        <div key={i} class="access-row two">
          <input aria-label="Question" placeholder="Revenue by category" value={row.question} onInput={(event) => set({ examples: replaced(form.examples, i, { question: event.currentTarget.value }) })} />
          <textarea aria-label="SQL" rows={2} placeholder="SELECT …" spellcheck={false} value={row.sql ?? ""} onInput={(event) => set({ examples: replaced(form.examples, i, { sql: event.currentTarget.value }) })} />
          <IconButton icon="trash" label="Remove this example" onClick={() => set({ examples: without(form.examples, i) })} />
        </div>
      ))}
      <button type="button" class="link" onClick={() => set({ examples: [...form.examples, { question: "" }] })}>Add an example</button>
    </details>
  );
}
