// The audit log: whether its chain is intact, and a search.
import { useEffect, useRef, useState } from "preact/hooks";

import { get, say, send } from "../api";
import { bytes, count, duration, plural, timeOf } from "../format";
import { usePlace } from "../router";
import { attempt, copyText, Note, Progress, Spinner } from "../ui/parts";
import { Badge, Ending, Id, Shown, SortTable, useLive, Who, type Column } from "./parts";
import { WHY, type Chain, type Entry } from "./types";

const CHAIN: Record<Chain["state"], string> = {
  intact: "The chain is intact: no entry was changed, removed or added until it was checked.",
  checking: "The chain is being checked.",
  broken: "The chain is broken.",
  off: "The service keeps no audit log.",
};

function ChainCard() {
  const chain = useLive((signal) => get<Chain>("/admin/v1/audit/chain", signal), [], 1500);
  const again = () => attempt(async () => {
    await send("POST", "/admin/v1/audit/chain");
    chain.reload();
  });
  return (
    <section class="card">
      <Shown of={chain}>
        {(value) => (
          <>
            <div class="row spread">
              <h2>Chain <Badge word={value.state} /></h2>
              <button type="button" onClick={() => void again()} disabled={value.state === "off"}>Check from the start</button>
            </div>
            <p class={value.state === "broken" ? "bad-text" : ""}>{CHAIN[value.state]}{value.state === "broken" && ` Entry ${value.broken_entry}: ${value.why}.`}</p>
            {value.state === "checking" && <Progress label="Checked" value={value.entries ? value.checked / value.entries : 0} />}
            <p class="quiet">
              {count(value.checked)} of {plural(value.entries, "entry", "entries")} checked{value.begun && `, each once since ${timeOf(value.begun)}`}.{" "}
              {value.checked > 0 && <>Head <code class="id" title={value.head}>{value.head.slice(0, 16)}…</code> <button type="button" class="link" onClick={() => void copyText(value.head)}>copy</button>: keep it elsewhere, and <code>glovebox audit verify --head</code> will notice a log that was rewritten.</>}
            </p>
          </>
        )}
      </Shown>
    </section>
  );
}

interface Filter {
  who: string;
  kind: string;
  status: string;
  session_id: string;
  since: string;
  until: string;
}

interface Page {
  entries: Entry[];
  before: number | null;
  looked_at: number;
}

const NOTHING: Filter = { who: "", kind: "", status: "", session_id: "", since: "", until: "" };
const KINDS = ["cell", "script", "command", "shell", "terminal", "terminal_end", "install", "answer", "operator"];
const STATUSES = ["ok", "error", "timeout", "oom", "killed", "pids", "disk", "output", "cancelled", "system"];

const ROWS = 50;
const ROUNDS = 20;

function address(filter: Filter, before: number | null): string {
  const query = new URLSearchParams({ limit: String(ROWS) });
  for (const [key, value] of Object.entries(filter) as [keyof Filter, string][]) {
    if (!value) continue;
    query.set(key, key === "since" || key === "until" ? new Date(value).toISOString() : value.trim());
  }
  if (before !== null) query.set("before", String(before));
  return `/admin/v1/audit?${query}`;
}

function What({ entry }: { entry: Entry }) {
  if (entry.malformed) return <Badge word="broken" text="not written by Glovebox" />;
  if (entry.action) return <>{entry.action.name.replace("_", " ")}{entry.action.target && <small class="why"> <Id id={entry.action.target} /></small>}</>;
  if (entry.answer) return <>answer<small class="why"> {entry.answer.model}, {plural(entry.answer.programs, "program")}{entry.answer.queries > 0 && `, ${plural(entry.answer.queries, "query", "queries")}`}</small></>;
  return <>{entry.kind}{entry.session_id && <small class="why"> in <Id id={entry.session_id} /></small>}</>;
}

const COLUMNS: Column<Entry>[] = [
  { key: "seq", label: "Entry", by: (e) => e.seq, show: (e) => count(e.seq), number: true },
  { key: "time", label: "Time", by: (e) => e.time, show: (e) => timeOf(e.time) },
  { key: "who", label: "Who", by: (e) => e.name ?? "", show: (e) => (e.who ? <Who name={e.name ?? e.who} principal={e.who} /> : "–") },
  { key: "what", label: "What", by: (e) => e.kind ?? "", show: (e) => <What entry={e} /> },
  { key: "status", label: "Ended", by: (e) => e.status ?? "", show: (e) => (e.action ? <Badge word={e.status ?? ""} text={e.status === "ok" ? "Done" : "Not done"} /> : e.answer && e.status === "error" ? <Badge word="error" text="Failed" /> : e.status ? <Ending status={e.status} limit={e.limit} /> : "–") },
  { key: "wall", label: "Took", by: (e) => e.wall_us ?? null, show: (e) => (e.wall_us === null || e.wall_us === undefined ? "–" : duration(e.wall_us / 1000)), number: true },
  { key: "memory", label: "Peak memory", by: (e) => e.memory_peak_bytes ?? null, show: (e) => bytes(e.memory_peak_bytes), number: true },
  { key: "code", label: "Code", by: (e) => e.code_bytes ?? null, show: (e) => (e.code_bytes ? <span title={`SHA-256 ${e.code_sha256}`}>{bytes(e.code_bytes)}</span> : "–"), number: true },
];

function Search() {
  const { query } = usePlace();
  const [draft, setDraft] = useState<Filter>({ ...NOTHING, who: query.get("who") ?? "", session_id: query.get("session") ?? "" });
  const [filter, setFilter] = useState(draft);
  const [entries, setEntries] = useState<Entry[]>([]);
  const [before, setBefore] = useState<number | null>(null);
  const [looked, setLooked] = useState(0);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const turn = useRef(0); // a reply that comes after another search has begun is not shown
  const load = async (from: number | null, old: Entry[]) => {
    const mine = ++turn.current;
    setBusy(true);
    setError("");
    try {
      let all = old;
      let at = from;
      if (from === null) setLooked(0);
      // One request looks at some of the log only; what is rare takes a few.
      for (let round = 0; round < ROUNDS && (round === 0 || at !== null) && all.length < old.length + ROWS; round++) {
        const page = await get<Page>(address(filter, at));
        if (mine !== turn.current) return;
        all = [...all, ...page.entries];
        at = page.before;
        setEntries(all);
        setBefore(at);
        setLooked((n) => n + page.looked_at);
      }
    } catch (problem) {
      if (mine === turn.current) setError(say(problem));
    }
    if (mine === turn.current) setBusy(false);
  };
  useEffect(() => void load(null, []), [filter]);
  const set = (key: keyof Filter) => (event: Event) => setDraft({ ...draft, [key]: (event.currentTarget as HTMLInputElement).value });
  return (
    <section class="card">
      <h2>Search</h2>
      <form class="filters" onSubmit={(event) => { event.preventDefault(); setFilter({ ...draft }); }}>
        <label>Who <input value={draft.who} onInput={set("who")} placeholder="address, key, local" maxLength={300} /></label>
        <label>Kind <select value={draft.kind} onChange={set("kind")}><option value="">any</option>{KINDS.map((kind) => <option key={kind}>{kind}</option>)}</select></label>
        <label>Ended <select value={draft.status} onChange={set("status")}><option value="">any</option>{STATUSES.map((status) => <option key={status} value={status}>{WHY[status]}</option>)}</select></label>
        <label>Session <input value={draft.session_id} onInput={set("session_id")} placeholder="ses_…" maxLength={64} /></label>
        <label>From <input type="datetime-local" value={draft.since} onInput={set("since")} /></label>
        <label>Until <input type="datetime-local" value={draft.until} onInput={set("until")} /></label>
        <div class="row"><button class="primary" disabled={busy}>Search</button><button type="button" onClick={() => { setDraft(NOTHING); setFilter({ ...NOTHING }); }}>Clear</button></div>
      </form>
      {error && <Note bad>{error}</Note>}
      {busy && entries.length === 0 ? <Spinner /> : <SortTable label="Entries of the audit log" columns={COLUMNS} rows={entries} id={(e) => String(e.seq)} empty={before === null ? "Nothing matches." : "Nothing yet. There are older entries to look through."} />}
      <div class="row">
        {before !== null && <button type="button" disabled={busy} onClick={() => void load(before, entries)}>Look further back</button>}
        <span class="quiet" role="status">{plural(entries.length, "entry", "entries")} found, {count(looked)} looked at{before === null ? ", down to the first" : ""}.</span>
      </div>
    </section>
  );
}

export function Audit() {
  return (
    <>
      <ChainCard />
      <Search />
      <p class="quiet">The log has the hash and the size of each program, not its text, and of answers neither question nor story.</p>
    </>
  );
}
