// What an answer has to show: charts, tables, files.
import { useEffect, useRef, useState } from "preact/hooks";

import { download, Problem, request, saveBlob } from "../api";
import { bytes, count } from "../format";
import { Chart, figureTitle, PdfFrame, type Figure } from "../ui/frame";
import { Icon } from "../ui/icon";
import { attempt, confirmed, Dialog, Menu, Spinner, toast } from "../ui/parts";
import { DataTable } from "../ui/table";
import type { Artifact, Table } from "./types";

const CHART = 400;

/** A chart that is drawn when it comes near the screen: each is a frame with plotly.js in it. */
export function LazyChart({ figure }: { figure: Figure }) {
  const [near, setNear] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (near) return;
    const watcher = new IntersectionObserver((entries) => entries.some((one) => one.isIntersecting) && setNear(true), { rootMargin: "700px" });
    watcher.observe(place.current!);
    return () => watcher.disconnect();
  }, [near]);
  return (
    <div class="result chart-result" ref={place}>
      {near ? <Chart figure={figure} height={CHART} /> : <div class="chart-waiting" style={{ height: `${CHART + 28}px` }}>{figureTitle(figure)}</div>}
    </div>
  );
}

const SHOWN_MOST = 200_000; // rows of a table in the page

const FORMATS = [
  { format: "csv", label: "CSV, all rows" },
  { format: "xlsx", label: "Excel, all rows" },
  { format: "parquet", label: "Parquet, all rows" },
  { format: "json", label: "JSON, all rows" },
];

const fileName = (title: string): string => title.replace(/[^\p{L}\p{N}_-]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 80) || "table";

/** All rows come from running the programs again. If they give another table now, that is said before it is saved. */
async function wholeTable(messageId: string, n: number, format: string): Promise<Response | null> {
  const path = `/api/v1/messages/${messageId}/tables/${n}?format=${format}`;
  try {
    return await request(path);
  } catch (error) {
    if (!(error instanceof Problem) || error.type !== "export-differs") throw error;
    const yes = await confirmed("The table has changed", `${error.detail} Take the new table?`, "Take the new one");
    return yes ? request(`${path}&changed=true`) : null;
  }
}

export function TableResult({ table, n, messageId }: { table: Table; n: number; messageId: string | null }) {
  const [all, setAll] = useState<Table | null>(null);
  const [busy, setBusy] = useState("");
  const shown = all ?? table;
  const work = (what: string, run: () => Promise<void>) => {
    setBusy(what);
    void attempt(run).finally(() => setBusy(""));
  };
  const save = (format: string) =>
    work("Running the programs again for all rows…", async () => {
      const reply = await wholeTable(messageId!, n, format);
      if (reply) saveBlob(await reply.blob(), `${fileName(table.title)}.${format}`);
    });
  const more = table.row_count > table.rows.length && table.row_count <= SHOWN_MOST && !all; // larger ones can be saved
  return (
    <section class="result table-result">
      <header>
        <h3><Icon name="table" size={16} /> {table.title || `Table ${n}`}</h3>
        {busy && <span class="busy"><Spinner label={busy} /> {busy}</span>}
        {more && messageId && !busy && (
          <button type="button" class="link" onClick={() => work("Running the programs again for all rows…", async () => {
            const reply = await wholeTable(messageId, n, "json");
            if (reply) setAll((await reply.json()) as Table);
          })}>Show all {count(table.row_count)} rows</button>
        )}
        {messageId && <Menu label={`Save ${table.title || "table"}`} icon="down" items={FORMATS.map(({ format, label }) => ({ label, run: () => save(format) }))} />}
      </header>
      <DataTable columns={shown.columns} rows={shown.rows} label={shown.title || `Table ${n}`} total={shown.row_count} height={340} />
    </section>
  );
}

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

const lost = (artifact: Artifact): string => (artifact.kept_url ? "is gone" : "was in the chat's box, which has ended");

/** The bytes of a file that programs wrote: as the answer left it, or, if it was not kept, as it is as long as the chat's session lives. */
async function artifactBlob(artifact: Artifact): Promise<Blob> {
  try {
    return await (await request(artifact.kept_url ?? artifact.url)).blob();
  } catch (error) {
    if (error instanceof Problem && error.status === 404) throw new Error(`${artifact.name} ${lost(artifact)}. Ask again, and it is written again.`);
    throw error;
  }
}

function Picture({ artifact }: { artifact: Artifact }) {
  const [url, setUrl] = useState("");
  const [gone, setGone] = useState(false);
  useEffect(() => {
    let made = "";
    let here = true;
    artifactBlob(artifact).then(
      (blob) => {
        if (!here) return;
        // The type that we show it as is ours, not that of the reply.
        made = URL.createObjectURL(new Blob([blob], { type: artifact.media_type }));
        setUrl(made);
      },
      () => here && setGone(true),
    );
    return () => {
      here = false;
      if (made) URL.revokeObjectURL(made);
    };
  }, [artifact.kept_url ?? artifact.url]);
  if (gone) return <p class="note">The picture {artifact.name} {lost(artifact)}.</p>;
  return url ? <figure class="picture"><img src={url} alt={artifact.name} /></figure> : <div class="picture-waiting"><Spinner /></div>;
}

export function Artifacts({ artifacts }: { artifacts: Artifact[] }) {
  const [pdf, setPdf] = useState<{ name: string; data: Uint8Array } | null>(null);
  const [text, setText] = useState<{ name: string; text: string } | null>(null);
  if (!artifacts.length) return null;
  const pictures = artifacts.filter((one) => PICTURES.includes(one.media_type) && one.size < 20_000_000).slice(0, 12);
  const save = (one: Artifact) => void attempt(async () => saveBlob(await artifactBlob(one), one.name.split("/").at(-1) ?? one.name));
  const look = (one: Artifact) =>
    void attempt(async () => {
      const blob = await artifactBlob(one);
      if (one.media_type === "application/pdf") setPdf({ name: one.name, data: new Uint8Array(await blob.arrayBuffer()) });
      else setText({ name: one.name, text: await blob.slice(0, 200_000).text() });
    });
  const readable = (one: Artifact) => one.media_type === "application/pdf" || /^text\/|json/.test(one.media_type);
  return (
    <section class="result artifacts" aria-label="Files">
      {pictures.map((one) => <Picture key={one.url} artifact={one} />)}
      <ul>
        {artifacts.map((one) => (
          <li key={one.url}>
            <button type="button" class="chip" onClick={() => save(one)} title={`Save ${one.name}`}>
              <Icon name="file" size={15} /> <span class="chip-name">{one.name}</span> <small>{bytes(one.size)}</small> <Icon name="down" size={15} />
            </button>
            {readable(one) && <button type="button" class="link" onClick={() => look(one)} aria-label={`Look at ${one.name}`}>Look</button>}
          </li>
        ))}
      </ul>
      {pdf && <Dialog title={pdf.name} wide onClose={() => setPdf(null)}><PdfFrame data={pdf.data} title={pdf.name} height={600} /></Dialog>}
      {text && <Dialog title={text.name} wide onClose={() => setText(null)}><pre class="output" tabIndex={0}>{text.text}</pre></Dialog>}
    </section>
  );
}

/** Saves what a route exports. */
export async function saveExport(path: string, name: string): Promise<void> {
  toast("The file is being made…");
  await download(path, name);
}

