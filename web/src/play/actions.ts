// What keys and buttons do with cells.
import { store } from "../store";
import { attempt } from "../ui/parts";
import { addCell, getCell, indexOf, insert, mode, order, save, selected, update } from "./book";
import { newCell } from "./notebook";
import { interrupt, runCells } from "./run";

/** Which cell should take the focus next; cells watch it. */
export const focusWish = store<{ id: string; mode: "command" | "edit"; end?: boolean; n: number } | null>(null);
let wishes = 0;

export function focusOn(id: string | null | undefined, how: "command" | "edit", end = false): void {
  if (!id) return;
  selected.set(id);
  mode.set(how);
  focusWish.set({ id, mode: how, end, n: ++wishes });
}

const neighbour = (id: string, by: number): string | undefined => order.get()[indexOf(id) + by];

/** Runs one cell. Markdown is drawn. `then`: stay, go to the next one (made if there is none), or insert one below. */
export function runCell(id: string, then: "stay" | "next" | "insert"): void {
  const cell = getCell(id);
  if (!cell) return;
  if (cell.kind === "code") runCells([id]);
  if (then === "stay") focusOn(id, "command");
  else if (then === "insert") focusOn(addCell("below", id), "edit");
  else {
    const next = neighbour(id, 1);
    if (next) focusOn(next, "command");
    else focusOn(addCell("below", id), "edit");
  }
}

export function step(id: string | null, by: -1 | 1, how: "command" | "edit"): void {
  const next = id === null ? order.get()[0] : neighbour(id, by);
  if (next) focusOn(next, how, by < 0);
}

/** Cuts a cell in two at a place in its text. */
export function split(id: string, at: number): void {
  const cell = getCell(id);
  if (!cell) return;
  update(id, { source: cell.source.slice(0, at).replace(/\n$/, "") });
  focusOn(insert(newCell(cell.kind, cell.source.slice(at).replace(/^\n/, "")), indexOf(id) + 1), "edit");
}

export function joinBelow(id: string): void {
  const below = neighbour(id, 1);
  const [cell, other] = [getCell(id), below ? getCell(below) : undefined];
  if (!cell || !other) return;
  update(id, { source: `${cell.source}\n${other.source}` });
  order.set((old) => old.filter((one) => one !== below));
}

export const stop = (): void => void attempt(interrupt);
export const saveNow = (): void => void save();
