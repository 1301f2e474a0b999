// Replies of the operator's API (docs/API.md, "Operator API").

export interface Overview {
  ready: boolean;
  draining: boolean;
  version: string;
  uptime_seconds: number;
  template: string;
  boxes: { ready: number; live: number; pool: number };
  sessions: { live: number; most: number; made: number; expired: number; lost: number };
  executions: {
    running: number; waiting: number; most: number; kept: number; refused: number;
    by_status: Record<string, number>;
    by_limit: Record<string, number>;
  };
  memory: { server_bytes: number | null; host_bytes: number | null; host_total_bytes: number | null; kept_memory_bytes: number; kept_disk_bytes: number };
  packages: { installs: number; cached: number; failed: number; layers: number; bytes: number };
  key_defaults: { sessions: number | null; executions: number | null; rate_per_minute: number | null };
  mark: { running: number; waiting: number; ok: number; error: number; stopped: number; needs_input: number };
  http: { requests: number; streams: number; replies: number[] };
}

export type Values = (number | null)[];

export interface Series {
  step: number;
  end: number;
  time: number[];
  rate: Values;
  error_rate: Values;
  stopped_rate: Values;
  p50_ms: Values;
  p95_ms: Values;
  sessions: Values;
  running: Values;
  waiting: Values;
  boxes_ready: Values;
  memory_server: Values;
  memory_boxes: Values;
  memory_host: Values;
}

interface Owned {
  principal: string;
  principal_kind: "key" | "user" | "local";
  name: string;
}

export interface Session extends Owned {
  session_id: string;
  listener: string | null;
  state: "ready" | "running" | "lost";
  template: string;
  created: number;
  age: number;
  idle: number;
  expires_in: number;
  execution_count: number;
  waiting: number;
  limits: Record<string, number | null>;
  memory_bytes: number | null;
  processes: number | null;
  cpu_seconds: number | null;
  execution_id: string | null;
}

export interface Execution extends Owned {
  execution_id: string;
  session_id: string | null;
  kind: string;
  template: string;
  status: string;
  begun: number;
  seconds: number | null;
  cpu_seconds: number | null;
  memory_peak_bytes: number | null;
  limit: string | null;
  exit_code: number | null;
  refused: string | null;
}

export interface Amounts {
  bytes: number | null;
  cost: number | null;
  tokens: number | null;
  seconds: number | null;
}

export interface Budget {
  /** Set for this account alone: null is the service's default, -1 no limit. */
  own?: Amounts;
  day: string;
  resets_in: number;
  limits: Amounts;
  used: Amounts;
}

interface Now {
  sessions: number;
  executions: number;
}

export interface Key {
  id: string;
  name: string;
  created: string;
  last_used: string | null;
  revoked: string | null;
  sessions: number | null;
  executions: number | null;
  rate_per_minute: number | null;
  now?: Now;
  budget?: Budget;
  token?: string;
}

export interface Account {
  user_id: string;
  email: string;
  name: string;
  role: "operator" | "user" | "guest";
  created: string;
  sessions: number | null;
  executions: number | null;
  rate_per_minute: number | null;
  now?: Now;
  budget?: Budget;
}

export interface Entry {
  seq: number;
  time: string;
  session_id: string | null;
  who?: string;
  name?: string;
  kind?: string;
  execution_id?: string;
  status?: string;
  limit?: string | null;
  exit_code?: number;
  code_bytes?: number;
  code_sha256?: string;
  wall_us?: number | null;
  cpu_us?: number | null;
  memory_peak_bytes?: number | null;
  output_bytes?: number | null;
  action?: { name: string; target: string | null };
  answer?: { model?: string; status?: string; programs: number; queries: number };
  malformed?: boolean;
}

export interface Chain {
  state: "checking" | "intact" | "broken" | "off";
  checked: number;
  entries: number;
  head: string;
  broken_entry: number | null;
  why: string | null;
  begun: string | null;
  completed: string | null;
}

interface Package {
  name: string;
  version: string;
}

export interface Template {
  name: string;
  kind: string;
  default: boolean;
  preload: string;
  packages: Package[];
  requirements?: string[] | null;
}

export interface Packages {
  layers: { layer: string; count: number; packages: Package[]; bytes: number; used: number; uses: number }[];
  sets: { owner: string; name?: string; requirements: string[]; layer: string | null }[];
  more: boolean;
  count: number;
  bytes: number;
}

export interface Source {
  source_id: string;
  name: string;
  kind: string;
  description: string;
  tables: number;
  synced: string | null;
  sync_error: string | null;
  access: number;
}

export interface Use {
  calls: number;
  failures: number;
  prompt_tokens: number;
  completion_tokens: number;
  cached_tokens: number;
  cost: number;
}

export interface Models {
  models: { name: string; provider: string; model: string; demo: boolean; context: number; source: string; price: unknown; use: Use }[];
  totals: Use & { steps: number; answers: Record<string, number> };
  today: string;
  days: (Amounts & { day: string })[];
  owners: (Amounts & { owner: string; name: string })[];
  more: boolean;
}

/** Statuses of executions and limits, in words. */
export const WHY: Record<string, string> = {
  ok: "Finished",
  error: "Error of the program",
  timeout: "Hit the time limit",
  oom: "Out of memory",
  killed: "Killed by a signal",
  pids: "Too many processes",
  disk: "Out of disk space",
  output: "Printed too much",
  cancelled: "Interrupted",
  system: "The service failed",
  refused: "Refused",
  wall_time: "Wall time",
  cpu_time: "CPU time",
  memory: "Memory",
  disk_bytes: "Workspace size",
  disk_inodes: "Number of files",
  file_size: "Size of one file",
};
