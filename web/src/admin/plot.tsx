// Small plots over time, drawn by hand as SVG: lines with an optional area, axes, a cursor for pointer and keyboard,
// and a sentence that says the same to those who do not see it.
import { useEffect, useRef, useState } from "preact/hooks";

import type { Values } from "./types";

export interface Line {
  name: string;
  values: Values;
  colour: 1 | 2 | 3 | 4 | 5;
  area?: boolean;
}

interface PlotProps {
  title: string;
  lines: Line[];
  time: number[]; // Unix seconds
  show(value: number): string;
  least?: number; // the axis goes at least up to here
}

const HEIGHT = 150;
const LEFT = 54;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 22;

const clock = (t: number): string => new Date(t * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
const clockExact = (t: number): string => new Date(t * 1000).toLocaleTimeString("en-GB");
/** With seconds where minutes would all be the same. */
const tick = (t: number, time: number[]): string => (time[time.length - 1]! - time[0]! < 180 ? clockExact(t) : clock(t));

/** The next of 1, 2, 5 times a power of ten. */
function niceTop(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 5, 10]) if (value <= step * power * 1.0001) return step * power;
  return value;
}

/** Stretches of values without a gap, as [index, value]. */
function stretches(values: Values): [number, number][][] {
  const all: [number, number][][] = [];
  let now: [number, number][] = [];
  values.forEach((value, i) => {
    if (value === null) {
      if (now.length) all.push(now);
      now = [];
    } else now.push([i, value]);
  });
  if (now.length) all.push(now);
  return all;
}

function summary(title: string, lines: Line[], time: number[], show: (value: number) => string): string {
  if (time.length === 0) return `${title}: nothing has been measured yet.`;
  const parts = lines.map((line) => {
    const known = line.values.filter((value): value is number => value !== null);
    if (known.length === 0) return `${line.name}: no values`;
    const last = [...line.values].reverse().find((value) => value !== null) as number;
    return `${line.name}: last ${show(last)}, lowest ${show(Math.min(...known))}, highest ${show(Math.max(...known))}`;
  });
  return `${title} from ${clock(time[0]!)} to ${clock(time[time.length - 1]!)}. ${parts.join("; ")}.`;
}

export function Plot({ title, lines, time, show, least = 0 }: PlotProps) {
  const root = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(320);
  const [at, setAt] = useState<number | null>(null);
  useEffect(() => {
    const element = root.current!;
    const observer = new ResizeObserver(() => setWidth(Math.max(200, element.clientWidth)));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const count = time.length;
  const top = niceTop(Math.max(least, ...lines.flatMap((line) => line.values.map((value) => value ?? 0))));
  const x = (i: number) => LEFT + (count < 2 ? 0 : (i / (count - 1)) * (width - LEFT - RIGHT));
  const y = (value: number) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  const cursor = at === null ? null : Math.min(at, count - 1);
  const nearest = (clientX: number) => {
    const box = root.current!.getBoundingClientRect();
    const part = (clientX - box.left - LEFT) / Math.max(1, width - LEFT - RIGHT);
    setAt(Math.max(0, Math.min(count - 1, Math.round(part * (count - 1)))));
  };
  const keys = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -count, End: count }[event.key];
    if (event.key === "Escape") setAt(null);
    if (step === undefined || count === 0) return;
    setAt((old) => Math.max(0, Math.min(count - 1, (old ?? count - 1) + step)));
    event.preventDefault();
  };
  const ticks = count === 0 ? [] : count < 3 ? [0] : [0, Math.floor((count - 1) / 2), count - 1];
  return (
    <figure class="plot">
      <figcaption>
        <h3>{title}</h3>
        <span class="legend">
          {lines.map((line) => {
            const last = [...line.values].reverse().find((value) => value !== null);
            return <span key={line.name} class={`key c${line.colour}`}>{line.name} <b>{last === undefined || last === null ? "–" : show(last)}</b></span>;
          })}
        </span>
      </figcaption>
      <div ref={root} class="plot-area" role="img" tabIndex={0} aria-label={summary(title, lines, time, show)} onKeyDown={keys}
        onPointerMove={(event) => count > 0 && nearest(event.clientX)} onPointerLeave={() => setAt(null)} onBlur={() => setAt(null)}>
        <svg width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} aria-hidden="true">
          {[0, 0.5, 1].map((part) => (
            <g key={part}>
              <line class="grid" x1={LEFT} x2={width - RIGHT} y1={y(part * top)} y2={y(part * top)} />
              <text x={LEFT - 6} y={y(part * top) + 4} text-anchor="end">{show(part * top)}</text>
            </g>
          ))}
          {ticks.map((i, n) => (
            <text key={i} x={x(i)} y={HEIGHT - 5} text-anchor={n === 0 ? "start" : n === ticks.length - 1 ? "end" : "middle"}>{tick(time[i]!, time)}</text>
          ))}
          {lines.map((line) =>
            stretches(line.values).map((points) => {
              const path = points.map(([i, value], n) => `${n ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("");
              const from = points[0]![0];
              const to = points[points.length - 1]![0];
              return (
                <g key={`${line.name}${from}`} class={`c${line.colour}`}>
                  {line.area && points.length > 1 && <path class="area" d={`${path}L${x(to).toFixed(1)} ${y(0)}L${x(from).toFixed(1)} ${y(0)}Z`} />}
                  {points.length > 1 ? <path class="line" d={path} /> : <circle class="dot" cx={x(from)} cy={y(points[0]![1])} r="2.5" />}
                </g>
              );
            }),
          )}
          {cursor !== null && count > 0 && (
            <g>
              <line class="cursor" x1={x(cursor)} x2={x(cursor)} y1={TOP} y2={HEIGHT - BOTTOM} />
              {lines.map((line) => {
                const value = line.values[cursor];
                return value === null || value === undefined ? null : <circle key={line.name} class={`dot c${line.colour}`} cx={x(cursor)} cy={y(value)} r="3.5" />;
              })}
            </g>
          )}
        </svg>
        {cursor !== null && count > 0 && (
          <div class={x(cursor) > width / 2 ? "plot-tip left" : "plot-tip"} style={{ left: `${x(cursor)}px` }}>
            <span>{clockExact(time[cursor]!)}</span>
            {lines.map((line) => {
              const value = line.values[cursor];
              return <span key={line.name} class={`key c${line.colour}`}>{line.name} <b>{value === null || value === undefined ? "–" : show(value)}</b></span>;
            })}
          </div>
        )}
      </div>
      <span class="visually-hidden" aria-live="polite">
        {cursor !== null && count > 0 && document.activeElement === root.current
          ? `${clockExact(time[cursor]!)}: ${lines.map((line) => { const value = line.values[cursor]; return `${line.name} ${value === null || value === undefined ? "unknown" : show(value)}`; }).join(", ")}`
          : ""}
      </span>
    </figure>
  );
}
