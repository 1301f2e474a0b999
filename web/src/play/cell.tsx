// One cell: its code or Markdown, what came out, and its receipt.
import type { EditorView } from "@codemirror/view";
import type { ComponentType } from "preact";
import { memo } from "preact/compat";
import { useEffect, useRef, useState } from "preact/hooks";

import { get, Problem, saveBlob, send } from "../api";
import { duration } from "../format";
import { store, useStore } from "../store";
import { AnsiText } from "../ui/ansi";
import { attempt, IconButton, Menu, Note, Spinner, useInterval } from "../ui/parts";
import { focusOn, focusWish, joinBelow, runCell, saveNow, split, step, stop } from "./actions";
import { addCell, cellStore, duplicate, mode, move, order, remove, selected, setKind, untouched, update } from "./book";
import { liveSession, noticeEnd, sessionPath } from "./box";
import type { CodeProps } from "./code";
import { useNear, useSeen } from "./near";
import type { Cell } from "./notebook";
import { Markdown, Outputs } from "./output";
import { ReceiptBar, type Reason } from "./receipt";
import { refusals, runs, startedAt, type RunState } from "./run";

let answered = 0; // the last wish for the focus that was fulfilled
let Code: ComponentType<CodeProps> | null = null;
const codeFailed = store(false);

/** CodeMirror, once it is loaded. */
export function useCode(wanted: boolean): ComponentType<CodeProps> | null {
  const [, draw] = useState(0);
  useEffect(() => {
    if (wanted && !Code)
      import("./code").then(
        (module) => {
          Code = module.default;
          codeFailed.set(false);
          draw((n) => n + 1);
        },
        () => codeFailed.set(true),
      );
  }, [wanted]);
  return wanted ? Code : null;
}

/** The text as it will be, while the editor is far away or not loaded. */
export const PlainCode = ({ text }: { text: string }) => <pre class="plain-code">{text || " "}</pre>;

function Running({ state }: { state: RunState }) {
  const since = useStore(startedAt);
  const [, draw] = useState(0);
  useInterval(() => draw((n) => n + 1), state === "queued" ? null : 500);
  if (state === "queued") return <p class="receipt"><span class="receipt-status">Waiting for its turn</span></p>;
  return (
    <p class="receipt">
      <span class="receipt-status"><Spinner label="Running" /> {state === "interrupting" ? "Interrupting" : "Running"} {duration(Math.max(0, Date.now() - since))}</span>
      <button type="button" class="link" onClick={stop}>{state === "interrupting" ? "Kill it" : "Interrupt"}</button>
    </p>
  );
}

/** All that was printed, page by page, as a file. */
async function downloadOutput(execution: string, name: "stdout" | "stderr"): Promise<void> {
  const parts: string[] = [];
  for (let offset = 0; ; ) {
    const page = await get<{ text: string; next: number; kept: number }>(`/v1/executions/${encodeURIComponent(execution)}/output?stream=${name}&offset=${offset}&limit=1048576`);
    parts.push(page.text);
    if (page.next <= offset || page.next >= page.kept) break;
    offset = page.next;
  }
  saveBlob(new Blob(parts, { type: "text/plain" }), `${name}.txt`);
}

interface Inspected {
  found: boolean;
  text: string;
  busy: boolean;
}

function CellTools({ cell, at, total, onEdit }: { cell: Cell; at: number; total: number; onEdit(): void }) {
  return (
    <div class="cell-tools">
      {cell.kind !== "code" && <IconButton icon="edit" label="Edit" onClick={onEdit} />}
      <IconButton icon="chevron" class="turn-up" label="Move up" disabled={at === 0} onClick={() => move(cell.id, -1)} />
      <IconButton icon="chevron" class="turn-down" label="Move down" disabled={at === total - 1} onClick={() => move(cell.id, 1)} />
      <IconButton icon="trash" label="Delete the cell" onClick={() => remove(cell.id)} />
      <Menu label="More about this cell" items={[
        { label: cell.kind === "code" ? "Change to Markdown" : "Change to code", icon: cell.kind === "code" ? "docs" : "code", run: () => setKind(cell.id, cell.kind === "code" ? "markdown" : "code") },
        { label: "Duplicate", icon: "copy", run: () => focusOn(duplicate(cell.id), "command") },
        { label: "Insert above", icon: "add", run: () => focusOn(addCell("above", cell.id), "edit") },
        { label: "Insert below", icon: "add", run: () => focusOn(addCell("below", cell.id), "edit") },
        { label: "Join with the cell below", disabled: at === total - 1, run: () => joinBelow(cell.id) },
        ...(cell.kind === "code" ? [{ label: "Clear the output", icon: "close" as const, disabled: !cell.outputs.length, run: () => update(cell.id, { outputs: [], receipt: null, count: null }) }] : []),
      ]} />
    </div>
  );
}

export const CellView = memo(function CellView({ id, onSetting }: { id: string; onSetting(setting: NonNullable<Reason["setting"]>): void }) {
  const from = cellStore(id);
  return from ? <Live id={id} onSetting={onSetting} /> : null;
});

function Live({ id, onSetting }: { id: string; onSetting(setting: NonNullable<Reason["setting"]>): void }) {
  const cell = useStore(cellStore(id)!);
  const isSelected = useStore(selected) === id;
  const editing = useStore(mode) === "edit" && isSelected;
  const run = useStore(runs)[id];
  const refusal = useStore(refusals)[id];
  const list = useStore(order);
  const at = list.indexOf(id);
  const root = useRef<HTMLElement>(null);
  const view = useRef<EditorView | null>(null);
  const near = useNear(root);
  const seen = useSeen(near);
  const drawn = cell.kind === "markdown" && !editing && cell.source.trim() !== "";
  const Editor = useCode((near || editing) && !drawn);
  const noEditor = useStore(codeFailed) && !Editor && !drawn;
  const [help, setHelp] = useState<string | null>(null);
  const wish = useStore(focusWish);

  const obey = () => {
    if (!wish || wish.id !== id || wish.n <= answered) return;
    if (wish.mode === "command") {
      answered = wish.n;
      root.current?.focus({ preventScroll: true });
      root.current?.scrollIntoView({ block: "nearest" });
    } else if (view.current) {
      answered = wish.n;
      view.current.focus();
      const place = wish.end ? view.current.state.doc.length : view.current.state.selection.main.head;
      view.current.dispatch({ selection: { anchor: place }, scrollIntoView: true });
    }
  };
  useEffect(obey, [wish, Editor]);

  const inspect = (code: string, cursor: number) => {
    const session = liveSession();
    if (!session) return setHelp("Run a cell first: help comes from the live box.");
    setHelp("…");
    send<Inspected>("POST", `${sessionPath(session.session_id)}/inspect`, { code, cursor }).then(
      (reply) => setHelp(reply.busy ? "The box is running a cell; try again when it is done." : reply.found ? reply.text : "Nothing is known about this."),
      (error: unknown) => {
        noticeEnd(error);
        setHelp(error instanceof Problem && error.type === "no-such-route" ? "This server cannot look things up." : error instanceof Error ? error.message : String(error));
      },
    );
  };

  const act: CodeProps["on"] = (what) => {
    if (what === "run") runCell(id, "stay");
    else if (what === "run-next") runCell(id, "next");
    else if (what === "run-below") runCell(id, "insert");
    else if (what === "leave") focusOn(id, "command");
    else if (what === "up") step(id, -1, "edit");
    else if (what === "down") step(id, 1, "edit");
    else if (what === "save") saveNow();
    else if (view.current) split(id, view.current.state.selection.main.head);
  };

  const name = `${cell.kind === "code" ? "Code" : cell.kind === "markdown" ? "Markdown" : "Plain"} cell ${at + 1}`;
  const execution = cell.receipt?.execution_id;
  return (
    <section
      ref={root} class={`cell cell-${cell.kind}${isSelected ? " selected" : ""}${editing ? " editing" : ""}${run ? " running" : ""}`}
      aria-label={name} aria-busy={Boolean(run)} tabIndex={isSelected ? 0 : -1} data-cell={id}
      onFocusCapture={() => selected.set(id)}
      onFocus={(event) => event.target === root.current && mode.set("command")}
      onMouseDown={(event) => {
        selected.set(id);
        if (event.target === root.current) mode.set("command");
      }}
    >
      <div class="cell-side">
        {cell.kind === "code" && (
          run === "running" || run === "interrupting"
            ? <IconButton icon="stop" class="run-button" label={run === "running" ? "Interrupt this cell" : "Kill this cell"} onClick={stop} />
            : <IconButton icon="play" class="run-button" label="Run this cell (Shift+Enter)" disabled={run === "queued" || !cell.source.trim()} onClick={() => runCell(id, "stay")} />
        )}
        {cell.kind === "code" && <span class="cell-count" title="Which run in this box it was">{run ? "[*]" : `[${cell.count ?? " "}]`}</span>}
      </div>
      <div class="cell-main">
        {drawn ? (
          <div class="cell-markdown" onDblClick={() => focusOn(id, "edit")}>{seen ? <Markdown text={cell.source} attachments={cell.attachments} /> : <PlainCode text={cell.source} />}</div>
        ) : (
          <div class="cell-input" onMouseDown={() => !Editor && focusOn(id, "edit")}>
            {Editor ? (
              <Editor
                value={cell.source} label={name} plain={cell.kind !== "code"} on={act} onInspect={inspect}
                onChange={(source) => {
                  if (untouched.get()) untouched.set(false);
                  update(id, { source });
                }}
                onFocus={() => {
                  selected.set(id);
                  mode.set("edit");
                }}
                onView={(made) => {
                  view.current = made;
                  if (made) obey();
                }}
              />
            ) : <PlainCode text={cell.source} />}
          </div>
        )}
        {noEditor && <Note bad>The editor could not be loaded. <button type="button" class="link" onClick={() => location.reload()}>Reload the page</button></Note>}
        {help !== null && (
          <div class="inspect" role="status">
            <IconButton icon="close" label="Close the help" onClick={() => setHelp(null)} />
            <AnsiText text={help} label="Help" />
          </div>
        )}
        {refusal && <p class="note bad" role="alert">{refusal}</p>}
        <Outputs outputs={cell.outputs} label={`Output of cell ${at + 1}`}
          onAll={execution ? (stream) => void attempt(() => downloadOutput(execution, stream)) : undefined} />
        {run ? <Running state={run} /> : cell.receipt && <ReceiptBar receipt={cell.receipt} onChange={onSetting} />}
      </div>
      <CellTools cell={cell} at={at} total={list.length} onEdit={() => focusOn(id, "edit")} />
    </section>
  );
}

/** A cell that cannot be changed: shared notebooks. */
export const StaticCell = memo(function StaticCell({ cell, at }: { cell: Cell; at: number }) {
  const root = useRef<HTMLElement>(null);
  const near = useNear(root);
  const seen = useSeen(near);
  const Editor = useCode(near && cell.kind === "code");
  return (
    <section ref={root} class={`cell cell-${cell.kind}`} aria-label={`Cell ${at + 1}`}>
      <div class="cell-side">{cell.kind === "code" && <span class="cell-count">[{cell.count ?? " "}]</span>}</div>
      <div class="cell-main">
        {cell.kind === "markdown" ? (
          <div class="cell-markdown">{seen ? <Markdown text={cell.source} attachments={cell.attachments} /> : <PlainCode text={cell.source} />}</div>
        ) : (
          <div class="cell-input">{Editor ? <Editor value={cell.source} label={`Code of cell ${at + 1}`} readOnly /> : <PlainCode text={cell.source} />}</div>
        )}
        <Outputs outputs={cell.outputs} label={`Output of cell ${at + 1}`} />
        {cell.receipt && <ReceiptBar receipt={cell.receipt} />}
      </div>
    </section>
  );
});

