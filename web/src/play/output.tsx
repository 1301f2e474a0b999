// What a cell printed and displayed. All of it is hostile: text becomes text nodes, Markdown is sanitized, pictures are
// <img>, everything else is drawn in sandboxed frames.
import type { ComponentChildren } from "preact";
import { memo } from "preact/compat";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { saveBlob } from "../api";
import { bytes, count } from "../format";
import { AnsiText, plainText } from "../ui/ansi";
import { Chart, dataBlob, HtmlFrame, PdfFrame, type Figure } from "../ui/frame";
import { Note, Spinner } from "../ui/parts";
import { useNear } from "./near";
import type { Mime, Output } from "./notebook";

const SHOWN = 60; // outputs of one cell before "show all"
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** Richest first. */
const ORDER = ["application/vnd.plotly.v1+json", "text/html", "image/svg+xml", ...PICTURES, "text/markdown", "text/latex", "application/pdf", "application/json", "text/plain"];

/** Keeps the place of something that is far away, and draws it when it comes near. */
function Near({ children, least }: { children: ComponentChildren; least: number }) {
  const ref = useRef<HTMLDivElement>(null);
  const height = useRef(least);
  const near = useNear(ref);
  useEffect(() => {
    if (!near) return;
    const observer = new ResizeObserver(() => {
      if (ref.current && ref.current.offsetHeight > 30) height.current = ref.current.offsetHeight;
    });
    observer.observe(ref.current!);
    return () => observer.disconnect();
  }, [near]);
  return <div ref={ref} style={near ? undefined : { height: `${height.current}px` }}>{near && children}</div>;
}

/** Sanitized Markdown; pictures of `attachments` are put in. */
export function Markdown({ text, attachments }: { text: string; attachments?: Mime | undefined }) {
  const [html, setHtml] = useState<string | null>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    let gone = false;
    import("../markdown")
      .then(({ renderMarkdown }) => {
        if (gone) return;
        setHtml(renderMarkdown(withAttachments(text, attachments)));
        setFailed(false);
      })
      .catch(() => !gone && setFailed(true));
    return () => {
      gone = true;
    };
  }, [text, attachments]);
  if (failed)
    return (
      <>
        <AnsiText text={text} label="Markdown" />
        <Note bad>This text could not be drawn. <button type="button" class="link" onClick={() => location.reload()}>Reload the page</button></Note>
      </>
    );
  return html === null ? <Spinner /> : <div class="markdown" dangerouslySetInnerHTML={{ __html: html }} />;
}

/** A name as it is written in a link; one that is not encoded, such as `100%.png`, is the name itself. */
function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function withAttachments(text: string, attachments: Mime | undefined): string {
  if (!attachments) return text;
  return text.replace(/\(attachment:([^)\s]+)\)/g, (whole, name: string) => {
    const key = decoded(name);
    const bundle = Object.hasOwn(attachments, key) ? (attachments[key] as Mime | null) : null;
    const type = PICTURES.find((one) => typeof bundle?.[one] === "string");
    return type ? `(data:${type};base64,${String(bundle![type]).replace(/[^A-Za-z0-9+/=]/g, "")})` : whole;
  });
}

function Picture({ type, data, alt, size }: { type: string; data: string; alt: string; size: { width?: unknown; height?: unknown } | undefined }) {
  const url = useMemo(
    () => (type === "image/svg+xml" ? `data:image/svg+xml;charset=utf-8,${encodeURIComponent(data)}` : `data:${type};base64,${data.replace(/[^A-Za-z0-9+/=]/g, "")}`),
    [type, data],
  );
  const [failed, setFailed] = useState(false);
  const width = typeof size?.width === "number" && size.width > 0 && size.width < 10_000 ? size.width : undefined;
  const extension = type.replace("image/", "").replace("svg+xml", "svg").replace("jpeg", "jpg");
  if (failed) return <p class="note bad">This picture is damaged and cannot be shown.</p>;
  return (
    <figure class="picture">
      <img src={url} alt={alt} width={width} onError={() => setFailed(true)} />
      <figcaption class="chart-tools"><button type="button" class="link" onClick={() => saveBlob(dataBlob(url), `figure.${extension}`)}>Save as {extension.toUpperCase()}</button></figcaption>
    </figure>
  );
}

function Pdf({ data }: { data: string }) {
  const bytesOf = useMemo(() => {
    try {
      return Uint8Array.from(atob(data.replace(/\s/g, "")), (c) => c.charCodeAt(0));
    } catch {
      return null;
    }
  }, [data]);
  return bytesOf ? <PdfFrame data={bytesOf} title="PDF output" /> : <p class="note bad">This PDF is damaged and cannot be shown.</p>;
}

function Bundle({ data, metadata }: { data: Mime; metadata: Mime }) {
  const types = ORDER.filter((type) => type in data && (type.endsWith("json") || typeof data[type] === "string"));
  const [chosen, setChosen] = useState<string | null>(null);
  const type = chosen !== null && types.includes(chosen) ? chosen : types[0];
  if (!type) {
    const other = Object.keys(data)[0];
    return other ? <p class="note">An output of the type <code>{other.slice(0, 80)}</code>, which this page cannot show. It is kept in the notebook.</p> : null;
  }
  const value = data[type];
  const text = typeof value === "string" ? value : "";
  const plain = typeof data["text/plain"] === "string" ? plainText(data["text/plain"].slice(0, 200)) : "";
  let shown: ComponentChildren;
  if (type === "application/vnd.plotly.v1+json") shown = <Near least={400}><Chart figure={(value ?? {}) as Figure} /></Near>;
  else if (type === "text/html") shown = <Near least={60}><HtmlFrame html={text} /></Near>;
  else if (type === "image/svg+xml" || PICTURES.includes(type)) shown = <Picture type={type} data={text} alt={plain || "Picture"} size={metadata[type] as { width?: unknown } | undefined} />;
  else if (type === "application/pdf") shown = <Near least={500}><Pdf data={text} /></Near>;
  else if (type === "text/markdown" || type === "text/latex") shown = <Markdown text={text} />;
  else if (type === "application/json") shown = <AnsiText text={JSON.stringify(value, null, 2) ?? ""} label="JSON output" />;
  else shown = <AnsiText text={text} />;
  return (
    <div class="bundle">
      {shown}
      {types.length > 1 && type !== "text/plain" && types[0] === type && types.includes("text/plain") && type === "text/html" && (
        <button type="button" class="link as-text" onClick={() => setChosen("text/plain")}>as text</button>
      )}
      {chosen === "text/plain" && type === "text/plain" && <button type="button" class="link as-text" onClick={() => setChosen(null)}>as a table</button>}
    </div>
  );
}

/** A traceback: the last line says what happened, so it is shown large and first. */
function Failure({ output }: { output: Extract<Output, { output_type: "error" }> }) {
  return (
    <div class="failure">
      <p class="failure-head"><strong>{plainText(output.ename)}</strong>{output.evalue ? `: ${plainText(output.evalue.slice(0, 500))}` : ""}</p>
      {output.traceback && <Printed text={output.traceback.trimEnd()} bad label="Traceback" />}
    </div>
  );
}

const COLOURFUL = 500; // escape sequences

/** Text of a program. With many colours it has many elements, so it is drawn only where it is looked at. */
function Printed({ text, bad, label }: { text: string; bad: boolean; label: string }) {
  const many = useMemo(() => text.split("\x1b", COLOURFUL).length >= COLOURFUL, [text]);
  const shown = <AnsiText text={text} bad={bad} label={label} />;
  return many ? <Near least={480}>{shown}</Near> : shown;
}

function One({ output, onAll }: { output: Output; onAll?: ((name: "stdout" | "stderr") => void) | undefined }) {
  switch (output.output_type) {
    case "stream":
      return (
        <>
          <Printed text={output.text} bad={output.name === "stderr"} label={output.name === "stderr" ? "Printed to stderr" : "Printed"} />
          {output.left_out !== undefined && (
            <p class="note">{bytes(output.left_out)} in the middle are not kept in the page. {onAll && <button type="button" class="link" onClick={() => onAll(output.name)}>Download all of it</button>}</p>
          )}
          {output.missing !== undefined && <p class="note">{bytes(output.missing)} of what was printed are missing here: it was more than the server keeps.</p>}
        </>
      );
    case "error":
      return <Failure output={output} />;
    default:
      return <Bundle data={output.data} metadata={output.metadata} />;
  }
}

/** `onAll` downloads the whole of a stream, as long as the server has it. */
export const Outputs = memo(function Outputs({ outputs, label, onAll }: { outputs: Output[]; label: string; onAll?: ((name: "stdout" | "stderr") => void) | undefined }) {
  const [all, setAll] = useState(false);
  const [folded, setFolded] = useState(false);
  const list = all ? outputs : outputs.slice(0, SHOWN);
  if (!outputs.length) return null;
  if (folded) return <div class="cell-outputs"><button type="button" class="link" onClick={() => setFolded(false)}>Show the output</button></div>;
  return (
    <div class="cell-outputs" role="group" aria-label={label}>
      {list.map((output, i) => <One key={i} output={output} onAll={onAll} />)}
      {outputs.length > list.length && <button type="button" class="link" onClick={() => setAll(true)}>Show all {count(outputs.length)} outputs</button>}
      <button type="button" class="fold" onClick={() => setFolded(true)} aria-label="Hide the output" title="Hide the output" />
    </div>
  );
});
