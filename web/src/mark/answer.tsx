// One answer, under way or finished: the work, the story, what it shows, and what one can do with it.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { count, duration, plural } from "../format";
import { store, useStore, type Store } from "../store";
import { Icon } from "../ui/icon";
import { Note, Spinner, toast, useInterval } from "../ui/parts";
import { Actions } from "./actions";
import { LiveWindow, StepView, titleOf, type StepData } from "./code";
import { lead, leadTo, take, type Place } from "./lead";
import { originOf } from "./marks";
import { doing, isOver, type LiveStep } from "./reduce";
import { Artifacts, LazyChart, TableResult } from "./results";
import { Story } from "./story";
import { isPending, running as runningAnswers, thread, type Running } from "./thread";
import type { Answer, Mark, Message, Table } from "./types";

const NOTHING = store<Running | null>(null);

/** Steps as they are stored, with the output that we saw live, which is longer. */
function mergedSteps(answer: Answer | null, live: LiveStep[]): StepData[] {
  if (!answer || !answer.steps.length) return live;
  return answer.steps.map((step) => {
    const seen = live.find((one) => one.n === step.n);
    return seen?.output.length ? { ...step, output: seen.output } : step;
  });
}

function Clock({ since }: { since: number }) {
  const [, draw] = useState(0);
  useInterval(() => draw((n) => n + 1), 1000);
  const seconds = Math.max(0, Math.round((Date.now() - since) / 1000));
  return <span class="clock" aria-hidden="true">{seconds < 60 ? `${seconds} s` : duration(seconds * 1000)}</span>;
}

interface WorkProps {
  answer: Answer | null;
  live: Running | null;
  queued: boolean; // for its turn, behind another answer of the chat
  focus: Focus | null;
  open: boolean;
  onToggle(): void;
}

interface Focus {
  step: number;
  line: number | null;
  turn: number; // so that the same place can be shown again
}

/** What it thought, wrote and ran: one line, or all of it. */
function Work({ answer, live, queued, focus, open, onToggle }: WorkProps) {
  const [opened, setOpened] = useState<Record<number, boolean>>({});
  useEffect(() => {
    if (focus) setOpened((old) => ({ ...old, [focus.step]: true }));
  }, [focus?.turn]);
  const over = answer !== null || (live !== null && isOver(live));
  const steps = useMemo(() => mergedSteps(answer, live?.steps ?? []), [answer, live?.steps]);
  const current = !over && live && !live.story ? live.steps.at(-1) : undefined;
  const moments = live?.moments.length ? live.moments : steps.map((step) => ({ kind: "step" as const, n: step.n }));
  const lastThought = !over && live ? live.moments.at(-1) : undefined;
  const isOpen = (n: number) => opened[n] ?? false;
  const wall = steps.reduce((sum, step) => sum + (step.receipt?.usage?.wall_ms ?? 0), 0);
  const queries = steps.reduce((sum, step) => sum + step.queries.length, 0);
  const summary = over
    ? steps.length
      ? `${plural(steps.length, "step")}${queries ? `, ${plural(queries, "query", "queries")}` : ""}, ran for ${duration(wall)}`
      : answer?.status === "ok" ? "No program was needed" : "No program was run"
    : queued ? "Waiting for the answer above" : live?.waiting && !live.message_id ? "Waiting for the server" : live ? doing(live) : "Waiting";
  if (over && steps.length === 0 && !live?.moments.length) return null;
  return (
    <div class={open ? "work open" : "work"}>
      <h3 class="work-head">
        <button type="button" aria-expanded={open} onClick={onToggle}>
          {over ? <Icon name="code" size={16} /> : <Spinner label="Under way" />}
          <span class={over ? "" : "work-doing"} role={over ? undefined : "status"}>{summary}</span>
          {!over && current && <code class="step-title">{titleOf(current.code)}</code>}
          {!over && live && <Clock since={live.since} />}
          <span class="work-chevron"><Icon name="chevron" size={16} /></span>
        </button>
      </h3>
      {!open && !over && (
        <div class={live?.story ? "work-live closed" : "work-live"} aria-hidden={live?.story ? "true" : undefined}>
          <div>
            {lastThought?.kind === "thought" ? <p class="thought">{lastThought.text.slice(-600)}</p> : null}
            {current && <LiveWindow step={current} />}
          </div>
        </div>
      )}
      {open && (
        <div class="work-body">
          {moments.map((moment, i) => {
            if (moment.kind === "thought") return <p key={`t${i}`} class="thought">{moment.text}</p>;
            const step = steps.find((one) => one.n === moment.n);
            return step ? (
              <StepView key={step.n} step={step} open={isOpen(step.n)} line={focus?.step === step.n ? focus.line : null}
                onToggle={() => setOpened({ ...opened, [step.n]: !isOpen(step.n) })} />
            ) : null;
          })}
        </div>
      )}
    </div>
  );
}

function Numbers({ answer }: { answer: Answer }) {
  const { checked, unsupported } = answer.numbers;
  if (unsupported.length)
    return (
      <p class="numbers-note bad" role="note">
        <Icon name="warning" size={16} /> {unsupported.length === 1 ? "1 number was not computed" : `${count(unsupported.length)} numbers were not computed`}:{" "}
        {[...new Set(unsupported)].slice(0, 8).join(", ")}{unsupported.length > 8 ? ", …" : ""}. Do not rely on {unsupported.length === 1 ? "it" : "them"}.
      </p>
    );
  if (checked) return <p class="numbers-note"><Icon name="check" size={16} /> {checked === 1 ? "The number was computed. Click it to see the line that did." : `All ${count(checked)} numbers were computed. Click one to see the line that did.`}</p>;
  return null;
}

/** The answer that a number comes from: this one, or an earlier one of the chat, if it is still there. */
function answerOf(mark: Mark, answer: Answer): Answer | null {
  if (!mark.message_id || mark.message_id === answer.message_id) return answer;
  return thread.get().messages.find((one) => one.message_id === mark.message_id)?.response ?? null;
}

const tableOf = (mark: Mark, answer: Answer): Table | undefined => (mark.where === "table" && mark.table !== undefined ? answer.data?.[mark.table - 1] : undefined);

/** What is said about a number that was computed or found. */
function explain(mark: Mark, answer: Answer): string {
  const home = answerOf(mark, answer);
  const verb = mark.kind === "value" ? "Computed in" : "Found:";
  if (!home) return "Computed in an earlier answer of this chat";
  const origin = originOf(mark, home.values, home.steps);
  const value = mark.name === undefined ? undefined : home.values.find((one) => one.name === mark.name);
  const exact = value && typeof value.value === "number" ? ` (${value.value}${value.unit ? ` ${value.unit}` : ""})` : "";
  const step = origin ? `step ${origin.step}${origin.line ? `, line ${origin.line}` : ""}` : "";
  if (home !== answer) return `${verb} ${step ? `${step} of ` : ""}an earlier answer of this chat${exact}`;
  const table = tableOf(mark, answer);
  if (table) return `${verb} ${table.title || `table ${mark.table}`}${mark.row ? `, row ${mark.row}` : ""}${step ? ` (${step})` : ""}`;
  return `${verb} ${step || "in what the programs printed, the data or the question"}${mark.kind === "value" ? exact : ""}`;
}

/** Whether an earlier answer of the chat is under way: they come one after the other. */
function isBehind(id: string | null): boolean {
  const { messages } = thread.get();
  const at = messages.findIndex((one) => one.message_id === id);
  return messages.slice(0, at < 0 ? messages.length : at).some(isPending);
}

export interface AnswerProps {
  message: Message | null;
  question: Message | undefined;
  live?: Store<Running> | undefined;
  /** Other answers to the same question. */
  versions: number;
  version: number;
  onVersion(n: number): void;
  onReply(text: string): void;
}

export function AnswerView({ message, question, live: given, versions, version, onVersion, onReply }: AnswerProps) {
  const source = given ?? (message ? runningAnswers.get(message.message_id) : undefined);
  const live = useStore<Running | null>((source as Store<Running | null> | undefined) ?? NOTHING);
  const stored = message && message.status !== "pending" ? message.response : null;
  const answer = stored ?? live?.answer ?? null;
  const [open, setOpen] = useState(false);
  const [focus, setFocus] = useState<Focus | null>(null);
  const root = useRef<HTMLElement>(null);

  const id = answer?.message_id ?? message?.message_id ?? null;
  const goTo = (find: () => Element | null | undefined) =>
    setTimeout(() => {
      const target = find();
      target?.scrollIntoView({ block: "center", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
      (target?.querySelector(".step-head button") as HTMLElement | null)?.focus({ preventScroll: true });
    }, 60);
  const reveal = ({ step, line }: Place) => {
    setOpen(true);
    setFocus((old) => ({ step: step ?? -1, line, turn: (old?.turn ?? 0) + 1 }));
    goTo(() => root.current?.querySelector(step === null ? ".work" : `[data-step="${step}"]`));
  };
  const wanted = useStore(lead);
  useEffect(() => {
    if (wanted && wanted.messageId === id && answer && take(wanted)) reveal(wanted);
  }, [wanted?.turn, id, answer !== null]);
  const show = (mark: Mark) => {
    if (!answer) return;
    const home = answerOf(mark, answer);
    const origin = home && originOf(mark, home.values, home.steps);
    if (!home) toast("It was computed in an earlier answer of this chat, which is not here any more.");
    else if (home !== answer) leadTo(home.message_id, origin ?? { step: null, line: null });
    else if (!origin && tableOf(mark, answer)) goTo(() => root.current?.querySelectorAll(".table-result")[mark.table! - 1]);
    else reveal(origin ?? { step: null, line: null });
  };

  if (!answer && !live) {
    if (message && message.status !== "pending") return <article class="answer"><Story text={message.text ?? ""} /></article>;
    return <article class="answer"><p class="work-head waiting"><Spinner label="Under way" /> Under way</p></article>;
  }
  const status = answer?.status ?? "pending";
  const story = answer ? (answer.answer_story ?? "") : (live?.story ?? "");
  const charts = (answer ? answer.visualizations : (live?.charts ?? [])) ?? [];
  const tables = (answer ? answer.data : (live?.tables ?? [])) ?? [];
  const drawn = charts.some(Boolean) || tables.some(Boolean);
  return (
    <article class={`answer ${status}`} ref={root} aria-label="Answer" aria-busy={!answer && !live?.problem}>
      <Work answer={answer} live={live} queued={!answer && !live?.moments.length && !live?.story && isBehind(id)} focus={focus} open={open} onToggle={() => setOpen(!open)} />
      {live?.waiting && <p class="note warn" role="status"><Icon name="warning" size={16} /> {live.message_id ? "The connection broke. Coming back; meanwhile the answer goes on at the server…" : "The connection broke. When the server is back, this page looks whether the question has arrived."}</p>}
      {live && !live.waiting && live.broken > 0 && status !== "error" && live.answer && <p class="note">The connection broke {live.broken === 1 ? "once" : `${live.broken} times`} meanwhile; nothing is missing.</p>}
      {live?.problem && <Note bad>{live.problem}</Note>}
      {status === "error" && story && <div class="note bad" role="alert"><Story text={story} /></div>}
      {status !== "error" && status !== "needs_input" && (story ? <Story text={story} marks={answer?.numbers.marks} explain={(mark) => (answer ? explain(mark, answer) : "")} onMark={show} /> : !answer && drawn ? <div class="story-waiting" aria-hidden="true"><i /><i /><i /></div> : null)}
      {status === "stopped" && !story && <p class="note">Stopped. This is what there was.</p>}
      {status === "needs_input" && answer && <Ask answer={answer} story={story} onReply={onReply} />}
      {answer && status !== "error" && <Numbers answer={answer} />}
      {charts.map((figure, i) => figure && <LazyChart key={`c${i}`} figure={figure} />)}
      {tables.map((table, i) => table && <TableResult key={`t${i}`} table={table} n={i + 1} messageId={answer ? id : null} />)}
      {answer && <Artifacts artifacts={answer.artifacts ?? []} />}
      {answer?.notices?.length ? <ul class="notices" aria-label="Notices">{answer.notices.map((text, i) => <li key={i}>{text}</li>)}</ul> : null}
      {answer && message && <Actions answer={answer} message={message} question={question} versions={versions} version={version} onVersion={onVersion} />}
    </article>
  );
}

/** What Mark asks back, with answers that it offers itself: "by revenue, or by units sold?" */
function Ask({ answer, story, onReply }: { answer: Answer; story: string; onReply(text: string): void }) {
  const asked = answer.question ?? "";
  const choices = choicesOf(asked);
  return (
    <div class="ask-back">
      <Story text={story || asked} />
      {asked && story && !story.includes(asked.trim()) && <p>{asked}</p>}
      {choices.length > 0 && <div class="row">{choices.map((one) => <button key={one} type="button" class="chip" onClick={() => onReply(one)}>{one}</button>)}</div>}
      <small>Mark needs to know this first. {choices.length ? "Choose one, or reply in your own words." : "Reply below."}</small>
    </div>
  );
}

/** Choices in a question: "Best by what: by revenue, or by units sold?" has two. */
export function choicesOf(question: string): string[] {
  const bullets = [...question.matchAll(/^\s*(?:[-*•]|\d+[.)])\s+(.+)$/gm)].map((one) => one[1]!.trim());
  if (bullets.length >= 2) return bullets.slice(0, 6).map((one) => one.slice(0, 120));
  const sentence = question.split(/(?<=[.!])\s+/).find((one) => /\bor\b/.test(one) && one.includes("?")) ?? "";
  const tail = (sentence.split(/[:–—]/).at(-1) ?? "").replace(/\?.*$/s, "").trim();
  const parts = tail.split(/\s*,?\s+or\s+|\s*,\s*/).map((one) => one.trim()).filter(Boolean);
  return parts.length >= 2 && parts.length <= 5 && parts.every((one) => one.length <= 40) ? parts : [];
}
