// The chat that is shown, and the answers that are under way: asking, following, coming back after a broken line.
//
// An answer goes on without us. So a stream that breaks is followed again from the last event that we have; if the question
// itself may not have arrived, the chat is read to see whether it did, and it is never sent twice by itself.
//
// A browser has six connections to a server, for all of its tabs. So only answers of the chat that is shown are followed, and few at
// a time: those of one chat come one after the other. The rest waits for its turn without a connection, so that there is one for the
// button that stops them.
import { events, get, identity, isAbort, online, Problem, say, send } from "../api";
import { navigate } from "../router";
import { store, type Store } from "../store";
import { attempt, toast } from "../ui/parts";
import { noteChat, refreshChats } from "./chats";
import { onOther, who } from "./data";
import { isOver, reduce, START, type AnswerEvent, type Live } from "./reduce";
import type { Answer, Message } from "./types";

export interface Running extends Live {
  since: number; // ms, for the clock
  broken: number; // how often the line broke
  waiting: boolean; // for the server to come back
}

/** A question that was sent and is not known to be stored yet. */
export interface Draft {
  key: number;
  text: string;
  attachments: string[];
  failed: string;
  /** Of another answer to a question that is there: its id. */
  of?: string;
  /** It takes the place of an earlier question. */
  edits?: boolean;
  /** Messages that were there when it was sent: none of them is it. */
  known: ReadonlySet<string>;
  running: Store<Running>;
}

export interface Thread {
  serial: number; // another one for each chat that is opened; the same when a new chat gets its id
  chatId: string | null;
  loading: boolean;
  error: string;
  gone: boolean;
  messages: Message[];
  drafts: Draft[];
}

const EMPTY: Thread = { serial: 0, chatId: null, loading: false, error: "", gone: false, messages: [], drafts: [] };

export const thread = store<Thread>(EMPTY);

/** Answers that this tab follows, by message. Kept when they are done: they know more of the output than is stored. */
export const running = new Map<string, Store<Running>>();
const KEPT = 50;

/** Which draft an answer was, so that what is drawn of it stays when it is stored. */
export const draftOf = new Map<string, number>();

let lastSerial = 0;

/** Ends when another chat is shown. */
let shown = new AbortController();

/** The place of the chat that was shown is taken: its answers are not followed any more. */
function emptyThread(): Thread {
  shown.abort();
  shown = new AbortController();
  return { ...EMPTY, serial: ++lastSerial };
}

/** Whether an answer is under way. */
export function isPending(message: Message): boolean {
  const live = running.get(message.message_id);
  return message.role === "assistant" && message.status === "pending" && !(live && isOver(live.get()));
}

/** Something that the thread refers to has changed. */
const touch = () => thread.set((old) => ({ ...old }));

const channel = typeof BroadcastChannel === "function" ? new BroadcastChannel("glovebox.mark") : null;

export function tellTabs(chatId: string): void {
  channel?.postMessage({ chat: chatId });
}

channel?.addEventListener("message", (event: MessageEvent) => {
  const chat = (event.data as { chat?: unknown } | null)?.chat;
  if (typeof chat !== "string") return;
  refreshChats();
  if (chat === thread.get().chatId) void reload();
});

onOther(() => {
  loading?.abort();
  running.clear();
  draftOf.clear();
  toStop.clear();
  thread.set(emptyThread());
});

// ---- reading ----

async function readMessages(chatId: string, signal?: AbortSignal): Promise<Message[]> {
  const all: Message[] = [];
  let after: number | null = 0;
  while (after !== null) {
    const page: { messages: Message[]; next: number | null } = await get(`/api/v1/chats/${encodeURIComponent(chatId)}/messages?limit=200&after=${after}`, signal);
    all.push(...page.messages);
    after = page.messages.length ? page.next : null;
  }
  return all;
}

/** What is shown already keeps its objects: a chart that is the same is not drawn again. */
function merge(old: Message[], read: Message[]): Message[] {
  const known = new Map(old.map((message) => [message.message_id, message]));
  return read.map((message) => {
    const mine = known.get(message.message_id);
    const shown = running.get(message.message_id)?.get().answer ?? (mine?.status === message.status ? mine.response : null);
    return shown && message.response ? { ...message, response: shown } : message;
  });
}

let loading: AbortController | null = null;

export async function openChat(chatId: string | null): Promise<void> {
  const now = thread.get();
  if (now.chatId === chatId && (chatId !== null || now.drafts.length === 0) && !now.error && !now.gone) return;
  loading?.abort();
  if (chatId === null) {
    thread.set(emptyThread());
    return;
  }
  thread.set({ ...emptyThread(), chatId, loading: true });
  await reload();
}

/** An empty chat, also if one is shown whose question was refused. */
export function newChat(): void {
  navigate("/");
  if (thread.get().chatId === null) thread.set(emptyThread());
}

export async function reload(): Promise<void> {
  const chatId = thread.get().chatId;
  if (!chatId) return;
  loading?.abort();
  const mine = (loading = new AbortController());
  try {
    const read = await readMessages(chatId, mine.signal);
    if (thread.get().chatId !== chatId) return;
    thread.set((old) => ({ ...old, loading: false, error: "", messages: merge(old.messages, read) }));
    for (const message of read)
      if (isPending(message) && !followed.has(message.message_id)) void follow(message.message_id, running.get(message.message_id));
  } catch (error) {
    if (isAbort(error) || thread.get().chatId !== chatId) return;
    const gone = error instanceof Problem && error.status === 404;
    thread.set((old) => ({ ...old, loading: false, gone, error: gone ? "" : say(error) }));
  }
}

// The server was away: what is shown may have ended meanwhile.
online.watch((up) => {
  if (up && thread.get().error) void reload();
});

function keep(id: string, live: Store<Running>): void {
  running.set(id, live);
  if (running.size > KEPT) for (const [old, one] of running) if (isOver(one.get())) { running.delete(old); break; }
}

/** A finished answer takes its place among the messages. */
function settle(answer: Answer): void {
  thread.set((old) =>
    old.chatId !== answer.chat_id
      ? old
      : { ...old, messages: old.messages.map((one) => (one.message_id === answer.message_id ? { ...one, status: answer.status, text: answer.answer_story, response: answer } : one)) },
  );
  refreshChats();
}

// ---- events, once a frame ----

function feeder(live: Store<Running>): { take(event: AnswerEvent): void; flush(): void } {
  let waiting: AnswerEvent[] = [];
  let planned = false;
  const flush = () => {
    planned = false;
    if (!waiting.length) return;
    const batch = waiting;
    waiting = [];
    live.set((old) => batch.reduce<Running>((state, event) => ({ ...state, ...reduce(state, event) }), { ...old, waiting: false }));
  };
  return {
    flush,
    take(event) {
      waiting.push(event);
      if (planned) return;
      planned = true;
      // Hidden tabs have no frames, but go on reading.
      if (document.visibilityState === "visible") requestAnimationFrame(flush);
      else setTimeout(flush, 250);
    },
  };
}

const newRunning = (): Store<Running> => store<Running>({ ...START, since: Date.now(), broken: 0, waiting: false });

const pause = (ms: number) =>
  new Promise<void>((resolve) => {
    const timer = setTimeout(done, ms);
    const unwatch = online.watch((up) => up && done());
    function done() {
      clearTimeout(timer);
      unwatch();
      resolve();
    }
  });

const STREAMS = 2; // of this tab at a time
let streams = 0;
let waiting: (() => void)[] = [];

/** Answers that have a stream or wait for one. */
const followed = new Set<string>();

async function takeStream(home: AbortSignal): Promise<boolean> {
  while (streams >= STREAMS && !home.aborted)
    await new Promise<void>((resolve) => {
      waiting.push(resolve);
      home.addEventListener("abort", () => resolve(), { once: true });
    });
  if (home.aborted) return false;
  streams++;
  return true;
}

function giveStream(): void {
  streams--;
  const all = waiting;
  waiting = [];
  for (const wake of all) wake(); // in their order; who is too late waits again
}

/** Follows an answer to its end, however often the line breaks, or until another chat is shown. */
async function follow(id: string, live: Store<Running> = newRunning(), home: AbortSignal = shown.signal): Promise<void> {
  followed.add(id);
  keep(id, live);
  touch(); // whoever shows the message looks for it again
  try {
    if (!(await takeStream(home))) return;
    await followNow(id, live, home).finally(giveStream);
  } finally {
    followed.delete(id);
    live.set((old) => ({ ...old, waiting: false }));
  }
  if (isOver(live.get())) ended(live.get());
}

async function followNow(id: string, live: Store<Running>, home: AbortSignal): Promise<void> {
  const feed = feeder(live);
  for (let attempt = 0; !isOver(live.get()) && !home.aborted; attempt++) {
    try {
      await events(`/api/v1/messages/${encodeURIComponent(id)}/events`, { lastId: live.get().lastId, signal: home }, feed.take);
      feed.flush();
      if (isOver(live.get())) break;
      live.set((old) => ({ ...old, broken: old.broken + 1, waiting: true }));
    } catch (error) {
      feed.flush();
      if (isOver(live.get()) || home.aborted) break;
      if (error instanceof Problem && error.status !== 0 && error.status < 500 && error.status !== 429) {
        live.set((old) => ({ ...old, waiting: false, problem: say(error) }));
        break;
      }
      live.set((old) => ({ ...old, broken: old.broken + (old.waiting ? 0 : 1), waiting: true }));
    }
    await pause(Math.min(10_000, 500 * 2 ** Math.min(attempt, 5)));
  }
}

function ended({ answer, chat_id }: Live): void {
  if (answer) settle(answer);
  else touch();
  if (chat_id) tellTabs(chat_id);
}

// ---- asking ----

export interface Question {
  query: string;
  attachments: string[];
  sources?: string[];
  model?: string;
}

/** The type of a problem: the line broke, and it is not known whether the request arrived. */
const LOST = "connection-lost";
const isLost = (error: unknown): boolean => error instanceof Problem && error.type === LOST;

let lastDraft = 0;

const changeDraft = (key: number, change: Partial<Draft>) =>
  thread.set((old) => ({ ...old, drafts: old.drafts.map((one) => (one.key === key ? { ...one, ...change } : one)) }));

export const dropDraft = (key: number) => thread.set((old) => ({ ...old, drafts: old.drafts.filter((one) => one.key !== key) }));

/** The question is stored: messages take the place of the draft. */
async function stored(draft: Draft, live: Live): Promise<void> {
  const { chat_id, message_id } = live;
  if (!chat_id || !message_id) return;
  keep(message_id, draft.running);
  draftOf.set(message_id, draft.key);
  const shown = thread.get().drafts.some((one) => one.key === draft.key);
  if (shown && thread.get().chatId === null) {
    thread.set((old) => ({ ...old, chatId: chat_id }));
    navigate(`/chat/${chat_id}`, { replace: true });
  }
  refreshChats();
  tellTabs(chat_id);
  try {
    const read = await readMessages(chat_id);
    thread.set((old) => (old.chatId !== chat_id ? old : { ...old, messages: merge(old.messages, read), drafts: old.drafts.filter((one) => one.key !== draft.key) }));
    const { answer } = draft.running.get();
    if (answer) settle(answer); // it was faster
  } catch {
    // the draft goes on showing the answer; the next reload replaces it
  }
}

/** Whether a question whose line broke early has arrived after all: the id of its answer. */
async function findLost(chatId: string | null, { text: query, known }: Draft): Promise<{ chat_id: string; message_id: string } | null> {
  const chats = chatId ? [chatId] : (await get<{ chats: { chat_id: string }[] }>("/api/v1/chats?limit=3")).chats.map((one) => one.chat_id);
  for (const chat_id of chats) {
    const messages = await readMessages(chat_id);
    const asked = messages.filter((one) => one.role === "user").at(-1);
    const answer = messages.filter((one) => one.reply_to === asked?.message_id).at(-1);
    if (asked && answer && !known.has(asked.message_id) && asked.text === query) return { chat_id, message_id: answer.message_id };
  }
  return null;
}

/** Sends a request that streams an answer, and stays with it. */
async function stream(draft: Draft, path: string, body: unknown): Promise<void> {
  const live = draft.running;
  const feed = feeder(live);
  const home = shown.signal;
  const line = new AbortController();
  const mayStay = streams < STREAMS;
  if (mayStay) streams++;
  let began = false;
  const take = (event: AnswerEvent) => {
    feed.take(event);
    if (event.event === "chat" && !began) {
      began = true;
      feed.flush();
      followed.add(live.get().message_id ?? "");
      void stored(draft, live.get());
      stopIfAsked(draft);
      if (!mayStay || home.aborted) line.abort(); // it has arrived, and goes on without us
    }
  };
  const leave = () => began && line.abort();
  home.addEventListener("abort", leave);
  const chatId = thread.get().chatId;
  const mine = who(identity.get());
  try {
    await events(path, { method: "POST", signal: line.signal, ...(body === undefined ? {} : { json: body }) }, take);
    feed.flush();
  } catch (error) {
    feed.flush();
    if (!began && !(error instanceof Problem && error.status === 0)) {
      toStop.delete(draft.key);
      if (thread.get().drafts.some((one) => one.key === draft.key)) changeDraft(draft.key, { failed: say(error) });
      else if (who(identity.get()) === mine) toast(`“${draft.text.slice(0, 60)}${draft.text.length > 60 ? "…" : ""}” was not asked: ${say(error)}`, true);
      throw error;
    }
  } finally {
    home.removeEventListener("abort", leave);
    followed.delete(live.get().message_id ?? "");
    if (mayStay) giveStream();
  }
  if (isOver(live.get())) {
    ended(live.get());
    return;
  }
  if (began && home.aborted) return; // whoever shows the chat again follows it
  if (line.signal.aborted) {
    await follow(live.get().message_id!, live, home);
    return;
  }
  live.set((old) => ({ ...old, broken: old.broken + 1, waiting: true }));
  if (!began && draft.of) throw new Problem(0, LOST, "The connection broke. If the request arrived, the new answer appears here; if not, ask for it again.");
  if (!began && !(await lookFor(draft, chatId, mine))) {
    toStop.delete(draft.key);
    if (draft.edits && who(identity.get()) === mine) throw new Problem(0, LOST, "The connection broke before the changed question arrived. Change it again: what you wrote is still there.");
    return;
  }
  stopIfAsked(draft);
  await follow(live.get().message_id!, live, home);
}

async function lookFor(draft: Draft, chatId: string | null, asker: string): Promise<boolean> {
  for (;;) {
    await pause(2000);
    if (who(identity.get()) !== asker) return false; // whose chats these are is somebody else's now
    try {
      const found = await findLost(chatId, draft);
      if (!found) {
        changeDraft(draft.key, { failed: "The connection broke before the question arrived. Nothing was lost: send it again." });
        return false;
      }
      draft.running.set((old) => ({ ...old, ...found }));
      await stored(draft, draft.running.get());
      return true;
    } catch (error) {
      if (error instanceof Problem && error.status !== 0 && error.status < 500) {
        changeDraft(draft.key, { failed: say(error) });
        return false;
      }
    }
  }
}

function begin(text: string, attachments: string[], kind: Pick<Draft, "of" | "edits"> = {}): Draft {
  const known = new Set(thread.get().messages.map((one) => one.message_id));
  const draft: Draft = { key: ++lastDraft, text, attachments, failed: "", known, running: newRunning(), ...kind };
  thread.set((old) => ({ ...old, drafts: [...old.drafts, draft] }));
  return draft;
}

/** Asks in the chat that is shown, or in a new one. */
export async function ask(question: Question): Promise<void> {
  const { chatId } = thread.get();
  const draft = begin(question.query, question.attachments);
  noteChat(chatId);
  const body: Record<string, unknown> = { query: question.query };
  if (chatId) body.chat_id = chatId;
  if (question.attachments.length) body.attachments = question.attachments;
  if (question.sources) body.sources = question.sources;
  if (question.model) body.model = question.model;
  await stream(draft, "/api/v1/chat", body).catch(() => undefined);
}

/** Another question in the place of an earlier one; what followed it is replaced. */
export async function edit(message: Message, question: Question): Promise<void> {
  const { chatId, messages: before } = thread.get();
  const at = before.findIndex((one) => one.message_id === message.message_id);
  const draft = begin(question.query, question.attachments, { edits: true });
  if (at >= 0) thread.set((old) => ({ ...old, messages: old.messages.slice(0, at) }));
  const body: Record<string, unknown> = { query: question.query };
  if (question.model) body.model = question.model;
  if (question.attachments.length) body.attachments = question.attachments;
  if (question.sources) body.sources = question.sources;
  try {
    await stream(draft, `/api/v1/messages/${message.message_id}/edit`, body);
  } catch (error) {
    dropDraft(draft.key);
    thread.set((old) => (old.chatId === chatId ? { ...old, messages: before } : old));
    if (isLost(error) && thread.get().chatId === chatId) void reload();
    if (error instanceof Problem && error.status === 404 && error.type === "no-such-route")
      throw new Problem(404, error.type, "This version of the service cannot change a question that was asked. Ask it as a new one.");
    throw error;
  }
}

/** Another answer to the same question. */
export async function regenerate(message: Message, question: Message | undefined, model?: string): Promise<void> {
  const draft = begin(question?.text ?? "", [], question ? { of: question.message_id } : {});
  try {
    await stream(draft, `/api/v1/messages/${message.message_id}/regenerate`, model ? { model } : undefined);
  } catch (error) {
    dropDraft(draft.key);
    if (isLost(error)) void pause(2000).then(reload); // which follows the answer if there is one
    throw error;
  }
}

/** Drafts that are to be stopped as soon as their chat is known, by key. */
const toStop = new Set<number>();

const stopChat = async (chatId: string): Promise<number> => (await send<{ stopped: number }>("POST", `/api/v1/chats/${encodeURIComponent(chatId)}/stop`)).stopped;

function stopIfAsked(draft: Draft): void {
  const { chat_id } = draft.running.get();
  if (chat_id && toStop.delete(draft.key)) void attempt(() => stopChat(chat_id));
}

/** Stops the answers of the chat that is shown, also those of which the server has not told us yet: how many. */
export async function stop(): Promise<number> {
  const { chatId, drafts } = thread.get();
  const early = drafts.filter((one) => !one.failed && !one.running.get().chat_id && !isOver(one.running.get()));
  for (const one of early) toStop.add(one.key);
  return early.length + (chatId ? await stopChat(chatId) : 0);
}

export const setMessage = (id: string, change: Partial<Message>) =>
  thread.set((old) => ({ ...old, messages: old.messages.map((one) => (one.message_id === id ? { ...one, ...change } : one)) }));
