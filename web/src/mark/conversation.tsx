// The messages of a chat as turns: a question, and its answers.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import { Problem, say } from "../api";
import { plural } from "../format";
import { useStore } from "../store";
import { Icon } from "../ui/icon";
import { copyText, IconButton, toast } from "../ui/parts";
import { AnswerView } from "./answer";
import { choices, handOver } from "./composer";
import { onOther } from "./data";
import { FileChip, addFiles } from "./files";
import { lead } from "./lead";
import { ask, draftOf, dropDraft, edit, type Draft, type Thread } from "./thread";
import type { Message } from "./types";

export interface Turn {
  key: string;
  question: Message | undefined;
  draft: Draft | undefined; // a question that is not stored yet
  answers: Message[];
  again: Draft[]; // further answers that are under way
}

export function turnsOf({ messages, drafts }: Pick<Thread, "messages" | "drafts">): Turn[] {
  const turns: Turn[] = [];
  const byQuestion = new Map<string, Turn>();
  for (const message of messages) {
    if (message.role === "user") {
      const turn: Turn = { key: message.message_id, question: message, draft: undefined, answers: [], again: [] };
      turns.push(turn);
      byQuestion.set(message.message_id, turn);
      continue;
    }
    const turn = byQuestion.get(message.reply_to ?? "") ?? turns.at(-1);
    if (turn) turn.answers.push(message);
    else turns.push({ key: message.message_id, question: undefined, draft: undefined, answers: [message], again: [] });
  }
  for (const turn of turns) {
    const draft = draftOf.get(turn.answers[0]?.message_id ?? "");
    if (draft !== undefined && turn.question) turn.key = `draft${draft}`;
  }
  for (const draft of drafts) {
    const turn = draft.of === undefined ? undefined : byQuestion.get(draft.of);
    if (turn) {
      const id = draft.running.get().message_id;
      if (!turn.answers.some((one) => one.message_id === id)) turn.again.push(draft);
    } else if (draft.of === undefined) turns.push({ key: `draft${draft.key}`, question: undefined, draft, answers: [], again: [] });
  }
  return turns;
}

/** Changed questions that did not arrive, by message. */
const unsent = new Map<string, string>();
onOther(() => unsent.clear());

function EditForm({ message, onClose }: { message: Message; onClose(): void }) {
  const [text, setText] = useState(unsent.get(message.message_id) ?? message.text ?? "");
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => area.current?.focus(), []);
  const submit = () => {
    if (!text.trim()) return;
    onClose();
    unsent.delete(message.message_id);
    edit(message, { query: text.trim(), attachments: message.attachments, ...choices() }).catch((problem: unknown) => {
      unsent.set(message.message_id, text);
      if (problem instanceof Problem && problem.type === "no-such-route") handOver(text);
      toast(say(problem), true);
    });
  };
  return (
    <form class="edit" onSubmit={(event) => { event.preventDefault(); submit(); }}>
      <h2 class="visually-hidden">Change the question</h2>
      <textarea ref={area} rows={3} aria-label="Question" value={text} onInput={(event) => { setText(event.currentTarget.value); }}
        onKeyDown={(event) => {
          if (event.key === "Escape") { onClose(); event.stopPropagation(); }
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); submit(); }
        }} />
      <div class="row end"><small class="grow">Answers from here on are replaced.</small><button type="button" onClick={onClose}>Cancel</button><button class="primary" disabled={!text.trim()}>Ask again</button></div>
    </form>
  );
}

function QuestionView({ message, draft }: { message: Message | undefined; draft: Draft | undefined }) {
  const [editing, setEditing] = useState(false);
  const [all, setAll] = useState(false);
  const text = message?.text ?? draft?.text ?? "";
  const files = message?.attachments ?? draft?.attachments ?? [];
  const long = text.length > 1500 && !all;
  if (editing && message) return <EditForm message={message} onClose={() => setEditing(false)} />;
  return (
    <div class="question">
      {files.length > 0 && <ul class="chips" aria-label="Files of this question">{files.map((id) => <FileChip key={id} id={id} />)}</ul>}
      <div class="question-row">
        {message && (
          <div class="question-tools">
            <IconButton icon="copy" label="Copy the question" onClick={() => void copyText(text)} />
            <IconButton icon="edit" label="Change the question" onClick={() => setEditing(true)} />
          </div>
        )}
        <h2 class="bubble">{long ? `${text.slice(0, 1500)}…` : text}{long && <button type="button" class="link" onClick={() => setAll(true)}>Show all</button>}</h2>
      </div>
      {draft?.failed && (
        <div class="note bad" role="alert">
          {draft.failed}{" "}
          <button type="button" class="link" onClick={() => { dropDraft(draft.key); void ask({ query: draft.text, attachments: draft.attachments, ...choices() }); }}>Send again</button>{" "}
          <button type="button" class="link" onClick={() => { dropDraft(draft.key); handOver(draft.text); }}>Change it</button>
        </div>
      )}
    </div>
  );
}

function TurnView({ turn, last }: { turn: Turn; last: boolean }) {
  const views = [
    ...turn.answers.map((message) => ({ key: draftOf.get(message.message_id) ?? message.message_id, message, live: undefined })),
    ...[...turn.again, ...(turn.draft && !turn.draft.failed ? [turn.draft] : [])].map((draft) => ({ key: draft.key, message: null, live: draft.running })),
  ];
  const [picked, setPicked] = useState<number | null>(null);
  const before = useRef(views.length);
  useEffect(() => {
    if (views.length > before.current) setPicked(null); // a new one is shown when it comes
    before.current = views.length;
  }, [views.length]);
  const wanted = useStore(lead);
  const led = wanted ? turn.answers.findIndex((one) => one.message_id === wanted.messageId) : -1;
  useEffect(() => {
    if (led >= 0) setPicked(led);
  }, [wanted?.turn]);
  const version = Math.min(picked ?? views.length - 1, views.length - 1);
  const view = views[version];
  return (
    <section class={last ? "turn last" : "turn"}>
      <QuestionView message={turn.question} draft={turn.draft} />
      {view && (
        <AnswerView key={view.key} message={view.message} live={view.live} question={turn.question} versions={views.length} version={version} onVersion={setPicked}
          onReply={(text) => void ask({ query: text, attachments: [], ...choices() })} />
      )}
    </section>
  );
}

const SHOWN = 15; // turns at first, and with each step up

export function Conversation({ thread }: { thread: Thread }) {
  const turns = useMemo(() => turnsOf(thread), [thread]);
  const [shown, setShown] = useState(SHOWN);
  const [below, setBelow] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const height = useRef(0);
  const asked = useRef("");
  const from = Math.max(0, turns.length - shown);
  const wanted = useStore(lead);
  useEffect(() => {
    const at = wanted ? turns.findIndex((turn) => turn.answers.some((one) => one.message_id === wanted.messageId)) : -1;
    if (at >= 0 && at < from) setShown(turns.length - at + 5); // it follows when it is drawn; not the first, which would bring in more and move it
  }, [wanted?.turn]);

  // The last question is at the top: of a chat that is opened, and when it was just asked, so that its answer grows below it.
  const lastTurn = turns.at(-1);
  const lastKey = lastTurn?.draft ? `draft ${lastTurn.draft.key}` : "";
  useLayoutEffect(() => {
    const element = box.current!;
    if (!lastKey || asked.current === lastKey) return;
    asked.current = lastKey;
    const target = element.querySelector(".turn.last") as HTMLElement | null;
    if (target) element.scrollTo({ top: target.offsetTop - 12, behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }, [lastKey]);
  const opened = useRef("");
  useLayoutEffect(() => {
    if (thread.loading || !thread.chatId || opened.current === thread.chatId || !turns.length) return;
    const fresh = opened.current === "" && asked.current !== "";
    opened.current = thread.chatId;
    const target = box.current!.querySelector(".turn.last") as HTMLElement | null;
    if (!fresh && target) box.current!.scrollTop = target.offsetTop - 12;
  }, [thread.loading, thread.chatId, turns.length]);

  // Earlier turns come when somebody scrolls up to them; what is in view stays where it is.
  useLayoutEffect(() => {
    const element = box.current!;
    if (height.current) element.scrollTop += element.scrollHeight - height.current;
    height.current = 0;
  }, [shown]);
  const earlier = () => {
    height.current = box.current!.scrollHeight;
    setShown((n) => n + SHOWN);
  };
  const scrolled = () => {
    const element = box.current!;
    setBelow(element.scrollHeight - element.scrollTop - element.clientHeight > 240);
    if (element.scrollTop < 200 && from > 0 && !height.current) earlier();
  };
  return (
    <div class="thread-box">
      <div class="thread" ref={box} onScroll={scrolled} tabIndex={0} role="region" aria-label="Conversation">
        <div class="thread-inner">
          {from > 0 && <button type="button" class="link earlier" onClick={earlier}>{plural(from, "earlier question")}</button>}
          {turns.slice(from).map((turn, i, list) => <TurnView key={turn.key} turn={turn} last={i === list.length - 1} />)}
        </div>
      </div>
      {below && <button type="button" class="to-end" aria-label="Go to the end" onClick={() => box.current!.scrollTo({ top: box.current!.scrollHeight, behavior: "smooth" })}><Icon name="chevron" size={18} /></button>}
    </div>
  );
}

/** Takes files that are dropped anywhere on the view. */
export function useDrop(): boolean {
  const [over, setOver] = useState(false);
  useEffect(() => {
    let depth = 0;
    const files = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
    const enter = (event: DragEvent) => { if (files(event)) { depth++; setOver(true); } };
    const leave = (event: DragEvent) => { if (files(event) && --depth <= 0) { depth = 0; setOver(false); } };
    const move = (event: DragEvent) => { if (files(event)) event.preventDefault(); };
    const drop = (event: DragEvent) => {
      depth = 0;
      setOver(false);
      if (!files(event)) return;
      event.preventDefault();
      addFiles([...(event.dataTransfer?.files ?? [])]);
    };
    const list: [string, (event: DragEvent) => void][] = [["dragenter", enter], ["dragleave", leave], ["dragover", move], ["drop", drop]];
    for (const [name, call] of list) window.addEventListener(name, call as EventListener);
    return () => { for (const [name, call] of list) window.removeEventListener(name, call as EventListener); };
  }, []);
  return over;
}

