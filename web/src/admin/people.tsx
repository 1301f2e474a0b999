// Keys and accounts, with their quotas and what they use.
import { useState } from "preact/hooks";

import { get, identity, say, send } from "../api";
import { ago, bytes, count, duration, plural, timeOf } from "../format";
import { follow } from "../router";
import { useStore } from "../store";
import { attempt, confirmed, copyText, Dialog, Field, Note, toast, useLoad } from "../ui/parts";
import { Badge, money, Shown, SortTable, useLive, type Column } from "./parts";
import type { Account, Amounts, Budget, Key, Overview } from "./types";

/** Something that is shown once. */
function Secret({ title, text, value, onClose }: { title: string; text: string; value: string; onClose(): void }) {
  return (
    <Dialog title={title} onClose={onClose}>
      <p>{text}</p>
      <p class="secret"><code>{value}</code></p>
      <div class="row end">
        <button type="button" onClick={() => void copyText(value)}>Copy</button>
        <button type="button" class="primary" onClick={onClose}>Done</button>
      </div>
    </Dialog>
  );
}

function Spent({ budget }: { budget: Budget | undefined }) {
  if (!budget) return <>–</>;
  const { used, limits } = budget;
  const most = limits.cost !== null ? ` of ${money(limits.cost)}` : "";
  return (
    <span title={`Today: ${count(used.tokens ?? 0)} tokens${limits.tokens !== null ? ` of ${count(limits.tokens)}` : ""}, ${bytes(used.bytes)} read${limits.bytes !== null ? ` of ${bytes(limits.bytes)}` : ""}, ${duration((used.seconds ?? 0) * 1000)} of answers${limits.seconds !== null ? ` of ${duration(limits.seconds * 1000)}` : ""}`}>
      {money(used.cost)}{most}
      <small class="why"> {count(used.tokens ?? 0)} tokens{limits.tokens !== null && ` of ${count(limits.tokens)}`}</small>
    </span>
  );
}

const share = (now: number | undefined, most: number | null | undefined, standard: number | null | undefined): string => {
  const limit = most ?? standard;
  return `${count(now ?? 0)} of ${limit === null || limit === undefined ? "any" : count(limit)}`;
};

// ---- keys ----

interface KeyPage {
  keys: Key[];
  more: boolean;
  total: number;
}

function NewKey({ onClose, onMade }: { onClose(): void; onMade(key: Key): void }) {
  const [name, setName] = useState("");
  const [quota, setQuota] = useState({ sessions: "", executions: "", rate_per_minute: "" });
  const [error, setError] = useState("");
  const make = async (event: Event) => {
    event.preventDefault();
    const body: Record<string, string | number> = { name: name.trim() };
    for (const [key, text] of Object.entries(quota)) if (text !== "") body[key] = Number(text);
    try {
      onMade(await send<Key>("POST", "/admin/v1/keys", body));
    } catch (problem) {
      setError(say(problem));
    }
  };
  const row = (key: keyof typeof quota, label: string, hint: string) => (
    <Field label={label} hint={hint}>
      {(id) => <input id={id} type="number" min={1} max={1e9} value={quota[key]} onInput={(e) => setQuota({ ...quota, [key]: e.currentTarget.value })} />}
    </Field>
  );
  return (
    <Dialog title="New API key" onClose={onClose}>
      <form onSubmit={make}>
        {error && <Note bad>{error}</Note>}
        <Field label="Name" hint="For people: who or what uses it.">{(id) => <input id={id} value={name} maxLength={100} required onInput={(e) => setName(e.currentTarget.value)} />}</Field>
        {row("sessions", "Sessions at one time", "Leave empty for the server's default, here and below.")}
        {row("executions", "Executions at one time", "Those that run or wait.")}
        {row("rate_per_minute", "Executions per minute", "New sessions count too.")}
        <div class="row end"><button type="button" onClick={onClose}>Cancel</button><button class="primary">Create the key</button></div>
      </form>
    </Dialog>
  );
}

export function Keys() {
  const [after, setAfter] = useState<string[]>([]);
  const [revoked, setRevoked] = useState(false);
  const last = after.at(-1);
  const page = useLive((signal) => get<KeyPage>(`/admin/v1/keys?limit=100&active=${!revoked}${last ? `&after=${encodeURIComponent(last)}` : ""}`, signal), [last, revoked], 5000);
  const standard = useLoad((signal) => get<Overview>("/admin/v1/overview", signal), []).value?.key_defaults;
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<Key | null>(null);
  const revoke = async (key: Key) => {
    if (!(await confirmed("Revoke this key?", `Whoever uses "${key.name || key.id}" is refused from now on, and its sessions end. This cannot be undone.`, "Revoke the key"))) return;
    await attempt(async () => {
      await send("DELETE", `/admin/v1/keys/${encodeURIComponent(key.id)}`);
      toast("The key is revoked");
    });
    page.reload();
  };
  const columns: Column<Key>[] = [
    { key: "name", label: "Name", by: (k) => k.name || k.id, show: (k) => <>{k.name || "without a name"} <a href={`/admin/audit?who=${encodeURIComponent(k.id)}`} onClick={follow}><code class="id">{k.id}</code><span class="visually-hidden"> in the audit log</span></a></> },
    { key: "created", label: "Created", by: (k) => k.created, show: (k) => <time title={timeOf(k.created)}>{ago(k.created)}</time> },
    { key: "used", label: "Last used", by: (k) => k.last_used, show: (k) => (k.last_used ? <time title={timeOf(k.last_used)}>{ago(k.last_used)}</time> : "never") },
    { key: "sessions", label: "Sessions", by: (k) => k.now?.sessions ?? 0, show: (k) => share(k.now?.sessions, k.sessions, standard?.sessions), number: true },
    { key: "executions", label: "Executions", by: (k) => k.now?.executions ?? 0, show: (k) => share(k.now?.executions, k.executions, standard?.executions), number: true },
    { key: "rate", label: "Per minute", by: (k) => k.rate_per_minute, show: (k) => { const most = k.rate_per_minute ?? standard?.rate_per_minute; return most === null || most === undefined ? "any" : count(most); }, number: true },
    { key: "spent", label: "Spent today", by: (k) => k.budget?.used.cost ?? 0, show: (k) => <Spent budget={k.budget} />, number: true },
    { key: "revoke", label: "", show: (k) => (k.revoked ? <Badge word="revoked" text={`revoked ${ago(k.revoked)}`} /> : <button type="button" onClick={() => void revoke(k)}>Revoke<span class="visually-hidden"> {k.name || k.id}</span></button>) },
  ];
  return (
    <Shown of={page}>
      {(value) => (
        <>
          <div class="row spread">
            <label class="choice"><input type="checkbox" checked={revoked} onChange={(e) => { setRevoked(e.currentTarget.checked); setAfter([]); }} /> Show revoked keys</label>
            <button type="button" class="primary" onClick={() => setMaking(true)}>New key</button>
          </div>
          <section class="card"><SortTable label="API keys" columns={columns} rows={value.keys} id={(k) => k.id} empty="There is no key. Clients on other machines need one." /></section>
          <p class="quiet">{plural(value.total, "key")}.</p>
          {(value.more || after.length > 0) && (
            <div class="row">
              <button type="button" disabled={after.length === 0} onClick={() => setAfter(after.slice(0, -1))}>Previous page</button>
              <button type="button" disabled={!value.more} onClick={() => setAfter([...after, value.keys.at(-1)!.id])}>Next page</button>
            </div>
          )}
          {making && <NewKey onClose={() => setMaking(false)} onMade={(key) => { setMaking(false); setMade(key); page.reload(); }} />}
          {made?.token && <Secret title="The new key" text="Copy it now: it is shown only this once, and Glovebox keeps nothing but its hash." value={made.token} onClose={() => setMade(null)} />}
        </>
      )}
    </Shown>
  );
}

// ---- accounts ----

interface UserPage {
  users: Account[];
  more: boolean;
  total: number;
}

const PARTS: { key: keyof Amounts; label: string; step: string }[] = [
  { key: "cost", label: "Money in US dollars", step: "any" },
  { key: "tokens", label: "Tokens of models", step: "1" },
  { key: "bytes", label: "Bytes that sources read", step: "1" },
  { key: "seconds", label: "Seconds of answers", step: "any" },
];

function BudgetForm({ user, onSaved }: { user: Account; onSaved(): void }) {
  const limits = user.budget?.own; // not those in force: saving them would make defaults this account's own
  const [text, setText] = useState<Record<string, string>>(Object.fromEntries(PARTS.map(({ key }) => [key, limits?.[key] === null || limits?.[key] === undefined ? "" : String(limits[key])])));
  const [error, setError] = useState("");
  const save = async (event: Event) => {
    event.preventDefault();
    const body: Record<string, number> = {};
    for (const [key, value] of Object.entries(text)) if (value !== "") body[key] = Number(value);
    try {
      await send("PUT", `/admin/v1/users/${user.user_id}/budget`, body);
      toast("Saved");
      onSaved();
    } catch (problem) {
      setError(say(problem));
    }
  };
  return (
    <form onSubmit={save}>
      <h3>What may be spent in a day</h3>
      <p class="quiet">Empty is the service's default, −1 is no limit.</p>
      {error && <Note bad>{error}</Note>}
      <div class="grid-2">
        {PARTS.map(({ key, label, step }) => (
          <Field key={key} label={label}>{(id) => <input id={id} type="number" min={-1} step={step} value={text[key]} onInput={(e) => setText({ ...text, [key]: e.currentTarget.value })} />}</Field>
        ))}
      </div>
      <div class="row end"><button class="primary">Save the budget</button></div>
    </form>
  );
}

function Manage({ user, mine, onClose, onChanged }: { user: Account; mine: boolean; onClose(): void; onChanged(): void }) {
  const [password, setPassword] = useState("");
  const path = `/admin/v1/users/${encodeURIComponent(user.user_id)}`;
  const up = user.role !== "operator";
  const role = () => attempt(async () => {
    if (up && !(await confirmed("Make this person an operator?", `${user.email} will see this dashboard, end sessions, make keys and remove accounts, yours too.`, "Make operator"))) return;
    await send("PATCH", path, { role: up ? "operator" : "user" });
    toast(up ? `${user.email} is an operator now` : `${user.email} is no operator any more`);
    onChanged();
    onClose();
  });
  const reset = () => attempt(async () => {
    if (!(await confirmed("Give this account a new password?", `${user.email} is signed out everywhere and needs the new password, which you have to pass on.`, "New password"))) return;
    setPassword((await send<{ password: string }>("POST", `${path}/password`)).password);
  });
  const remove = () => attempt(async () => {
    if (!(await confirmed("Delete this account?", `${user.email} loses all chats, files, verified answers and sessions. This cannot be undone.`, "Delete everything"))) return;
    await send("DELETE", path);
    toast(`The account of ${user.email} is deleted`);
    onChanged();
    onClose();
  });
  if (password) return <Secret title="The new password" text={`For ${user.email}. It is shown only this once.`} value={password} onClose={onClose} />;
  return (
    <Dialog title={user.email} onClose={onClose}>
      <BudgetForm user={user} onSaved={onChanged} />
      <h3>Account</h3>
      <p class="quiet"><a href={`/admin/audit?who=${encodeURIComponent(user.email)}`} onClick={follow}>See in the audit log what it did</a></p>
      {user.role === "guest" && <p class="quiet">A guest has no password and is deleted after a day, with everything that belongs to it.</p>}
      {mine ? <p class="quiet">This is your own account: its password and deletion are in the settings.</p> : (
        <div class="row">
          {user.role !== "guest" && <button type="button" onClick={() => void role()}>{up ? "Make operator" : "Make an ordinary user"}</button>}
          {user.role !== "guest" && <button type="button" onClick={() => void reset()}>New password</button>}
          <button type="button" class="danger" onClick={() => void remove()}>Delete the account</button>
        </div>
      )}
    </Dialog>
  );
}

export function Users() {
  const me = useStore(identity).tokens?.user.user_id;
  const [q, setQ] = useState("");
  const [after, setAfter] = useState<string[]>([]);
  const last = after.at(-1);
  const query = `${q.trim() ? `&q=${encodeURIComponent(q.trim())}` : ""}${last ? `&after=${encodeURIComponent(last)}` : ""}`;
  const page = useLive((signal) => get<UserPage>(`/admin/v1/users?limit=100${query}`, signal), [query], 5000);
  const standard = useLoad((signal) => get<Overview>("/admin/v1/overview", signal), []).value?.key_defaults;
  const [managed, setManaged] = useState<string | null>(null);
  const [invitation, setInvitation] = useState<{ url: string; expires: string } | null>(null);
  const invite = () => attempt(async () => setInvitation(await send("POST", "/admin/v1/invitations", {})));
  const columns: Column<Account>[] = [
    { key: "email", label: "Account", by: (u) => u.email, show: (u) => <>{u.email}{u.name && <small class="why"> {u.name}</small>}{u.user_id === me && <small class="why"> you</small>}</> },
    { key: "role", label: "Role", by: (u) => u.role, show: (u) => <Badge word={u.role} /> },
    { key: "created", label: "Since", by: (u) => u.created, show: (u) => <time title={timeOf(u.created)}>{ago(u.created)}</time> },
    { key: "sessions", label: "Sessions", by: (u) => u.now?.sessions ?? 0, show: (u) => share(u.now?.sessions, u.sessions, standard?.sessions), number: true },
    { key: "executions", label: "Running", by: (u) => u.now?.executions ?? 0, show: (u) => share(u.now?.executions, u.executions, standard?.executions), number: true },
    { key: "spent", label: "Spent today", by: (u) => u.budget?.used.cost ?? 0, show: (u) => <Spent budget={u.budget} />, number: true },
    { key: "manage", label: "", show: (u) => <button type="button" onClick={() => setManaged(u.user_id)}>Manage<span class="visually-hidden"> {u.email}</span></button> },
  ];
  return (
    <>
      <div class="row spread">
        <label class="search">Search <input type="search" value={q} placeholder="Address or name" maxLength={200} onInput={(e) => { setQ(e.currentTarget.value); setAfter([]); }} /></label>
        <button type="button" class="primary" onClick={() => void invite()}>Invite somebody</button>
      </div>
      <Shown of={page}>
        {(value) => {
          const user = value.users.find((one) => one.user_id === managed);
          return (
            <>
              <section class="card"><SortTable label="Accounts" columns={columns} rows={value.users} id={(u) => u.user_id} empty="Nobody matches." /></section>
              <p class="quiet">{plural(value.total, "account")}.</p>
              {(value.more || after.length > 0) && (
                <div class="row">
                  <button type="button" disabled={after.length === 0} onClick={() => setAfter(after.slice(0, -1))}>Previous page</button>
                  <button type="button" disabled={!value.more} onClick={() => setAfter([...after, value.users.at(-1)!.user_id])}>Next page</button>
                </div>
              )}
              {user && <Manage key={user.user_id} user={user} mine={user.user_id === me} onClose={() => setManaged(null)} onChanged={page.reload} />}
            </>
          );
        }}
      </Shown>
      {invitation && <Secret title="Invitation" text={`Whoever opens this address until ${timeOf(invitation.expires)} can create one account.`} value={invitation.url} onClose={() => setInvitation(null)} />}
    </>
  );
}
