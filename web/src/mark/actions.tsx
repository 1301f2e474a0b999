// What one can do with an answer: rate, check again, verify, export, look at what the model saw.
import { useEffect, useState } from "preact/hooks";

import { identity, say, send } from "../api";
import { count, duration } from "../format";
import { useStore } from "../store";
import { Icon } from "../ui/icon";
import { lazy } from "../ui/lazy";
import { attempt, copyText, Dialog, Field, IconButton, Menu, Note, toast, type MenuItem } from "../ui/parts";
import { choices } from "./composer";
import { loadVerified, verified } from "./data";
import { saveExport } from "./results";
import { regenerate, setMessage } from "./thread";
import type { Answer, Message, Rating, Recheck, Verified } from "./types";

const RecheckDialog = lazy<{ answer: Answer; onClose(): void; onDone(result: Recheck): void }>(() => import("./recheck"));
const TraceDialog = lazy<{ messageId: string; onClose(): void }>(() => import("./trace"));

export const EXPORTS = [
  { format: "ipynb", label: "Notebook (.ipynb)" },
  { format: "html", label: "Web page (.html)" },
  { format: "md", label: "Markdown (.md)" },
  { format: "json", label: "Everything (.json)" },
  { format: "zip", label: "Notebook and inputs (.zip)" },
] as const;

export const exportItems = (path: string, name: string): MenuItem[] =>
  EXPORTS.map(({ format, label }) => ({ label, icon: "down", run: () => void attempt(() => saveExport(`${path}/export?format=${format}`, `${name}.${format}`)) }));

function Usage({ answer }: { answer: Answer }) {
  const { prompt_tokens, completion_tokens, cost, seconds } = answer.usage;
  const tokens = (prompt_tokens ?? 0) + (completion_tokens ?? 0);
  const left = answer.budget?.left;
  const parts = [
    answer.demo ? "demo" : answer.model,
    seconds ? duration(seconds * 1000) : "",
    tokens ? `${count(tokens)} tokens` : "",
    cost ? `$${cost < 0.01 ? cost.toFixed(4) : cost.toFixed(2)}` : "",
    left?.tokens !== null && left?.tokens !== undefined ? `${count(left.tokens)} tokens left today` : "",
    left?.cost !== null && left?.cost !== undefined ? `$${left.cost.toFixed(2)} left today` : "",
  ].filter(Boolean);
  const why = tokens ? `${count(prompt_tokens ?? 0)} tokens to the model, ${count(completion_tokens ?? 0)} from it${answer.usage.cached_tokens ? `, ${count(answer.usage.cached_tokens)} of them cached` : ""}` : undefined;
  return <span class="usage" title={why}>{parts.join(" · ")}</span>;
}

interface ActionsProps {
  answer: Answer;
  message: Message;
  question: Message | undefined;
  versions: number;
  version: number;
  onVersion(n: number): void;
}

export function Actions({ answer, message, question, versions, version, onVersion }: ActionsProps) {
  const [dialog, setDialog] = useState<"" | "rate" | "verify" | "recheck" | "trace">("");
  const [rechecked, setRechecked] = useState<{ at: Date; result: Recheck } | null>(null);
  const proof = useStore(verified).get(message.message_id);
  const id = message.message_id;
  const rating = message.feedback?.rating;
  const good = answer.status === "ok";
  const rate = (next: Rating) =>
    attempt(async () => {
      const saved = await send<Rating>("POST", `/api/v1/messages/${id}/feedback`, { rating: next.rating, reasons: next.reasons, ...(next.text ? { text: next.text } : {}) });
      setMessage(id, { feedback: saved });
      return true;
    });
  const again = () => void attempt(() => regenerate(message, question, choices().model));
  const items: MenuItem[] = [
    { label: "What the model saw", icon: "eye", run: () => setDialog("trace") },
    ...(proof?.mine
      ? [
          { label: "Run the verified answer again", icon: "refresh" as const, run: () => void attempt(() => checkVerified(proof)) },
          { label: "Withdraw the verification", icon: "close" as const, run: () => void attempt(() => unverify(id)) },
        ]
      : []),
    ...exportItems(`/api/v1/messages/${id}`, "answer"),
  ];
  return (
    <footer class="actions">
      {answer.status === "stopped" && <span class="badge">Stopped</span>}
      {versions > 1 && (
        <span class="versions">
          <IconButton icon="chevron" class="flip" label="Earlier answer" disabled={version <= 0} onClick={() => onVersion(version - 1)} />
          {version + 1} of {versions}
          <IconButton icon="chevron" label="Later answer" disabled={version >= versions - 1} onClick={() => onVersion(version + 1)} />
        </span>
      )}
      <IconButton icon="copy" label="Copy the answer" onClick={() => void copyText(answer.answer_story ?? "")} />
      <IconButton icon="thumb-up" label="Good answer" pressed={rating === "up"} onClick={() => (rating === "up" ? setDialog("rate") : void rate({ rating: "up", reasons: [], text: null }).then((done) => done !== undefined && toast("Thank you")))} />
      <IconButton icon="thumb-down" label="Bad answer" pressed={rating === "down"} onClick={() => setDialog("rate")} />
      {answer.status === "error" || answer.status === "stopped" ? <button type="button" class="quiet" onClick={again}><Icon name="refresh" size={17} /> Try again</button> : <IconButton icon="refresh" label="Answer again" onClick={again} />}
      {answer.steps.length > 0 && (
        <button type="button" class="quiet" onClick={() => setDialog("recheck")} title="Run the programs again in a fresh box, without the model, and compare">
          {rechecked ? `Rechecked ${rechecked.at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}: ${rechecked.result.equal ? "equal" : "different"}` : "Recheck"}
        </button>
      )}
      {good && answer.steps.length > 0 && !proof && <button type="button" class="quiet" onClick={() => setDialog("verify")} title="You have looked at it and found it right">Verify</button>}
      {proof && <span class={proof.passed === false ? "badge bad" : "badge good"} title={proof.note}>{proof.passed === false ? "Verified, but changed since" : "Verified"}</span>}
      <Menu label="More about this answer" items={items} />
      <Usage answer={answer} />
      {dialog === "rate" && <RateDialog rating={message.feedback} onClose={() => setDialog("")} onSend={async (next) => { if (await rate(next)) setDialog(""); }} />}
      {dialog === "verify" && <VerifyDialog messageId={id} onClose={() => setDialog("")} />}
      {dialog === "recheck" && <RecheckDialog answer={answer} onClose={() => setDialog("")} onDone={(result) => setRechecked({ at: new Date(), result })} />}
      {dialog === "trace" && <TraceDialog messageId={id} onClose={() => setDialog("")} />}
    </footer>
  );
}

async function unverify(messageId: string): Promise<void> {
  await send("DELETE", `/api/v1/messages/${messageId}/verify`);
  verified.set((old) => new Map([...old].filter(([key]) => key !== messageId)));
}

export async function checkVerified(one: Verified): Promise<void> {
  toast("Running it again…");
  const result = await send<{ status: string; differences: string[] }>("POST", `/api/v1/verified/${one.verified_id}/check`);
  const ok = result.status === "ok";
  toast(ok ? "Same result as when it was verified" : `${result.status === "changed" ? "Different result" : "It cannot be run"}: ${result.differences.slice(0, 2).join("; ")}`, !ok);
  verified.set((old) => new Map(old).set(one.message_id, { ...one, passed: ok, checked: new Date().toISOString() }));
}

const REASONS: Record<Rating["rating"], [string, string][]> = {
  up: [["right", "It is right"], ["clear", "Easy to understand"], ["fast", "Fast"], ["good-chart", "Good chart"]],
  down: [["wrong-number", "A number is wrong"], ["wrong-data", "Wrong data used"], ["wrong-chart", "Wrong chart"], ["misunderstood", "It misunderstood me"], ["incomplete", "Something is missing"], ["slow", "Slow"]],
};

function RateDialog({ rating, onClose, onSend }: { rating: Rating | null; onClose(): void; onSend(next: Rating): Promise<void> }) {
  const kind = rating?.rating ?? "down";
  const [reasons, setReasons] = useState<string[]>(rating?.reasons ?? []);
  const [text, setText] = useState(rating?.text ?? "");
  const [which, setWhich] = useState<Rating["rating"]>(kind);
  return (
    <Dialog title={which === "down" ? "What is wrong with it?" : "What is good about it?"} onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void onSend({ rating: which, reasons, text: text.trim() || null }); }}>
        <div class="row rate-kind" role="radiogroup" aria-label="Rating">
          {(["up", "down"] as const).map((one) => (
            <label key={one} class="choice"><input type="radio" name="rating" checked={which === one} onChange={() => { setWhich(one); setReasons([]); }} /> {one === "up" ? "Good" : "Bad"}</label>
          ))}
        </div>
        <fieldset class="reasons">
          <legend class="visually-hidden">Reasons</legend>
          {REASONS[which].map(([word, label]) => (
            <label key={word} class="choice">
              <input type="checkbox" checked={reasons.includes(word)} onChange={() => setReasons(reasons.includes(word) ? reasons.filter((one) => one !== word) : [...reasons, word])} /> {label}
            </label>
          ))}
        </fieldset>
        <Field label="In your words (optional)" hint="The operator of this service can read it, together with the question and the answer.">
          {(id) => <textarea id={id} rows={3} maxLength={4000} value={text} onInput={(e) => setText(e.currentTarget.value)} />}
        </Field>
        <div class="row end"><button type="button" onClick={onClose}>Cancel</button><button class="primary">Send</button></div>
      </form>
    </Dialog>
  );
}

function VerifyDialog({ messageId, onClose }: { messageId: string; onClose(): void }) {
  const { tokens } = useStore(identity);
  const [note, setNote] = useState("");
  const [shared, setShared] = useState(false);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => void loadVerified(), []);
  const submit = (event: Event) => {
    event.preventDefault();
    setBusy(true);
    send<Verified>("POST", `/api/v1/messages/${messageId}/verify`, { ...(note.trim() ? { note: note.trim() } : {}), ...(shared ? { shared } : {}) }).then(
      (one) => {
        verified.set((old) => new Map(old).set(messageId, one));
        toast("Verified");
        onClose();
      },
      (problem: unknown) => {
        setError(say(problem));
        setBusy(false);
      },
    );
  };
  return (
    <Dialog title="Verify this answer" onClose={onClose}>
      <form onSubmit={submit}>
        <p>You have looked at it and found it right. Its programs and values are kept as a test that can be run again at any time, and as an example for similar questions.</p>
        <Field label="Note (optional)" hint="Why it is right, or what to mind: “Returned orders count.”">
          {(id) => <textarea id={id} rows={3} maxLength={4000} value={note} onInput={(e) => setNote(e.currentTarget.value)} />}
        </Field>
        {tokens?.user.role === "operator" && (
          <label class="choice"><input type="checkbox" checked={shared} onChange={() => setShared(!shared)} /> An example for everybody who may use its data sources</label>
        )}
        {error && <Note bad>{error}</Note>}
        <div class="row end"><button type="button" onClick={onClose}>Cancel</button><button class="primary" disabled={busy}>Verify</button></div>
      </form>
    </Dialog>
  );
}
