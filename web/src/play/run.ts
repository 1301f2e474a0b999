// Runs cells: one after the other, in the order they were asked for, in the box of the notebook.
//
// A run is started with "detach", so that its id is known at once; what it prints is then read as a stream of events.
// When the connection breaks, or the page is loaded again, the same stream is read again: the program goes on
// meanwhile. What comes in is drawn a few times a second, however much it is.
import { events, get, identity, isAbort, Problem, say, send, type ServerEvent } from "../api";
import { store, type Store } from "../store";
import { toast } from "../ui/parts";
import { changed, extra, getCell, order, untouched, update } from "./book";
import { box, cellTimeout, ensureBox, liveSession, look, lost, noticeEnd, sessionPath, type Session } from "./box";
import { appendError, appendStream, receiptOf, type Mime, type Output } from "./notebook";
import { owner } from "./storage";

export type RunState = "queued" | "running" | "interrupting";

/** The cells that are queued or running. */
export const runs = store<Record<string, RunState>>({});
/** Counts up after each run: panels look again. */
export const finished = store(0);
/** Why the last run could not even be started, by cell. */
export const refusals = store<Record<string, string>>({});
/** Since when the running cell runs (ms). */
export const startedAt = store(0);

let queue: string[] = [];
interface Run {
  cell: string;
  execution: string | null;
  abort: AbortController;
}

let current: Run | null = null;

function put(to: Store<Record<string, string>>, id: string, value: string | null): void {
  to.set((old) => {
    const { [id]: _gone, ...rest } = old;
    return value === null ? rest : { ...rest, [id]: value };
  });
}
const setRun = (id: string, value: RunState | null): void => put(runs as Store<Record<string, string>>, id, value);

export function runCells(ids: string[]): void {
  const wanted = ids.filter((id) => getCell(id)?.kind === "code" && getCell(id)!.source.trim() !== "" && !runs.get()[id]);
  if (!wanted.length) return;
  untouched.set(false);
  for (const id of wanted) {
    setRun(id, "queued");
    put(refusals, id, null);
  }
  queue.push(...wanted);
  void pump();
}

export const runAll = (): void => runCells(order.get());

function dropQueue(): void {
  for (const id of queue) setRun(id, null);
  queue = [];
}

async function pump(): Promise<void> {
  if (current) return;
  const id = queue.shift();
  if (id === undefined) return;
  if (!getCell(id)) {
    setRun(id, null);
    return pump();
  }
  const run: Run = { cell: id, execution: null, abort: new AbortController() };
  current = run;
  const good = await runOne(run).catch((error: unknown) => {
    if (!isAbort(error) && current === run) put(refusals, id, say(error));
    return false;
  });
  if (current !== run) return; // its notebook was closed
  current = null;
  setRun(id, null);
  finished.set((n) => n + 1);
  if (!good) dropQueue(); // what follows most likely needs what failed
  return pump();
}

/** Interrupted, or its notebook was closed. */
function stopIfAborted(run: Run): void {
  if (run.abort.signal.aborted) throw new DOMException("aborted", "AbortError");
}

async function runOne(run: Run): Promise<boolean> {
  const id = run.cell;
  const cell = getCell(id)!;
  setRun(id, "running");
  startedAt.set(Date.now());
  update(id, { outputs: [], receipt: null, count: null });
  const session = await ensureBox();
  stopIfAborted(run);
  const timeout = cellTimeout();
  let started: { execution_id: string };
  try {
    started = await send<{ execution_id: string }>("POST", `${sessionPath(session.session_id)}/execute`, {
      code: cell.source,
      detach: true,
      ...(timeout ? { timeout } : {}),
      ...(lost.get() !== null ? { accept_loss: true } : {}),
    });
  } catch (error) {
    if (current !== run) throw error; // the box of the notebook that is open now is another one
    if (noticeEnd(error)) {
      const state = box.get();
      throw new Problem(404, "ended", `${state.is === "ended" ? state.why : ""} This cell was not run.`.trim());
    }
    if (error instanceof Problem && error.type === "session-lost") {
      lost.set("The interpreter of this box ended. Its files are still there, its variables are not.");
      throw new Problem(409, "session-lost", "This cell was not run, because the variables it may need are gone. Run it again to go on without them, or run all cells.");
    }
    if (error instanceof Problem && error.type === "unreachable") throw new Problem(0, "unreachable", "The server cannot be reached. Run this cell again when it is back.");
    throw error;
  }
  if (run.abort.signal.aborted) await send("POST", `/v1/executions/${encodeURIComponent(started.execution_id)}/interrupt`).catch(() => undefined); // it may have ended
  stopIfAborted(run);
  lost.set(null);
  startedAt.set(Date.now());
  return follow(run, started.execution_id, session);
}

/** Follows cells that were running when the page was left. */
export function resumeRuns(): void {
  const state = box.get();
  if (current || state.is === "starting" || (state.is === "ended" && state.unsure)) return; // later, when the box is known
  for (const [id, execution] of Object.entries(extra.running)) {
    const session = liveSession();
    if (!getCell(id) || !session || current) {
      delete extra.running[id];
      continue;
    }
    const run: Run = { cell: id, execution, abort: new AbortController() };
    current = run;
    setRun(id, "running");
    startedAt.set(Date.now());
    update(id, { outputs: [], receipt: null });
    void follow(run, execution, session)
      .catch((error: unknown) => {
        if (!isAbort(error) && current === run) put(refusals, id, say(error));
      })
      .finally(() => {
        if (current !== run) return;
        current = null;
        setRun(id, null);
        finished.set((n) => n + 1);
        void pump();
      });
  }
}

// ---- one run ----

class Drawing {
  outputs: Output[] = [];
  private clearNext = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private pieces: { name: "stdout" | "stderr"; text: string; missing: number }[] = [];
  constructor(private readonly id: string) {}

  /** Joins what was printed since the last drawing; a program may print a line at a time, a million times. */
  private join(): void {
    let at = 0;
    while (at < this.pieces.length) {
      const { name } = this.pieces[at]!;
      const from = at;
      while (at < this.pieces.length && this.pieces[at]!.name === name) at++;
      const list = this.pieces.slice(from, at);
      this.outputs = appendStream(this.outputs, name, list.map((piece) => piece.text).join(""), list.reduce((sum, piece) => sum + piece.missing, 0));
    }
    this.pieces = [];
  }
  private soon(): void {
    this.timer ??= setTimeout(() => this.draw(), 80);
  }
  private clearIfAsked(): void {
    if (!this.clearNext) return;
    this.clearNext = false;
    this.pieces = [];
    this.outputs = [];
  }
  stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }
  draw(): void {
    this.stop();
    this.join();
    update(this.id, { outputs: this.outputs }, 3000);
  }
  print(name: "stdout" | "stderr", text: string, missing: number): void {
    this.clearIfAsked();
    this.pieces.push({ name, text, missing });
    this.soon();
  }
  clear(wait: boolean): void {
    this.clearNext = true;
    if (!wait) {
      this.clearIfAsked();
      this.soon();
    }
  }
  display(data: Mime, metadata: Mime): void {
    const { glovebox, ...rest } = metadata;
    const ours = (glovebox ?? {}) as { display_id?: unknown; update?: unknown; clear?: unknown };
    if (ours.clear === "now" || ours.clear === "wait") return this.clear(ours.clear === "wait");
    const name = typeof ours.display_id === "string" ? ours.display_id : undefined;
    this.join();
    if (ours.update && name) {
      this.replace(name, data, rest);
      this.soon();
      return;
    }
    this.clearIfAsked();
    this.outputs = [...this.outputs, { output_type: "display_data", data, metadata: rest, ...(name ? { display_id: name } : {}) }];
    this.soon();
  }
  /** An update concerns the display wherever it is, also in cells that ran before. */
  private replace(name: string, data: Mime, metadata: Mime): void {
    const swap = (list: Output[]): Output[] =>
      list.some((one) => one.output_type === "display_data" && one.display_id === name)
        ? list.map((one) => (one.output_type === "display_data" && one.display_id === name ? { ...one, data, metadata } : one))
        : list;
    this.outputs = swap(this.outputs);
    for (const id of order.get()) {
      const cell = getCell(id)!;
      if (id !== this.id && swap(cell.outputs) !== cell.outputs) update(id, { outputs: swap(cell.outputs) });
    }
  }
  result(data: Mime): void {
    this.join();
    this.clearIfAsked();
    if (this.outputs.some((one) => one.output_type === "execute_result")) return; // the stream was read again
    this.outputs = [...this.outputs, { output_type: "execute_result", data, metadata: {}, execution_count: null }];
    this.soon();
  }
  end(receipt: Record<string, unknown>): void {
    this.join();
    const error = receipt.error as { name: string; value: string; traceback: string } | null | undefined;
    if (error) this.outputs = appendError(this.outputs, error);
    const count = typeof receipt.execution_count === "number" ? receipt.execution_count : null;
    const metadata = (receipt.result_metadata as Mime | undefined) ?? {};
    this.outputs = this.outputs.map((one) => (one.output_type === "execute_result" ? { ...one, execution_count: count, metadata } : one));
    this.draw();
  }
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("aborted", "AbortError"));
    });
  });

async function follow(run: Run, execution: string, session: Session): Promise<boolean> {
  const id = run.cell;
  run.execution = execution;
  extra.running = { ...extra.running, [id]: execution };
  changed();
  const drawing = new Drawing(id);
  let receipt: Record<string, unknown> | null = null;
  let fault: string | null = null;
  let lastId: string | null = null;
  const take = (event: ServerEvent) => {
    lastId = event.id ?? lastId;
    const data = (event.data ?? {}) as Record<string, unknown>;
    if (event.event === "stdout" || event.event === "stderr") drawing.print(event.event, String(data.text ?? ""), typeof data.left_out === "number" ? data.left_out : 0);
    else if (event.event === "display") drawing.display((data.data ?? {}) as Mime, (data.metadata ?? {}) as Mime);
    else if (event.event === "result") drawing.result(data);
    else if (event.event === "receipt") receipt = data;
    else if (event.event === "fault") fault = String(data.detail ?? "The code could not be run.");
  };
  const path = `/v1/executions/${encodeURIComponent(execution)}`;
  try {
    for (let tries = 0; !receipt && fault === null; tries++) {
      try {
        await events(`${path}/events`, { signal: run.abort.signal, lastId }, take);
        if (!receipt && fault === null) await pause(300, run.abort.signal); // cut by something in between
      } catch (error) {
        if (isAbort(error)) throw error;
        if (error instanceof Problem && error.status === 404) {
          await get(sessionPath(session.session_id)).catch(noticeEnd);
          fault = "The server no longer knows this run: it was restarted, or the run ended too long ago. What was printed until then is above.";
        } else if (error instanceof Problem && error.status > 0 && error.status < 500 && error.status !== 429) fault = error.detail;
        else await pause(Math.min(5000, 500 * 2 ** Math.min(tries, 4)), run.abort.signal);
      }
    }
  } catch (error) {
    drawing.stop(); // the notebook was closed; it is followed again when the notebook is opened again
    throw error;
  }
  const { [id]: _done, ...rest } = extra.running;
  extra.running = rest;
  drawing.draw();
  if (!receipt) {
    put(refusals, id, fault);
    return false;
  }
  return finish(id, drawing, receipt, session);
}

function finish(id: string, drawing: Drawing, raw: Record<string, unknown>, session: Session): boolean {
  drawing.end(raw);
  const receipt = receiptOf({ ...raw, memory_limit: session.limits.memory, time_limit: cellTimeout() ?? session.limits.timeout });
  update(id, { receipt, count: typeof raw.execution_count === "number" ? raw.execution_count : null });
  if (receipt?.session_lost) lost.set("The interpreter of this box ended with this cell. Its files are still there, its variables are not.");
  if (receipt && receipt.status !== "ok") void look();
  return receipt?.status === "ok" && !receipt.session_lost;
}

// ---- stopping ----

/** The first call interrupts, as Ctrl-C does; the second kills. */
export async function interrupt(): Promise<void> {
  dropQueue();
  const run = current;
  if (!run) {
    // Something else may be running in the box: a run of another tab, or of a program.
    const live = liveSession();
    if (live) await send("POST", `${sessionPath(live.session_id)}/interrupt?all=true`);
    return;
  }
  if (!run.execution) {
    setRun(run.cell, "interrupting");
    run.abort.abort(); // it is interrupted as soon as it has an id, if it gets that far
    return;
  }
  setRun(run.cell, "interrupting");
  try {
    await send("POST", `/v1/executions/${encodeURIComponent(run.execution)}/interrupt`);
  } catch (error) {
    if (error instanceof Problem && error.type === "execution-ended") return;
    throw error;
  }
}

/** Forgets the runs of a notebook that is being closed; the programs go on in their box. */
export function detach(): void {
  dropQueue();
  const run = current;
  if (!run) return;
  current = null;
  setRun(run.cell, null);
  run.abort.abort();
}

let who = owner();
identity.watch(() => {
  if (owner() === who) return; // only new tokens
  who = owner();
  detach();
});

/** A new interpreter in the same box: the variables go, the files stay. */
export async function restart(): Promise<void> {
  const live = liveSession();
  dropQueue();
  if (!live) return;
  const path = sessionPath(live.session_id);
  try {
    if (current) {
      await interrupt();
      for (let i = 0; current && i < 20; i++) await new Promise((resolve) => setTimeout(resolve, 100));
      if (current) await interrupt();
    }
    await send("POST", `${path}/execute`, { code: "import os\nos._exit(0)", accept_loss: true, timeout: 10 });
    // This one takes the notice that the variables are gone; that is what was asked for.
    await send("POST", `${path}/execute`, { code: "", accept_loss: true }).catch(() => undefined);
    lost.set(null);
    toast("Restarted: variables are gone, files are still there");
  } catch (error) {
    if (!noticeEnd(error)) throw error;
  } finally {
    await look();
    finished.set((n) => n + 1);
  }
}
