// The editor of a cell: keys of notebooks, and completion from the live session. Loaded when a notebook is shown.
import { acceptCompletion, closeCompletion, completionStatus, startCompletion, type Completion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { globalCompletion, localCompletionSource } from "@codemirror/lang-python";
import type { EditorView } from "@codemirror/view";
import { useRef } from "preact/hooks";

import { Problem, send } from "../api";
import Editor from "../ui/editor";
import { liveSession, noticeEnd, sessionPath } from "./box";

interface Matches {
  matches: { text: string; type: string | null }[];
  start: number;
  end: number;
  busy: boolean;
}

let unsupported = false; // a server without the route

const TYPES: Record<string, string> = { function: "function", class: "class", module: "namespace", keyword: "keyword", param: "variable", statement: "variable", instance: "variable", property: "property", method: "method", path: "text", magic: "keyword" };

/** Where Tab completes: after a name, a dot, a magic, and in a key or a path. Elsewhere it indents. */
const completesAfter = (line: string): boolean => /[\w.%]$|[\w\])]\[$/.test(line) || (line.match(/["']/g) ?? []).length % 2 === 1;

/** A place in code points, as the server counts, as a place in UTF-16 units, and back. */
const unitsOf = (text: string, points: number): number => Array.from(text).slice(0, points).join("").length;
const pointsOf = (text: string): number => Array.from(text).length;

async function fromSession(context: CompletionContext): Promise<CompletionResult | null> {
  const session = liveSession();
  if (!session || unsupported) return null;
  const code = context.state.doc.toString();
  if (code.length > 200_000) return null;
  const abort = new AbortController();
  context.addEventListener("abort", () => abort.abort());
  try {
    const reply = await send<Matches>("POST", `${sessionPath(session.session_id)}/complete`, { code, cursor: pointsOf(code.slice(0, context.pos)) }, abort.signal);
    if (reply.busy || !Array.isArray(reply.matches) || !reply.matches.length) return null;
    const options: Completion[] = reply.matches.slice(0, 500).map((one, i) => ({
      label: String(one.text), ...(one.type && Object.hasOwn(TYPES, one.type) ? { type: TYPES[one.type]! } : {}), boost: -i / 10,
    }));
    return { from: unitsOf(code, reply.start), to: unitsOf(code, reply.end), options, validFor: /^\w*$/ };
  } catch (error) {
    if (error instanceof Problem && (error.type === "no-such-route" || error.status === 405)) unsupported = true;
    else noticeEnd(error);
    return null;
  }
}

/** Without a session, or while it runs something, what the text itself has. */
async function complete(context: CompletionContext): Promise<CompletionResult | null> {
  const word = context.matchBefore(/[\w.%]+$/);
  if (!context.explicit && (!word || /^[\d.]+$/.test(word.text))) return null;
  const live = await fromSession(context);
  if (live || context.aborted) return live;
  return (await localCompletionSource(context)) ?? (await globalCompletion(context));
}

export interface CodeProps {
  value: string;
  label: string;
  readOnly?: boolean;
  plain?: boolean; // Markdown
  onChange?(value: string): void;
  onFocus?(): void;
  onView?(view: EditorView | null): void;
  /** What the keys do; see the dialog of keys. */
  on?(what: "run" | "run-next" | "run-below" | "leave" | "up" | "down" | "save" | "split"): void;
  onInspect?(code: string, cursor: number): void;
}

export default function Code({ value, label, readOnly, plain, onChange, onFocus, onView, on, onInspect }: CodeProps) {
  const view = useRef<EditorView | null>(null);
  const act = (what: Parameters<NonNullable<CodeProps["on"]>>[0]) => () => {
    if (view.current) closeCompletion(view.current);
    on?.(what);
    return true;
  };
  /** An answer may come when the cell was left or run already. */
  const offer = async (context: CompletionContext): Promise<CompletionResult | null> => {
    const result = await complete(context);
    if (!view.current?.hasFocus || !result) return null;
    const typed = context.state.sliceDoc(result.from, context.pos);
    return result.options.every((one) => one.label === typed) ? null : result;
  };
  const edge = (end: boolean, what: "up" | "down") => () => {
    const at = view.current?.state.selection.main;
    if (!at || !at.empty || completionStatus(view.current!.state)) return false;
    const { doc } = view.current!.state;
    if (doc.lineAt(at.head).number !== (end ? doc.lines : 1)) return false;
    on?.(what);
    return true;
  };
  const before = (): string => {
    const { state } = view.current!;
    const at = state.selection.main.head;
    return state.doc.sliceString(state.doc.lineAt(at).from, at);
  };
  return (
    <Editor
      value={value}
      label={label}
      readOnly={readOnly ?? false}
      language={plain ? "text" : "python"}
      onView={(made) => {
        view.current = made;
        onView?.(made);
      }}
      {...(onChange ? { onChange } : {})}
      {...(onFocus ? { onFocus } : {})}
      {...(plain || readOnly ? {} : { complete: offer as never })}
      keys={readOnly ? [] : [
        { key: "Shift-Enter", run: act("run-next") },
        { key: "Mod-Enter", run: act("run") },
        { key: "Ctrl-Enter", run: act("run") },
        { key: "Alt-Enter", run: act("run-below") },
        { key: "Mod-s", run: act("save") },
        { key: "Ctrl-Shift--", run: act("split") },
        { key: "Escape", run: () => {
          // One that is only being looked for is not seen, so it does not take the key.
          if (!view.current || completionStatus(view.current.state) === "active") return false;
          on?.("leave");
          return true;
        } },
        { key: "ArrowUp", run: edge(false, "up") },
        { key: "ArrowDown", run: edge(true, "down") },
        { key: "Tab", run: () => {
          if (!view.current || plain) return false;
          if (completionStatus(view.current.state) === "active") return acceptCompletion(view.current);
          if (!view.current.state.selection.main.empty || !completesAfter(before())) return false;
          return startCompletion(view.current);
        } },
        { key: "Shift-Tab", run: () => {
          if (plain || !onInspect || !view.current?.state.selection.main.empty || !before().trim()) return false;
          const { state } = view.current;
          const code = state.doc.toString();
          onInspect(code, pointsOf(code.slice(0, state.selection.main.head)));
          return true;
        } },
      ]}
    />
  );
}
