// Sessions and executions of everybody.
import { useState } from "preact/hooks";

import { get, send } from "../api";
import { ago, bytes, count, duration, plural, timeOf } from "../format";
import { follow, navigate, usePlace } from "../router";
import { attempt, confirmed, toast } from "../ui/parts";
import { Badge, Ending, Id, Shown, SortTable, useLive, Who, type Column } from "./parts";
import type { Execution, Session } from "./types";

interface SessionPage {
  sessions: Session[];
  more: boolean;
  total: number;
}

const seconds = (n: number | null): string => (n === null ? "–" : n === 0 ? "0 s" : duration(n * 1000));

export function Sessions() {
  const [after, setAfter] = useState<string[]>([]);
  const last = after.at(-1);
  const page = useLive((signal) => get<SessionPage>(`/admin/v1/sessions?limit=100${last ? `&after=${encodeURIComponent(last)}` : ""}`, signal), [last], 3000);
  const end = async (session: Session) => {
    if (!(await confirmed("End this session?", `${session.name} loses its variables and files, and what runs in it is stopped. This cannot be undone.`, "End the session"))) return;
    await attempt(async () => {
      await send("DELETE", `/admin/v1/sessions/${encodeURIComponent(session.session_id)}`);
      toast("The session has ended");
    });
    page.reload();
  };
  const columns: Column<Session>[] = [
    { key: "id", label: "Session", by: (s) => s.session_id, show: (s) => <a href={`/admin/audit?session=${encodeURIComponent(s.session_id)}`} onClick={follow}><Id id={s.session_id} /><span class="visually-hidden"> in the audit log</span></a> },
    { key: "who", label: "Who", by: (s) => s.name, show: (s) => <Who name={s.name} kind={s.principal_kind} principal={s.principal} /> },
    { key: "state", label: "State", by: (s) => s.state, show: (s) => <><Badge word={s.state} text={s.state === "ready" ? "idle" : s.state} />{s.waiting > 0 && <small class="why"> {s.waiting} waiting</small>}</> },
    { key: "template", label: "Template", by: (s) => s.template, show: (s) => s.template },
    { key: "age", label: "Made", by: (s) => -s.age, show: (s) => <time title={timeOf(s.created)}>{ago(s.created)}</time> },
    { key: "idle", label: "Idle", by: (s) => s.idle, show: (s) => seconds(s.idle), number: true },
    { key: "memory", label: "Memory", by: (s) => s.memory_bytes, show: (s) => <>{bytes(s.memory_bytes)}<small class="why"> of {bytes(s.limits.memory ?? null)}</small></>, number: true },
    { key: "cpu", label: "CPU", by: (s) => s.cpu_seconds, show: (s) => seconds(s.cpu_seconds), number: true },
    { key: "runs", label: "Runs", by: (s) => s.execution_count, show: (s) => count(s.execution_count), number: true },
    { key: "end", label: "", show: (s) => <button type="button" onClick={() => void end(s)}>End<span class="visually-hidden"> session {s.session_id}</span></button> },
  ];
  return (
    <Shown of={page}>
      {(value) => (
        <>
          <p class="quiet">{plural(value.total, "session")}. What they contain is not shown here.</p>
          <section class="card"><SortTable label="Sessions" columns={columns} rows={value.sessions} id={(s) => s.session_id} empty="Nobody has a session." /></section>
          {(value.more || after.length > 0) && (
            <div class="row">
              <button type="button" disabled={after.length === 0} onClick={() => setAfter(after.slice(0, -1))}>Previous page</button>
              <button type="button" disabled={!value.more} onClick={() => setAfter([...after, value.sessions.at(-1)!.session_id])}>Next page</button>
            </div>
          )}
        </>
      )}
    </Shown>
  );
}

interface ExecutionPage {
  executions: Execution[];
  more: boolean;
}

const STATES = { live: "Running now", finished: "Finished", stopped: "Stopped or failed to run" } as const;

export function Executions() {
  const { query } = usePlace();
  const wanted = query.get("state") ?? "live";
  const state = Object.hasOwn(STATES, wanted) ? (wanted as keyof typeof STATES) : "live";
  const page = useLive((signal) => get<ExecutionPage>(`/admin/v1/executions?limit=200&state=${state}`, signal), [state], 2000);
  const interrupt = async (x: Execution) => {
    if (!(await confirmed("Interrupt this execution?", `${x.name} gets a receipt that says "cancelled". If the program ignores it, do it again: then it is killed.`, "Interrupt"))) return;
    await attempt(async () => {
      await send("POST", `/admin/v1/executions/${encodeURIComponent(x.execution_id)}/interrupt`);
      toast("The execution was interrupted");
    });
    page.reload();
  };
  const common: Column<Execution>[] = [
    { key: "id", label: "Execution", by: (x) => x.execution_id, show: (x) => <Id id={x.execution_id} /> },
    { key: "who", label: "Who", by: (x) => x.name, show: (x) => <Who name={x.name} kind={x.principal_kind} principal={x.principal} /> },
    { key: "kind", label: "Kind", by: (x) => x.kind, show: (x) => <>{x.kind}{x.session_id ? <small class="why"> in <Id id={x.session_id} /></small> : <small class="why"> one-shot</small>}</> },
    { key: "begun", label: "Begun", by: (x) => x.begun, show: (x) => <time title={timeOf(x.begun)}>{ago(x.begun)}</time> },
    { key: "seconds", label: state === "live" ? "Running for" : "Took", by: (x) => x.seconds, show: (x) => seconds(x.seconds), number: true },
  ];
  const running: Column<Execution>[] = [
    ...common,
    { key: "status", label: "State", by: (x) => x.status, show: (x) => <Badge word={x.status} /> },
    { key: "stop", label: "", show: (x) => <button type="button" onClick={() => void interrupt(x)}>Interrupt<span class="visually-hidden"> {x.execution_id}</span></button> },
  ];
  const ended: Column<Execution>[] = [
    ...common,
    { key: "cpu", label: "CPU", by: (x) => x.cpu_seconds, show: (x) => seconds(x.cpu_seconds), number: true },
    { key: "memory", label: "Peak memory", by: (x) => x.memory_peak_bytes, show: (x) => bytes(x.memory_peak_bytes), number: true },
    { key: "status", label: "Ended", by: (x) => x.status, show: (x) => <Ending status={x.status} limit={x.limit} refused={x.refused} /> },
    { key: "exit", label: "Exit code", by: (x) => x.exit_code, show: (x) => x.exit_code ?? "–", number: true },
  ];
  return (
    <>
      <div class="segments" role="group" aria-label="Which executions">
        {(Object.keys(STATES) as (keyof typeof STATES)[]).map((key) => (
          <button key={key} type="button" aria-pressed={state === key} onClick={() => navigate(key === "live" ? "/admin/executions" : `/admin/executions?state=${key}`)}>{STATES[key]}</button>
        ))}
      </div>
      <Shown of={page}>
        {(value) => (
          <>
            <section class="card">
              <SortTable key={state} label="Executions" columns={state === "live" ? running : ended} rows={value.executions} id={(x) => x.execution_id}
                empty={state === "live" ? "Nothing runs at this moment." : state === "finished" ? "Nothing has ended in the last minutes." : "Nothing was stopped in the last minutes."} />
            </section>
            <p class="quiet">
              {value.more && "There are more; these are the first 200. "}
              {state === "live" ? "Neither code nor output is shown." : <>Here are the latest, for some minutes after their end and while there is room for their output. <a href="/admin/audit" onClick={follow}>The audit log</a> has all of them.</>}
            </p>
          </>
        )}
      </Shown>
    </>
  );
}
