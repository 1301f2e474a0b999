// Mark: the list of chats, the conversation, and where one writes.
import { useEffect, useRef, useState } from "preact/hooks";

import "../styles/mark.css";
import { SignIn } from "../account";
import { identity } from "../api";
import { navigate, usePlace } from "../router";
import { authState } from "../session";
import { useStore } from "../store";
import { Icon } from "../ui/icon";
import { attempt, Dialog, IconButton, Menu, Note, Spinner, toast } from "../ui/parts";
import { exportItems } from "./actions";
import { chatList } from "./chats";
import { Composer } from "./composer";
import { Conversation, useDrop } from "./conversation";
import { decoded, loadVerified, who } from "./data";
import { Empty } from "./empty";
import { isOver } from "./reduce";
import { removeChat, RenameDialog, Sidebar, slug } from "./sidebar";
import { ask, isPending, newChat, openChat, reload, stop, thread, type Thread } from "./thread";
import type { Chat } from "./types";

const KEYS: [string, string][] = [
  ["Enter", "Send the question"],
  ["Shift + Enter", "New line"],
  ["Esc", "Stop the answer"],
  ["/", "Search chats"],
  ["Ctrl + K", "New chat"],
  ["?", "This list"],
];

function Help({ onClose }: { onClose(): void }) {
  return (
    <Dialog title="Keys and help" onClose={onClose}>
      <table class="plain keys"><tbody>{KEYS.map(([key, does]) => <tr key={key}><th scope="row"><kbd>{key}</kbd></th><td>{does}</td></tr>)}</tbody></table>
      <h3>How to read an answer</h3>
      <p>A number with a <span class="num number computed sample-number">dotted line</span> was computed; click it to see the line of code that did. One with a <span class="num number unsupported">wavy line</span> was not: do not rely on it.</p>
      <p>“Recheck” runs the programs again, without the model, and compares. “What the model saw” shows every word that was sent to it.</p>
    </Dialog>
  );
}

/** Whether an answer of the chat that is shown is under way. */
function isBusy(now: Thread): boolean {
  if (now.drafts.some((one) => !one.failed && !isOver(one.running.get()))) return true;
  return now.messages.some(isPending);
}

function typing(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return Boolean(element?.closest?.("input, textarea, select, [contenteditable], .editor"));
}

function Head({ chat, title, onMenu }: { chat: Chat | undefined; title: string; onMenu(): void }) {
  const [renaming, setRenaming] = useState(false);
  return (
    <header class="thread-head">
      <IconButton icon="menu" label="Chats" class="only-narrow" onClick={onMenu} />
      <h1>{title}</h1>
      {chat && (
        <Menu label="More about this chat" items={[
          { label: "Rename", icon: "edit", run: () => setRenaming(true) },
          ...exportItems(`/api/v1/chats/${chat.chat_id}`, slug(chat.title)),
          { label: "Delete", icon: "trash", danger: true, run: () => void removeChat(chat, true) },
        ]} />
      )}
      <IconButton icon="add" label="New chat" class="only-narrow" onClick={newChat} />
      {renaming && chat && <RenameDialog chat={chat} onClose={() => setRenaming(false)} />}
    </header>
  );
}

function Mark() {
  const { path } = usePlace();
  const chatId = path.startsWith("/chat/") ? decoded(path.slice(6)) : null;
  const now = useStore(thread);
  const list = useStore(chatList);
  const [drawer, setDrawer] = useState(false);
  const [help, setHelp] = useState(false);
  const dropping = useDrop();
  const side = useRef<HTMLElement>(null);

  useEffect(() => void openChat(chatId), [chatId]);
  useEffect(() => void loadVerified(), []);
  useEffect(() => {
    const seen = () => document.visibilityState === "visible" && thread.get().chatId && !isBusy(thread.get()) && void reload();
    document.addEventListener("visibilitychange", seen);
    return () => document.removeEventListener("visibilitychange", seen);
  }, []);

  const stopNow = () => void attempt(async () => { if ((await stop()) === 0) toast("Nothing was under way"); });
  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      if (document.querySelector("dialog[open]")) return;
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        newChat();
        document.getElementById("composer")?.focus();
      } else if (event.key === "Escape" && !event.defaultPrevented && !event.isComposing) {
        if (drawer) setDrawer(false);
        else if (isBusy(thread.get())) stopNow();
      } else if (typing(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
      else if (event.key === "/") {
        event.preventDefault();
        if (getComputedStyle(side.current!).visibility === "hidden") setDrawer(true);
        setTimeout(() => document.getElementById("chat-search")?.focus(), 0);
      } else if (event.key === "?") setHelp(true);
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, [drawer]);

  const chat = list.chats.find((one) => one.chat_id === chatId);
  const empty = chatId === null && now.drafts.length === 0;
  const title = empty ? "New chat" : (chat?.title ?? now.messages.find((one) => one.role === "user")?.text?.slice(0, 80) ?? now.drafts[0]?.text.slice(0, 80) ?? "Chat");
  useEffect(() => {
    document.title = empty ? "Mark · Glovebox" : `${title} · Mark`;
  }, [title, empty]);
  const composer = <Composer chatId={chatId} busy={isBusy(now)} large={empty} onSend={(question) => void ask(question)} onStop={stopNow} />;
  return (
    <div class={drawer ? "mark drawer-open" : "mark"}>
      <aside class="side" ref={side} aria-label="Chats">
        <Sidebar chatId={chatId} onPick={() => setDrawer(false)} onHelp={() => setHelp(true)} />
      </aside>
      {drawer && <div class="backdrop" onClick={() => setDrawer(false)} aria-hidden="true" />}
      <div class={empty ? "main empty-main" : "main"}>
        {empty ? (
          <>
            <div class="narrow-head only-narrow"><IconButton icon="menu" label="Chats" onClick={() => setDrawer(true)} /></div>
            <div class="hero-box"><Empty />{composer}</div>
          </>
        ) : (
          <>
            <Head chat={now.gone ? undefined : chat ?? (chatId ? { chat_id: chatId, title, created: "", updated: "", model: null } : undefined)} title={title} onMenu={() => setDrawer(true)} />
            {now.gone ? (
              <div class="center"><div><Note bad>There is no such chat. It may have been deleted.</Note><button type="button" onClick={() => navigate("/")}>New chat</button></div></div>
            ) : now.loading ? (
              <div class="center"><Spinner /></div>
            ) : (
              <>
                {now.error && <Note bad>{now.error} <button type="button" class="link" onClick={() => void reload()}>Try again</button></Note>}
                <Conversation key={now.serial} thread={now} />
              </>
            )}
            {!now.gone && <div class="composer-box">{composer}</div>}
          </>
        )}
      </div>
      {dropping && <div class="drop" aria-hidden="true"><p><Icon name="paperclip" size={28} /> Drop files to attach them</p></div>}
      {help && <Help onClose={() => setHelp(false)} />}
    </div>
  );
}

export default function View() {
  const { tokens, key } = useStore(identity);
  const state = useStore(authState);
  if (!tokens && !key) return <SignIn why={state?.first ? undefined : "Mark answers questions about your data. Chats and files belong to an account."} />;
  return <Mark key={who({ tokens, key })} />; // nothing of one user is left on the screen of the next
}
