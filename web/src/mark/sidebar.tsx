// The list of chats. Rows have fixed heights, and only those near the screen are drawn.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { follow, navigate } from "../router";
import { useStore } from "../store";
import { Icon } from "../ui/icon";
import { lazy } from "../ui/lazy";
import { attempt, confirmed, Dialog, Field, Menu, Note, Spinner } from "../ui/parts";
import { exportItems } from "./actions";
import { chatList, dayOf, deleteChat, moreChats, renameChat, searchChats } from "./chats";
import { newChat, tellTabs } from "./thread";
import type { Chat } from "./types";

const VerifiedDialog = lazy<{ onClose(): void }>(() => import("./verified"));

const ROW = 38;
const HEAD = 34;
const BEYOND = 300; // pixels drawn above and below what is visible

type Item = { top: number; height: number } & ({ kind: "head"; label: string } | { kind: "chat"; chat: Chat });

function layout(chats: Chat[]): { items: Item[]; height: number } {
  const items: Item[] = [];
  let top = 0;
  let day = "";
  for (const chat of chats) {
    const label = dayOf(chat.updated);
    if (label !== day) {
      items.push({ kind: "head", label, top, height: HEAD });
      top += HEAD;
      day = label;
    }
    items.push({ kind: "chat", chat, top, height: ROW });
    top += ROW;
  }
  return { items, height: top };
}

export const slug = (title: string): string => title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").toLowerCase().slice(0, 60) || "chat";

export async function removeChat(chat: Chat, current: boolean): Promise<void> {
  if (!(await confirmed("Delete this chat?", `“${chat.title}”, its answers and its traces are deleted. Attached files stay.`, "Delete"))) return;
  await attempt(async () => {
    await deleteChat(chat);
    tellTabs(chat.chat_id);
    if (current) navigate("/");
  });
}

export function RenameDialog({ chat, onClose }: { chat: Chat; onClose(): void }) {
  const [title, setTitle] = useState(chat.title);
  return (
    <Dialog title="Rename the chat" onClose={onClose}>
      <form onSubmit={(event) => {
        event.preventDefault();
        void attempt(async () => {
          await renameChat(chat, title.trim());
          tellTabs(chat.chat_id);
          onClose();
        });
      }}>
        <Field label="Title">{(id) => <input id={id} required maxLength={80} value={title} autofocus onInput={(event) => setTitle(event.currentTarget.value)} />}</Field>
        <div class="row end"><button type="button" onClick={onClose}>Cancel</button><button class="primary" disabled={!title.trim()}>Rename</button></div>
      </form>
    </Dialog>
  );
}

interface SidebarProps {
  chatId: string | null;
  onPick(): void;
  onHelp(): void;
}

export function Sidebar({ chatId, onPick, onHelp }: SidebarProps) {
  const list = useStore(chatList);
  const [q, setQ] = useState(list.q);
  const [top, setTop] = useState(0);
  const [view, setView] = useState(600);
  const [renaming, setRenaming] = useState<Chat | null>(null);
  const [proofs, setProofs] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const { items, height } = useMemo(() => layout(list.chats), [list.chats]);
  useEffect(() => {
    const timer = setTimeout(() => (q.trim() !== chatList.get().q || !chatList.get().loaded) && searchChats(q), chatList.get().loaded ? 250 : 0);
    return () => clearTimeout(timer);
  }, [q]);
  useLayoutEffect(() => {
    const watcher = new ResizeObserver(() => setView(box.current?.clientHeight ?? 600));
    watcher.observe(box.current!);
    return () => watcher.disconnect();
  }, []);
  useEffect(() => {
    if (list.next && top + view + 400 > height) moreChats();
  }, [top, view, height, list.next]);
  const shown = items.filter((item) => item.top + item.height > top - BEYOND && item.top < top + view + BEYOND);
  return (
    <>
      <div class="side-top">
        <button type="button" class="new-chat" onClick={() => { newChat(); onPick(); }} title="New chat (Ctrl+K)"><Icon name="add" size={17} /> New chat</button>
        <label class="search">
          <Icon name="search" size={16} />
          <input id="chat-search" type="search" placeholder="Search" aria-label="Search chats" value={q} maxLength={200} onInput={(event) => setQ(event.currentTarget.value)}
            onKeyDown={(event) => { if (event.key === "Escape") { setQ(""); event.currentTarget.blur(); event.stopPropagation(); } }} />
        </label>
      </div>
      <nav class="chats" ref={box} aria-label="Chats" onScroll={() => setTop(box.current!.scrollTop)}>
        {list.error && <Note bad>{list.error}</Note>}
        {!list.loaded && !list.error && <div class="center"><Spinner /></div>}
        {list.loaded && !list.chats.length && !list.error && <p class="empty">{list.q ? "No chat has this in it" : "Your chats will be here"}</p>}
        <div class="chats-all" style={{ height: `${height}px` }}>
          {shown.map((item) =>
            item.kind === "head" ? (
              <p key={`h${item.label}`} class="day" style={{ transform: `translateY(${item.top}px)` }}>{item.label}</p>
            ) : (
              <div key={item.chat.chat_id} class="chat-row" style={{ top: `${item.top}px` }}>
                <a href={`/chat/${item.chat.chat_id}`} aria-current={item.chat.chat_id === chatId ? "page" : undefined} title={item.chat.title}
                  onClick={(event) => { follow(event); onPick(); }}>{item.chat.title}</a>
                <Menu label={`More about ${item.chat.title}`} items={[
                  { label: "Rename", icon: "edit", run: () => setRenaming(item.chat) },
                  ...exportItems(`/api/v1/chats/${item.chat.chat_id}`, slug(item.chat.title)).slice(0, 2),
                  { label: "Delete", icon: "trash", danger: true, run: () => void removeChat(item.chat, item.chat.chat_id === chatId) },
                ]} />
              </div>
            ),
          )}
        </div>
        {list.loading && list.loaded && list.next && <div class="center"><Spinner /></div>}
      </nav>
      <div class="side-foot">
        <button type="button" class="quiet" onClick={() => setProofs(true)}><Icon name="check" size={16} /> Verified answers</button>
        <button type="button" class="quiet" onClick={onHelp} title="Keys and help (?)" aria-label="Keys and help">?</button>
      </div>
      {proofs && <VerifiedDialog onClose={() => setProofs(false)} />}
      {renaming && <RenameDialog chat={renaming} onClose={() => setRenaming(null)} />}
    </>
  );
}
