// Shows HTML that a program made in a document that can reach nothing: see src/server/page/page.c for the policies. The HTML
// takes the place of this document; only its height is told.
//
// In the frame "html" scripts do not run, and nothing of it may reach out by itself. The policy stops every load, but browsers connect
// before they ask it: for <link rel=preconnect>, and for an address that a document is led to. The name of a machine can carry
// data, so these elements are taken out of the parsed tree; the tree is moved, not written as text and parsed a second time, so none comes
// back. The frame "live" is for scripts that somebody wants to run.
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

const live = location.pathname.endsWith("/live");
let last = 0;

function tell(): void {
  const height = Math.ceil(Math.max(document.documentElement.getBoundingClientRect().height, document.body?.scrollHeight ?? 0));
  if (height !== last) toShell({ type: "size", height: (last = height) });
}

/** A link to elsewhere leads nowhere from here; its address can still be read. */
function unlink(link: Element): void {
  for (const name of ["href", "xlink:href"]) {
    const to = link.getAttribute(name);
    if (to === null || to.startsWith("#")) continue;
    link.removeAttribute(name);
    if (!link.getAttribute("title")) link.setAttribute("title", to.slice(0, 500));
  }
}

/** Puts a document in the place of this one, without what would reach out. */
function place(html: string): void {
  const made = new DOMParser().parseFromString(html, "text/html");
  for (const element of made.querySelectorAll("script, link, base, meta[http-equiv], iframe, frame, object, embed")) element.remove();
  for (const element of made.querySelectorAll("[attributionsrc], [ping]")) for (const name of ["attributionsrc", "ping"]) element.removeAttribute(name);
  for (const element of made.querySelectorAll("*")) if (/^(a|area)$/i.test(element.localName)) unlink(element);
  document.replaceChild(document.adoptNode(made.documentElement), document.documentElement);
}

function write(html: string): void {
  document.open();
  document.write(html);
  document.close();
  fromShell(colour); // document.open() removed the listener
}

function colour(message: any): void {
  if (message.type === "theme") document.documentElement.classList.toggle("dark", message.dark === true);
}

fromShell((message) => {
  colour(message);
  if (message.type !== "show" || typeof message.html !== "string") return;
  (live ? write : place)(`<!doctype html><html class="${message.dark ? "dark" : ""}"><head>${BASE}</head><body>${message.html}</body></html>`);
  new ResizeObserver(tell).observe(document.documentElement);
  tell();
});

toShell({ type: "ready" });
