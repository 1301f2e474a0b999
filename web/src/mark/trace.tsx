// What the model saw: every request and reply, as messages.
import { useMemo, useState } from "preact/hooks";

import { get, saveBlob } from "../api";
import { duration, plural } from "../format";
import { Dialog, Note, Spinner, useLoad } from "../ui/parts";
import { repeated, replyMessages, requestMessages, type Said } from "./exchange";

interface Exchange {
  n?: number;
  kind?: string;
  request: unknown;
  reply: unknown;
  status: number | null;
  attempts?: number;
  seconds?: number;
}

interface Trace {
  message_id: string;
  model: string | null;
  prompts: Record<string, string>;
  steps: Exchange[];
}

const SHOWN = 6000; // characters of a message before "show all"

function SaidView({ said }: { said: Said }) {
  const [all, setAll] = useState(false);
  const cut = said.text.length > SHOWN && !all;
  return (
    <div class="said">
      <p class="said-role">{said.role}</p>
      {said.text && <pre class="said-text" tabIndex={0} aria-label={said.role}>{cut ? said.text.slice(0, SHOWN) : said.text}</pre>}
      {cut && <button type="button" class="link" onClick={() => setAll(true)}>Show all {Math.round(said.text.length / 1000)} thousand characters</button>}
      {said.calls.map((call, i) => (
        <div key={i}>
          <p class="said-call">calls <code>{call.name}</code></p>
          <pre class="said-text code" tabIndex={0} aria-label={`Arguments of ${call.name}`}>{call.text}</pre>
        </div>
      ))}
    </div>
  );
}

function ExchangeView({ step, before, n }: { step: Exchange; before: Said[]; n: number }) {
  const [earlier, setEarlier] = useState(false);
  const sent = useMemo(() => requestMessages(step.request), [step]);
  const reply = useMemo(() => replyMessages(step.reply), [step]);
  const known = useMemo(() => repeated(before, sent), [before, sent]);
  const tools = (step.request as { tools?: unknown[] } | null)?.tools;
  return (
    <section class="exchange" aria-label={`Call ${n}`}>
      <h3>
        Call {n} <small>{[step.seconds !== undefined ? duration(step.seconds * 1000) : "", step.attempts && step.attempts > 1 ? `${step.attempts} attempts` : "", step.status && step.status !== 200 ? `status ${step.status}` : ""].filter(Boolean).join(" · ")}</small>
      </h3>
      {known > 0 && !earlier && <button type="button" class="link" onClick={() => setEarlier(true)}>{plural(known, "message")} as in the call before</button>}
      {(earlier ? sent : sent.slice(known)).map((said, i) => <SaidView key={i} said={said} />)}
      {Array.isArray(tools) && n === 1 && (
        <details><summary>{plural(tools.length, "tool")} that it could call</summary><pre class="said-text" tabIndex={0}>{JSON.stringify(tools, null, 2)}</pre></details>
      )}
      <div class="reply">{reply.length ? reply.map((said, i) => <SaidView key={i} said={{ ...said, role: "The model replied" }} />) : <Note bad>No reply.</Note>}</div>
    </section>
  );
}

export default function TraceDialog({ messageId, onClose }: { messageId: string; onClose(): void }) {
  const trace = useLoad((signal) => get<Trace>(`/api/v1/messages/${messageId}/trace`, signal), [messageId]);
  const steps = trace.value?.steps ?? [];
  const sent = useMemo(() => steps.map((step) => requestMessages(step.request)), [trace.value]);
  return (
    <Dialog title="What the model saw" wide onClose={onClose}>
      <p>
        Every request to {trace.value?.model ? <strong>{trace.value.model}</strong> : "the model"} exactly as it was sent, and every reply. Keys are not in it.
        {trace.value && <> <button type="button" class="link" onClick={() => saveBlob(new Blob([JSON.stringify(trace.value, null, 1)], { type: "application/json" }), "trace.json")}>Save as JSON</button></>}
      </p>
      {trace.error && <Note bad>{trace.error}</Note>}
      {trace.loading && <Spinner />}
      {trace.value && steps.length === 0 && <Note>The model was not asked.</Note>}
      {steps.map((step, i) => <ExchangeView key={i} step={step} before={sent[i - 1] ?? []} n={i + 1} />)}
      {trace.value && <small>Prompts: version {trace.value.prompts?.version ?? "unknown"}</small>}
    </Dialog>
  );
}
