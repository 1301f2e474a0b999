// The form of a data source, and the body that it becomes. What nobody touched is left out of a change, what was emptied is null.
import type { Access, Example, Join, Source } from "./types";

export type Kind = Source["kind"];

export interface SourceForm {
  name: string;
  kind: Kind;
  description: string;
  url: string;
  password: string;
  ca: string;
  schemas: string;
  role: string;
  variables: string;
  project: string;
  dataset: string;
  location: string;
  credentials: string;
  price_per_tib: string;
  directory: string;
  rows: string;
  bytes: string;
  seconds: string;
  cost: string;
  bytes_billed: string;
  samples: boolean;
  access: Access[];
  joins: Join[];
  examples: Example[];
}

export const NEW_SOURCE: SourceForm = {
  name: "", kind: "postgresql", description: "", url: "", password: "", ca: "", schemas: "", role: "", variables: "", project: "", dataset: "", location: "", credentials: "",
  price_per_tib: "", directory: "", rows: "", bytes: "", seconds: "", cost: "", bytes_billed: "", samples: true, access: [{ who: "*" }], joins: [], examples: [],
};

const text = (value: unknown): string => (value === null || value === undefined ? "" : String(value));

/** The address of a PostgreSQL source, without its password, from what the server shows. */
export function addressOf(settings: Record<string, unknown>): string {
  if (!settings.host) return text(settings.url);
  const query = new URLSearchParams();
  if (settings.sslmode) query.set("sslmode", text(settings.sslmode));
  if (settings.application_name) query.set("application_name", text(settings.application_name));
  if (settings.connect_timeout) query.set("connect_timeout", text(settings.connect_timeout));
  const port = settings.port && settings.port !== 5432 ? `:${text(settings.port)}` : "";
  const host = text(settings.host);
  const place = host.startsWith("/") ? encodeURIComponent(host) : host.includes(":") ? `[${host}]` : host;
  return `postgresql://${encodeURIComponent(text(settings.user))}@${place}${port}/${encodeURIComponent(text(settings.dbname))}${query.size ? `?${query}` : ""}`;
}

export function formOf(source: Source): SourceForm {
  const settings = source.settings ?? {};
  const limits = (settings.limits ?? {}) as Record<string, unknown>;
  const variables = (settings.variables ?? {}) as Record<string, string>;
  return {
    ...NEW_SOURCE,
    name: source.name,
    kind: source.kind,
    description: source.description,
    url: source.kind === "postgresql" ? addressOf(settings) : text(settings.url),
    ca: text(settings.ca),
    schemas: Array.isArray(settings.schemas) ? settings.schemas.join(", ") : "",
    role: text(settings.role),
    variables: Object.entries(variables).map(([name, value]) => `${name} = ${value}`).join("\n"),
    project: text(settings.project),
    dataset: text(settings.dataset),
    location: text(settings.location),
    price_per_tib: text(settings.price_per_tib),
    directory: text(settings.directory),
    rows: text(limits.rows),
    bytes: text(limits.bytes),
    seconds: text(limits.seconds),
    cost: text(limits.cost),
    bytes_billed: text(limits.bytes_billed),
    samples: settings.samples !== false,
    access: (source.access ?? []).map((row) => ({ ...row })),
    joins: (source.joins ?? []).map((row) => ({ ...row })),
    examples: (source.examples ?? []).map((row) => ({ ...row })),
  };
}

const words = (value: string): string[] => value.split(/[\s,]+/).filter(Boolean);

function variablesOf(value: string): Record<string, string> {
  const map: Record<string, string> = {};
  for (const line of value.split("\n").map((one) => one.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`“${line}” is not NAME = VALUE`);
    map[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return map;
}

function numberOf(value: string, label: string): number {
  const number = Number(value.replace(/[\s_,']/g, ""));
  if (!Number.isFinite(number) || number <= 0) throw new Error(`${label} must be a number above 0`);
  return number;
}

const LIMITS: Record<Kind, (keyof SourceForm & ("rows" | "bytes" | "seconds" | "cost" | "bytes_billed"))[]> = {
  postgresql: ["rows", "bytes", "seconds", "cost"],
  bigquery: ["rows", "bytes", "seconds", "bytes_billed"],
  files: [],
};

function limitsOf(form: SourceForm): Record<string, number> | null {
  const limits: Record<string, number> = {};
  for (const name of LIMITS[form.kind]) if (form[name].trim()) limits[name] = numberOf(form[name], `The limit ${name}`);
  return Object.keys(limits).length ? limits : null;
}

function credentialsOf(value: string): unknown {
  try {
    const parsed: unknown = JSON.parse(value);
    if (parsed && typeof parsed === "object" && !Array.isArray(parsed)) return parsed;
  } catch {
    // said below
  }
  throw new Error("The service account's key must be the JSON file that Google made");
}

const cleanAccess = (rows: Access[]): Access[] =>
  rows.filter((row) => row.who.trim()).map((row) => ({
    who: row.who.trim(),
    ...(row.role?.trim() ? { role: row.role.trim() } : {}),
    ...(row.login?.trim() ? { login: row.login.trim() } : {}),
    ...(row.password ? { password: row.password } : {}),
  }));

const cleanJoins = (rows: Join[]): Join[] => rows.filter((row) => row.left.trim() && row.right.trim()).map((row) => ({ left: row.left.trim(), right: row.right.trim(), ...(row.note?.trim() ? { note: row.note.trim() } : {}) }));

const cleanExamples = (rows: Example[]): Example[] => rows.filter((row) => row.question.trim()).map((row) => ({ question: row.question.trim(), ...(row.sql?.trim() ? { sql: row.sql.trim() } : {}) }));

/** What the form says, all of it, as the API has it; throws an Error that a person understands. */
function wholeBody(form: SourceForm): Record<string, unknown> {
  const body: Record<string, unknown> = { description: form.description.trim(), samples: form.samples, access: cleanAccess(form.access), joins: cleanJoins(form.joins), examples: cleanExamples(form.examples), name: form.name.trim() };
  if (form.kind === "postgresql")
    Object.assign(body, {
      url: form.url.trim(), ca: form.ca.trim() ? `${form.ca.trim()}\n` : "", schemas: form.schemas.trim() ? words(form.schemas) : null, role: form.role.trim(),
      variables: form.variables.trim() ? variablesOf(form.variables) : null, limits: limitsOf(form),
    });
  else if (form.kind === "bigquery")
    Object.assign(body, {
      project: form.project.trim(), dataset: form.dataset.trim(), location: form.location.trim(), price_per_tib: form.price_per_tib.trim() ? numberOf(form.price_per_tib, "The price") : null, url: form.url.trim(), limits: limitsOf(form),
    });
  else body.directory = form.directory.trim();
  return body;
}

const secrets = (form: SourceForm): Record<string, unknown> => ({
  ...(form.kind === "postgresql" && form.password ? { password: form.password } : {}),
  ...(form.kind === "bigquery" && form.credentials.trim() ? { credentials: credentialsOf(form.credentials) } : {}),
});

const missing = (value: unknown): boolean => value === "" || value === null || (Array.isArray(value) && value.length === 0);

export function addBody(form: SourceForm): Record<string, unknown> {
  const body = Object.fromEntries(Object.entries(wholeBody(form)).filter(([, value]) => !missing(value)));
  if (body.samples === true) delete body.samples;
  return { ...body, kind: form.kind, ...secrets(form) };
}

export function changeBody(form: SourceForm, before: SourceForm): Record<string, unknown> {
  const was = wholeBody(before);
  const body: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(wholeBody(form))) {
    if (JSON.stringify(value) === JSON.stringify(was[name])) continue;
    body[name] = missing(value) && !Array.isArray(value) ? null : value;
  }
  return { ...body, ...secrets(form) };
}
