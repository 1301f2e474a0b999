// First run, sign-in, sign-up, and the account's own settings.
import { useState } from "preact/hooks";

import { ended, identity, keepTokens, say, send, setIdentity, takeKey } from "./api";
import { navigate } from "./router";
import { authState, loadAuthState } from "./session";
import { useStore } from "./store";
import { Field, Note } from "./ui/parts";

type Mode = "in" | "up" | "key";

function useForm(work: () => Promise<void>): { busy: boolean; error: string; submit(event: Event): void } {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  return {
    busy, error,
    submit(event) {
      event.preventDefault();
      setBusy(true);
      setError("");
      work().catch((problem: unknown) => setError(say(problem))).finally(() => setBusy(false));
    },
  };
}

/** Shown by views that need an account. `why` says what it is for. */
export function SignIn({ why }: { why?: string }) {
  const state = useStore(authState);
  const first = state?.first ?? false;
  const [mode, setMode] = useState<Mode | null>(null);
  const invited = new URLSearchParams(location.search).get("invitation") ?? "";
  const shown: Mode = mode ?? (first || (invited && state?.signup !== "closed") ? "up" : "in");
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [name, setName] = useState("");
  const [code, setCode] = useState(invited);
  const [key, setKey] = useState("");
  const form = useForm(async () => {
    if (shown === "key") {
      await takeKey(key.trim());
      return;
    }
    const body: Record<string, string> = { email: email.trim(), password };
    if (shown === "up" && name.trim()) body.name = name.trim();
    if (shown === "up" && code.trim()) body.invitation = code.trim();
    keepTokens(await send("POST", shown === "up" ? "/auth/signup" : "/auth/signin", body));
    if (location.search.includes("invitation")) navigate(location.pathname, { replace: true });
  });
  const guest = useForm(async () => keepTokens(await send("POST", "/auth/guest")));
  const over = useStore(ended);
  const canSignUp = first || (state && state.signup !== "closed");
  return (
    <div class="welcome">
      <section class="card" aria-labelledby="welcome">
        <h1 id="welcome">{first ? "Welcome to Glovebox" : shown === "up" ? "Create an account" : "Sign in"}</h1>
        {first && (
          <p>
            Nobody has an account here yet. The first one is the operator's: it can see the dashboard, add data sources and invite others. Nothing leaves this machine unless you connect a hosted model or a database elsewhere.
          </p>
        )}
        {over && <Note>{over}</Note>}
        {why && !over && <p>{why}</p>}
        <form onSubmit={form.submit}>
          {shown === "key" ? (
            <Field label="API key" hint="From: glovebox key create">
              {(id) => <input id={id} type="password" required autocomplete="off" value={key} onInput={(e) => setKey(e.currentTarget.value)} />}
            </Field>
          ) : (
            <>
              <Field label="E-mail address">
                {(id) => <input id={id} type="email" required autocomplete="username" value={email} onInput={(e) => setEmail(e.currentTarget.value)} />}
              </Field>
              <Field label="Password" hint={shown === "up" ? "At least 8 characters" : undefined}>
                {(id) => (
                  <input id={id} type="password" required autocomplete={shown === "up" ? "new-password" : "current-password"} value={password}
                    onInput={(e) => setPassword(e.currentTarget.value)} />
                )}
              </Field>
              {shown === "up" && (
                <Field label="Name (optional)">
                  {(id) => <input id={id} autocomplete="name" value={name} onInput={(e) => setName(e.currentTarget.value)} />}
                </Field>
              )}
              {shown === "up" && !first && state?.signup === "invite" && (
                <Field label="Invitation" hint="The operator makes one on the dashboard, or with: glovebox user invite">
                  {(id) => <input id={id} required value={code} onInput={(e) => setCode(e.currentTarget.value)} />}
                </Field>
              )}
            </>
          )}
          {form.error && <Note bad>{form.error}</Note>}
          <button class="primary wide" disabled={form.busy}>
            {shown === "up" ? (first ? "Create the operator's account" : "Create account") : shown === "key" ? "Use this key" : "Sign in"}
          </button>
        </form>
        {state?.guest && (
          <form onSubmit={guest.submit} class="guest">
            <button class="wide" disabled={guest.busy}>Look around with the demo</button>
            <small>Sample data, a scripted model and real programs. No account; gone after a day.</small>
            {guest.error && <Note bad>{guest.error}</Note>}
          </form>
        )}
        <p class="alternatives">
          {shown !== "in" && !first && <button type="button" class="link" onClick={() => setMode("in")}>Sign in</button>}
          {shown !== "up" && canSignUp && <button type="button" class="link" onClick={() => setMode("up")}>Create an account</button>}
          {shown !== "key" && <button type="button" class="link" onClick={() => setMode("key")}>Use an API key</button>}
        </p>
      </section>
    </div>
  );
}

export async function signOut(): Promise<void> {
  const { tokens } = identity.get();
  setIdentity({});
  navigate("/");
  if (tokens) await send("POST", "/auth/signout", { refresh_token: tokens.refresh_token }).catch(() => undefined);
  void loadAuthState();
}
