// Makes the docs page, which the server has drawn, more than paper: a filter, colours, who tries, and a form
// for each route. Without script it is complete, but still.
import { identity, setIdentity } from "../api";
import "../styles/base.css";
import "../styles/docs.css";
import { dark, theme } from "../theme";
import { copyButton, make } from "./dom";
import { label, openForm } from "./try";

// ---- colours ----

const SUN = "M12 8a4 4 0 100 8 4 4 0 000-8zM12 2v2M12 20v2M2 12h2M20 12h2M4.9 4.9l1.4 1.4M17.7 17.7l1.4 1.4M19.1 4.9l-1.4 1.4M6.3 17.7l-1.4 1.4";
const MOON = "M20 14.5A8.5 8.5 0 119.5 4a7 7 0 0010.5 10.5z";
const SVG = "http://www.w3.org/2000/svg";

function icon(d: string): SVGElement {
  const svg = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  const attributes = { class: "icon", width: "18", height: "18", viewBox: "0 0 24 24", fill: "none", stroke: "currentColor", "stroke-width": "1.7", "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true" };
  for (const [name, value] of Object.entries(attributes)) svg.setAttribute(name, value);
  path.setAttribute("d", d);
  svg.append(path);
  return svg;
}

function themeButton(): HTMLElement {
  const button = make("button", { type: "button", class: "icon-button" });
  const draw = () => {
    button.replaceChildren(icon(dark.get() ? SUN : MOON));
    button.setAttribute("aria-label", dark.get() ? "Light colours" : "Dark colours");
    button.title = dark.get() ? "Light colours" : "Dark colours";
  };
  dark.watch(draw);
  draw();
  button.addEventListener("click", () => theme.set(dark.get() ? "light" : "dark"));
  return button;
}

// ---- the bar ----

const ICONS = { sources: "M5 6c0-1.7 3.1-3 7-3s7 1.3 7 3-3.1 3-7 3-7-1.3-7-3zM5 6v12c0 1.7 3.1 3 7 3s7-1.3 7-3V6M5 12c0 1.7 3.1 3 7 3s7-1.3 7-3", admin: "M4 18a9 9 0 1116 0M12 15l4-5" };

function barLink(href: string, label: string, d: string): HTMLElement {
  return make("a", { href }, icon(d), " ", make("span", {}, label));
}

/** As in the shell: those whose account is an operator's have the dashboard, too. */
function drawBar(nav: HTMLElement): void {
  nav.querySelectorAll("[data-mine]").forEach((one) => one.remove());
  if (identity.get().tokens?.user.role !== "operator") return;
  const sources = barLink("/sources", "Sources", ICONS.sources);
  const admin = barLink("/admin", "Dashboard", ICONS.admin);
  for (const one of [sources, admin]) one.dataset.mine = "";
  nav.querySelector('a[href="/play"]')?.before(sources);
  nav.querySelector('a[href="/docs"]')?.before(admin);
}

// ---- who tries ----

function drawIdentity(box: HTMLElement): void {
  const { tokens, key } = identity.get();
  const line = make("div", { class: "card identity" });
  if (tokens || key) {
    const who = tokens ? (tokens.user.role === "guest" ? "a guest" : tokens.user.email) : "an API key";
    const leave = make("button", { type: "button" }, "Forget the key");
    leave.addEventListener("click", () => setIdentity({}));
    line.append(make("span", {}, "You try routes as "), make("strong", {}, who), ...(key ? [leave] : []));
  } else {
    const input = make("input", { type: "password", required: "", autocomplete: "off", "aria-label": "API key", placeholder: "API key" });
    const form = make("form", {}, input, make("button", {}, "Use this key"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      setIdentity({ key: input.value.trim() });
    });
    line.append(make("span", {}, "You try routes without a key. "), make("a", { href: "/" }, "Sign in"), make("span", {}, "or"), form);
  }
  box.replaceChildren(line);
}

// ---- the filter ----

function addFilter(box: HTMLElement): void {
  const toc = document.querySelector<HTMLElement>(".toc")!;
  const input = make("input", { type: "search", placeholder: "Filter routes", title: "Press / to come here", "aria-label": "Filter routes", autocomplete: "off" });
  const none = make("p", { class: "none", role: "status" });
  box.append(input, none);
  const articles = [...document.querySelectorAll<HTMLElement>("article.route")].map((node) => ({
    node,
    link: toc.querySelector<HTMLElement>(`a[href="#${CSS.escape(node.id)}"]`)?.parentElement ?? null,
    text: `${node.dataset.method} ${node.dataset.path} ${node.querySelector("p")?.textContent ?? ""}`.toLowerCase(),
  }));
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const { node, link, text } of articles) {
      const match = words.every((word) => text.includes(word));
      node.hidden = !match;
      if (link) link.hidden = !match;
      if (match) found++;
    }
    for (const section of document.querySelectorAll<HTMLElement>("section.tag, .toc section"))
      section.hidden = words.length > 0 && !section.querySelector("article:not([hidden]), li:not([hidden])");
    for (const id of ["objects", "problems"]) document.getElementById(id)!.hidden = words.length > 0;
    toc.classList.toggle("filtering", words.length > 0);
    none.textContent = words.length ? (found ? `${found} ${found === 1 ? "route" : "routes"}` : "No route matches.") : "";
  };
  input.addEventListener("input", apply);
  // A link to what the filter hides shows everything again.
  window.addEventListener("hashchange", () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target?.closest("[hidden]")) return;
    input.value = "";
    apply();
    target.scrollIntoView();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input, textarea, select");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      input.focus();
    } else if (event.key === "Escape" && event.target === input) {
      input.value = "";
      apply();
    }
  });
}

/** The entry of the route that is being read. */
function followReading(): void {
  const links = new Map([...document.querySelectorAll<HTMLAnchorElement>(".toc li a")].map((link) => [link.hash.slice(1), link]));
  let current: HTMLAnchorElement | undefined;
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const link = links.get(entry.target.id);
      if (!entry.isIntersecting || !link) continue;
      current?.removeAttribute("aria-current");
      link.setAttribute("aria-current", "true");
      current = link;
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  for (const article of document.querySelectorAll("article.route")) seen.observe(article);
}

// ---- each route ----

function addButtons(): void {
  document.getElementById("address")?.remove(); // the examples have it now
  for (const sample of document.querySelectorAll<HTMLElement>("pre.curl")) {
    const code = sample.querySelector("code")!;
    code.textContent = (code.textContent ?? "").replace("$GLOVEBOX_URL", location.origin);
    const frame = make("div", { class: "with-copy" });
    sample.replaceWith(frame);
    frame.append(sample, copyButton("Copy", () => code.textContent ?? ""));
  }
  for (const article of document.querySelectorAll<HTMLElement>("article.route")) {
    const button = make("button", { type: "button" });
    label(article, button, false);
    button.addEventListener("click", () => void openForm(article, button));
    article.querySelector("header")!.append(button);
  }
}

document.getElementById("bar-end")!.append(themeButton());
const who = document.getElementById("identity")!;
const bar = document.querySelector<HTMLElement>(".bar nav")!;
const draw = () => {
  drawIdentity(who);
  drawBar(bar);
};
identity.watch(draw);
draw();
addFilter(document.getElementById("filter")!);
addButtons();
followReading();
// What was added has moved the place that the address names.
if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
