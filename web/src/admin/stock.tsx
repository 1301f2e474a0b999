// Templates and packages, data sources, models and what was spent.
import { get, send } from "../api";
import { ago, bytes, count, duration, plural, timeOf } from "../format";
import { follow } from "../router";
import { attempt, toast, useLoad } from "../ui/parts";
import { Badge, Id, money, Shown, SortTable, useLive, Who, type Column } from "./parts";
import type { Amounts, Models, Packages, Source, Template } from "./types";

type Layer = Packages["layers"][number];

const LAYERS: Column<Layer>[] = [
  { key: "layer", label: "Layer", by: (l) => l.layer, show: (l) => <Id id={l.layer} /> },
  { key: "packages", label: "Packages", by: (l) => l.count, show: (l) => <details><summary>{plural(l.count, "package")}</summary><p class="names">{l.packages.map((p) => `${p.name} ${p.version}`).join(", ")}{l.count > l.packages.length && " and others"}</p></details> },
  { key: "bytes", label: "Size", by: (l) => l.bytes, show: (l) => bytes(l.bytes), number: true },
  { key: "uses", label: "In use", by: (l) => l.uses, show: (l) => (l.uses > 0 ? <Badge word="running" text={`${l.uses} now`} /> : "no") },
  { key: "used", label: "Last used", by: (l) => l.used, show: (l) => ago(l.used) },
];

type Set = Packages["sets"][number];

const SETS: Column<Set>[] = [
  { key: "name", label: "Whose", by: (s) => s.name ?? s.owner, show: (s) => <Who name={s.name ?? s.owner} principal={s.owner.startsWith("listener-") ? "local" : s.owner} /> },
  { key: "wanted", label: "Asked for", by: (s) => s.requirements.length, show: (s) => <span class="names">{s.requirements.join(", ") || "–"}</span> },
  { key: "layer", label: "Layer", show: (s) => (s.layer ? <Id id={s.layer} /> : "–") },
];

export function Stock() {
  const templates = useLoad((signal) => get<{ templates: Template[]; aliases: string[] }>("/admin/v1/templates", signal), []);
  const packages = useLive((signal) => get<Packages>("/admin/v1/packages", signal), [], 10_000);
  return (
    <>
      <h2>Templates</h2>
      <Shown of={templates}>
        {(value) => (
          <>
            <div class="plots">
              {value.templates.map((one) => (
                <section key={one.name} class="card">
                  <div class="row spread"><h3>{one.name} {one.default && <Badge word="ok" text="default" />}</h3><span class="quiet">{one.kind}</span></div>
                  <p class="quiet">Preloads {one.preload || "nothing"}.</p>
                  <details><summary>{plural(one.packages.length, "package")}</summary><p class="names">{one.packages.map((p) => `${p.name} ${p.version}`).join(", ")}</p></details>
                </section>
              ))}
            </div>
            {value.aliases.length > 0 && <p class="quiet">Aliases: {value.aliases.join(", ")}</p>}
          </>
        )}
      </Shown>
      <h2>Installed packages</h2>
      <Shown of={packages}>
        {(value) => (
          <>
            <p class="quiet">{plural(value.count, "layer")}, {bytes(value.bytes)} on disk. Callers that want the same packages share a layer.{value.more && " Those used last are shown."}</p>
            <section class="card"><SortTable label="Layers of packages" columns={LAYERS} rows={value.layers} id={(l) => l.layer} empty="Nobody has installed a package." /></section>
            <h2>Default sets</h2>
            <section class="card"><SortTable label="Default sets" columns={SETS} rows={value.sets} id={(s) => s.owner} empty="Nobody has packages in all new boxes." /></section>
          </>
        )}
      </Shown>
    </>
  );
}

// ---- sources ----

export function SourcesState() {
  const page = useLive((signal) => get<{ sources: Source[] }>("/admin/v1/sources", signal), [], 5000);
  const sync = (source: Source) => attempt(async () => {
    const done = await send<{ tables: number; seconds: number }>("POST", `/api/v1/sources/${encodeURIComponent(source.source_id)}/sync`);
    toast(`${source.name}: ${plural(done.tables, "table")} in ${duration(done.seconds * 1000)}`);
    page.reload();
  });
  const columns: Column<Source>[] = [
    { key: "name", label: "Source", by: (s) => s.name, show: (s) => <><a href={`/sources/${s.source_id}`} onClick={follow}>{s.name}</a>{s.description && <small class="why"> {s.description}</small>}</> },
    { key: "kind", label: "Kind", by: (s) => s.kind, show: (s) => s.kind },
    { key: "tables", label: "Tables", by: (s) => s.tables, show: (s) => count(s.tables), number: true },
    { key: "access", label: "Shared with", by: (s) => s.access, show: (s) => (s.access === 0 ? "nobody" : plural(s.access, "rule")), number: true },
    { key: "synced", label: "Catalogue read", by: (s) => s.synced, show: (s) => (s.sync_error ? <span title={s.sync_error}><Badge word="broken" text="failed" /><small class="why"> {s.sync_error}</small></span> : s.synced ? <time title={timeOf(s.synced)}>{ago(s.synced)}</time> : "never") },
    { key: "sync", label: "", show: (s) => <button type="button" onClick={() => void sync(s)}>Read again<span class="visually-hidden"> {s.name}</span></button> },
  ];
  return (
    <>
      <div class="row spread"><p class="quiet">Databases and directories that Mark may ask. Passwords are never shown.</p><a href="/sources" onClick={follow}>Add or change sources</a></div>
      <Shown of={page}>{(value) => <section class="card"><SortTable label="Data sources" columns={columns} rows={value.sources} id={(s) => s.source_id} empty="There is no data source yet." /></section>}</Shown>
    </>
  );
}

// ---- models and spend ----

type Model = Models["models"][number];

const MODELS: Column<Model>[] = [
  { key: "name", label: "Model", by: (m) => m.name, show: (m) => <>{m.name} {m.demo && <Badge word="" text="demo" />}<small class="why"> {m.provider}{m.model !== m.name && `, ${m.model}`}, from {m.source}</small></> },
  { key: "calls", label: "Calls", by: (m) => m.use.calls, show: (m) => count(m.use.calls), number: true },
  { key: "failures", label: "Failed", by: (m) => m.use.failures, show: (m) => (m.use.failures ? <span class="bad-text">{count(m.use.failures)}</span> : "0"), number: true },
  { key: "prompt", label: "Tokens in", by: (m) => m.use.prompt_tokens, show: (m) => <>{count(m.use.prompt_tokens)}{m.use.cached_tokens > 0 && <small class="why"> {count(m.use.cached_tokens)} cached</small>}</>, number: true },
  { key: "completion", label: "Tokens out", by: (m) => m.use.completion_tokens, show: (m) => count(m.use.completion_tokens), number: true },
  { key: "cost", label: "Cost", by: (m) => m.use.cost, show: (m) => (m.price ? money(m.use.cost) : "no price"), number: true },
];

function amounts<T extends Amounts>(first: Column<T>): Column<T>[] {
  return [
    first,
    { key: "cost", label: "Money", by: (a) => a.cost ?? 0, show: (a) => money(a.cost), number: true },
    { key: "tokens", label: "Tokens", by: (a) => a.tokens ?? 0, show: (a) => count(a.tokens ?? 0), number: true },
    { key: "bytes", label: "Read by sources", by: (a) => a.bytes ?? 0, show: (a) => bytes(a.bytes ?? 0), number: true },
    { key: "seconds", label: "Time of answers", by: (a) => a.seconds ?? 0, show: (a) => duration((a.seconds ?? 0) * 1000), number: true },
  ];
}

const OWNERS = amounts<Models["owners"][number]>({ key: "who", label: "Who", by: (o) => o.name, show: (o) => <Who name={o.name} principal={o.owner} /> });
const DAYS = amounts<Models["days"][number]>({ key: "day", label: "Day (UTC)", by: (d) => d.day, show: (d) => d.day });

export function Spending() {
  const page = useLive((signal) => get<Models>("/admin/v1/models", signal), [], 5000);
  return (
    <Shown of={page}>
      {(value) => (
        <>
          <h2>Models</h2>
          <p class="quiet">Since the start: {plural(value.totals.calls, "call")}, {plural(value.totals.answers.ok ?? 0, "answer")}, {count(value.totals.answers.error ?? 0)} failed.</p>
          <section class="card"><SortTable label="Models" columns={MODELS} rows={value.models} id={(m) => m.name} empty="No model is configured." /></section>
          <h2>Today, by whom</h2>
          <section class="card"><SortTable label="Spent today" columns={OWNERS} rows={value.owners} id={(o) => o.owner} empty="Nobody has spent anything today." /></section>
          {value.more && <p class="quiet">These are those who spent most.</p>}
          <h2>By day</h2>
          <section class="card"><SortTable label="Spent by day" columns={DAYS} rows={value.days} id={(d) => d.day} empty="Nothing was spent in the last 30 days." /></section>
        </>
      )}
    </Shown>
  );
}
