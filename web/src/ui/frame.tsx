// The shell's end of a frame: an iframe with an opaque origin that shows what programs and models made.
// What it answers is hostile: handlers check types and bounds.
import { useEffect, useRef, useState } from "preact/hooks";

import { saveBlob } from "../api";
import { dark } from "../theme";
import { Spinner, toast } from "./parts";

type Kind = "html" | "live" | "chart" | "terminal" | "pdf";

export interface FrameHandle {
  post(message: object, transfer?: Transferable[]): void;
}

interface FrameProps {
  kind: Kind;
  title: string; // for screen readers
  height?: number | string;
  className?: string;
  /** The frame has loaded: send it what it shows. */
  onReady(frame: FrameHandle): void;
  onMessage?(message: Record<string, unknown>, frame: FrameHandle): void;
}

export function Frame({ kind, title, height, className, onReady, onMessage }: FrameProps) {
  const element = useRef<HTMLIFrameElement>(null);
  const calls = useRef({ onReady, onMessage });
  calls.current = { onReady, onMessage };
  useEffect(() => {
    const frame: FrameHandle = {
      // The target has an opaque origin, which cannot be named.
      post: (message, transfer = []) => element.current?.contentWindow?.postMessage(message, "*", transfer),
    };
    // HTML in a frame can lead that frame to another of ours, say to the one that runs scripts, which then is ready
    // as well: whatever asks a second time gets nothing.
    let greeted = false;
    const listen = (event: MessageEvent) => {
      if (!element.current || event.source !== element.current.contentWindow) return;
      const message: unknown = event.data;
      if (!message || typeof message !== "object") return;
      const { type } = message as { type?: unknown };
      if (type === "ready") {
        if (!greeted) calls.current.onReady(frame);
        greeted = true;
      } else calls.current.onMessage?.(message as Record<string, unknown>, frame);
    };
    window.addEventListener("message", listen);
    const unwatch = dark.watch((value) => frame.post({ type: "theme", dark: value }));
    // Only now: a frame that is there already could be ready before anybody listens.
    element.current!.src = `/frames/${kind}`;
    return () => {
      window.removeEventListener("message", listen);
      unwatch();
    };
  }, [kind]);
  return (
    <iframe
      ref={element}
      class={`frame frame-${kind} ${className ?? ""}`}
      sandbox="allow-scripts"
      title={title}
      loading="eager"
      style={height === undefined ? undefined : { height: typeof height === "number" ? `${height}px` : height }}
    />
  );
}

/** HTML of a program, as high as it is, up to `most` pixels; then it scrolls. Its scripts run after a click only. */
export function HtmlFrame({ html, title = "HTML output", most = 600 }: { html: string; title?: string; most?: number }) {
  const [height, setHeight] = useState(40);
  const [live, setLive] = useState(false);
  const scripted = /<script|\son\w+\s*=|javascript:/i.test(html);
  return (
    <div class="html-output">
      <Frame
        key={`${live}${html}`} // a document can be written once
        kind={live ? "live" : "html"}
        title={title}
        height={Math.min(most, Math.max(24, live ? Math.max(height, 200) : height))}
        onReady={(frame) => frame.post({ type: "show", html, dark: dark.get() })}
        onMessage={(message) => {
          if (message.type === "size" && typeof message.height === "number" && Number.isFinite(message.height)) setHeight(Math.min(20_000, message.height));
        }}
      />
      {scripted && !live && (
        <p class="note">This output has scripts, which were not run. <button type="button" class="link" onClick={() => setLive(true)}>Run them</button> in a frame without access to this page. They could tell others what this output shows.</p>
      )}
    </div>
  );
}

export interface Figure {
  data?: unknown;
  layout?: Record<string, unknown>;
}

/** The title of a figure, as text; "" if it has none. */
export function figureTitle(figure: Figure): string {
  const title = figure.layout?.title as { text?: unknown } | string | undefined;
  const text = typeof title === "string" ? title : title?.text;
  return typeof text === "string" ? text.replace(/<[^>]*>/g, "").slice(0, 200) : "";
}

/** A live chart; `tools` shows the buttons for PNG, SVG and JSON. */
export function Chart({ figure, height, tools = true }: { figure: Figure; height?: number; tools?: boolean }) {
  const handle = useRef<FrameHandle | null>(null);
  const waiting = useRef(new Map<number, string>());
  const [failed, setFailed] = useState("");
  const [drawn, setDrawn] = useState(false);
  const own = figure.layout?.height;
  const high = height ?? (typeof own === "number" && own > 0 ? Math.min(1200, Math.max(160, own)) : 380);
  const label = figureTitle(figure) || "chart";
  const name = label.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").toLowerCase().slice(0, 60) || "chart";
  useEffect(() => {
    handle.current?.post({ type: "show", figure, label, dark: dark.get() });
  }, [figure]);
  const image = (format: "png" | "svg") => {
    const id = Math.floor(Math.random() * 1e9);
    waiting.current.set(id, format);
    handle.current?.post({ type: "image", id, format });
  };
  return (
    <figure class="chart">
      {!drawn && !failed && <div class="chart-loading" style={{ height: `${high}px` }}><Spinner label="The chart is being drawn" /></div>}
      <Frame
        kind="chart"
        title={label}
        height={high}
        onReady={(frame) => {
          handle.current = frame;
          frame.post({ type: "show", figure, label, dark: dark.get() });
        }}
        onMessage={(message) => {
          if (message.type === "drawn") {
            setDrawn(true);
            setFailed("");
          }
          if (message.type === "failed") setFailed(String(message.detail).slice(0, 300));
          if (message.type !== "image" || typeof message.id !== "number") return;
          const format = waiting.current.get(message.id);
          waiting.current.delete(message.id);
          if (!format) return;
          if (typeof message.url !== "string" || !/^data:image\/(png|svg\+xml)[;,]/.test(message.url)) {
            toast(`The chart could not be saved as ${format.toUpperCase()}. JSON has all of it.`, true);
            return;
          }
          saveBlob(dataBlob(message.url), `${name}.${format}`);
        }}
      />
      {failed && <p class="note bad">This chart cannot be drawn: {failed}</p>}
      {tools && (
        <figcaption class="chart-tools">
          <button type="button" class="link" disabled={!drawn} onClick={() => image("png")}>PNG</button>
          <button type="button" class="link" disabled={!drawn} onClick={() => image("svg")}>SVG</button>
          <button type="button" class="link" onClick={() => saveBlob(new Blob([JSON.stringify(figure, null, 1)], { type: "application/json" }), `${name}.json`)}>JSON</button>
        </figcaption>
      )}
    </figure>
  );
}

/** The bytes of a data: URL, without fetch(), which the policy would have to allow. */
export function dataBlob(url: string): Blob {
  const comma = url.indexOf(",");
  const head = url.slice(5, comma);
  const type = head.split(";")[0]!;
  const body = url.slice(comma + 1);
  if (!head.includes(";base64")) return new Blob([decodeURIComponent(body)], { type });
  return new Blob([Uint8Array.from(atob(body), (c) => c.charCodeAt(0))], { type });
}

export function PdfFrame({ data, title, height = 500 }: { data: Uint8Array; title: string; height?: number }) {
  const [failed, setFailed] = useState("");
  return (
    <>
      {failed && <p class="note bad">This PDF cannot be shown: {failed}</p>}
      <Frame
        kind="pdf"
        title={title}
        height={height}
        onReady={(frame) => frame.post({ type: "show", data })}
        onMessage={(message) => {
          if (message.type === "failed") setFailed(String(message.detail).slice(0, 300));
        }}
      />
    </>
  );
}
