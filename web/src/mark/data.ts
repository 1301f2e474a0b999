// What several parts of Mark's view need, read once: models, sources, files, verified answers.
import { get, identity, Problem, type Identity } from "../api";
import { store, type Store } from "../store";
import type { Attachment, Model, Source, Verified } from "./types";

export const who = (one: Identity): string => one.tokens?.user.user_id ?? one.key ?? "";

/** Calls when somebody else is signed in; not when tokens are renewed. */
export function onOther(call: () => void): void {
  let now = who(identity.get());
  identity.watch((next) => {
    if (who(next) === now) return;
    now = who(next);
    call();
  });
}

export interface Models {
  models: Model[];
  default: string | null;
}

export const models = store<Models | null>(null);
export const sources = store<Source[] | null>(null);
export const attachments = store<ReadonlyMap<string, Attachment>>(new Map());
export const verified = store<ReadonlyMap<string, Verified>>(new Map());
export const forgotten = store<ReadonlySet<string>>(new Set()); // attachments that are gone

const busy = new Map<string, Promise<void>>();

onOther(() => {
  models.set(null);
  sources.set(null);
  attachments.set(new Map());
  verified.set(new Map());
  forgotten.set(new Set());
  busy.clear();
});

/** One request for everybody who wants the same. What it gives back keeps the reply; not if somebody else is signed in by then. */
function once(key: string, work: () => Promise<() => void>): Promise<void> {
  const known = busy.get(key);
  if (known) return known;
  const mine: Promise<void> = work()
    .then((keep) => {
      if (busy.get(key) === mine) keep();
    })
    .finally(() => {
      if (busy.get(key) === mine) busy.delete(key);
    });
  busy.set(key, mine);
  return mine;
}

export const loadModels = () =>
  once("models", async () => {
    const reply = await get<Models>("/api/v1/models");
    return () => models.set(reply);
  }).catch(() => undefined);

export const loadSources = () =>
  once("sources", async () => {
    const reply = await get<{ sources: Source[] }>("/api/v1/sources");
    return () => sources.set(reply.sources);
  }).catch(() => undefined);

export function keepAttachment(one: Attachment): void {
  attachments.set((old) => new Map(old).set(one.attachment_id, one));
}

/** Describes a file, with its profile. */
export const loadAttachment = (id: string) =>
  once(`attachment ${id}`, async () => {
    try {
      const one = await get<Attachment>(`/api/v1/attachments/${encodeURIComponent(id)}`);
      return () => keepAttachment(one);
    } catch (error) {
      // Anything else (no connection, too many requests) says nothing about the file.
      if (!(error instanceof Problem) || error.status !== 404) throw error;
      return () => forgotten.set((old) => new Set(old).add(id));
    }
  });

export const loadVerified = () =>
  once("verified", async () => {
    const found = new Map<string, Verified>();
    let after: string | null = "";
    for (let page = 0; after !== null && page < 25; page++) {
      const reply: { verified: Verified[]; next: string | null } = await get(`/api/v1/verified?limit=50${after ? `&after=${encodeURIComponent(after)}` : ""}`);
      for (const one of reply.verified) found.set(one.message_id, one);
      after = reply.next;
    }
    return () => verified.set(found);
  }).catch(() => undefined);

/** A part of an address; one that is malformed stays as it is. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A choice that this browser remembers. */
export function remembered(key: string): Store<string> {
  const kept = (use: () => string | null | void): string => {
    try {
      return use() ?? "";
    } catch {
      return ""; // a browser that is full, or lets pages store nothing
    }
  };
  const one = store(kept(() => localStorage.getItem(key)));
  one.watch((value) => kept(() => (value ? localStorage.setItem(key, value) : localStorage.removeItem(key))));
  return one;
}

export const chosenModel = remembered("glovebox.mark.model");
