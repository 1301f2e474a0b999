// Running an answer again without the model, and what came out.
import { useState } from "preact/hooks";

import { say, send } from "../api";
import { count, duration } from "../format";
import { Icon } from "../ui/icon";
import { Dialog, Note, Spinner } from "../ui/parts";
import type { Answer, Recheck } from "./types";

const show = (value: unknown): string => (value === null || value === undefined ? "nothing" : typeof value === "object" ? JSON.stringify(value).slice(0, 300) : String(value).slice(0, 300));

function Same({ equal }: { equal: boolean }) {
  return <span class={equal ? "badge good" : "badge bad"}>{equal ? "equal" : "different"}</span>;
}

/** Packages that are another version now. */
function changes(packages: NonNullable<Recheck["packages"]>): string[] {
  const names = new Set([...Object.keys(packages.before ?? {}), ...Object.keys(packages.after ?? {})]);
  return [...names].sort().filter((name) => packages.before?.[name] !== packages.after?.[name]).map((name) => `${name}: ${packages.before?.[name] ?? "none"} → ${packages.after?.[name] ?? "none"}`);
}

function Result({ result }: { result: Recheck }) {
  const items = [...result.values, ...result.tables, ...result.charts];
  const equal = items.filter((one) => one.equal).length;
  const values = [...result.values].sort((a, b) => Number(a.equal) - Number(b.equal));
  const packages = result.packages ? changes(result.packages) : [];
  const list = (differences?: unknown[]) => differences?.length ? <ul class="differences">{differences.slice(0, 50).map((one, i) => <li key={i}>{show(one)}</li>)}</ul> : null;
  return (
    <div class="recheck">
      <p class={result.equal ? "verdict good" : "verdict bad"} role="status">
        <Icon name={result.equal ? "check" : "warning"} /> {result.equal ? "Same result" : "Different result"}: {count(equal)} of {count(items.length)} equal
        {result.seconds !== undefined && <small> in {duration(result.seconds * 1000)}</small>}
      </p>
      {result.errors?.map((one) => <Note key={one.n} bad>Program {one.n} failed this time: {one.error}</Note>)}
      {values.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Values">
          <table class="plain">
            <thead><tr><th scope="col">Value</th><th scope="col" class="number">In the answer</th><th scope="col" class="number">Now</th><th scope="col"><span class="visually-hidden">Equal</span></th></tr></thead>
            <tbody>
              {values.map((one) => (
                <tr key={one.name}><th scope="row"><code>{one.name}</code></th><td class="number">{show(one.before)}</td><td class="number">{show(one.after)}</td><td><Same equal={one.equal} /></td></tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {result.tables.map((one, i) => <div key={`t${i}`} class="recheck-item"><Icon name="table" size={16} /> {one.title || `Table ${i + 1}`} <Same equal={one.equal} />{list(one.differences)}</div>)}
      {result.charts.map((one, i) => <div key={`c${i}`} class="recheck-item"><Icon name="chart" size={16} /> Chart {one.n ?? i + 1} <Same equal={one.equal} />{list(one.differences)}</div>)}
      {result.queries?.map((one, i) => (
        <div key={`q${i}`} class="recheck-item"><Icon name="database" size={16} /> {one.source} <Same equal={one.equal} />
          {!one.equal && <ul class="differences"><li>then: {show(one.before)}</li><li>now: {show(one.after)}</li></ul>}
        </div>
      ))}
      {result.files?.length ? <Note>Files that changed since: {result.files.join("; ")}</Note> : null}
      {packages.length > 0 && <Note>Package versions have changed: {packages.slice(0, 20).join(", ")}</Note>}
      {result.template && <Note>The template was {show(result.template.before)}, and is {show(result.template.after)} now.</Note>}
    </div>
  );
}

export default function RecheckDialog({ answer, onClose, onDone }: { answer: Answer; onClose(): void; onDone(result: Recheck): void }) {
  const asked = answer.steps.some((step) => step.queries.length > 0);
  const [result, setResult] = useState<Recheck | null>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const [live, setLive] = useState(false);
  const run = () => {
    setBusy(true);
    setError("");
    send<Recheck>("POST", `/api/v1/messages/${answer.message_id}/recheck`, live ? { live: true } : undefined).then(
      (next) => {
        setResult(next);
        onDone(next);
      },
      (problem: unknown) => setError(say(problem)),
    ).finally(() => setBusy(false));
  };
  return (
    <Dialog title="Recheck" wide onClose={onClose}>
      <p>The programs of this answer run again in a fresh box, from the inputs that were kept, without the model. Every value, table and chart is compared.</p>
      {asked && <label class="choice"><input type="checkbox" checked={live} onChange={() => setLive(!live)} /> Ask the data sources again, instead of taking what they said then</label>}
      {error && <Note bad>{error}</Note>}
      {result && <Result result={result} />}
      <div class="row end">
        {busy && <Spinner label="Running" />}
        <button type="button" onClick={onClose}>Close</button>
        <button type="button" class="primary" disabled={busy} onClick={run}>{busy ? "Running…" : result ? "Run again" : "Run it"}</button>
      </div>
    </Dialog>
  );
}
