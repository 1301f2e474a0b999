// Notebooks: what a cell is, and .ipynb files in and out. No drawing, no network: tests use this file by itself.
//
// A file comes from anywhere, so nothing in it is believed: each value is checked and what does not fit is left
// out with a warning, or, if nothing is left to show, refused with a message that says what is wrong.

export type Mime = Record<string, unknown>;

/** Of a stream, `left_out` is what only the server has, and `missing` (bytes) what nobody has. */
export type Output =
  | { output_type: "stream"; name: "stdout" | "stderr"; text: string; left_out?: number; missing?: number }
  | { output_type: "display_data"; data: Mime; metadata: Mime; display_id?: string }
  | { output_type: "execute_result"; data: Mime; metadata: Mime; execution_count: number | null }
  | { output_type: "error"; ename: string; evalue: string; traceback: string };

/** The part of a receipt that is kept with a cell. */
export interface Receipt {
  status: string;
  limit: string | null;
  exit_code: number | null;
  execution_time: number | null; // seconds
  cpu_ms: number | null;
  peak_memory_bytes: number | null;
  oom_kills: number | null;
  processes: number | null;
  memory_limit: number | null; // of the box it ran in
  time_limit: number | null; // seconds
  session_lost: boolean;
  execution_id: string | null;
  hosts: string[];
  files: { path: string; change: string }[];
  /** How many displays the server dropped: malformed, or over a cap. */
  outputs_left_out?: number;
}

export type CellKind = "code" | "markdown" | "raw";

export interface Cell {
  id: string;
  kind: CellKind;
  source: string;
  outputs: Output[];
  count: number | null;
  receipt: Receipt | null;
  metadata: Mime;
  attachments?: Mime;
}

export interface Notebook {
  title: string;
  cells: Cell[];
  metadata: Mime;
}

export class NotebookError extends Error {}

const CELLS_MAX = 5000;
const OUTPUTS_MAX = 1000;
const CHARACTERS_MAX = 100_000_000;

export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(6));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

export function newCell(kind: CellKind = "code", source = ""): Cell {
  return { id: newId(), kind, source, outputs: [], count: null, receipt: null, metadata: {} };
}

// ---- reading ----

const isObject = (x: unknown): x is Record<string, unknown> => typeof x === "object" && x !== null && !Array.isArray(x);
const objectOr = (x: unknown): Mime => (isObject(x) ? x : {});
const numberOr = (x: unknown): number | null => (typeof x === "number" && Number.isFinite(x) ? x : null);

/** Text that the format allows to be one string or a list of lines. */
function textOf(x: unknown): string | null {
  if (typeof x === "string") return x;
  if (Array.isArray(x) && x.every((line) => typeof line === "string")) return x.join("");
  return null;
}

const isJsonMime = (type: string): boolean => /^application\/(.*\+)?json$/i.test(type);

function bundleOf(x: unknown): Mime {
  const bundle: Mime = {};
  if (!isObject(x)) return bundle;
  for (const [type, value] of Object.entries(x)) {
    if (!/^[\w.+-]+\/[\w.+-]+$/.test(type)) continue;
    if (isJsonMime(type)) bundle[type] = value;
    else {
      const text = textOf(value);
      if (text !== null) bundle[type] = text;
    }
  }
  return bundle;
}

// Version 3 names types by short words.
const OLD_TYPES: Record<string, string> = {
  text: "text/plain", html: "text/html", svg: "image/svg+xml", png: "image/png", jpeg: "image/jpeg", latex: "text/latex",
  json: "application/json", javascript: "application/javascript", pdf: "application/pdf",
};

function oldBundle(output: Record<string, unknown>): Mime {
  const data: Mime = {};
  for (const [word, type] of Object.entries(OLD_TYPES)) if (word in output) data[type] = output[word];
  return bundleOf(data);
}

function outputOf(x: unknown): Output | null {
  if (!isObject(x)) return null;
  const old = !("data" in x);
  switch (x.output_type) {
    case "stream": {
      const text = textOf(x.text);
      const name = (x.name ?? x.stream) === "stderr" ? "stderr" : "stdout";
      return text === null ? null : { output_type: "stream", name, text };
    }
    case "display_data":
    case "update_display_data":
      return { output_type: "display_data", data: old ? oldBundle(x) : bundleOf(x.data), metadata: objectOr(x.metadata) };
    case "execute_result":
    case "pyout":
      return {
        output_type: "execute_result",
        data: old ? oldBundle(x) : bundleOf(x.data),
        metadata: objectOr(x.metadata),
        execution_count: numberOr(x.execution_count ?? x.prompt_number),
      };
    case "error":
    case "pyerr": {
      const trace = Array.isArray(x.traceback) ? x.traceback.filter((line) => typeof line === "string").join("\n") : textOf(x.traceback);
      return { output_type: "error", ename: String(x.ename ?? "Error"), evalue: String(x.evalue ?? ""), traceback: trace ?? "" };
    }
    default:
      return null;
  }
}

/** A receipt from a file or from the server, as far as it makes sense. */
export function receiptOf(x: unknown): Receipt | null {
  if (!isObject(x) || typeof x.status !== "string") return null;
  const usage = isObject(x.usage) ? x.usage : x;
  const dropped = numberOr(objectOr(x.truncated).outputs ?? x.outputs_left_out) ?? 0;
  const list = (value: unknown) => (Array.isArray(value) ? value.slice(0, 100) : []);
  return {
    status: x.status.slice(0, 40),
    limit: typeof x.limit === "string" ? x.limit.slice(0, 40) : null,
    exit_code: numberOr(x.exit_code),
    execution_time: numberOr(x.execution_time),
    cpu_ms: numberOr(usage.cpu_ms),
    peak_memory_bytes: numberOr(usage.peak_memory_bytes),
    oom_kills: numberOr(usage.oom_kills),
    processes: numberOr(usage.processes),
    memory_limit: numberOr(x.memory_limit),
    time_limit: numberOr(x.time_limit),
    session_lost: x.session_lost === true,
    execution_id: typeof x.execution_id === "string" ? x.execution_id.slice(0, 80) : null,
    hosts: list(usage.hosts).filter((host): host is string => typeof host === "string"),
    files: list(x.files).filter(isObject).map((file) => ({ path: String(file.path ?? ""), change: String(file.change ?? "") })),
    ...(dropped > 0 ? { outputs_left_out: dropped } : {}),
  };
}

function cellOf(x: unknown, seen: Set<string>, warn: (text: string) => void): Cell | null {
  if (!isObject(x)) {
    warn("A cell that is not an object was left out.");
    return null;
  }
  let source = textOf(x.source ?? x.input ?? "");
  if (source === null) {
    warn("The text of a cell is malformed; the cell is empty now.");
    source = "";
  }
  let kind: CellKind = x.cell_type === "code" ? "code" : x.cell_type === "markdown" ? "markdown" : "raw";
  if (x.cell_type === "heading") {
    kind = "markdown";
    source = `${"#".repeat(Math.min(6, Math.max(1, numberOr(x.level) ?? 1)))} ${source}`;
  } else if (kind === "raw" && x.cell_type !== "raw") warn(`A cell of the unknown type ${JSON.stringify(x.cell_type ?? null).slice(0, 40)} is shown as plain text.`);
  const { glovebox, ...metadata } = objectOr(x.metadata);
  const cell = newCell(kind, source.replace(/\r\n?/g, "\n"));
  cell.metadata = metadata;
  if (typeof x.id === "string" && /^[\w-]{1,64}$/.test(x.id) && !(x.id in Object.prototype) && !seen.has(x.id)) cell.id = x.id;
  seen.add(cell.id);
  if (isObject(x.attachments)) cell.attachments = x.attachments;
  if (kind !== "code") return cell;
  cell.count = numberOr(x.execution_count ?? x.prompt_number);
  cell.receipt = receiptOf(objectOr(glovebox).receipt);
  if (Array.isArray(x.outputs)) {
    const outputs = x.outputs.slice(0, OUTPUTS_MAX).map(outputOf);
    cell.outputs = outputs.filter((output): output is Output => output !== null);
    if (cell.outputs.length < x.outputs.length) warn("Some outputs are malformed or too many, and were left out.");
  }
  return cell;
}

/** Reads a notebook file. Throws a NotebookError that says what is wrong with it. */
export function parseNotebook(text: string, fileName = "Notebook"): { notebook: Notebook; warnings: string[] } {
  const fallback = fileName.replace(/^.*[/\\]/, "").replace(/\.ipynb$/i, "").slice(0, 120) || "Notebook";
  if (text.length > CHARACTERS_MAX) throw new NotebookError("This notebook is larger than 100 MB. Clear its outputs first.");
  const body = text.replace(/^\uFEFF/, "").trim();
  if (!body) throw new NotebookError("This file is empty.");
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch (error) {
    if (/^</.test(body)) throw new NotebookError("This is a web page and not a notebook. Download the notebook itself (the “raw” file).");
    throw new NotebookError(`This file is not a notebook: it is not JSON (${error instanceof Error ? error.message.slice(0, 120) : "malformed"}).`);
  }
  return readNotebook(parsed, fallback);
}

export function readNotebook(parsed: unknown, fallback = "Notebook"): { notebook: Notebook; warnings: string[] } {
  if (!isObject(parsed)) throw new NotebookError("This file is not a notebook: it has no cells.");
  const warnings = new Set<string>();
  const warn = (line: string) => void warnings.add(line);
  let list = parsed.cells;
  if (!Array.isArray(list) && Array.isArray(parsed.worksheets))
    list = parsed.worksheets.flatMap((sheet) => (isObject(sheet) && Array.isArray(sheet.cells) ? sheet.cells : []));
  if (!Array.isArray(list)) throw new NotebookError("This file is not a notebook: it has no list of cells.");
  if (numberOr(parsed.nbformat) === null) warn("The file does not say which version of the format it has.");
  else if ((parsed.nbformat as number) > 4) warn(`The file has version ${parsed.nbformat as number} of the format, which is newer than this page; some of it may be missing.`);
  if (list.length > CELLS_MAX) warn(`Only the first ${CELLS_MAX} cells were read.`);
  const metadata = objectOr(parsed.metadata);
  const language = objectOr(metadata.kernelspec).language ?? objectOr(metadata.language_info).name;
  if (typeof language === "string" && !/^python\d*$/i.test(language)) warn(`The notebook was written for ${language.slice(0, 40)}; here its code runs as Python.`);
  const seen = new Set<string>();
  const cells = list.slice(0, CELLS_MAX).map((cell) => cellOf(cell, seen, warn)).filter((cell): cell is Cell => cell !== null);
  if (list.length && !cells.length) throw new NotebookError("This notebook has no readable cell.");
  if (!cells.length) cells.push(newCell());
  const title = typeof metadata.title === "string" && !/^(untitled)?$/i.test(metadata.title.trim()) ? metadata.title.trim().slice(0, 120) : fallback;
  return { notebook: { title, cells, metadata }, warnings: [...warnings] };
}

// ---- writing ----

const linesOf = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];

function bundleOut(data: Mime): Mime {
  const out: Mime = {};
  for (const [type, value] of Object.entries(data))
    out[type] = typeof value === "string" && (type.startsWith("text/") || type === "image/svg+xml") ? linesOf(value) : value;
  return out;
}

function outputOut(output: Output): Mime {
  switch (output.output_type) {
    case "stream":
      return { output_type: "stream", name: output.name, text: linesOf(output.text) };
    case "error":
      return { output_type: "error", ename: output.ename, evalue: output.evalue, traceback: output.traceback.replace(/\n$/, "").split("\n") };
    case "execute_result":
      return { output_type: "execute_result", data: bundleOut(output.data), metadata: output.metadata, execution_count: output.execution_count };
    case "display_data":
      return { output_type: "display_data", data: bundleOut(output.data), metadata: output.metadata };
  }
}

/** The notebook in nbformat 4.5. */
export function toIpynb(notebook: Notebook, outputs = true): Mime {
  const { kernelspec: _kernel, language_info: _language, title: _title, orig_nbformat: _orig, ...rest } = notebook.metadata;
  return {
    cells: notebook.cells.map((cell) => {
      const out: Mime = { cell_type: cell.kind, id: cell.id, metadata: { ...cell.metadata }, source: linesOf(cell.source) };
      if (cell.kind === "code") {
        if (outputs && cell.receipt) out.metadata = { ...cell.metadata, glovebox: { receipt: { ...cell.receipt, execution_id: null } } };
        out.execution_count = outputs ? cell.count : null;
        out.outputs = outputs ? cell.outputs.map(outputOut) : [];
      } else if (cell.attachments) out.attachments = cell.attachments;
      return out;
    }),
    metadata: {
      ...rest,
      kernelspec: { display_name: "Python 3", language: "python", name: "python3" },
      language_info: { name: "python", file_extension: ".py", mimetype: "text/x-python" },
      title: notebook.title,
    },
    nbformat: 4,
    nbformat_minor: 5,
  };
}

/** As text that the server takes: without NUL, without halves of characters, and no integer that has more than 64 bits. */
export function toText(value: unknown): string {
  const { rawJSON } = JSON as { rawJSON?(text: string): unknown };
  return JSON.stringify(value, (_key, one: unknown) => {
    if (typeof one === "string") return /[\0\ud800-\udfff]/.test(one) ? one.replace(/\0|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd") : one;
    if (typeof one === "number" && Number.isInteger(one) && Math.abs(one) >= 2 ** 63) return rawJSON ? rawJSON(one.toExponential()) : String(one);
    return one;
  });
}

/** The code as a script, with Markdown as comments, in the "percent" form that editors know. */
export function toScript(notebook: Notebook): string {
  return notebook.cells
    .map((cell) => {
      if (cell.kind === "code") return `# %%\n${cell.source}\n`;
      return `# %% [${cell.kind}]\n${cell.source.split("\n").map((line) => (line ? `# ${line}` : "#")).join("\n")}\n`;
    })
    .join("\n");
}

export const fileNameOf = (title: string, extension: string): string =>
  `${title.replace(/[^\p{L}\p{N} ._-]+/gu, "-").replace(/^[. -]+|[. -]+$/g, "").slice(0, 100) || "notebook"}.${extension}`;

// ---- what a run prints ----

const TEXT_MAX = 2_000_000; // characters of one stream that a page keeps; the server has the rest
const TAIL = 200_000;
const MARK = "\n\u22ee\n";

/** Adds text to the outputs of a cell; of very long text the beginning and the end are kept. */
export function appendStream(outputs: Output[], name: "stdout" | "stderr", text: string, missing = 0): Output[] {
  const last = outputs[outputs.length - 1];
  if (last?.output_type !== "stream" || last.name !== name) return [...outputs, { output_type: "stream", name, text, ...(missing ? { missing } : {}) }];
  const gone = (last.missing ?? 0) + missing;
  let joined = last.text + text;
  let leftOut = last.left_out ?? 0;
  if (joined.length > TEXT_MAX + TAIL) {
    const head = joined.slice(0, TEXT_MAX - TAIL).replace(MARK, "").replace(/[\ud800-\udbff]$/, ""); // no half of a character
    const tail = joined.slice(-TAIL).replace(/^[\udc00-\udfff]/, "");
    leftOut += joined.length - head.length - tail.length;
    joined = head + MARK + tail;
  }
  return [...outputs.slice(0, -1), { ...last, text: joined, ...(leftOut ? { left_out: leftOut } : {}), ...(gone ? { missing: gone } : {}) }];
}

/** Adds the uncaught exception, and takes its traceback out of what was printed, where the server also writes it. */
export function appendError(outputs: Output[], error: { name: string; value: string; traceback: string }): Output[] {
  const rest = [...outputs];
  for (let i = rest.length - 1; i >= 0; i--) {
    const output = rest[i]!;
    if (output.output_type !== "stream" || output.name !== "stderr") continue;
    const at = error.traceback ? output.text.lastIndexOf(error.traceback.trimEnd()) : -1;
    if (at >= 0) {
      const text = output.text.slice(0, at) + output.text.slice(at + error.traceback.trimEnd().length).replace(/^\n/, "");
      if (text) rest[i] = { ...output, text };
      else rest.splice(i, 1);
    }
    break;
  }
  return [...rest, { output_type: "error", ename: error.name, evalue: error.value, traceback: error.traceback }];
}
