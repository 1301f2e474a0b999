// The open notebook. Each cell is a store of its own, so that a keystroke or a line of output draws one cell and
// not two hundred. There is one notebook a page; runs go on while another view is shown.
import { store, type Store } from "../store";
import { toast } from "../ui/parts";
import { newCell, newId, type Cell, type CellKind, type Mime, type Notebook } from "./notebook";
import { keepUnsaved, owner, saveStored, type Stored } from "./storage";

export interface Head {
  id: string;
  title: string;
  metadata: Mime;
}

export const head = store<Head>({ id: newId(), title: "Untitled", metadata: {} });
export const order = store<string[]>([]);
export const selected = store<string | null>(null);
export const mode = store<"command" | "edit">("command");
export const saved = store<"saved" | "saving" | "failed">("saved");
/** The cell of the last deletion, for "undo". */
export const deleted = store<{ cell: Cell; at: number }[]>([]);
/** Nobody has changed anything yet: the introduction is shown. */
export const untouched = store(true);

const cells = new Map<string, Store<Cell>>();
let revision = 0;
/** Set by run.ts and box.ts, which know these. */
export const extra = { session: null as string | null, running: {} as Record<string, string> };

export const cellStore = (id: string): Store<Cell> | undefined => cells.get(id);
export const getCell = (id: string): Cell | undefined => cells.get(id)?.get();
export const allCells = (): Cell[] => order.get().map((id) => cells.get(id)!.get());
export const notebook = (): Notebook => ({ title: head.get().title, metadata: head.get().metadata, cells: allCells() });

// ---- saving ----

let timer: ReturnType<typeof setTimeout> | undefined;
let saving: Promise<void> = Promise.resolve();
let dirty = false;
let cost = 0; // ms that the last one took
/** Whose notebook this is. Not asked when it is stored: by then somebody else may have signed in. */
let mine = owner();

function snapshot(): Stored {
  const { id, title, metadata } = head.get();
  return { id, owner: mine, title, metadata, updated: Date.now(), revision, session: extra.session, cells: allCells(), running: extra.running };
}

/** Stores soon; called after every change. A program that prints changes all the time: then `delay` is longer. */
export function changed(delay = 400): void {
  dirty = true;
  saved.set("saving");
  timer ??= setTimeout(() => void save(), Math.max(delay, 10 * cost)); // a large notebook is stored less often
}

export function save(): Promise<void> {
  clearTimeout(timer);
  timer = undefined;
  saving = saving.then(async () => {
    if (!dirty) return;
    dirty = false;
    const from = performance.now();
    try {
      if (!(await saveStored(snapshot()))) {
        // Another tab has changed this notebook. Nobody's work is lost if this one goes on as a copy.
        head.set((old) => ({ ...old, id: newId(), title: `${old.title} (copy)` }));
        revision = 0;
        toast("This notebook was changed in another tab. Here it goes on as a copy.");
        await saveStored(snapshot());
      }
      revision++;
      cost = performance.now() - from;
      if (!dirty) saved.set("saved");
    } catch {
      saved.set("failed");
    }
  });
  return saving;
}

window.addEventListener("pagehide", () => {
  if (saved.get() !== "saved") keepUnsaved(snapshot()); // a save that is under way may not end any more
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "hidden" && dirty) void save();
});

// ---- opening ----

/** Stores all of the notebook that is about to be closed; a save that is under way must not meet the next one. */
async function settled(): Promise<void> {
  do await save();
  while (dirty);
}

function fill(list: Cell[]): void {
  cells.clear();
  for (const cell of list) cells.set(cell.id, store(cell));
  order.set(list.map((cell) => cell.id));
  selected.set(list[0]?.id ?? null);
  mode.set("command");
  deleted.set([]);
}

export async function openStored(one: Stored): Promise<void> {
  await settled();
  mine = one.owner;
  revision = one.revision;
  extra.session = one.session;
  extra.running = one.running ?? {};
  untouched.set(false);
  head.set({ id: one.id, title: one.title, metadata: one.metadata });
  fill(one.cells.length ? one.cells : [newCell()]);
  saved.set("saved");
}

/** A notebook from a file or a share, as a new one of this browser. */
export async function openNotebook(one: Notebook): Promise<void> {
  const who = owner();
  await settled();
  mine = who;
  revision = 0;
  extra.session = null;
  extra.running = {};
  untouched.set(false);
  head.set({ id: newId(), title: one.title, metadata: one.metadata });
  fill(one.cells);
  changed();
}

export async function openNew(example: string): Promise<void> {
  const who = owner();
  await settled();
  mine = who;
  revision = 0;
  extra.session = null;
  extra.running = {};
  head.set({ id: newId(), title: "Untitled", metadata: {} });
  fill([newCell("code", example)]);
  untouched.set(true);
  saved.set("saved");
}

// ---- changing ----

export function update(id: string, change: Partial<Cell>, delay?: number): void {
  const one = cells.get(id);
  if (!one) return;
  one.set((old) => ({ ...old, ...change }));
  changed(delay);
}

export function setTitle(title: string): void {
  head.set((old) => ({ ...old, title: title.slice(0, 120) }));
  untouched.set(false);
  changed();
}

export function insert(cell: Cell, at: number): string {
  cells.set(cell.id, store(cell));
  order.set((old) => [...old.slice(0, at), cell.id, ...old.slice(at)]);
  untouched.set(false);
  changed();
  return cell.id;
}

export const indexOf = (id: string | null): number => (id === null ? -1 : order.get().indexOf(id));

export function addCell(where: "above" | "below", of: string | null, kind: CellKind = "code", source = ""): string {
  const at = indexOf(of);
  return insert(newCell(kind, source), at < 0 ? order.get().length : where === "above" ? at : at + 1);
}

export function duplicate(id: string): string | null {
  const cell = getCell(id);
  return cell ? insert({ ...structuredClone(cell), id: newId() }, indexOf(id) + 1) : null;
}

export function move(id: string, by: -1 | 1): void {
  const list = [...order.get()];
  const at = list.indexOf(id);
  const to = at + by;
  if (at < 0 || to < 0 || to >= list.length) return;
  [list[at], list[to]] = [list[to]!, list[at]!];
  order.set(list);
  untouched.set(false);
  changed();
}

export function remove(id: string): void {
  const at = indexOf(id);
  const cell = getCell(id);
  if (at < 0 || !cell) return;
  deleted.set((old) => [...old.slice(-49), { cell, at }]);
  cells.delete(id);
  const rest = order.get().filter((other) => other !== id);
  if (!rest.length) {
    const empty = newCell();
    cells.set(empty.id, store(empty));
    rest.push(empty.id);
  }
  order.set(rest);
  selected.set(rest[Math.min(at, rest.length - 1)] ?? null);
  untouched.set(false);
  changed();
}

export function undelete(): void {
  const last = deleted.get().at(-1);
  if (!last) return;
  deleted.set((old) => old.slice(0, -1));
  const id = insert(cells.has(last.cell.id) ? { ...last.cell, id: newId() } : last.cell, Math.min(last.at, order.get().length));
  selected.set(id);
}

export function setKind(id: string, kind: CellKind): void {
  const cell = getCell(id);
  if (!cell || cell.kind === kind) return;
  untouched.set(false);
  update(id, kind === "code" ? { kind } : { kind, outputs: [], count: null, receipt: null });
}

export function clearOutputs(): void {
  for (const id of order.get()) update(id, { outputs: [], count: null, receipt: null });
}
