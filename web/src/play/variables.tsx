// What is defined in the box, looked at after each run.
import { useEffect, useState } from "preact/hooks";

import { get, Problem, say } from "../api";
import { bytes, count } from "../format";
import { useStore } from "../store";
import { Note } from "../ui/parts";
import { box, liveSession, noticeEnd, sessionPath } from "./box";
import { finished, runs } from "./run";

interface Variable {
  name: string;
  type: string;
  summary: string;
  shape?: unknown;
  size_bytes?: number | null;
}

interface Reply {
  variables: Variable[];
  truncated: boolean;
  busy: boolean;
}

function shapeText(shape: unknown): string {
  return Array.isArray(shape) ? shape.map((n) => (typeof n === "number" ? count(n) : String(n))).join(" × ") : typeof shape === "string" ? shape : "";
}

export default function Variables() {
  const state = useStore(box);
  const turn = useStore(finished);
  const running = Object.keys(useStore(runs)).length > 0;
  const [reply, setReply] = useState<Reply | null>(null);
  const [error, setError] = useState("");
  const [filter, setFilter] = useState("");
  const session = state.is === "live" ? state.session.session_id : null;
  useEffect(() => {
    if (!session) {
      setReply(null);
      return;
    }
    if (running) return;
    let gone = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = (pause: number): void =>
      void get<Reply>(`${sessionPath(session)}/variables`).then(
        (value) => {
          if (gone || liveSession()?.session_id !== session) return;
          if (!value.busy) setReply(value);
          else timer = setTimeout(() => ask(Math.min(10_000, 2 * pause)), pause); // a completion, or a run of another tab
          setError("");
        },
        (problem: unknown) => {
          if (gone || noticeEnd(problem)) return;
          setError(problem instanceof Problem && problem.type === "no-such-route" ? "This server cannot list variables." : say(problem));
        },
      );
    ask(300);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [session, turn, running]);
  const all = reply?.variables ?? [];
  const list = filter ? all.filter((one) => `${one.name} ${one.type}`.toLowerCase().includes(filter.toLowerCase())) : all;
  if (error) return <Note bad>{error}</Note>;
  if (!all.length) return <p class="empty">{session ? (running ? "A cell is running." : "Nothing is defined yet.") : "Run a cell, and what it defines is listed here."}</p>;
  return (
    <div class="variables">
      {all.length > 12 && <input type="search" aria-label="Filter variables" placeholder="Filter" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />}
      <ul class="variable-list" aria-label="Variables">
        {list.map((one) => (
          <li key={one.name}>
            <div class="variable-head"><code>{one.name}</code> <span class="variable-type">{one.type}</span>
              <small>{[shapeText(one.shape), typeof one.size_bytes === "number" ? bytes(one.size_bytes) : ""].filter(Boolean).join(" · ")}</small></div>
            <div class="variable-summary" title={one.summary.slice(0, 1000)}>{one.summary.slice(0, 300)}</div>
          </li>
        ))}
      </ul>
      {reply?.truncated && <small>There are more; only the first are listed.</small>}
    </div>
  );
}
