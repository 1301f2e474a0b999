// Packages of the box: what the template has, what was installed, and installing more while one watches.
import { useEffect, useState } from "preact/hooks";

import { events, get, isAbort, Problem, say, send } from "../api";
import { bytes, plural } from "../format";
import { store, useStore } from "../store";
import { attempt, Field, IconButton, Note, Progress, toast } from "../ui/parts";
import { box, ensureBox, liveSession, noticeEnd, sessionPath, type Template } from "./box";
import { requirementsOf } from "./requirements";
import { finished } from "./run";

interface Package {
  name: string;
  version: string;
}

interface Step {
  stage: "resolving" | "fetching" | "unpacking";
  done: number;
  total: number;
  bytes: number;
  bytes_total: number;
  name?: string;
}

interface Installed {
  installed?: Package[];
  present?: Package[];
  removed?: Package[];
  warnings?: string[];
}

function words(step: Step | null): string {
  if (!step || step.stage === "resolving") return "Looking for versions that fit together…";
  const what = step.name ? ` ${step.name}` : "";
  if (step.stage === "fetching") return `Fetching${what}: ${step.done} of ${plural(step.total, "package")}${step.bytes_total ? `, ${bytes(step.bytes)} of ${bytes(step.bytes_total)}` : ""}`;
  return `Unpacking${what}: ${step.done} of ${step.total}`;
}

const partOf = (step: Step | null): number | null => {
  if (!step || step.stage === "resolving") return null;
  if (step.bytes_total > 0 && step.stage === "fetching") return Math.min(1, step.bytes / step.bytes_total);
  return step.total > 0 ? Math.min(1, step.done / step.total) : null;
};

/** An installation, which goes on while another panel or view is shown. */
interface Install {
  session: string | null; // null: its box is being started
  busy: boolean;
  step: Step | null;
  error: string;
  notes: string[];
  abort: AbortController;
}

const latest = store<Install | null>(null);
const text = store("");

async function install(): Promise<void> {
  const wanted = text.get();
  const packages = requirementsOf(wanted);
  if (!packages.length) return;
  const abort = new AbortController();
  const tell = (news: Partial<Install>) => latest.set((old) => (old?.abort === abort ? { ...old, ...news } : old));
  latest.set({ session: liveSession()?.session_id ?? null, busy: true, step: null, error: "", notes: [], abort });
  try {
    const live = await ensureBox();
    tell({ session: live.session_id });
    let result: Installed | null = null;
    let failed = "";
    await events(`${sessionPath(live.session_id)}/packages`, { method: "POST", json: { packages }, signal: abort.signal }, ({ event: name, data }) => {
      if (name === "progress") tell({ step: data as Step });
      else if (name === "installed") result = (data ?? {}) as Installed;
      else if (name === "error") failed = String((data as { detail?: unknown })?.detail ?? "The packages could not be installed.");
    });
    if (failed) throw new Problem(422, "install", failed);
    if (!result) throw new Problem(0, "install", "The connection ended before the server said whether the packages were installed. Look at the list of this box, or install them again.");
    const { installed = [], warnings = [] } = result as Installed;
    tell({ notes: warnings });
    toast(installed.length ? `Installed ${installed.map((one) => `${one.name} ${one.version}`).join(", ").slice(0, 200)}` : "Everything was there already");
    if (text.get() === wanted) text.set(""); // somebody may have typed in another notebook
  } catch (problem) {
    if (!isAbort(problem)) tell({ error: say(problem) });
    if (latest.get()?.abort === abort && latest.get()?.session === (liveSession()?.session_id ?? null)) noticeEnd(problem);
  } finally {
    tell({ busy: false });
  }
}

export default function Packages() {
  const state = useStore(box);
  const turn = useStore(finished);
  const [own, setOwn] = useState<Package[]>([]);
  const [templates, setTemplates] = useState<Template[]>([]);
  const [filter, setFilter] = useState("");
  const [error, setError] = useState("");
  const typed = useStore(text);
  const last = useStore(latest);
  const session = state.is === "live" ? state.session : null;
  const mine = last && last.session === (session?.session_id ?? null) ? last : null; // not that of another notebook's box
  const busy = mine?.busy ?? false;

  const load = async () => {
    const live = liveSession();
    if (!live) return setOwn([]);
    try {
      setOwn((await get<{ packages: Package[] }>(`${sessionPath(live.session_id)}/packages`)).packages);
    } catch (problem) {
      if (!noticeEnd(problem)) setError(say(problem));
    }
  };
  useEffect(() => void load(), [session?.session_id, turn, busy]);
  useEffect(() => {
    get<{ templates: Template[] }>("/v1/templates").then((reply) => setTemplates(reply.templates), () => undefined);
  }, []);

  const template = templates.find((one) => (session ? one.name === session.template : one.default));
  const shown = (template?.packages ?? []).filter((one) => one.name.toLowerCase().includes(filter.toLowerCase()));
  return (
    <div class="packages">
      <form onSubmit={(event) => {
        event.preventDefault();
        setError("");
        if (!busy) void install();
      }}>
        <Field label="Install packages" hint="Names as pip knows them, such as humanize or polars>=1. They can be imported at once.">
          {(id) => <div class="row nowrap"><input id={id} class="grow" value={typed} disabled={busy} autocomplete="off" spellcheck={false} onInput={(event) => text.set(event.currentTarget.value)} />
            {busy ? <button type="button" onClick={() => mine?.abort.abort()}>Cancel</button> : <button class="primary" disabled={!typed.trim()}>Install</button>}</div>}
        </Field>
      </form>
      {busy && <div role="status"><Progress value={partOf(mine!.step)} label="Installing" /><small>{words(mine!.step)}</small></div>}
      {(mine?.error || error) && <Note bad>{mine?.error || error}</Note>}
      {mine?.notes.map((line) => <Note key={line}>{line}</Note>)}
      {own.length > 0 && (
        <>
          <h3>Installed in this box</h3>
          <ul class="package-list" aria-label="Installed in this box">
            {own.map((one) => (
              <li key={one.name}><span class="grow">{one.name} <small>{one.version}</small></span>
                <IconButton icon="trash" label={`Remove ${one.name}`} disabled={busy} onClick={() => void attempt(async () => {
                  await send("DELETE", `${sessionPath(session!.session_id)}/packages/${encodeURIComponent(one.name)}`);
                  await load();
                })} />
              </li>
            ))}
          </ul>
        </>
      )}
      {template && (
        <details>
          <summary>{plural(template.packages.length, "package")} of the template {template.name}</summary>
          <input type="search" aria-label="Filter packages" placeholder="Filter" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
          <ul class="package-list">{shown.slice(0, 500).map((one) => <li key={one.name}><span class="grow">{one.name} <small>{one.version}</small></span></li>)}</ul>
        </details>
      )}
    </div>
  );
}
