// A look into a file of the box: pictures, tables, text, PDF, HTML, notebooks. Large files are shown in part.
import { useEffect, useMemo, useState } from "preact/hooks";

import { download, request, say } from "../api";
import { bytes, count } from "../format";
import { AnsiText } from "../ui/ansi";
import { HtmlFrame, PdfFrame } from "../ui/frame";
import { attempt, Dialog, Note, Spinner } from "../ui/parts";
import { DataTable, parseDelimited } from "../ui/table";
import { nameOf, pathUrl, type Entry } from "./files";
import { Markdown } from "./output";

const ROWS = 100_000;
const TEXT_MOST = 1_000_000;
const TABLE_MOST = 64_000_000;
const BINARY_MOST = 50_000_000;

type Kind = "picture" | "table" | "text" | "pdf" | "html" | "markdown" | "notebook";

const PICTURES: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", svg: "image/svg+xml", bmp: "image/bmp" };

function kindOf(path: string): Kind {
  const extension = /\.([^./]+)$/.exec(path)?.[1]?.toLowerCase() ?? "";
  if (Object.hasOwn(PICTURES, extension)) return "picture";
  if (extension === "csv" || extension === "tsv") return "table";
  if (extension === "pdf") return "pdf";
  if (extension === "html" || extension === "htm") return "html";
  if (extension === "md") return "markdown";
  return extension === "ipynb" ? "notebook" : "text";
}

type Content = { kind: "picture"; url: string } | { kind: "pdf"; data: Uint8Array } | { kind: "binary" } | { kind: Exclude<Kind, "picture" | "pdf">; text: string; cut: boolean };

async function load(session: string, entry: Entry, signal: AbortSignal): Promise<Content> {
  const kind = kindOf(entry.path);
  const url = pathUrl(session, entry.path);
  if (kind === "picture" || kind === "pdf") {
    if (entry.size > BINARY_MOST) throw new Error(`This file is larger than ${bytes(BINARY_MOST)}. Download it to look at it.`);
    const data = await (await request(url, { signal })).arrayBuffer();
    if (kind === "pdf") return { kind, data: new Uint8Array(data) };
    const type = PICTURES[/\.([^./]+)$/.exec(entry.path)![1]!.toLowerCase()]!;
    return { kind, url: URL.createObjectURL(new Blob([data], { type })) };
  }
  const most = kind === "table" || kind === "notebook" || kind === "html" ? TABLE_MOST : TEXT_MOST;
  const cut = entry.size > most;
  const reply = await request(url, { signal, ...(cut ? { headers: { Range: `bytes=0-${most - 1}` } } : {}) });
  const data = new Uint8Array(await reply.arrayBuffer());
  if (kind === "text" && data.subarray(0, 8000).includes(0)) return { kind: "binary" };
  return { kind, text: new TextDecoder().decode(data), cut };
}

/** Whether a number can take the place of this text: not of long or padded integers, which are names of something. */
const isNumber = (text: string): boolean => /^[+-]?(\d{1,15}(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i.test(text) && !/^[+-]?0\d/.test(text) && text.length < 30;

/** Numbers as numbers, so that columns sort as people expect. */
function typed(rows: string[][]): { columns: { name: string }[]; rows: unknown[][] } {
  const [first = [], ...rest] = rows;
  const width = rows.slice(0, 200).reduce((most, row) => Math.max(most, row.length), first.length);
  const columns = Array.from({ length: width }, (_, c) => ({ name: first[c]?.trim() || `column ${c + 1}` }));
  const numeric = columns.map((_, c) => {
    const some = rest.slice(0, 1000).map((row) => row[c] ?? "").filter((text) => text !== "");
    return some.length > 0 && some.every(isNumber);
  });
  return {
    columns,
    rows: rest.map((row) => columns.map((_, c) => {
      const text = row[c] ?? "";
      if (!numeric[c]) return text;
      const n = Number(text);
      return text === "" ? null : Number.isNaN(n) ? text : n;
    })),
  };
}

function Table({ text, path, cut, size }: { text: string; path: string; cut: boolean; size: number }) {
  const table = useMemo(() => {
    const body = text.replace(/^\uFEFF/, "");
    const line = body.slice(0, body.indexOf("\n") < 0 ? 10_000 : body.indexOf("\n"));
    const delimiter = /\.tsv$/i.test(path) || (line.split("\t").length > line.split(",").length) ? "\t" : line.split(";").length > line.split(",").length ? ";" : ",";
    return typed(parseDelimited(body, delimiter, ROWS + 2));
  }, [text]);
  const rows = useMemo(() => (table.rows.length > ROWS ? table.rows.slice(0, ROWS) : table.rows), [table]);
  return (
    <>
      {(cut || table.rows.length > ROWS) && <Note>This file has {bytes(size)}; the first {count(Math.min(ROWS, table.rows.length))} rows are shown.</Note>}
      {table.columns.length > 200 && <Note>Only the first 200 of {table.columns.length} columns are shown.</Note>}
      <DataTable columns={table.columns.slice(0, 200)} rows={rows} label={nameOf(path)} height={Math.max(240, Math.min(620, window.innerHeight * 0.62))} />
    </>
  );
}

export default function Preview({ session, entry, onClose, onOpenNotebook }: { session: string; entry: Entry; onClose(): void; onOpenNotebook(text: string, name: string): void }) {
  const [content, setContent] = useState<Content | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    const abort = new AbortController();
    let url: string | null = null;
    load(session, entry, abort.signal).then(
      (loaded) => {
        if (loaded.kind === "picture") url = loaded.url;
        if (!abort.signal.aborted) setContent(loaded);
      },
      (problem: unknown) => !abort.signal.aborted && setError(say(problem)),
    );
    return () => {
      abort.abort();
      if (url) URL.revokeObjectURL(url);
    };
  }, [session, entry.path]);
  const name = nameOf(entry.path);
  return (
    <Dialog title={name} onClose={onClose} wide>
      {error ? <Note bad>{error}</Note> : !content ? <div class="center"><Spinner /></div> : (
        <div class="preview">
          {content.kind === "picture" && <img src={content.url} alt={name} onError={() => setError("This file is not a picture that the browser can show.")} />}
          {content.kind === "pdf" && <PdfFrame data={content.data} title={name} height={Math.max(300, window.innerHeight * 0.65)} />}
          {content.kind === "table" && <Table text={content.text} path={entry.path} cut={content.cut} size={entry.size} />}
          {content.kind === "html" && <HtmlFrame html={content.text} title={name} most={Math.max(300, window.innerHeight * 0.65)} />}
          {content.kind === "markdown" && <Markdown text={content.text} />}
          {content.kind === "text" && <AnsiText text={content.text} label={name} />}
          {content.kind === "notebook" && <p>A notebook. Open it to see its cells; the notebook you have now is kept in this browser.</p>}
          {content.kind === "binary" && <p class="empty">This file is not text, and there is no preview for it.</p>}
          {"cut" in content && content.cut && content.kind !== "table" && <Note>Only the beginning is shown: the file has {bytes(entry.size)}.</Note>}
        </div>
      )}
      <div class="row end preview-end">
        <small class="grow">{entry.path} · {bytes(entry.size)}</small>
        {content?.kind === "notebook" && !content.cut && <button type="button" onClick={() => onOpenNotebook(content.text, name)}>Open as a notebook</button>}
        <button type="button" class="primary" onClick={() => void attempt(() => download(pathUrl(session, entry.path), name))}>Download</button>
      </div>
    </Dialog>
  );
}
