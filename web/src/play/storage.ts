// Notebooks in this browser: IndexedDB, because outputs are larger than localStorage. A notebook belongs to whoever was
// signed in when it was made, so that the next person at the same browser does not see it in the list.
//
// Two tabs with the same notebook: each save looks whether the stored one is newer than what this tab knows.
import { identity } from "../api";
import type { Cell, Mime } from "./notebook";

export interface Stored {
  id: string;
  owner: string;
  title: string;
  updated: number; // ms
  revision: number;
  session: string | null;
  metadata: Mime;
  cells: Cell[];
  /** Executions that were under way, by cell: a reload follows them again. */
  running: Record<string, string>;
}

export type Listed = Pick<Stored, "id" | "title" | "updated" | "session">;

/** Who the notebooks of this page belong to. A key is only told apart, not kept. */
export function owner(): string {
  const { tokens, key } = identity.get();
  if (tokens) return tokens.user.user_id;
  if (!key) return "local";
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  return `key-${(hash >>> 0).toString(16)}`;
}

let opened: Promise<IDBDatabase> | null = null;

function open(): Promise<IDBDatabase> {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("glovebox.play", 1);
    request.onupgradeneeded = () => void request.result.createObjectStore("notebooks", { keyPath: "id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("this browser does not store anything"));
    request.onblocked = () => reject(new Error("another tab blocks the storage of this browser"));
  });
  return opened;
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("the browser could not store this"));
  });
}

/** A browser that is full may say so only when it writes, after the request has succeeded. */
function written(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error ?? new Error("the browser could not store this"));
  });
}

export async function loadStored(id: string): Promise<Stored | null> {
  const one = await done((await open()).transaction("notebooks").objectStore("notebooks").get(id) as IDBRequest<Stored | undefined>);
  return one && one.owner !== owner() ? null : merged(id, one ?? null);
}

/** The latest first. */
export async function listStored(): Promise<Listed[]> {
  const list: Listed[] = [];
  const mine = owner();
  const store = (await open()).transaction("notebooks").objectStore("notebooks");
  await new Promise<void>((resolve, reject) => {
    const walk = store.openCursor();
    walk.onerror = () => reject(walk.error);
    walk.onsuccess = () => {
      const cursor = walk.result;
      if (!cursor) return resolve();
      const one = cursor.value as Stored;
      if (one.owner === mine) list.push({ id: one.id, title: one.title, updated: one.updated, session: one.session });
      cursor.continue();
    };
  });
  const kept = unsavedOf(mine); // perhaps of a notebook that was never stored: the page was closed too soon
  if (kept && !list.some((one) => one.id === kept.id)) list.push({ id: kept.id, title: kept.title, updated: kept.updated, session: kept.session });
  return list.sort((a, b) => b.updated - a.updated);
}

/** Stores it as the next revision. False: another tab stored a newer one, and nothing was written. */
export async function saveStored(one: Stored): Promise<boolean> {
  const database = await open();
  if (forgotten.has(one.owner)) return true;
  const store = database.transaction("notebooks", "readwrite").objectStore("notebooks");
  const end = written(store.transaction);
  end.catch(() => undefined); // it is waited for only if something is written
  const old = await done(store.get(one.id) as IDBRequest<Stored | undefined>);
  if (old && old.revision > one.revision) return false;
  await done(store.put({ ...one, revision: one.revision + 1 }));
  await end;
  return true;
}

export async function removeStored(id: string): Promise<void> {
  await done((await open()).transaction("notebooks", "readwrite").objectStore("notebooks").delete(id));
}

// ---- the last keystrokes ----
// A page that is closed has no time for IndexedDB. What was typed and printed since the last save goes to localStorage, which
// is synchronous but small, and is merged when the notebook is opened again; large outputs are left out.

const UNSAVED = "glovebox.play.unsaved";
const UNSAVED_MAX = 2_000_000; // characters

type Unsaved = Stored & { whole?: boolean };

export function keepUnsaved(one: Stored): void {
  if (forgotten.has(one.owner)) return;
  try {
    const whole = JSON.stringify({ ...one, whole: true });
    const cells = one.cells.map((cell) => ({ ...cell, outputs: [] }));
    localStorage.setItem(UNSAVED, whole.length <= UNSAVED_MAX ? whole : JSON.stringify({ ...one, cells }));
  } catch {
    // too large: the save that is under way has to do
  }
}

function merged(id: string, one: Stored | null, who = owner()): Stored | null {
  try {
    const kept = JSON.parse(localStorage.getItem(UNSAVED) ?? "null") as Unsaved | null;
    if (!kept || kept.id !== id || kept.owner !== who) return one;
    localStorage.removeItem(UNSAVED);
    if (one && kept.revision < one.revision) return one;
    const { whole, ...rest } = kept;
    if (whole) return rest;
    const outputs = new Map(one?.cells.map((cell) => [cell.id, cell.outputs]));
    return { ...rest, cells: rest.cells.map((cell) => ({ ...cell, outputs: outputs.get(cell.id) ?? [] })) };
  } catch {
    return one;
  }
}

// ---- somebody leaves ----

/** Whose notebooks are gone; a save of theirs that comes late is dropped. */
const forgotten = new Set<string>();

function unsavedOf(who: string): Unsaved | null {
  try {
    const kept = JSON.parse(localStorage.getItem(UNSAVED) ?? "null") as Unsaved | null;
    return kept?.owner === who ? kept : null;
  } catch {
    return null;
  }
}

/** Deletes all that this browser has of somebody: guests who leave, accounts that are deleted. */
export async function forget(who: string): Promise<void> {
  forgotten.add(who);
  if (unsavedOf(who)) localStorage.removeItem(UNSAVED);
  const store = (await open()).transaction("notebooks", "readwrite").objectStore("notebooks");
  await new Promise<void>((resolve, reject) => {
    const walk = store.openCursor();
    walk.onerror = () => reject(walk.error);
    store.transaction.oncomplete = () => resolve();
    walk.onsuccess = () => {
      const cursor = walk.result;
      if (!cursor) return;
      if ((cursor.value as Stored).owner === who) cursor.delete();
      cursor.continue();
    };
  });
}

/** Somebody signed out: their last keystrokes go to the other notebooks of theirs, and nothing of it stays in localStorage. */
export async function leave(who: string): Promise<void> {
  const kept = unsavedOf(who);
  if (!kept) return;
  const store = (await open()).transaction("notebooks", "readwrite").objectStore("notebooks");
  const old = await done(store.get(kept.id) as IDBRequest<Stored | undefined>);
  const one = old && old.owner !== who ? null : merged(kept.id, old ?? null, who);
  localStorage.removeItem(UNSAVED);
  if (one) await done(store.put(one));
}
