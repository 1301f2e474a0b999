// CodeMirror in a shadow root: its styles become constructed style sheets there, which the page's policy allows,
// while in the document it would make style elements. Load it with import(): it is the largest part of the shell.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionSource } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { sql } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState, Prec, type Extension } from "@codemirror/state";
import { Decoration, drawSelection, EditorView, highlightSpecialChars, keymap, lineNumbers, placeholder as placeholderOf } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword], color: "var(--hl-keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--hl-string)" },
  { tag: tags.comment, color: "var(--hl-comment)", fontStyle: "italic" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--hl-number)" },
  { tag: [tags.function(tags.variableName), tags.definition(tags.variableName)], color: "var(--hl-function)" },
  { tag: [tags.className, tags.typeName], color: "var(--hl-class)" },
  { tag: tags.meta, color: "var(--hl-meta)" },
]);

/** Replaces the selection ourselves: the browser would keep its colour in a style attribute, which the policy forbids. */
const replaceSelected = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { from, to, empty } = view.state.selection.main;
    if (event.inputType !== "insertText" || !event.data || empty || view.composing || view.state.readOnly) return false;
    const text = event.data;
    const insert = () => view.state.update({ ...view.state.replaceSelection(text), userEvent: "input.type", scrollIntoView: true });
    if (!view.state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, text, insert))) view.dispatch(insert());
    return true; // and the browser does nothing
  },
});

const look = EditorView.theme({
  "&": { backgroundColor: "transparent", color: "var(--text)", fontSize: "13px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--accent)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--accent)" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--soft)", border: "none", minWidth: "2.6em" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--select) !important" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "6px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-placeholder": { color: "var(--soft)" },
  ".cm-marked": { backgroundColor: "var(--mark)" },
});

export interface EditorProps {
  value: string;
  label: string;
  language?: "python" | "sql" | "text";
  readOnly?: boolean;
  numbers?: boolean;
  /** 1-based line to mark and scroll to. */
  line?: number | null;
  placeholder?: string;
  autofocus?: boolean;
  complete?: CompletionSource;
  keys?: { key: string; run: () => boolean }[];
  onChange?(value: string): void;
  onFocus?(): void;
  /** For callers that move the focus or the caret. */
  onView?(view: EditorView | null): void;
}

export default function Editor(props: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const marked = useRef(new Compartment());
  // What was typed and told, and has not come back as `value` yet. Without this, an echo that arrives after the next
  // keystroke would take that keystroke back, and then the two would replace each other forever.
  const told = useRef<string[]>([]);
  const applying = useRef(false);

  const markOf = (line: number | null | undefined, state: EditorState): Extension => {
    if (!line || line < 1 || line > state.doc.lines) return [];
    return EditorView.decorations.of(Decoration.set([Decoration.line({ class: "cm-marked" }).range(state.doc.line(line).from)]));
  };

  useEffect(() => {
    const root = host.current!.shadowRoot ?? host.current!.attachShadow({ mode: "open" });
    root.replaceChildren();
    const extensions: Extension[] = [
      highlightSpecialChars(),
      history(),
      replaceSelected,
      drawSelection(),
      indentOnInput(),
      bracketMatching(),
      closeBrackets(),
      indentUnit.of("    "),
      props.language === "sql" ? sql() : props.language === "text" ? [] : python(),
      syntaxHighlighting(colours),
      look,
      EditorView.lineWrapping,
      EditorView.contentAttributes.of(() => ({ "aria-label": latest.current.label })),
      marked.current.of([]),
      Prec.highest(keymap.of((props.keys ?? []).map((one, i) => ({ key: one.key, run: () => latest.current.keys?.[i]?.run() ?? false })))),
      keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap, indentWithTab]),
      EditorView.updateListener.of((update) => {
        if (update.docChanged && !applying.current) {
          const text = update.state.doc.toString();
          told.current = [...told.current.slice(-49), text];
          latest.current.onChange?.(text);
        }
        if (update.focusChanged && update.view.hasFocus) latest.current.onFocus?.();
      }),
    ];
    if (props.numbers) extensions.push(lineNumbers());
    if (props.placeholder) extensions.push(placeholderOf(props.placeholder));
    if (props.readOnly) extensions.push(EditorState.readOnly.of(true));
    if (props.complete) extensions.push(autocompletion({ override: [(context) => latest.current.complete!(context)], activateOnTyping: true, maxRenderedOptions: 60 }));
    const made = new EditorView({ parent: root, root, state: EditorState.create({ doc: props.value, extensions }) });
    view.current = made;
    latest.current.onView?.(made);
    if (props.autofocus) made.focus();
    return () => {
      latest.current.onView?.(null);
      made.destroy();
      view.current = null;
    };
  }, [props.language, props.readOnly, Boolean(props.complete)]);

  // A cell that moves has another name; its editor stays the same, with the caret and what can be undone.
  useEffect(() => view.current?.dispatch({}), [props.label]);

  useEffect(() => {
    const made = view.current;
    const echo = told.current.lastIndexOf(props.value);
    told.current = echo < 0 ? [] : told.current.slice(echo + 1);
    if (!made || echo >= 0 || made.state.doc.toString() === props.value) return;
    applying.current = true;
    made.dispatch({ changes: { from: 0, to: made.state.doc.length, insert: props.value } });
    applying.current = false;
  }, [props.value]);

  useEffect(() => {
    const made = view.current;
    if (!made) return;
    made.dispatch({ effects: marked.current.reconfigure(markOf(props.line, made.state)) });
    if (props.line && props.line >= 1 && props.line <= made.state.doc.lines)
      made.dispatch({ effects: EditorView.scrollIntoView(made.state.doc.line(props.line).from, { y: "center" }) });
  }, [props.line, props.value]);

  return <div class="editor" ref={host} />;
}
