// The API from the browser: tokens, errors, event streams, uploads with progress, downloads.
//
// Tokens. The page signs in once and keeps the pair of tokens in localStorage, so that a new tab is signed
// in as well. A refresh token works once, and using a spent one ends the sign-in (somebody has a copy);
// so tabs take turns, with a lock that the browser shares between them, and look first whether another
// tab has done it. An API key can take the place of the tokens. Nothing is sent to anybody but our own origin.
//
// Errors. Every failure is a Problem: the server's problem document, or one of our own for a server that cannot be
// reached (type "unreachable"). Views show `detail`, which is written for people.
import { store } from "./store";

export interface User {
  user_id: string;
  email: string;
  name: string | null;
  role: "operator" | "user" | "guest";
}

export interface Tokens {
  access_token: string;
  refresh_token: string;
  expires: number; // ms, by our clock
  user: User;
}

/** How this browser authenticates: an account, a key, or not at all (loopback). */
export interface Identity {
  tokens?: Tokens;
  key?: string;
}

const STORAGE = "glovebox.identity";

function load(): Identity {
  try {
    return JSON.parse(localStorage.getItem(STORAGE) ?? "{}") as Identity;
  } catch {
    return {};
  }
}

export const identity = store<Identity>(load());

export function setIdentity(next: Identity, why = ""): void {
  ended.set(why);
  try {
    if (next.tokens || next.key) localStorage.setItem(STORAGE, JSON.stringify(next));
    else localStorage.removeItem(STORAGE);
  } catch {
    // A browser that is full, or lets pages store nothing: only this page is signed in, until the token ends
  }
  identity.set(next);
}

// Another tab signed in or out, or refreshed the tokens.
window.addEventListener("storage", (event) => {
  if (event.key === STORAGE || event.key === null) identity.set(load());
});

/** Why somebody who was signed in is not any more, if nobody here signed out. */
export const ended = store("");

/** Whether the server answers; the banner of the shell watches it. */
export const online = store(true);

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly type: string,
    readonly detail: string,
    readonly retryAfter: number | null = null,
    readonly errors: { loc: (string | number)[]; msg: string }[] = [],
  ) {
    super(detail);
  }
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** What to tell a person about any failure. */
export function say(error: unknown): string {
  const text = error instanceof Problem ? error.detail : error instanceof Error ? error.message : String(error);
  return text.charAt(0).toUpperCase() + text.slice(1); // details of the API start as parts of sentences do
}

const UNREACHABLE = "The server cannot be reached. Your work is kept; this page tries again by itself.";

async function problemOf(reply: Response): Promise<Problem> {
  let body: Record<string, unknown> = {};
  try {
    body = (await reply.json()) as Record<string, unknown>;
  } catch {
    // a proxy in between, or a body that was cut
  }
  const retry = Number(reply.headers.get("Retry-After") ?? "NaN");
  return new Problem(
    reply.status,
    String(body.type ?? "").replace("urn:glovebox:problem:", "") || "unknown",
    String(body.detail ?? `The server answered with status ${reply.status}.`),
    Number.isFinite(retry) ? retry : null,
    Array.isArray(body.errors) ? (body.errors as { loc: string[]; msg: string }[]) : [],
  );
}

export function keepTokens(reply: Record<string, unknown>): void {
  setIdentity({
    tokens: {
      access_token: String(reply.access_token),
      refresh_token: String(reply.refresh_token),
      expires: Date.now() + Number(reply.expires_in ?? 900) * 1000,
      user: {
        user_id: String(reply.user_id),
        email: String(reply.email),
        name: (reply.name as string | null) ?? null,
        role: (reply.role as User["role"]) ?? "user",
      },
    },
  });
}

async function plainFetch(path: string, init: RequestInit): Promise<Response> {
  try {
    const reply = await fetch(path, { ...init, credentials: "omit", cache: "no-store" });
    online.set(true);
    return reply;
  } catch (error) {
    if (isAbort(error)) throw error;
    online.set(false);
    throw new Problem(0, "unreachable", UNREACHABLE);
  }
}

/** Keeps an API key, if the server knows it. */
export async function takeKey(key: string): Promise<void> {
  const reply = await plainFetch("/v1/sessions?limit=1", { headers: { Authorization: `Bearer ${key}` } });
  if (reply.status === 401) throw await problemOf(reply);
  setIdentity({ key });
}

async function refreshTokens(spent: string): Promise<void> {
  const turn = async () => {
    const tokens = load().tokens;
    if (!tokens) return;
    if (tokens.refresh_token !== spent) {
      identity.set(load()); // another tab was faster
      return;
    }
    const reply = await plainFetch("/auth/refresh", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ refresh_token: spent }),
    });
    const next = reply.ok ? ((await reply.json()) as Record<string, unknown>) : null;
    if (load().tokens?.refresh_token !== spent) return; // signed out meanwhile, or somebody else is here
    if (next) keepTokens(next);
    else if (reply.status === 401) setIdentity({}, "You have been signed out: the sign-in is over, or was ended elsewhere.");
    else throw await problemOf(reply);
  };
  if (navigator.locks) await navigator.locks.request("glovebox.refresh", turn);
  else await turn();
}

/** The token to send, refreshed if it is about to end; null on an open listener. */
export async function bearer(): Promise<string | null> {
  const { tokens, key } = identity.get();
  if (key) return key;
  if (!tokens) return null;
  if (tokens.expires - Date.now() < 30_000) await refreshTokens(tokens.refresh_token);
  return identity.get().tokens?.access_token ?? null;
}

export interface Options {
  method?: string;
  json?: unknown;
  body?: BodyInit;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** A request whose reply is a success; everything else is thrown as a Problem. */
export async function request(path: string, options: Options = {}): Promise<Response> {
  for (let attempt = 0; ; attempt++) {
    const token = await bearer();
    const headers: Record<string, string> = { ...options.headers };
    if (token) headers.Authorization = `Bearer ${token}`;
    if (options.json !== undefined) headers["Content-Type"] = "application/json";
    const init: RequestInit = { method: options.method ?? "GET", headers };
    if (options.signal) init.signal = options.signal;
    if (options.json !== undefined) init.body = JSON.stringify(options.json);
    else if (options.body !== undefined) init.body = options.body;
    const reply = await plainFetch(path, init);
    if (reply.ok) return reply;
    const problem = await problemOf(reply);
    const tokens = identity.get().tokens;
    if (problem.status === 401 && problem.type === "token-invalid" && tokens && attempt === 0) {
      await refreshTokens(tokens.refresh_token);
      continue;
    }
    if (problem.status === 401 && problem.type === "key-unknown" && identity.get().key) setIdentity({}, "The API key is not valid any more.");
    throw problem;
  }
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await request(path, signal ? { signal } : {})).json()) as T;
}

/** A request with a JSON body; the reply's JSON, or undefined if it has none. */
export async function send<T>(method: string, path: string, json?: unknown, signal?: AbortSignal): Promise<T> {
  const reply = await request(path, { method, json, ...(signal ? { signal } : {}) });
  return (reply.status === 204 ? undefined : await reply.json()) as T;
}

export interface ServerEvent {
  event: string;
  id: string | null;
  data: any;
}

/** Reads a stream of server-sent events until it ends. Resolves with the last id; throws if the connection breaks. */
export async function events(
  path: string,
  options: Options & { lastId?: string | null },
  onEvent: (event: ServerEvent) => void,
): Promise<string | null> {
  const headers: Record<string, string> = { Accept: "text/event-stream", ...options.headers };
  if (options.lastId) headers["Last-Event-ID"] = options.lastId;
  const reply = await request(path, { ...options, headers });
  const reader = reply.body!.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  let lastId = options.lastId ?? null;
  let name = "message";
  let data: string[] = [];
  const line = (text: string) => {
    if (text === "") {
      if (data.length) {
        let value: unknown = null;
        try {
          value = JSON.parse(data.join("\n"));
        } catch {
          value = data.join("\n");
        }
        onEvent({ event: name, id: lastId, data: value });
      }
      name = "message";
      data = [];
    } else if (text.startsWith("data:")) data.push(text.slice(text[5] === " " ? 6 : 5));
    else if (text.startsWith("event:")) name = text.slice(6).trim();
    else if (text.startsWith("id:")) lastId = text.slice(3).trim();
  };
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      buffer += value;
      let at: number;
      let from = 0;
      while ((at = buffer.indexOf("\n", from)) >= 0) {
        line(buffer.slice(from, at).replace(/\r$/, ""));
        from = at + 1;
      }
      buffer = buffer.slice(from);
    }
  } catch (error) {
    if (isAbort(error) || options.signal?.aborted) throw new DOMException("aborted", "AbortError");
    online.set(false);
    throw new Problem(0, "unreachable", UNREACHABLE);
  }
  return lastId;
}

/** Uploads with progress, which fetch() cannot tell. `body` is a form or a file. */
export async function upload<T>(
  method: string,
  path: string,
  body: FormData | Blob,
  onProgress?: (done: number, total: number) => void,
  signal?: AbortSignal,
): Promise<T> {
  const token = await bearer();
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    xhr.open(method, path);
    if (token) xhr.setRequestHeader("Authorization", `Bearer ${token}`);
    xhr.upload.onprogress = (event) => onProgress?.(event.loaded, event.total);
    xhr.onload = () => {
      if (xhr.status >= 200 && xhr.status < 300) {
        try {
          resolve((xhr.responseText ? JSON.parse(xhr.responseText) : undefined) as T);
        } catch {
          reject(new Problem(0, "unreachable", "The server's reply was cut off."));
        }
        return;
      }
      void problemOf(new Response(xhr.responseText, { status: xhr.status || 500 })).then(reject);
    };
    xhr.onerror = () => reject(new Problem(0, "unreachable", UNREACHABLE));
    xhr.onabort = () => reject(new DOMException("aborted", "AbortError"));
    signal?.addEventListener("abort", () => xhr.abort());
    xhr.send(body);
    if (signal?.aborted) xhr.abort();
  });
}

/** Has the browser save something under a name. */
export function saveBlob(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replace(/[/\\\0]/g, "_");
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Fetches a file with our token and has the browser save it. */
export async function download(path: string, name: string): Promise<void> {
  saveBlob(await (await request(path)).blob(), name);
}

/** A WebSocket of the API; the token travels as a subprotocol, because a page cannot set headers. */
export async function socket(path: string): Promise<WebSocket> {
  const token = await bearer();
  const url = new URL(path, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  const protocols = ["glovebox.v1"];
  if (token) protocols.push(`glovebox.bearer.${token}`);
  const ws = new WebSocket(url, protocols);
  ws.binaryType = "arraybuffer";
  return ws;
}
