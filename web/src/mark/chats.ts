// The list of chats: pages of the server, as far as somebody has scrolled, or what a search found.
import { get, identity, isAbort, say, send } from "../api";
import { store } from "../store";
import { onOther, who } from "./data";
import type { Chat } from "./types";

export interface ChatList {
  chats: Chat[];
  next: string | null;
  q: string;
  loading: boolean;
  error: string;
  loaded: boolean;
}

const EMPTY: ChatList = { chats: [], next: null, q: "", loading: false, error: "", loaded: false };
const PAGE = 100;

export const chatList = store<ChatList>(EMPTY);

let turn: AbortController | null = null;
let soon: ReturnType<typeof setTimeout> | undefined;

onOther(() => {
  turn?.abort();
  clearTimeout(soon);
  chatList.set(EMPTY);
});

interface Page {
  chats: Chat[];
  next: string | null;
}

async function load(q: string, after: string | null, limit: number): Promise<void> {
  turn?.abort();
  const mine = (turn = new AbortController());
  chatList.set((old) => ({ ...old, q, loading: true }));
  const query = new URLSearchParams({ limit: String(Math.min(200, limit)) });
  if (q) query.set("q", q);
  if (after) query.set("after", after);
  try {
    const page = await get<Page>(`/api/v1/chats?${query}`, mine.signal);
    if (mine.signal.aborted) return;
    chatList.set((old) => {
      const known = after ? new Set(old.chats.map((one) => one.chat_id)) : new Set<string>();
      const chats = after ? [...old.chats, ...page.chats.filter((one) => !known.has(one.chat_id))] : page.chats;
      return { ...old, chats, next: page.next, loading: false, error: "", loaded: true };
    });
  } catch (error) {
    if (!isAbort(error) && !mine.signal.aborted) chatList.set((old) => ({ ...old, loading: false, error: say(error), loaded: true }));
  }
}

export function searchChats(q: string): void {
  void load(q.trim().slice(0, 200), null, PAGE);
}

export function moreChats(): void {
  const { next, loading, q } = chatList.get();
  if (next && !loading) void load(q, next, PAGE);
}

/** Reads the list again, as much of it as is shown; several calls in a row are one. */
export function refreshChats(): void {
  clearTimeout(soon);
  soon = setTimeout(() => void refresh(), 150);
}

/** The chats that changed are at the top, so the first page is enough; the rest stays as it was read. */
async function refresh(): Promise<void> {
  const before = chatList.get();
  if (!before.loaded || before.loading) return;
  if (before.q) {
    void load(before.q, null, Math.max(PAGE, before.chats.length));
    return;
  }
  const mine = who(identity.get());
  try {
    const page = await get<Page>(`/api/v1/chats?limit=${PAGE}`);
    chatList.set((old) => {
      if (old.q || !old.loaded || who(identity.get()) !== mine) return old; // of somebody else, who has signed out
      const fresh = new Set(page.chats.map((one) => one.chat_id));
      const last = page.chats.at(-1)?.updated;
      const rest = page.next && last ? old.chats.filter((one) => !fresh.has(one.chat_id) && one.updated <= last) : [];
      return { ...old, chats: [...page.chats, ...rest], next: rest.length ? old.next : page.next, error: "" };
    });
  } catch {
    // the list stays as it is; the banner tells that the server is away
  }
}

/** A chat is about to change: it moves to the top without a wait. */
export function noteChat(chatId: string | null): void {
  if (!chatId || chatList.get().q) return;
  chatList.set((old) => {
    const chat = old.chats.find((one) => one.chat_id === chatId);
    if (!chat) return old;
    return { ...old, chats: [{ ...chat, updated: new Date().toISOString() }, ...old.chats.filter((one) => one !== chat)] };
  });
}

export async function renameChat(chat: Chat, title: string): Promise<void> {
  const renamed = await send<Chat>("PATCH", `/api/v1/chats/${chat.chat_id}`, { title });
  chatList.set((old) => ({ ...old, chats: old.chats.map((one) => (one.chat_id === chat.chat_id ? { ...one, title: renamed.title } : one)) }));
}

export async function deleteChat(chat: Chat): Promise<void> {
  await send("DELETE", `/api/v1/chats/${chat.chat_id}`);
  chatList.set((old) => ({ ...old, chats: old.chats.filter((one) => one.chat_id !== chat.chat_id) }));
}

/** "Today", "Yesterday", "The last 7 days", "October 2026". */
export function dayOf(when: string, now = new Date()): string {
  const date = new Date(when);
  if (Number.isNaN(date.getTime())) return "Earlier";
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const days = Math.ceil((midnight - date.getTime()) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days <= 7) return "The last 7 days";
  return date.toLocaleDateString("en-GB", { month: "long", year: "numeric" });
}
