// Where questions are written: text, files, data sources, the model.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { identity } from "../api";
import { plural } from "../format";
import { follow } from "../router";
import { store, useStore } from "../store";
import { Icon } from "../ui/icon";
import { IconButton } from "../ui/parts";
import { chatList } from "./chats";
import { chosenModel, loadModels, loadSources, models, onOther, sources } from "./data";
import { addFiles, PendingFiles, pendingFiles } from "./files";
import { thread, type Question } from "./thread";

/** What is written and not sent, for each chat; "" is the new one. */
const drafts = new Map<string, string>();

/** Text that another part of the view puts into the composer. */
export const handed = store<{ text: string; turn: number }>({ text: "", turn: 0 });
export const handOver = (text: string) => handed.set((old) => ({ text, turn: old.turn + 1 }));

/** Sources that the next questions may use; null: nobody chose, so those of the chat, or all. */
const chosenSources = store<string[] | null>(null);

let taken = 0; // the turn of `handed` that is in the composer already

onOther(() => {
  drafts.clear();
  taken = 0;
  handed.set({ text: "", turn: 0 });
  chosenSources.set(null);
});

function SourcePicker() {
  const list = useStore(sources);
  const chosen = useStore(chosenSources);
  const operator = useStore(identity).tokens?.user.role === "operator";
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    const outside = (event: Event) => !root.current?.contains(event.target as Node) && setOpen(false);
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);
  const usable = (list ?? []).filter((one) => one.usable);
  if (!usable.length) return operator && list ? <a class="quiet-link" href="/sources" onClick={follow}><Icon name="database" size={16} /> Add a data source</a> : null;
  const toggle = (name: string) => {
    const now = chosen ?? usable.map((one) => one.name);
    const next = now.includes(name) ? now.filter((one) => one !== name) : [...now, name];
    chosenSources.set(next);
  };
  const text = chosen === null || chosen.length >= usable.length ? (usable.length === 1 ? usable[0]!.name : `All ${usable.length} sources`) : chosen.length === 0 ? "No sources" : chosen.length === 1 ? chosen[0]! : plural(chosen.length, "source");
  return (
    <div class="picker" ref={root} onKeyDown={(event) => { if (event.key === "Escape" && open) { setOpen(false); event.stopPropagation(); } }}>
      <button type="button" class="quiet" aria-expanded={open} onClick={() => setOpen(!open)} title="Which data sources it may ask">
        <Icon name="database" size={16} /> <span>{text}</span>
      </button>
      {open && (
        <fieldset class="picker-list">
          <legend>Data sources that questions may use</legend>
          {usable.map((one) => (
            <label key={one.source_id} class="choice">
              <input type="checkbox" checked={chosen === null || chosen.includes(one.name)} onChange={() => toggle(one.name)} /> {one.name}
              <small>{plural(one.tables, "table")}</small>
            </label>
          ))}
        </fieldset>
      )}
    </div>
  );
}

function ModelPicker({ chatId }: { chatId: string | null }) {
  const used = useStore(chatList).chats.find((one) => one.chat_id === chatId)?.model;
  const known = useStore(models);
  const chosen = useStore(chosenModel);
  if (!known || known.models.length === 0) return null;
  if (known.models.length === 1) return <span class="model-name" title={`Model: ${known.models[0]!.model ?? known.models[0]!.name}`}>{known.models[0]!.name}</span>;
  const value = [chosen, used].find((name) => known.models.some((one) => one.name === name)) ?? known.default ?? known.models[0]!.name;
  return (
    <select class="quiet" aria-label="Model" value={value} onChange={(event) => chosenModel.set(event.currentTarget.value)}>
      {known.models.map((one) => <option key={one.name} value={one.name}>{one.name}{one.demo ? " (no language model)" : ""}</option>)}
    </select>
  );
}

/** The choices that go with every question. */
export function choices(): Pick<Question, "model" | "sources"> {
  const known = models.get()?.models ?? [];
  const model = chosenModel.get();
  const picked = chosenSources.get();
  const names = new Set((sources.get() ?? []).map((one) => one.name));
  return {
    ...(model && known.some((one) => one.name === model) ? { model } : {}),
    ...(picked ? { sources: picked.filter((one) => names.has(one)) } : {}),
  };
}

interface ComposerProps {
  chatId: string | null;
  busy: boolean; // an answer is under way
  large?: boolean;
  onSend(question: Question): void;
  onStop(): void;
}

const MOST = 64_000;

export function Composer({ chatId, busy, large, onSend, onStop }: ComposerProps) {
  const key = chatId ?? "";
  const [text, setText] = useState(drafts.get(key) ?? "");
  const files = useStore(pendingFiles);
  const area = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const given = useStore(handed);
  const known = useStore(models);
  useEffect(() => {
    void loadModels();
    void loadSources();
  }, []);
  const last = useRef(key);
  useEffect(() => {
    // A new chat has got its id: what was written meanwhile is for it.
    if (last.current === "" && key && thread.get().chatId === key && text) drafts.delete("");
    else setText(drafts.get(key) ?? "");
    last.current = key;
  }, [key]);
  useEffect(() => {
    if (given.turn === taken) return;
    taken = given.turn;
    if (!taken) return;
    setText(given.text);
    area.current?.focus();
  }, [given.turn]);
  useEffect(() => {
    if (text) drafts.set(key, text);
    else drafts.delete(key);
  }, [text, key]);
  useLayoutEffect(() => {
    const element = area.current!;
    element.style.height = "auto";
    element.style.height = `${Math.min(element.scrollHeight + 2, 260)}px`;
  }, [text]);
  useEffect(() => {
    if (matchMedia("(pointer: fine)").matches) area.current?.focus({ preventScroll: true });
  }, [key]);

  const uploading = files.some((one) => !one.id && !one.error);
  const noModel = known !== null && known.models.length === 0;
  const ready = text.trim() !== "" && !uploading && !noModel && text.length <= MOST;
  const submit = () => {
    if (!ready) return;
    const ids = files.flatMap((one) => (one.id ? [one.id] : []));
    pendingFiles.set([]);
    setText("");
    drafts.delete(key);
    onSend({ query: text.trim(), attachments: ids, ...choices() });
  };
  return (
    <form class={large ? "composer large" : "composer"} onSubmit={(event) => { event.preventDefault(); submit(); }}>
      {noModel && <p class="note warn">No model is connected, so nothing can be asked. The operator sets ANTHROPIC_API_KEY or OPENAI_API_KEY, or starts a local model, and restarts the service.</p>}
      <PendingFiles />
      <textarea ref={area} id="composer" rows={1} value={text} aria-label="Question" placeholder={busy ? "Ask the next question; it waits for this answer" : "Ask about your data"} enterkeyhint="send"
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            submit();
          }
        }}
        onPaste={(event) => {
          const pasted = [...(event.clipboardData?.files ?? [])];
          if (!pasted.length) return;
          event.preventDefault();
          addFiles(pasted);
        }} />
      <div class="composer-tools">
        <IconButton icon="paperclip" label="Attach files" onClick={() => picker.current?.click()} />
        <input ref={picker} type="file" multiple hidden aria-label="Files to attach" tabIndex={-1} onChange={(event) => {
          addFiles([...(event.currentTarget.files ?? [])]);
          event.currentTarget.value = "";
        }} />
        <SourcePicker />
        <span class="grow" />
        <ModelPicker chatId={chatId} />
        {busy && <button type="button" class="stop" onClick={onStop} aria-label="Stop the answer" title="Stop the answer (Esc)"><Icon name="stop" size={16} /></button>}
        {(!busy || text.trim() !== "") && (
          <button class="primary send" disabled={!ready} aria-label="Send" title={uploading ? "Files are still being uploaded" : "Send (Enter)"}><Icon name="send" size={18} /></button>
        )}
      </div>
      {text.length > MOST && <p class="note bad">This is too long: {text.length - MOST} characters more than a question may have. Attach it as a file.</p>}
    </form>
  );
}
