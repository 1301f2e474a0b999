// A table that is drawn only where it is looked at: 100,000 rows scroll like ten. Columns sort on a click; numbers are
// compared as numbers, everything else as text, and what is missing comes last.
import { useMemo, useRef, useState } from "preact/hooks";

import { count } from "../format";

export interface Column {
  name: string;
  type?: string;
}

const ROW = 28;
const BEYOND = 12; // rows drawn above and below what is visible

export function cellText(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : String(Math.abs(value) >= 1e-3 ? Math.round(value * 1e6) / 1e6 : Number(value.toPrecision(6)));
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

const collator = new Intl.Collator(undefined, { numeric: true }); // many times faster than localeCompare()

function compare(a: unknown, b: unknown): number {
  const missing = (x: unknown) => x === null || x === undefined || x === "";
  if (missing(a) || missing(b)) return missing(a) ? (missing(b) ? 0 : 1) : -1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return collator.compare(cellText(a), cellText(b));
}

export function DataTable({ columns, rows, label, height = 320, total }: { columns: Column[]; rows: unknown[][]; label: string; height?: number; total?: number }) {
  const [sort, setSort] = useState<{ column: number; down: boolean } | null>(null);
  const [top, setTop] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  const order = useMemo(() => {
    const index = rows.map((_, i) => i);
    if (sort) {
      const sign = sort.down ? -1 : 1;
      index.sort((i, j) => {
        const a = rows[i]![sort.column];
        const b = rows[j]![sort.column];
        const missing = (a === null || a === undefined ? 1 : 0) - (b === null || b === undefined ? 1 : 0);
        return missing || sign * compare(a, b) || i - j;
      });
    }
    return index;
  }, [rows, sort]);
  const widths = useMemo(
    () => columns.map((column, c) => {
      let most = column.name.length + 2;
      for (let r = 0; r < Math.min(rows.length, 200); r++) most = Math.max(most, Math.min(42, cellText(rows[r]![c]).length));
      return `${Math.max(5, most) * 0.6 + 1.5}rem`;
    }),
    [columns, rows],
  );
  const numeric = useMemo(() => columns.map((_, c) => rows.slice(0, 50).every((row) => row[c] === null || typeof row[c] === "number")), [columns, rows]);
  const from = Math.max(0, Math.floor(top / ROW) - BEYOND);
  const to = Math.min(order.length, Math.ceil((top + height) / ROW) + BEYOND);
  const grid = { gridTemplateColumns: widths.join(" ") };
  return (
    <div class="data-table">
      <div
        class="data-scroll" ref={box} tabIndex={0} role="region" aria-label={label}
        style={{ height: `${Math.min(height, (order.length + 1) * ROW + 18)}px` }}
        onScroll={() => setTop(box.current!.scrollTop)}
      >
        <div role="table" aria-label={label} aria-rowcount={order.length + 1} aria-colcount={columns.length} class="data-grid">
          <div role="row" class="data-row data-head" style={grid} aria-rowindex={1}>
            {columns.map((column, c) => (
              <div role="columnheader" key={c} class={numeric[c] ? "number" : ""} aria-sort={sort?.column === c ? (sort.down ? "descending" : "ascending") : "none"}>
                <button type="button" title={column.type ? `${column.name}: ${column.type}` : column.name}
                  onClick={() => setSort(sort?.column === c ? (sort.down ? null : { column: c, down: true }) : { column: c, down: false })}>
                  {column.name}
                  <span aria-hidden="true">{sort?.column === c ? (sort.down ? " ▾" : " ▴") : ""}</span>
                </button>
              </div>
            ))}
          </div>
          <div role="rowgroup" class="data-body" style={{ height: `${order.length * ROW}px` }}>
            {order.slice(from, to).map((r, i) => (
              <div role="row" key={from + i} class="data-row" aria-rowindex={from + i + 2} style={{ ...grid, transform: `translateY(${(from + i) * ROW}px)` }}>
                {columns.map((_, c) => {
                  const text = cellText(rows[r]![c]);
                  return <div role="cell" key={c} class={numeric[c] ? "number" : ""} title={text.length > 40 ? text.slice(0, 1000) : undefined}>{text}</div>;
                })}
              </div>
            ))}
          </div>
        </div>
      </div>
      <p class="data-foot">
        {total !== undefined && total > rows.length ? `The first ${count(rows.length)} of ${count(total)} rows` : `${count(rows.length)} rows`}
        {`, ${count(columns.length)} ${columns.length === 1 ? "column" : "columns"}`}
      </p>
    </div>
  );
}

/** Rows of a CSV or TSV text; quotes as in RFC 4180. At most `most` rows. */
export function parseDelimited(text: string, delimiter = ",", most = 100_000): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let field = "";
  let quoted = false;
  for (let i = 0; i < text.length && rows.length < most; i++) {
    const c = text[i]!;
    if (quoted) {
      if (c !== '"') field += c;
      else if (text[i + 1] === '"') {
        field += '"';
        i++;
      } else quoted = false;
    } else if (c === '"' && field === "") quoted = true;
    else if (c === delimiter) {
      row.push(field);
      field = "";
    } else if (c === "\n" || c === "\r") {
      if (c === "\r" && text[i + 1] === "\n") i++;
      row.push(field);
      rows.push(row);
      row = [];
      field = "";
    } else field += c;
  }
  if ((field || row.length) && rows.length < most) rows.push([...row, field]);
  return rows;
}
