// Draws the pages of a PDF, with pdf.js in this thread: a worker would have to be of our origin, which is opaque.
import * as pdfjs from "pdfjs-dist";
import * as worker from "pdfjs-dist/build/pdf.worker.mjs";

import { fromShell, toShell } from "./channel";

(globalThis as { pdfjsWorker?: unknown }).pdfjsWorker = worker;
const PAGES_MAX = 50;

const sheet = document.createElement("style");
sheet.textContent =
  "body { margin: 0; padding: 8px; background: #7f8790; } canvas { display: block; margin: 0 auto 8px; max-width: 100%; background: #fff; box-shadow: 0 1px 4px #0006; } p { font: 14px system-ui; color: #fff; text-align: center; }";
document.head.append(sheet);

function note(text: string): void {
  const p = document.createElement("p");
  p.textContent = text;
  document.body.append(p);
}

async function show(data: Uint8Array): Promise<void> {
  const file = await pdfjs.getDocument({ data, isEvalSupported: false, useWorkerFetch: false, disableFontFace: false, useSystemFonts: true } as any).promise;
  for (let n = 1; n <= Math.min(file.numPages, PAGES_MAX); n++) {
    const page = await file.getPage(n);
    const width = Math.min(900, Math.max(300, document.body.clientWidth - 16));
    const base = page.getViewport({ scale: 1 });
    const viewport = page.getViewport({ scale: (width / base.width) * Math.min(2, devicePixelRatio || 1) });
    const canvas = document.createElement("canvas");
    canvas.width = Math.ceil(viewport.width);
    canvas.height = Math.ceil(viewport.height);
    canvas.style.width = `${width}px`;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Page ${n} of ${file.numPages}`);
    document.body.append(canvas);
    await page.render({ canvas, canvasContext: canvas.getContext("2d")!, viewport } as any).promise;
    if (n === 1) toShell({ type: "drawn", pages: file.numPages });
  }
  if (file.numPages > PAGES_MAX) note(`The first ${PAGES_MAX} of ${file.numPages} pages. Download the file to read the rest.`);
}

fromShell((message) => {
  if (message.type === "show" && message.data instanceof Uint8Array)
    show(message.data).catch((error: unknown) => toShell({ type: "failed", detail: String(error).slice(0, 300) }));
});

toShell({ type: "ready" });
