// One step: the program, what it printed, what it asked of sources, and its receipt.
import { useEffect, useRef } from "preact/hooks";

import { bytes, count, duration, plural } from "../format";
import { AnsiText } from "../ui/ansi";
import { dataBlob, HtmlFrame } from "../ui/frame";
import { Icon } from "../ui/icon";
import { Editor } from "../ui/lazy";
import { copyText, IconButton } from "../ui/parts";
import { saveBlob } from "../api";
import type { Said } from "./reduce";
import type { Output, Query, Receipt } from "./types";

export interface StepData {
  n: number;
  code: string;
  receipt: Receipt | null;
  queries: Query[];
  output?: Said[];
  written?: boolean;
}

/** What a step is about: its first comment, else its first line that is not an import. */
export function titleOf(code: string): string {
  const lines = code.split("\n", 60).map((line) => line.trim()).filter(Boolean);
  const comment = lines.find((line) => /^#\s*\S/.test(line));
  if (comment) return comment.replace(/^#+\s*/, "").slice(0, 120);
  return (lines.find((line) => !/^(import|from)\s/.test(line)) ?? lines[0] ?? "").slice(0, 120);
}

export function errorText(error: Receipt["error"]): string {
  if (!error) return "";
  if (typeof error === "string") return error;
  const trace = Array.isArray(error.traceback) ? error.traceback.join("\n") : (error.traceback ?? "");
  const head = [error.name ?? error.ename, error.value ?? error.evalue ?? error.message].filter(Boolean).join(": ");
  return trace || head;
}

const failed = (receipt: Receipt | null): boolean => Boolean(receipt && (receipt.success === false || (receipt.status && receipt.status !== "ok")));

/** Wall, CPU and memory as three small bars. */
export function ReceiptBar({ receipt }: { receipt: Receipt }) {
  const { wall_ms = 0, cpu_ms = 0, peak_memory_bytes = 0 } = receipt.usage ?? {};
  const share = (value: number, most: number) => `${Math.max(4, Math.min(100, (100 * Math.log1p(Math.max(0, value))) / Math.log1p(most)))}%`;
  const bar = (label: string, text: string, width: string) => (
    <span class="meter" title={`${label}: ${text}`}>
      <span class="meter-label">{label}</span> <span class="meter-value">{text}</span>
      <span class="meter-track" aria-hidden="true"><span style={{ width }} /></span>
    </span>
  );
  return (
    <span class="receipt">
      {bar("time", duration(wall_ms), share(wall_ms, 60_000))}
      {bar("CPU", duration(cpu_ms), share(cpu_ms, 60_000))}
      {bar("memory", bytes(peak_memory_bytes), share(peak_memory_bytes / 1e6, 2000))}
    </span>
  );
}

const QUERY_BAD: Record<string, string> = { running: "running…", ok: "" };

export function QueryView({ query }: { query: Query }) {
  const bad = !["ok", "running"].includes(query.status);
  const facts = [
    query.rows !== null && query.rows !== undefined ? plural(query.rows, "row") : "",
    query.ms !== null && query.ms !== undefined ? duration(query.ms) : "",
    query.bytes ? `${bytes(query.bytes)} read` : "",
    query.money ? `$${query.money.toFixed(4)}` : "",
    query.estimate?.cost ? `estimated cost ${count(Math.round(query.estimate.cost))}` : "",
    query.cache_hit ? "from the source's cache" : "",
    query.replayed ? "recorded result" : "",
  ].filter(Boolean);
  return (
    <div class="query">
      <p class="query-head">
        <Icon name="database" size={15} /> <strong>{query.source}</strong>
        <span>{facts.join(" · ")}</span>
        {(bad || query.status === "running") && <span class={bad ? "badge bad" : "badge"}>{QUERY_BAD[query.status] ?? query.status}</span>}
        <IconButton icon="copy" label="Copy the SQL" onClick={() => void copyText(query.sql)} />
      </p>
      <pre class="sql" tabIndex={0} aria-label={`SQL for ${query.source}`}>{query.sql.replace(/^\s*\n|\s+$/g, "")}</pre>
      {query.message && <p class={bad ? "note bad" : "note"}>{query.message}</p>}
    </div>
  );
}

/** SVG as a picture, in which no script runs and which loads nothing. */
function Drawing({ svg }: { svg: string }) {
  const url = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  return (
    <figure class="picture">
      <img src={url} alt="Picture that the program drew" />
      <figcaption><button type="button" class="link" onClick={() => saveBlob(new Blob([svg], { type: "image/svg+xml" }), "picture.svg")}>Save</button></figcaption>
    </figure>
  );
}

/** One thing that a program showed, in the best form that we can draw. */
export function OutputView({ output }: { output: Output }) {
  for (const type of ["image/png", "image/jpeg", "image/gif", "image/webp"]) {
    const data = output[type];
    if (typeof data === "string") {
      const url = `data:${type};base64,${data.replace(/\s/g, "")}`;
      return (
        <figure class="picture">
          <img src={url} alt="Picture that the program drew" />
          <figcaption><button type="button" class="link" onClick={() => saveBlob(dataBlob(url), `picture.${type.slice(6)}`)}>Save</button></figcaption>
        </figure>
      );
    }
  }
  const html = output["text/html"];
  if (typeof html === "string") return <HtmlFrame html={html} />;
  const svg = output["image/svg+xml"];
  if (typeof svg === "string") return <Drawing svg={svg} />;
  const text = output["text/plain"] ?? output["text/markdown"];
  return typeof text === "string" ? <AnsiText text={text} label="Result" /> : null;
}

/** Code while it is being written: plain text that stays at its end. */
function Writing({ text, label }: { text: string; label: string }) {
  const element = useRef<HTMLPreElement>(null);
  useEffect(() => {
    element.current!.scrollTop = element.current!.scrollHeight;
  }, [text]);
  return <pre class="writing" ref={element} tabIndex={0} aria-label={label}>{text}</pre>;
}

/** The step that is under way, in a window of fixed height. */
export function LiveWindow({ step }: { step: StepData }) {
  const said = (step.output ?? []).map((one) => one.text).join("");
  const shown = said.length > 20_000 ? said.slice(-20_000) : said;
  return (
    <div class="live-window">
      <Writing text={step.code} label={`Program of step ${step.n}`} />
      {shown && <Writing text={shown} label="Output" />}
      {step.queries.filter((one) => one.status === "running").map((one, i) => <p key={i} class="live-query"><Icon name="database" size={15} /> {one.source} is being asked</p>)}
    </div>
  );
}

interface StepProps {
  step: StepData;
  open: boolean;
  line: number | null;
  onToggle(): void;
}

export function StepView({ step, open, line, onToggle }: StepProps) {
  const { receipt } = step;
  const bad = failed(receipt);
  const output = step.output?.length ? step.output : null;
  const stored: Said[] = [];
  if (receipt?.stdout) stored.push({ stream: "stdout", text: receipt.stdout });
  if (receipt?.stderr) stored.push({ stream: "stderr", text: receipt.stderr });
  const said = output ?? stored;
  const cut = !output && ((receipt?.truncated?.stdout ?? 0) > 0 || (receipt?.truncated?.stderr ?? 0) > 0);
  const error = errorText(receipt?.error);
  const seen = said.some((one) => one.text.includes(error.split("\n").at(-1) ?? "") && one.stream === "stderr");
  const outputs = (receipt?.outputs ?? []).map((one) => (one.data && typeof one.data === "object" ? one.data : one));
  return (
    <section class={open ? "step open" : "step"} data-step={step.n}>
      <h4 class="step-head">
        <button type="button" aria-expanded={open} onClick={onToggle}>
          <Icon name="chevron" size={16} />
          <span class="step-n">Step {step.n}</span>
          <code class="step-title">{titleOf(step.code)}</code>
          {bad && <span class="badge bad">{receipt?.limit ? `${receipt.limit} limit` : receipt?.status === "ok" ? "failed" : receipt?.status}</span>}
          {step.queries.length > 0 && <span class="badge">{plural(step.queries.length, "query", "queries")}</span>}
          {receipt?.usage && <span class="step-time">{duration(receipt.usage.wall_ms ?? 0)}</span>}
        </button>
      </h4>
      {open && (
        <div class="step-body">
          <div class="code-box">
            <Editor value={step.code.replace(/\n+$/, "")} label={`Program of step ${step.n}`} readOnly numbers line={line} />
            <IconButton icon="copy" label="Copy the program" onClick={() => void copyText(step.code)} />
          </div>
          {step.queries.map((query, i) => <QueryView key={i} query={query} />)}
          {said.map((one, i) => <AnsiText key={i} text={one.text} bad={one.stream === "stderr"} label={one.stream === "stderr" ? "Errors" : "Output"} />)}
          {cut && <p class="note">Only a part of the output is kept with an answer.</p>}
          {error && !seen && <AnsiText text={error} bad label="Error" />}
          {outputs.map((one, i) => <OutputView key={i} output={one} />)}
          {receipt?.result && <OutputView output={receipt.result} />}
          {receipt ? <ReceiptBar receipt={receipt} /> : <p class="note">This program did not run to its end.</p>}
        </div>
      )}
    </section>
  );
}
