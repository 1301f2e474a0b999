// The box of the notebook: a session of the API. It is made by the first run (or upload, or terminal), named in the
// address of the page, and may end at any time without us: idle for too long, deleted, or the server was restarted.
import { get, Problem, send } from "../api";
import { bytes } from "../format";
import { navigate } from "../router";
import { authState } from "../session";
import { store } from "../store";
import { changed, extra, head } from "./book";

export interface Limits {
  timeout: number;
  memory: number;
  cpus: number;
  pids: number;
  disk: number;
  [name: string]: number;
}

export interface Session {
  session_id: string;
  state: "ready" | "running" | "lost";
  template: string;
  expires_in: number;
  idle_timeout: number;
  execution_count: number;
  limits: Limits;
  network?: { allow: string[] };
}

export interface ServerLimits {
  session: Limits;
  ceiling: Limits;
  sessions: { idle_timeout: number; idle_timeout_most: number };
  network: { allow: string[] };
}

export interface Template {
  name: string;
  kind: string;
  default: boolean;
  packages: { name: string; version: string }[];
}

export type BoxState =
  | { is: "none" }
  | { is: "starting" }
  | { is: "live"; session: Session }
  /** `unsure`: we could not ask; it may well be alive. */
  | { is: "ended"; why: string; unsure?: boolean };

export const box = store<BoxState>({ is: "none" });
let making: Promise<Session> | null = null;
/** The variables are gone, the files are not; shown until the next run or until somebody closes it. */
export const lost = store<string | null>(null);
export const signInNeeded = store(false);

/** What the next box is made with. Kept in the browser: somebody who needs 2 GB needs them tomorrow, too. */
export interface Wishes {
  template?: string;
  memory?: number;
  cpus?: number;
  disk?: number;
  pids?: number;
  idle_timeout?: number;
  network?: string[];
  /** Of each cell, in seconds; it can be changed while the box lives. */
  timeout?: number;
}

const WISHES = "glovebox.play.box";

function loadWishes(): Wishes {
  try {
    return JSON.parse(localStorage.getItem(WISHES) ?? "{}") as Wishes;
  } catch {
    return {};
  }
}

export const wishes = store<Wishes>(loadWishes());
wishes.watch((value) => {
  try {
    localStorage.setItem(WISHES, JSON.stringify(value));
  } catch {
    // only convenience
  }
});

export const liveSession = (): Session | null => {
  const state = box.get();
  return state.is === "live" ? state.session : null;
};
export const sessionPath = (id: string): string => `/v1/sessions/${encodeURIComponent(id)}`;

/** The address of the page says which notebook and which box it shows. Runs go on while Mark is shown, whose address stays. */
export function writeAddress(): void {
  const here = location.pathname === "/play" || (location.pathname === "/" && authState.get()?.mark === "off");
  if (!here) return;
  const query = new URLSearchParams({ notebook: head.get().id });
  if (extra.session) query.set("session", extra.session);
  navigate(`/play?${query.toString()}`, { replace: true });
}

function setSession(session: Session): void {
  box.set({ is: "live", session });
  if (session.state === "lost") lost.set("The interpreter of this box ended. Its files are still there, its variables are not.");
  if (extra.session !== session.session_id) {
    extra.session = session.session_id;
    changed();
  }
  writeAddress();
}

const GONE: Record<string, string> = {
  "session-expired": "The box was idle for too long and was closed.",
  "session-deleted": "The box was closed.",
  "session-unknown": "The box is no longer there. The server was restarted, or the box belongs to somebody else.",
  "session-ended": "The box ended because the server was stopped.",
};

/** Whether a failure means that the box is gone; then everybody is told. */
export function noticeEnd(error: unknown): boolean {
  if (error instanceof Problem && error.status === 401) signInNeeded.set(true);
  if (!(error instanceof Problem) || error.status !== 404 || !Object.hasOwn(GONE, error.type)) return false;
  if (box.get().is !== "none") box.set({ is: "ended", why: GONE[error.type]! });
  lost.set(null);
  return true;
}

let turn = 0; // counts attachments: an answer that comes after the next one belongs to a notebook that is closed

/** Attaches to the box that the address or the notebook names, if it still lives. */
export async function attach(id: string | null): Promise<void> {
  const my = ++turn;
  making = null;
  lost.set(null);
  if (!id) {
    extra.session = null;
    box.set({ is: "none" });
    return;
  }
  box.set({ is: "starting" });
  try {
    const session = await get<Session>(sessionPath(id));
    if (my === turn) setSession(session);
  } catch (error) {
    if (my !== turn || noticeEnd(error)) return;
    const why = error instanceof Problem && error.type !== "unreachable" ? error.detail : "the server cannot be reached.";
    box.set({ is: "ended", why: `Whether the box is still alive is not known: ${why}`, unsure: true });
  }
}

/** The live box; makes one if there is none. Callers at the same time get the same one. */
export function ensureBox(): Promise<Session> {
  const live = liveSession();
  if (live) return Promise.resolve(live);
  if (making) return making;
  const mine = make().finally(() => {
    if (making === mine) making = null;
  });
  making = mine;
  return mine;
}

async function make(): Promise<Session> {
  const before = box.get();
  const my = turn;
  const { template, memory, cpus, disk, pids, idle_timeout, network } = wishes.get();
  const limits: Record<string, number> = {};
  for (const [name, value] of Object.entries({ memory, cpus, disk, pids })) if (value !== undefined) limits[name] = value;
  box.set({ is: "starting" });
  try {
    const session = await send<Session>("POST", "/v1/sessions", {
      ...(template ? { template } : {}),
      ...(idle_timeout ? { idle_timeout } : {}),
      ...(network?.length ? { network: { allow: network } } : {}),
      ...(Object.keys(limits).length ? { limits } : {}),
    });
    if (my !== turn) {
      void closeBox(session.session_id);
      throw new DOMException("the notebook was closed", "AbortError");
    }
    lost.set(null);
    setSession(session);
    return session;
  } catch (error) {
    if (error instanceof Problem && error.status === 401) signInNeeded.set(true);
    if (my === turn) box.set(before.is === "starting" ? { is: "none" } : before);
    throw error;
  }
}

/** Closes a box, unless it is gone already. */
export const closeBox = (id: string): Promise<void> => send<void>("DELETE", sessionPath(id)).catch(() => undefined);

/** Ends the box, with its files. */
export async function endBox(): Promise<void> {
  const live = liveSession();
  extra.session = null;
  box.set({ is: "none" });
  lost.set(null);
  changed();
  writeAddress();
  if (live) await closeBox(live.session_id);
}

let active = false; // somebody did something since the last look
for (const event of ["keydown", "pointerdown"]) window.addEventListener(event, () => void (active = true), { passive: true });

/** Looks after the box every now and then. Somebody who works in the page keeps the box alive, an open tab alone does not. */
export async function look(): Promise<void> {
  const live = liveSession();
  if (!live) return;
  const keep = active;
  active = false;
  try {
    const path = sessionPath(live.session_id);
    const session = keep ? await send<Session>("POST", `${path}/keepalive`) : await get<Session>(path);
    if (liveSession()?.session_id === session.session_id) setSession(session);
  } catch (error) {
    noticeEnd(error);
  }
}

/** How long one cell may take here, in seconds. */
export function cellTimeout(): number | undefined {
  return wishes.get().timeout;
}

/** A limit in seconds. */
export function time(seconds: number): string {
  if (seconds < 60 || seconds % 60 !== 0) return `${seconds} s`;
  return seconds < 3600 || seconds % 3600 !== 0 ? `${seconds / 60} min` : `${seconds / 3600} h`;
}

/** What a box has, in a few words. */
export function boxWords(limits: { memory: number; cpus: number; disk: number }): string {
  return `${bytes(limits.memory)} memory · ${limits.cpus} CPU${limits.cpus === 1 ? "" : "s"} · ${bytes(limits.disk)} disk`;
}
