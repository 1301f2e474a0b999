// Answers that were found right, and whether they still come out.
import { useEffect, useState } from "preact/hooks";

import { say, send } from "../api";
import { ago, plural } from "../format";
import { useStore } from "../store";
import { Icon } from "../ui/icon";
import { attempt, Dialog, Note, Spinner } from "../ui/parts";
import { loadVerified, verified } from "./data";
import type { Verified } from "./types";

interface Check {
  status: "ok" | "changed" | "cannot_run";
  differences: string[];
  notes: string[];
}

function Item({ one, turn }: { one: Verified; turn: number }) {
  const [busy, setBusy] = useState(false);
  const [check, setCheck] = useState<Check | null>(null);
  const [error, setError] = useState("");
  const run = async () => {
    setBusy(true);
    setError("");
    try {
      const next = await send<Check>("POST", `/api/v1/verified/${one.verified_id}/check`);
      setCheck(next);
      verified.set((old) => new Map(old).set(one.message_id, { ...one, passed: next.status === "ok", checked: new Date().toISOString() }));
    } catch (problem) {
      setError(say(problem));
    } finally {
      setBusy(false);
    }
  };
  useEffect(() => {
    if (turn > 0) void run();
  }, [turn]);
  const state = one.passed === null ? null : one.passed ? <span class="badge good">came out again {one.checked ? ago(one.checked) : ""}</span> : <span class="badge bad">changed</span>;
  return (
    <li class="verified-item">
      <div class="row">
        <strong class="grow">{one.question}</strong>
        {busy ? <Spinner label="Running" /> : state}
        <button type="button" class="quiet" disabled={busy} onClick={() => void run()}>Check</button>
        {one.mine && <button type="button" class="quiet" onClick={() => void attempt(async () => {
          await send("DELETE", `/api/v1/messages/${one.message_id}/verify`);
          verified.set((old) => new Map([...old].filter(([key]) => key !== one.message_id)));
        })}>Take back</button>}
      </div>
      <small>{one.mine ? "by you" : "shared with you"}, {ago(one.created)}{one.shared && one.mine ? ", an example for others too" : ""}</small>
      {error && <Note bad>{error}</Note>}
      {check?.differences.length ? <ul class="differences">{check.differences.slice(0, 50).map((text, i) => <li key={i}>{text}</li>)}</ul> : null}
      {check?.notes.length ? <small>{check.notes.slice(0, 10).join("; ")}</small> : null}
    </li>
  );
}

export default function VerifiedDialog({ onClose }: { onClose(): void }) {
  const all = [...useStore(verified).values()];
  const [turn, setTurn] = useState(0);
  useEffect(() => void loadVerified(), []);
  return (
    <Dialog title="Verified answers" wide onClose={onClose}>
      <p>Answers that somebody looked at and found right. A check runs their programs again, without the model, and compares. They also serve as examples for similar questions.</p>
      {all.length === 0 ? (
        <p class="empty">None yet. “Verify” below an answer adds one.</p>
      ) : (
        <>
          <div class="row"><span class="grow">{plural(all.length, "answer")}</span>{all.length <= 20 && <button type="button" onClick={() => setTurn(turn + 1)}><Icon name="refresh" size={16} /> Check all</button>}</div>
          <ul class="verified-list">{all.map((one) => <Item key={one.verified_id} one={one} turn={turn} />)}</ul>
        </>
      )}
    </Dialog>
  );
}
