// Shows HTML that a program made, with its scripts, in a document that can reach nothing: see
// src/server/page/page.c for the policy. The HTML replaces this document; only its height is told.
import { fromShell, toShell } from "./channel";

const BASE = `<meta name="color-scheme" content="light dark"><style>
:root { color-scheme: light; } :root.dark { color-scheme: dark; }
html { font: 14px/1.5 system-ui, sans-serif; color: #1d2126; background: transparent; }
:root.dark { color: #e6e4df; } body { margin: 0; overflow-x: auto; }
table { border-collapse: collapse; } table.dataframe { border: 0; font-size: 13px; font-variant-numeric: tabular-nums; }
table.dataframe th, table.dataframe td { border: 0; padding: 3px 10px; text-align: right; vertical-align: top; }
table.dataframe tbody tr:nth-child(odd) { background: rgb(127 127 127 / .09); }
table.dataframe thead th { border-bottom: 1px solid rgb(127 127 127 / .5); }
img, svg, video { max-width: 100%; } a { color: #0b6e5f; } :root.dark a { color: #5fc9b5; }
</style>`;

let last = 0;

function tell(): void {
  const height = Math.ceil(Math.max(document.documentElement.getBoundingClientRect().height, document.body?.scrollHeight ?? 0));
  if (height !== last) toShell({ type: "size", height: (last = height) });
}

fromShell((message) => {
  if (message.type === "theme") document.documentElement.classList.toggle("dark", message.dark === true);
  if (message.type !== "show" || typeof message.html !== "string") return;
  document.open();
  document.write(`<!doctype html><html class="${message.dark ? "dark" : ""}"><head>${BASE}</head><body>${message.html}</body></html>`);
  document.close();
  new ResizeObserver(tell).observe(document.documentElement);
  // document.open() removed the listener.
  fromShell((later) => {
    if (later.type === "theme") document.documentElement.classList.toggle("dark", later.dark === true);
  });
  tell();
});

toShell({ type: "ready" });
