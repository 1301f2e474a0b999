// Sharing: a read-only copy of the notebook on this server, for everybody who may use it.
import { useState } from "preact/hooks";

import { get, Problem, request, say, send } from "../api";
import { ago, timeOf } from "../format";
import { attempt, confirmed, copyText, Dialog, Field, IconButton, Note, Spinner, useLoad } from "../ui/parts";
import { head, notebook } from "./book";
import { toIpynb, toText } from "./notebook";

interface Share {
  share_id: string;
  url: string;
  title: string;
  created: string | number;
  expires: string | number | null;
}

/** The address of a share, on this server whatever the reply says. */
const addressOf = (share: Share): string => `${location.origin}/shared/${encodeURIComponent(share.share_id)}`;

export default function ShareDialog({ onClose }: { onClose(): void }) {
  const [title, setTitle] = useState(head.get().title);
  const [outputs, setOutputs] = useState(true);
  const [made, setMade] = useState<Share | null>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const list = useLoad(async (signal) => (await get<{ shares: Share[] }>("/v1/shares", signal)).shares, [made]);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      const body = toText({ title: title.trim() || "Untitled", notebook: toIpynb(notebook(), outputs) });
      setMade((await (await request("/v1/shares", { method: "POST", body, headers: { "Content-Type": "application/json" } })).json()) as Share);
    } catch (problem) {
      setError(problem instanceof Problem && problem.type === "no-such-route" ? "This server cannot share notebooks. Download the notebook and send the file instead." : say(problem));
    } finally {
      setBusy(false);
    }
  };
  const revoke = async (share: Share) => {
    if (!(await confirmed("Revoke this link?", "Whoever has it can no longer open the notebook.", "Take it back"))) return;
    await attempt(async () => {
      await send("DELETE", `/v1/shares/${encodeURIComponent(share.share_id)}`);
      if (made?.share_id === share.share_id) setMade(null);
    });
    list.reload();
  };
  return (
    <Dialog title="Share a read-only copy" onClose={onClose}>
      {made ? (
        <>
          <p>Whoever may use this server (on this machine, with a key or with an account) can open it. Later changes do not show; share again for that.</p>
          <div class="row nowrap share-link">
            <input class="grow" readOnly aria-label="Link to the shared notebook" value={addressOf(made)} onFocus={(event) => event.currentTarget.select()} />
            <button type="button" class="primary" onClick={() => void copyText(addressOf(made))}>Copy</button>
          </div>
          {made.expires && <small>Ends {timeOf(made.expires)}</small>}
        </>
      ) : (
        <form onSubmit={(event) => void submit(event)}>
          <Field label="Title">{(id) => <input id={id} value={title} maxLength={120} onInput={(event) => setTitle(event.currentTarget.value)} />}</Field>
          <label class="choice"><input type="checkbox" checked={outputs} onChange={(event) => setOutputs(event.currentTarget.checked)} /> With what the cells printed and drew</label>
          {error && <Note bad>{error}</Note>}
          <div class="row end"><button type="button" onClick={onClose}>Cancel</button><button class="primary" disabled={busy}>{busy ? "Sharing…" : "Make a link"}</button></div>
        </form>
      )}
      {list.loading && !list.value && <Spinner />}
      {list.error && !error && <Note bad>Your links could not be listed. {list.error}</Note>}
      {list.value && list.value.length > 0 && (
        <section class="shares">
          <h3>Your links</h3>
          <ul class="package-list" aria-label="Your links">
            {list.value.map((share) => (
              <li key={share.share_id}>
                <a class="grow" href={addressOf(share)} target="_blank" rel="noopener">{share.title || "Untitled"}</a>
                <small>{ago(share.created)}</small>
                <IconButton icon="copy" label={`Copy the link to ${share.title}`} onClick={() => void copyText(addressOf(share))} />
                <IconButton icon="trash" label={`Take back the link to ${share.title}`} onClick={() => void revoke(share)} />
              </li>
            ))}
          </ul>
        </section>
      )}
    </Dialog>
  );
}
