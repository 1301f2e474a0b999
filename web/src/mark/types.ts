// What Mark says over HTTP (docs/MARK.md), as far as the page looks at it.
import type { Figure } from "../ui/frame";
import type { Column } from "../ui/table";

export interface Chat {
  chat_id: string;
  title: string;
  created: string;
  updated: string;
  model: string | null;
}

export type Status = "ok" | "error" | "stopped" | "needs_input" | "pending";

export interface Query {
  n?: number;
  source: string;
  sql: string;
  params?: unknown;
  status: string;
  rows?: number | null;
  bytes?: number | null;
  ms?: number | null;
  cost?: number | null;
  money?: number | null;
  estimate?: { cost?: number | null; rows?: number | null; bytes?: number | null; money?: number | null } | null;
  cache_hit?: boolean;
  replayed?: boolean;
  message?: string;
}

/** Something a program showed: several forms of the same thing by media type. */
export type Output = Record<string, unknown>;

export interface Receipt {
  status: string;
  limit?: string | null;
  success?: boolean;
  exit_code?: number | null;
  stdout?: string;
  stderr?: string;
  result?: Output | null;
  outputs?: ({ data?: Output } & Output)[];
  error?: { name?: string; ename?: string; value?: string; evalue?: string; message?: string; traceback?: string | string[] } | string | null;
  truncated?: { stdout?: number; stderr?: number };
  usage?: { cpu_ms?: number; wall_ms?: number; peak_memory_bytes?: number };
  template?: string;
}

export interface Step {
  n: number;
  code: string;
  receipt: Receipt | null;
  queries: Query[];
}

export interface Table {
  title: string;
  columns: Column[];
  rows: unknown[][];
  row_count: number;
  step?: number;
}

export interface Value {
  name: string;
  value: unknown;
  unit?: string | null;
  step: number;
  line?: number;
}

export interface Mark {
  start: number; // bytes of UTF-8
  end: number;
  kind: "value" | "found" | "unsupported";
  name?: string;
  step?: number;
  line?: number;
  message_id?: string; // of an earlier answer: the step is one of it
  where?: string;
  table?: number; // where it was found, from 1
  row?: number;
  column?: number;
}

export interface Artifact {
  name: string;
  size: number;
  media_type: string;
  url: string;
  kept_url?: string | null; // as the answer left it
}

export interface Amounts {
  bytes: number | null;
  cost: number | null;
  tokens: number | null;
  seconds: number | null;
}

export interface Answer {
  chat_id: string;
  message_id: string;
  status: Status;
  answer_story: string | null;
  visualizations: Figure[];
  data: Table[];
  steps: Step[];
  values: Value[];
  numbers: { checked: number; unsupported: string[]; marks?: Mark[] };
  artifacts: Artifact[];
  question: string | null;
  notices?: string[];
  model: string | null;
  demo?: boolean;
  usage: { prompt_tokens: number | null; completion_tokens: number | null; cached_tokens: number | null; cost: number | null; seconds: number | null };
  budget?: { used: Amounts; left: Amounts } | null;
}

export interface Rating {
  rating: "up" | "down";
  reasons: string[];
  text: string | null;
}

export interface Message {
  message_id: string;
  role: "user" | "assistant";
  status: Status;
  reply_to: string | null;
  text: string | null;
  attachments: string[];
  response: Answer | null;
  created: string;
  feedback: Rating | null;
}

export interface ProfileColumn {
  name: string;
  type: string;
  nulls?: number;
  distinct?: number;
  distinct_exact?: boolean;
  odd?: number;
  min?: unknown;
  max?: unknown;
  formats?: string[];
  values?: unknown[];
  examples?: unknown[];
  notes?: string[];
}

export interface ProfileTable {
  name?: string;
  rows?: number;
  rows_exact?: boolean;
  columns_total?: number;
  duplicate_rows?: number;
  header?: boolean;
  columns?: ProfileColumn[];
  notes?: string[];
}

export interface Profile extends ProfileTable {
  format?: string;
  encoding?: string;
  delimiter?: string;
  error?: string;
  sheets?: ProfileTable[];
  tables?: ProfileTable[];
  shape?: unknown;
}

export interface Attachment {
  attachment_id: string;
  name: string;
  size: number;
  media_type: string;
  profile?: Profile | null;
}

export interface Model {
  name: string;
  provider: string;
  model: string | null;
  tools: boolean;
  context: number;
  demo: boolean;
  price?: { input?: number; output?: number } | null;
  source: string;
}

export interface Source {
  source_id: string;
  name: string;
  kind: "postgresql" | "bigquery" | "files";
  description: string;
  created: string;
  updated: string;
  synced: string | null;
  tables: number;
  usable: boolean;
  // for operators
  sync_error?: string | null;
  settings?: Record<string, unknown>;
  has_secret?: boolean;
  access?: Access[];
  joins?: Join[];
  examples?: Example[];
}

export interface Access {
  who: string;
  role?: string;
  login?: string;
  password?: string;
  has_password?: boolean;
}

export interface Join {
  left: string;
  right: string;
  note?: string;
}

export interface Example {
  question: string;
  sql?: string;
}

export interface SourceColumn {
  name: string;
  type?: string;
  source_type?: string;
  nullable?: boolean;
  comment?: string;
  key?: boolean;
  references?: string;
  samples?: unknown[];
  description?: string;
  unit?: string;
  synonyms?: string[];
  masked?: boolean;
  gone?: boolean;
}

export interface SourceTable {
  name: string;
  kind?: string;
  comment?: string;
  rows?: number;
  bytes?: number;
  row_security?: boolean;
  partitioning?: string;
  description?: string;
  synonyms?: string[];
  gone?: string;
  columns: SourceColumn[];
}

export interface Recheck {
  message_id: string;
  equal: boolean;
  values: { name: string; before: unknown; after: unknown; equal: boolean }[];
  tables: { title?: string; equal: boolean; differences?: unknown[] }[];
  charts: { n?: number; equal: boolean; differences?: unknown[] }[];
  seconds?: number;
  failed?: number;
  checked?: number;
  errors?: { n: number; error: string }[];
  packages?: { before: Record<string, string>; after: Record<string, string> } | null;
  template?: { before: string; after: string } | null;
  files?: string[];
  queries?: { n: number; source: string; sql: string; before: unknown; after: unknown; equal: boolean }[];
}

export interface Verified {
  verified_id: string;
  message_id: string;
  question: string;
  note?: string;
  shared: boolean;
  mine: boolean;
  created: string;
  checked: string | null;
  passed: boolean | null;
}
