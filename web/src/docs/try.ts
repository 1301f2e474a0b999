// The form that sends a request, and shows the reply while it comes.
import { bearer, identity, saveBlob, say, socket } from "../api";
import { copyButton, make } from "./dom";
import { exampleOf, loadSpec, type Operation, type Parameter, type Spec } from "./spec";

const SHOWN_MAX = 1 << 20; // characters of a reply that are shown; all of it can be saved

interface Form {
  path: string;
  method: string;
  operation: Operation;
  inputs: { parameter: Parameter; input: HTMLInputElement }[];
  text: HTMLTextAreaElement | null; // a JSON body
  files: HTMLInputElement | null; // a form, or raw bytes
  multipart: boolean;
  stream: HTMLInputElement | null;
}

let fields = 0;

function field(label: string, hint: string, input: HTMLElement): HTMLElement {
  const id = `try-${++fields}`;
  input.id = id;
  return make("div", { class: "field" }, make("label", { for: id }, label), input, ...(hint ? [make("small", {}, hint)] : []));
}

function parameterField(form: Form, parameter: Parameter): HTMLElement {
  const input = make("input", { autocomplete: "off", spellcheck: "false" });
  if (parameter.required) input.required = true;
  form.inputs.push({ parameter, input });
  return field(parameter.required ? parameter.name : `${parameter.name} (optional)`, parameter.description ?? "", input);
}

function bodyFields(form: Form, spec: Spec): HTMLElement[] {
  const content = form.operation.requestBody?.content;
  if (!content) return [];
  const json = content["application/json"];
  if (json) {
    form.text = make("textarea", { spellcheck: "false" });
    form.text.value = JSON.stringify(exampleOf(spec, json.schema, form.method !== "POST"), null, 2);
    form.text.rows = Math.min(12, form.text.value.split("\n").length + 1);
    return [field("Body", "", form.text)];
  }
  form.multipart = "multipart/form-data" in content;
  form.files = make("input", { type: "file" });
  form.files.multiple = form.multipart;
  return [field(form.multipart ? "Files" : "File", "", form.files)];
}

// ---- the request ----

interface Prepared {
  url: string;
  headers: Record<string, string>;
  body?: BodyInit;
}

function prepare(form: Form): Prepared {
  const query = new URLSearchParams();
  const prepared: Prepared = { url: form.path, headers: {} };
  for (const { parameter, input } of form.inputs) {
    if (parameter.in === "path") {
      const keep = parameter.name === "path"; // slashes of a path in a workspace stay
      const value = keep ? input.value.split("/").map(encodeURIComponent).join("/") : encodeURIComponent(input.value);
      prepared.url = prepared.url.replace(`{${parameter.name}}`, () => value);
    } else if (input.value !== "") {
      if (parameter.in === "query") query.set(parameter.name, input.value);
      else prepared.headers[parameter.name] = input.value;
    }
  }
  if (query.size) prepared.url += `?${query}`;
  if (form.stream?.checked) prepared.headers.Accept = "text/event-stream";
  if (form.text) {
    prepared.headers["Content-Type"] = "application/json";
    prepared.body = form.text.value;
  } else if (form.multipart) {
    const data = new FormData();
    for (const file of form.files?.files ?? []) data.append("file", file, file.name);
    prepared.body = data;
  } else if (form.files) prepared.body = form.files.files?.[0] ?? new Blob([]);
  return prepared;
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

function asCurl(form: Form): string {
  const { url, headers, body } = prepare(form);
  const words = ["curl -s"];
  if (headers.Accept) words.push("-N");
  if (form.method !== (body === undefined ? "GET" : "POST")) words.push(`-X ${form.method}`);
  const who = identity.get();
  if (who.tokens || who.key) words.push('-H "Authorization: Bearer $GLOVEBOX_API_KEY"');
  for (const [name, value] of Object.entries(headers)) if (name !== "Content-Type") words.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (typeof body === "string") words.push(`-d ${quoted(body)}`);
  else if (form.multipart) for (const file of form.files?.files ?? []) words.push(`-F ${quoted(`file=@${file.name}`)}`);
  else if (form.files) words.push(`--data-binary ${quoted(`@${form.files.files?.[0]?.name ?? "FILE"}`)}`);
  words.push(quoted(location.origin + url));
  return words.join(" ");
}

// ---- the reply ----

class Reply {
  readonly box = make("div", { "aria-live": "polite" });
  private readonly line = make("div", { class: "reply-line" });
  private readonly shown = make("pre", { class: "reply", tabindex: "0" });
  private length = 0;

  constructor() {
    this.shown.hidden = true;
    this.box.append(this.line, this.shown);
  }

  say(...parts: (Node | string)[]): void {
    this.line.replaceChildren();
    this.note(...parts);
  }

  add(text: string): void {
    this.shown.hidden = false;
    if (this.length < SHOWN_MAX) this.shown.append(text.slice(0, SHOWN_MAX - this.length));
    this.length += text.length;
  }

  status(reply: Response, ms: number): void {
    const badge = make("span", { class: `badge ${reply.ok ? "good" : "bad"}` }, `${reply.status} ${reply.statusText}`.trim());
    const headers = make("details", {}, make("summary", {}, "Headers"),
      make("pre", { class: "headers" }, [...reply.headers].map(([name, value]) => `${name}: ${value}`).join("\n")));
    this.say(badge, `${ms} ms`);
    this.line.after(headers);
  }

  note(...parts: (Node | string)[]): void {
    this.line.append(...parts.map((part) => (typeof part === "string" ? make("span", {}, part) : part)));
  }
}

const isText = (type: string): boolean => /^text\/|json|javascript|xml|urlencoded/.test(type);

async function showBody(reply: Response, to: Reply, name: string): Promise<void> {
  const type = reply.headers.get("Content-Type") ?? "";
  if (/event-stream|ndjson/.test(type)) {
    const reader = reply.body!.pipeThrough(new TextDecoderStream()).getReader();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) to.add(piece.value);
    return;
  }
  const blob = await reply.blob();
  to.note(`${blob.size.toLocaleString("en")} bytes`);
  if (blob.size === 0) return;
  if (isText(type)) {
    const text = await blob.text();
    let shown = text;
    if (type.includes("json") && text.length < SHOWN_MAX) {
      try {
        shown = JSON.stringify(JSON.parse(text), null, 2);
      } catch {
        shown = text; // not what it says it is
      }
    }
    to.add(shown);
    if (text.length <= SHOWN_MAX) return;
  }
  const save = make("button", { type: "button" }, "Save");
  save.addEventListener("click", () => saveBlob(blob, name));
  to.note(save);
}

async function run(form: Form, to: Reply, signal: AbortSignal): Promise<void> {
  const { url, headers, body } = prepare(form);
  const token = await bearer();
  if (token) headers.Authorization = `Bearer ${token}`;
  const from = performance.now();
  const init: RequestInit = { method: form.method, headers, signal, credentials: "omit", cache: "no-store" };
  if (body !== undefined) init.body = body;
  const reply = await fetch(url, init);
  to.status(reply, Math.round(performance.now() - from));
  if (reply.status === 401) to.note("Sign in, or use a key: see the top of this page.");
  const named = /filename="([^"]+)"/.exec(reply.headers.get("Content-Disposition") ?? "")?.[1];
  await showBody(reply, to, named ?? url.split(/[/?]/).filter(Boolean).pop() ?? "reply");
}

/** A route that becomes a WebSocket: its messages, until it is closed. */
async function runSocket(form: Form, to: Reply, signal: AbortSignal): Promise<void> {
  const ws = await socket(prepare(form).url);
  to.say("connecting…");
  await new Promise<void>((resolve) => {
    signal.addEventListener("abort", () => ws.close());
    ws.onopen = () => to.say(make("span", { class: "badge good" }, "open"));
    ws.onmessage = ({ data }) => to.add(`${typeof data === "string" ? data : `(${(data as ArrayBuffer).byteLength} bytes)`}\n`);
    ws.onclose = ({ code, reason }) => {
      to.say(make("span", { class: "badge" }, `closed ${code}`), reason || (code === 1006 ? "The server refused it, or cannot be reached." : ""));
      resolve();
    };
  });
}

// ---- the form ----

function build(article: HTMLElement, spec: Spec): HTMLElement | null {
  const path = article.dataset.path ?? "";
  const method = article.dataset.method ?? "";
  const operation = spec.paths[path]?.[method];
  if (!operation) return null;
  const form: Form = { path, method: method.toUpperCase(), operation, inputs: [], text: null, files: null, multipart: false, stream: null };
  const isSocket = "101" in operation.responses;
  const parameters = operation.parameters.map((parameter) => parameterField(form, parameter));
  const content = Object.values(operation.responses).flatMap((reply) => Object.keys(reply.content ?? {}));
  const more = [...bodyFields(form, spec)];
  if (content.includes("text/event-stream") && content.includes("application/json")) {
    form.stream = make("input", { type: "checkbox" });
    more.push(make("p", {}, make("label", { class: "choice" }, form.stream, "as a stream of events")));
  }
  const send = make("button", { class: "primary" }, isSocket ? "Connect" : "Send");
  const stop = make("button", { type: "button" }, "Stop");
  stop.hidden = true;
  const reply = make("div");
  const node = make("form", { class: "try" }, make("h4", {}, "Try it"), make("div", { class: "try-fields" }, ...parameters), ...more,
    make("div", { class: "row" }, send, stop, ...(isSocket ? [] : [copyButton("Copy as curl", () => asCurl(form))])), reply);
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    const control = new AbortController();
    const to = new Reply();
    reply.replaceChildren(to.box);
    to.say("waiting…");
    send.disabled = true;
    stop.hidden = false;
    stop.onclick = () => control.abort();
    (isSocket ? runSocket : run)(form, to, control.signal)
      .catch((error: unknown) => (control.signal.aborted ? to.note("stopped") : to.say(make("span", { class: "badge bad" }, "failed"), say(error))))
      .finally(() => {
        send.disabled = false;
        stop.hidden = true;
      });
  });
  return node;
}

export function label(article: HTMLElement, button: HTMLButtonElement, isOpen: boolean): void {
  button.textContent = isOpen ? "Close" : "Try it";
  button.setAttribute("aria-expanded", String(isOpen));
  button.setAttribute("aria-label", `${button.textContent}: ${article.dataset.method?.toUpperCase()} ${article.dataset.path}`);
}

/** Opens the form of a route, or closes it. */
export async function openForm(article: HTMLElement, button: HTMLButtonElement): Promise<void> {
  const old = article.querySelector<HTMLElement>(".try");
  const show = old ? Boolean(old.hidden) : true;
  if (old) old.hidden = !show;
  else {
    button.disabled = true;
    try {
      const form = build(article, await loadSpec());
      article.append(form ?? make("p", { class: "note bad" }, "This route is not in openapi.json any more; reload the page."));
      article.querySelector<HTMLElement>(".try input, .try textarea, .try button")?.focus();
    } catch (error) {
      article.append(make("p", { class: "note bad" }, say(error)));
    } finally {
      button.disabled = false;
    }
  }
  label(article, button, show);
}
