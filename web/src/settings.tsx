// The account: name, password, colours, deletion.
import { useState } from "preact/hooks";

import { SignIn, signOut } from "./account";
import { get, identity, keepTokens, request, say, send, setIdentity, type Tokens } from "./api";
import { bytes, count, duration } from "./format";
import { navigate } from "./router";
import { useStore } from "./store";
import { theme, type Theme } from "./theme";
import { Dialog, Field, Note, toast, useLoad } from "./ui/parts";

interface Amounts {
  bytes: number | null;
  cost: number | null;
  tokens: number | null;
  seconds: number | null;
}

interface Budget {
  day: string;
  resets_in: number;
  limits: Amounts;
  used: Amounts;
  left: Amounts;
}

function Spending() {
  const budget = useLoad((signal) => get<Budget>("/api/v1/budget", signal), []);
  if (!budget.value) return budget.error ? <Note bad>{budget.error}</Note> : null;
  const { used, limits, resets_in } = budget.value;
  const row = (label: string, is: number | null, most: number | null, show: (n: number) => string) => (
    <tr><th scope="row">{label}</th><td>{show(is ?? 0)}</td><td>{most === null ? "no limit" : show(most)}</td></tr>
  );
  return (
    <section class="card">
      <h2>Spent today</h2>
      <table class="plain">
        <thead><tr><th scope="col">What</th><th scope="col">Used</th><th scope="col">Limit</th></tr></thead>
        <tbody>
          {row("Tokens", used.tokens, limits.tokens, count)}
          {row("Money", used.cost, limits.cost, (n) => `$${n.toFixed(4)}`)}
          {row("Read by sources", used.bytes, limits.bytes, bytes)}
          {row("Time of answers", used.seconds, limits.seconds, (n) => duration(n * 1000))}
        </tbody>
      </table>
      <small>Starts again in {duration(resets_in * 1000)}.</small>
    </section>
  );
}

/** What is typed belongs to one account: another one gets a form of its own. */
export default function Settings() {
  const { tokens } = useStore(identity);
  return tokens ? <Account key={tokens.user.user_id} tokens={tokens} /> : <SignIn />;
}

function Account({ tokens }: { tokens: Tokens }) {
  const colours = useStore(theme);
  const [name, setName] = useState(tokens.user.name ?? "");
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [error, setError] = useState("");
  const [deleting, setDeleting] = useState(false);
  const [sure, setSure] = useState("");
  const change = async (event: Event) => {
    event.preventDefault();
    setError("");
    try {
      const body: Record<string, string> = { name };
      if (next) Object.assign(body, { password: next, current_password: current });
      const reply = await send<Record<string, unknown>>("PATCH", "/auth/me", body);
      if (reply.access_token) keepTokens(reply);
      else setIdentity({ tokens: { ...identity.get().tokens!, user: { ...tokens.user, name } } });
      setCurrent("");
      setNext("");
      toast("Saved");
    } catch (problem) {
      setError(say(problem));
    }
  };
  const remove = async (event: Event) => {
    event.preventDefault();
    try {
      await request("/auth/me", { method: "DELETE", json: { current_password: sure } });
      await import("./play/storage").then(({ forget }) => forget(tokens.user.user_id)).catch(() => undefined);
      setIdentity({});
      navigate("/");
    } catch (problem) {
      setError(say(problem));
      setDeleting(false);
    }
  };
  return (
    <div class="page narrow">
      <h1>Settings</h1>
      {error && <Note bad>{error}</Note>}
      {tokens.user.role === "guest" ? (
        <section class="card"><h2>Guest</h2><p>You are looking around the demo. This throw-away account ends after a day, with everything in it.</p>
          <button type="button" onClick={() => void signOut()}>Leave, and create an account</button></section>
      ) : (
        <form class="card" onSubmit={change}>
          <h2>{tokens.user.email}</h2>
          <p>{tokens.user.role === "operator" ? "Operator: sees the dashboard, manages keys, users and sources." : "Account"}</p>
          <Field label="Name">{(id) => <input id={id} value={name} autocomplete="name" onInput={(e) => setName(e.currentTarget.value)} />}</Field>
          <Field label="New password" hint="Leave it empty to keep the one you have. A new one signs out all other browsers.">
            {(id) => <input id={id} type="password" autocomplete="new-password" value={next} onInput={(e) => setNext(e.currentTarget.value)} />}
          </Field>
          {next && <Field label="Current password">{(id) => <input id={id} type="password" required autocomplete="current-password" value={current} onInput={(e) => setCurrent(e.currentTarget.value)} />}</Field>}
          <div class="row end"><button class="primary">Save</button></div>
        </form>
      )}
      <section class="card">
        <h2>Colours</h2>
        <div class="row" role="radiogroup" aria-label="Colours">
          {(["system", "light", "dark"] as Theme[]).map((value) => (
            <label key={value} class="choice">
              <input type="radio" name="theme" checked={colours === value} onChange={() => theme.set(value)} /> {value === "system" ? "Match the system" : value === "light" ? "Light" : "Dark"}
            </label>
          ))}
        </div>
      </section>
      <Spending />
      {tokens.user.role !== "guest" && (
        <section class="card">
          <h2>Delete the account</h2>
          <p>Deletes your chats, files and verified answers, and your notebooks in this browser. This cannot be undone.</p>
          <button type="button" class="danger" onClick={() => setDeleting(true)}>Delete my account</button>
        </section>
      )}
      {deleting && (
        <Dialog title="Delete the account" onClose={() => setDeleting(false)}>
          <form onSubmit={remove}>
            <Field label="Your password">{(id) => <input id={id} type="password" required autocomplete="current-password" value={sure} onInput={(e) => setSure(e.currentTarget.value)} />}</Field>
            <div class="row end"><button type="button" onClick={() => setDeleting(false)}>Cancel</button><button class="danger">Delete everything</button></div>
          </form>
        </Dialog>
      )}
    </div>
  );
}
