// An answer while it is under way: what its events amount to. Applying the same event twice, or events of the stored answer after those
// of the live one, comes to the same.
import type { Figure } from "../ui/frame";
import type { Answer, Query, Receipt, Table } from "./types";

export interface Said {
  stream: "stdout" | "stderr";
  text: string;
}

export interface LiveStep {
  n: number;
  code: string;
  written: boolean; // the whole program is there
  output: Said[];
  queries: Query[];
  receipt: Receipt | null;
}

/** What happened, in order: thoughts and steps. */
export type Moment = { kind: "thought"; text: string } | { kind: "step"; n: number };

export interface Live {
  chat_id: string | null;
  message_id: string | null;
  moments: Moment[];
  steps: LiveStep[];
  charts: (Figure | undefined)[];
  tables: (Table | undefined)[];
  story: string;
  answer: Answer | null; // when it is done
  problem: string; // why it could not be built
  lastId: string | null;
}

export const START: Live = { chat_id: null, message_id: null, moments: [], steps: [], charts: [], tables: [], story: "", answer: null, problem: "", lastId: null };

export interface AnswerEvent {
  event: string;
  id?: string | null;
  data: any;
}

const OUTPUT_MOST = 4_000_000; // characters of one step that are kept
const ITEMS_MOST = 100;

const text = (value: unknown): string => (typeof value === "string" ? value : "");

function place(n: unknown): number {
  return typeof n === "number" && Number.isInteger(n) && n >= 1 && n <= 10_000 ? n : 0;
}

function withStep(live: Live, n: number, change: (step: LiveStep) => LiveStep): Live {
  const at = live.steps.findIndex((step) => step.n === n);
  const old: LiveStep = live.steps[at] ?? { n, code: "", written: false, output: [], queries: [], receipt: null };
  const steps = [...live.steps];
  if (at >= 0) steps[at] = change(old);
  else steps.push(change(old));
  return { ...live, steps, moments: at >= 0 ? live.moments : [...live.moments, { kind: "step", n }] };
}

function addThought(live: Live, piece: string): Live {
  const last = live.moments.at(-1);
  if (!piece) return live;
  if (last?.kind !== "thought") return { ...live, moments: [...live.moments, { kind: "thought", text: piece }] };
  return { ...live, moments: [...live.moments.slice(0, -1), { kind: "thought", text: last.text + piece }] };
}

function addOutput(step: LiveStep, stream: Said["stream"], piece: string): LiveStep {
  const last = step.output.at(-1);
  const total = step.output.reduce((sum, one) => sum + one.text.length, 0);
  const room = piece.slice(0, Math.max(0, OUTPUT_MOST - total));
  if (!room) return step;
  if (last?.stream === stream) return { ...step, output: [...step.output.slice(0, -1), { stream, text: last.text + room }] };
  return { ...step, output: [...step.output, { stream, text: room }] };
}

/** A query is told twice: when it begins and when it ends. */
function addQuery(step: LiveStep, query: Query): LiveStep {
  const running = step.queries.findIndex((one) => one.status === "running" && one.sql === query.sql);
  if (running >= 0) return { ...step, queries: step.queries.map((one, i) => (i === running ? { ...one, ...query } : one)) };
  if (step.receipt) return step; // told again from the store
  return { ...step, queries: [...step.queries, query] };
}

/** The finished answer, with the very charts and tables that are on the screen already, so that they are not drawn again. */
function finish(live: Live, answer: Answer): Live {
  const same = <T>(mine: (T | undefined)[], theirs: T[]): T[] => {
    const texts = mine.map((one) => (one === undefined ? "" : JSON.stringify(one)));
    return theirs.map((one) => mine[texts.indexOf(JSON.stringify(one))] ?? one);
  };
  return {
    ...live,
    chat_id: answer.chat_id,
    message_id: answer.message_id,
    story: answer.answer_story ?? "",
    answer: { ...answer, visualizations: same(live.charts, answer.visualizations ?? []), data: same(live.tables, answer.data ?? []) },
  };
}

export function reduce(live: Live, { event, id, data }: AnswerEvent): Live {
  const next = apply(live, event, data && typeof data === "object" ? data : {});
  return id && id !== next.lastId ? { ...next, lastId: id } : next;
}

function apply(live: Live, event: string, data: any): Live {
  const n = place(data.n);
  switch (event) {
    case "chat":
      return { ...live, chat_id: text(data.chat_id) || live.chat_id, message_id: text(data.message_id) || live.message_id };
    case "thinking":
      return addThought(live, text(data.text));
    case "step":
      if (!n) return live;
      if (typeof data.code === "string") return withStep(live, n, (step) => ({ ...step, code: data.code, written: true }));
      return withStep(live, n, (step) => (step.written ? step : { ...step, code: (data.restart ? "" : step.code) + text(data.code_delta) }));
    case "output":
      if (!n) return live;
      return withStep(live, n, (step) => (step.receipt ? step : addOutput(step, data.stream === "stderr" ? "stderr" : "stdout", text(data.text))));
    case "query":
      return n ? withStep(live, n, (step) => addQuery(step, data as Query)) : live;
    case "receipt":
      return n ? withStep(live, n, (step) => ({ ...step, written: true, receipt: data.receipt ?? null })) : live;
    case "chart": {
      if (!n || n > ITEMS_MOST || !data.spec) return live;
      const charts = [...live.charts];
      charts[n - 1] ??= data.spec as Figure;
      return { ...live, charts };
    }
    case "table": {
      if (!n || n > ITEMS_MOST || !Array.isArray(data.columns)) return live;
      const { n: _, ...table } = data;
      const tables = [...live.tables];
      tables[n - 1] ??= table as Table;
      return { ...live, tables };
    }
    case "story":
      return { ...live, story: data.restart ? text(data.delta) : live.story + text(data.delta) };
    case "done":
      return finish(live, data as Answer);
    case "error":
      return { ...live, problem: text(data.detail) || "The answer could not be built." };
    default:
      return live;
  }
}

export const isOver = (live: Live): boolean => live.answer !== null || live.problem !== "";

/** What it is doing, in a few words. */
export function doing(live: Live): string {
  if (isOver(live)) return "";
  if (live.story) return "Writing the answer";
  const last = live.moments.at(-1);
  if (!last) return "Starting";
  if (last.kind === "thought") return "Thinking";
  const step = live.steps.find((one) => one.n === last.n);
  if (!step || !step.written) return "Writing code";
  if (step.receipt) return "Looking at the result";
  return step.queries.some((one) => one.status === "running") ? "Asking the data source" : "Running code";
}
