// Data sources: what questions can be about besides attached files. Operators add and change them; others see what they may use.
import { useState } from "preact/hooks";

import "../styles/mark.css";
import { SignIn } from "../account";
import { get, identity, say, send } from "../api";
import { ago, duration, plural, timeOf } from "../format";
import { follow, navigate, usePlace } from "../router";
import { useStore } from "../store";
import { Icon, type IconName } from "../ui/icon";
import { lazy } from "../ui/lazy";
import { attempt, confirmed, Menu, Note, Progress, Spinner, toast, useLoad } from "../ui/parts";
import { Catalogue } from "./catalogue";
import { decoded, loadSources, who } from "./data";
import { addressOf } from "./source-body";
import type { Source } from "./types";

const SourceDialog = lazy<{ source: Source | null; onClose(): void; onDone(source: Source): void }>(() => import("./source-form"));

const ICONS: Record<Source["kind"], IconName> = { postgresql: "database", bigquery: "chart", files: "folder" };
const NAMES: Record<Source["kind"], string> = { postgresql: "PostgreSQL", bigquery: "BigQuery", files: "Files" };

const isOperator = (source?: Source): boolean => identity.get().tokens?.user.role === "operator" || source?.settings !== undefined;

function placeOf(source: Source): string {
  const settings = source.settings ?? {};
  if (source.kind === "postgresql") return addressOf(settings);
  if (source.kind === "bigquery") return [settings.project, settings.dataset].filter(Boolean).join(".");
  return String(settings.directory ?? "");
}

function List() {
  const list = useLoad((signal) => get<{ sources: Source[] }>("/api/v1/sources", signal), []);
  const [adding, setAdding] = useState(false);
  const operator = isOperator() || (list.value?.sources.some((one) => one.settings !== undefined) ?? false);
  return (
    <div class="page">
      <div class="row page-head">
        <div class="grow">
          <h1>Data sources</h1>
          <p class="hint">Databases and directories that questions can be about. Programs ask them with <code>mark.query()</code>; passwords stay in the service.</p>
        </div>
        {operator && <button type="button" class="primary" onClick={() => setAdding(true)}><Icon name="add" size={17} /> Add a source</button>}
      </div>
      {list.error && <Note bad>{list.error} <button type="button" class="link" onClick={list.reload}>Try again</button></Note>}
      {list.loading && !list.value && <div class="center"><Spinner /></div>}
      {list.value?.sources.length === 0 && (
        <div class="card empty-card">
          <Icon name="database" size={28} />
          <h2>No data sources yet</h2>
          <p>{operator ? "Add a PostgreSQL database, a BigQuery project or a directory of files. Everybody whom you allow can then ask about it." : "The operator of this service adds them. You can ask about files that you attach."}</p>
        </div>
      )}
      <div class="source-cards">
        {list.value?.sources.map((source) => (
          <a key={source.source_id} class="card source-card" href={`/sources/${source.name}`} onClick={follow}>
            <h2><Icon name={ICONS[source.kind]} /> {source.name}</h2>
            <p>{source.description || <span class="hint">No description</span>}</p>
            <p class="source-facts">
              <span class="badge">{NAMES[source.kind]}</span>
              <span class="badge">{plural(source.tables, "table")}</span>
              {source.sync_error ? <span class="badge bad">last sync failed</span> : source.synced ? <small>read {ago(source.synced)}</small> : <span class="badge warn">never read</span>}
              {!source.usable && <span class="badge warn">not for your questions</span>}
            </p>
          </a>
        ))}
      </div>
      {adding && <SourceDialog source={null} onClose={() => setAdding(false)} onDone={(made) => {
        setAdding(false);
        toast(made.sync_error ? "Added, but its catalogue could not be read" : `Added, ${plural(made.tables, "table")}`, Boolean(made.sync_error));
        void loadSources();
        navigate(`/sources/${made.name}`);
      }} />}
    </div>
  );
}

interface Checked {
  ok: boolean;
  checks: { name: string; ok: boolean; text: string; as?: string }[];
}

function Settings({ source }: { source: Source }) {
  const settings = source.settings ?? {};
  const limits = Object.entries((settings.limits ?? {}) as Record<string, unknown>);
  const rows: [string, string][] = [
    [source.kind === "files" ? "Directory" : source.kind === "bigquery" ? "Project" : "Address", placeOf(source)],
    ["Secret", source.kind === "files" ? "" : source.has_secret ? "stored, sealed" : "none"],
    ["Schemas", Array.isArray(settings.schemas) ? settings.schemas.join(", ") : ""],
    ["Role", String(settings.role ?? "")],
    ["Account", String(settings.account ?? "")],
    ["Location", String(settings.location ?? "")],
    ["Variables", Object.entries((settings.variables ?? {}) as Record<string, string>).map(([name, value]) => `${name} = ${value}`).join(", ")],
    ["Limits", limits.map(([name, value]) => `${name} ${String(value)}`).join(", ")],
    ["Sample values", settings.samples === false ? "not kept" : "kept"],
    ["Access", (source.access ?? []).map((row) => `${row.who === "*" ? "everyone" : row.who}${row.role ? ` as ${row.role}` : ""}${row.login ? ` with login ${row.login}` : ""}`).join(", ") || "nobody"],
  ];
  return (
    <table class="plain settings"><tbody>
      {rows.filter(([, value]) => value).map(([label, value]) => <tr key={label}><th scope="row">{label}</th><td>{value}</td></tr>)}
    </tbody></table>
  );
}

function Detail({ id }: { id: string }) {
  const source = useLoad((signal) => get<Source>(`/api/v1/sources/${encodeURIComponent(id)}`, signal), [id]);
  const [busy, setBusy] = useState("");
  const [checked, setChecked] = useState<Checked | null>(null);
  const [problem, setProblem] = useState("");
  const [changing, setChanging] = useState(false);
  const [turn, setTurn] = useState(0);
  const one = source.value;
  if (!one) return <div class="page">{source.error ? <Note bad>{source.error} <a href="/sources" onClick={follow}>All sources</a></Note> : <div class="center"><Spinner /></div>}</div>;
  const operator = isOperator(one) && one.settings !== undefined;
  const path = `/api/v1/sources/${one.source_id}`;
  const run = (what: string, work: () => Promise<void>) => {
    setBusy(what);
    setProblem("");
    work().catch((error: unknown) => setProblem(say(error))).finally(() => setBusy(""));
  };
  const sync = () => run("Reading the catalogue…", async () => {
    const done = await send<{ tables: number; added: number; gone: number; left_out: number; seconds: number }>("POST", `${path}/sync`);
    toast(`${plural(done.tables, "table")}: ${done.added} new, ${done.gone} gone${done.left_out ? `, ${done.left_out} left out` : ""}, in ${duration(done.seconds * 1000)}`);
    source.reload();
    setTurn(turn + 1);
  });
  const check = () => run("Checking whether it works…", async () => setChecked(await send<Checked>("POST", `${path}/check`)));
  const remove = async () => {
    if (!(await confirmed(`Remove ${one.name}?`, "Its catalogue and everything that people wrote about it are deleted. Answers keep what they got from it.", "Remove"))) return;
    await attempt(async () => {
      await send("DELETE", path);
      void loadSources();
      navigate("/sources");
    });
  };
  return (
    <div class="page">
      <p class="crumbs"><a href="/sources" onClick={follow}>Data sources</a></p>
      <div class="row page-head">
        <div class="grow">
          <h1><Icon name={ICONS[one.kind]} size={22} /> {one.name}</h1>
          <p class="hint">{NAMES[one.kind]}{one.synced ? <> · catalogue read <span title={timeOf(one.synced)}>{ago(one.synced)}</span></> : " · catalogue never read"}</p>
        </div>
        {operator && (
          <>
            <button type="button" disabled={Boolean(busy)} onClick={sync}><Icon name="refresh" size={16} /> Sync</button>
            <button type="button" disabled={Boolean(busy)} onClick={check}><Icon name="check" size={16} /> Check</button>
            <button type="button" onClick={() => setChanging(true)}><Icon name="edit" size={16} /> Change</button>
            <Menu label={`More about ${one.name}`} items={[{ label: "Remove", icon: "trash", danger: true, run: () => void remove() }]} />
          </>
        )}
      </div>
      {one.description && <p>{one.description}</p>}
      {!one.usable && <Note>Your own questions cannot use this source: its access does not name you.</Note>}
      {busy && <div class="card" role="status"><p>{busy}</p><Progress value={null} label={busy} /></div>}
      {problem && <Note bad>{problem}</Note>}
      {one.sync_error && <Note bad>The catalogue could not be read: {one.sync_error}</Note>}
      {checked && (
        <section class="card" aria-label="Check">
          <h2>{checked.ok ? "It works" : "Something is wrong"}</h2>
          <ul class="checks">{checked.checks.map((row, i) => <li key={i} class={row.ok ? "good" : "bad"}><Icon name={row.ok ? "check" : "warning"} size={17} /> <strong>{row.name}</strong> {row.text}{row.as && <small> as {row.as}</small>}</li>)}</ul>
        </section>
      )}
      {operator && <details class="card"><summary>Settings and access</summary><Settings source={one} /></details>}
      <Catalogue source={one} operator={operator} turn={turn} />
      {changing && <SourceDialog source={one} onClose={() => setChanging(false)} onDone={(made) => {
        setChanging(false);
        toast("Saved");
        if (made.name !== one.name) navigate(`/sources/${made.name}`, { replace: true });
        else source.reload();
        setTurn(turn + 1);
        void loadSources();
      }} />}
    </div>
  );
}

export default function View() {
  const { path } = usePlace();
  const { tokens, key } = useStore(identity);
  if (!tokens && !key) return <SignIn why="Data sources are for people with an account." />;
  const id = path.startsWith("/sources/") ? decoded(path.slice(9)) : "";
  const reader = who({ tokens, key }); // nothing of one user is left on the screen of the next
  return id ? <Detail key={`${reader} ${id}`} id={id} /> : <List key={reader} />;
}
