// Parts of the dashboard: what is loaded again and again, tables that can be sorted, tiles, badges.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";

import { follow } from "../router";
import { store, useStore } from "../store";
import { Icon } from "../ui/icon";
import { Note, Spinner, useInterval, useLoad, type Loaded } from "../ui/parts";
import { WHY } from "./types";

/** Whether the numbers move; people may want to read in peace. */
export const live = store(true);

/** Loads every `ms` while the page is visible and live, one request at a time. */
export function useLive<T>(load: (signal: AbortSignal) => Promise<T>, key: unknown[], ms = 3000): Loaded<T> {
  const loaded = useLoad(load, key);
  const on = useStore(live);
  useInterval(() => {
    if (!loaded.loading) loaded.reload();
  }, on ? ms : null);
  return loaded;
}

/** The value, or what to show until there is one. A failure after that leaves the last value on screen. */
export function Shown<T>({ of, children }: { of: Loaded<T>; children: (value: T) => ComponentChildren }) {
  return (
    <>
      {of.error && <Note bad>{of.error}</Note>}
      {of.value !== undefined ? children(of.value) : of.error ? null : <Spinner />}
    </>
  );
}

export function Tile({ label, value, detail, href, bad }: { label: string; value: ComponentChildren; detail?: ComponentChildren; href?: string; bad?: boolean }) {
  const inner = (
    <>
      <span class="tile-label">{label}</span>
      <strong class={bad ? "tile-value bad" : "tile-value"}>{value}</strong>
      {detail !== undefined && <span class="tile-detail">{detail}</span>}
    </>
  );
  return href ? <a class="tile" href={href} onClick={follow}>{inner}</a> : <div class="tile">{inner}</div>;
}

const TONE: Record<string, string> = {
  ok: "good", intact: "good", running: "good", operator: "good",
  error: "warn", waiting: "warn", lost: "warn", checking: "warn", cancelled: "warn",
  timeout: "bad", oom: "bad", killed: "bad", pids: "bad", disk: "bad", output: "bad", system: "bad", broken: "bad", refused: "bad", revoked: "bad",
};

export function Badge({ word, text }: { word: string; text?: string }) {
  return <span class={`badge ${TONE[word] ?? ""}`}>{text ?? word}</span>;
}

/** How an execution ended, with the limit that ended it. */
export function Ending({ status, limit, refused }: { status: string; limit?: string | null | undefined; refused?: string | null }) {
  // "Out of memory" says it; of a time or of a disk there is more than one limit.
  const why = refused ?? (limit && (status === "timeout" || status === "disk") ? (WHY[limit] ?? limit) : null);
  return (
    <>
      <Badge word={status} text={WHY[status] ?? status} />
      {why && <small class="why"> {why}</small>}
    </>
  );
}

/** Somebody, as people know them. */
export function Who({ name, kind, principal }: { name: string; kind?: string; principal: string }) {
  const is = kind ?? (principal === "local" ? "local" : principal.startsWith("user-") ? "user" : "key");
  return (
    <span class="who" title={`${name} (${principal})`}>
      <Icon name={is === "user" ? "user" : is === "key" ? "key" : "terminal"} size={15} />
      <span>{name}</span>
    </span>
  );
}

export const Id = ({ id }: { id: string }) => <code class="id" title={id}>{id.length > 16 ? `${id.slice(0, 12)}…` : id}</code>;

export interface Column<T> {
  key: string;
  label: string;
  /** What it is sorted by; without it the column cannot be sorted. */
  by?(row: T): string | number | null;
  show(row: T): ComponentChildren;
  number?: boolean;
}

interface SortTableProps<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  id(row: T): string;
  empty: ComponentChildren;
  first?: string; // the column that it is sorted by at first; without it as the server says
  down?: boolean;
}

/** A table that can be sorted by its columns; on a phone each row is a card. */
export function SortTable<T>({ label, columns, rows, id, empty, first, down }: SortTableProps<T>) {
  const [sort, setSort] = useState<{ key: string; down: boolean } | null>(first ? { key: first, down: down ?? false } : null);
  const sorted = useMemo(() => {
    const by = columns.find((column) => column.key === sort?.key)?.by;
    if (!by || !sort) return rows;
    const sign = sort.down ? -1 : 1;
    return [...rows].sort((a, b) => {
      const x = by(a);
      const y = by(b);
      if (x === y) return 0;
      if (x === null) return 1;
      if (y === null) return -1;
      return (x < y ? -1 : 1) * sign;
    });
  }, [rows, sort, columns]);
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  const turn = (key: string) => setSort((old) => ({ key, down: old?.key === key ? !old.down : false }));
  return (
    <div class="sort-table">
      <label class="sort-by">
        Sort by{" "}
        <select value={sort?.key ?? ""} onChange={(event) => setSort({ key: event.currentTarget.value, down: sort?.down ?? false })}>
          {!sort && <option value="">as it comes</option>}
          {columns.filter((column) => column.by).map((column) => <option key={column.key} value={column.key}>{column.label}</option>)}
        </select>
        <button type="button" disabled={!sort} onClick={() => sort && setSort({ ...sort, down: !sort.down })}>{sort?.down ? "descending" : "ascending"}</button>
      </label>
      <table class="plain" aria-label={label}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.key} scope="col" class={column.number ? "number" : ""}
                aria-sort={sort?.key === column.key ? (sort.down ? "descending" : "ascending") : undefined}>
                {column.by ? (
                  <button type="button" class="sort" onClick={() => turn(column.key)}>
                    {column.label}
                    <span class="arrow" aria-hidden="true">{sort?.key === column.key ? (sort.down ? "▾" : "▴") : ""}</span>
                  </button>
                ) : column.label ? column.label : <span class="visually-hidden">Actions</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.map((row) => (
            <tr key={id(row)}>
              {columns.map((column) => (
                <td key={column.key} class={column.number ? "number" : ""} data-label={column.label}><div class="cell">{column.show(row)}</div></td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Counts as horizontal bars, the largest first. */
export function Bars({ rows, empty }: { rows: { key: string; label: string; count: number; tone?: string }[]; empty: string }) {
  const shown = rows.filter((row) => row.count > 0).sort((a, b) => b.count - a.count);
  const most = shown[0]?.count ?? 1;
  if (shown.length === 0) return <p class="empty">{empty}</p>;
  return (
    <ul class="bars">
      {shown.map((row) => (
        <li key={row.key}>
          <span class="bars-label">{row.label}</span>
          <span class="bars-track" aria-hidden="true"><span class={`bars-bar ${row.tone ?? ""}`} style={{ width: `${Math.max(1.5, (row.count / most) * 100)}%` }} /></span>
          <span class="bars-count">{row.count.toLocaleString("en-US")}</span>
        </li>
      ))}
    </ul>
  );
}

export const money = (n: number | null | undefined): string => (n === null || n === undefined ? "–" : n > 0 && n < 0.01 ? `$${n.toFixed(4)}` : `$${n.toFixed(2)}`);
