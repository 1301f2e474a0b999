// Terminals in the box. The socket is here, the drawing is in a sandboxed frame (frames/terminal.ts).
//
// After the network or the server went away the socket is opened again where it was cut: the position in the output is
// known, and the server keeps the last part of it. A browser cannot slow a WebSocket down, so a program that prints faster than
// the frame draws would fill the memory; then the socket is closed until the frame has caught up.
//
// What was printed before this page came is drawn, too, with whatever programs asked the terminal in it. They had their
// answers then: while the frame draws that, it sends nothing.
import { useEffect, useRef, useState } from "preact/hooks";

import { get, Problem, say, send, socket } from "../api";
import { useStore } from "../store";
import { dark } from "../theme";
import { Icon } from "../ui/icon";
import { Frame, type FrameHandle } from "../ui/frame";
import { attempt, IconButton, Note, Spinner } from "../ui/parts";
import { box, ensureBox, liveSession, noticeEnd, sessionPath } from "./box";

interface Terminal {
  terminal_id: string;
  status: "running" | "exited";
  exit_code: number | null;
}

const CHUNK = 65_536;
const AHEAD = 262_144; // bytes the frame may have that it has not drawn
const WAITING_MOST = 4_194_304; // bytes kept here; beyond that the socket is closed for a while

type State = { is: "connecting" | "open" | "away" } | { is: "exited"; code: number | null } | { is: "gone"; why: string };

/** One terminal's connection. Nothing of it is drawn by Preact, so that output does not cause rendering. */
class Link {
  private ws: WebSocket | null = null;
  private connecting = false;
  private offset: number | null = null;
  private oldEnd = 0; // what comes before this position was shown to somebody else
  private waiting: { bytes: Uint8Array; old: boolean }[] = [];
  private waitingBytes = 0;
  private inFrame = 0;
  private paused = false;
  private tries = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private closed = false;
  private size = { cols: 80, rows: 24 };
  frame: FrameHandle | null = null;

  /** `ours`: this page has started it, so that nobody else can have answered what it asks. */
  constructor(private readonly path: string, private readonly ours: boolean, private readonly tell: (state: State) => void) {}

  async connect(): Promise<void> {
    if (this.closed || this.ws || this.connecting) return;
    this.connecting = true;
    this.tell({ is: this.tries ? "away" : "connecting" });
    try {
      // A refused WebSocket does not say why; this request does.
      await get<Terminal>(this.path);
      const ws = await socket(`${this.path}/stream${this.offset === null ? "" : `?offset=${this.offset}`}`);
      if (this.closed) return ws.close();
      this.ws = ws;
      ws.onmessage = (event) => this.take(event.data as string | ArrayBuffer);
      ws.onclose = () => {
        if (this.ws !== ws) return; // closed by us, and perhaps there is a new one already
        this.ws = null;
        if (!this.closed) this.again();
      };
    } catch (error) {
      if (error instanceof Problem && error.status === 404) {
        const ended = noticeEnd(error);
        this.stop({ is: "gone", why: ended ? "It ended with its box." : "This terminal has ended." });
      } else this.again();
    } finally {
      this.connecting = false;
    }
  }
  private again(): void {
    if (this.closed) return;
    this.tell({ is: "away" });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.connect(), Math.min(8000, 400 * 2 ** Math.min(this.tries++, 5)));
  }
  private take(data: string | ArrayBuffer): void {
    if (typeof data === "string") {
      const message = JSON.parse(data) as { type?: string; offset?: number; end?: number; missed?: boolean; exit_code?: number | null };
      if (message.type === "attached") {
        if (message.missed && this.offset !== null) this.frame?.post({ type: "note", text: "[some output was skipped here]" });
        if (this.offset === null && !this.ours) this.oldEnd = message.end ?? 0;
        this.offset = message.offset ?? 0;
        this.tries = 0;
        this.tell({ is: "open" });
        this.resize(this.size.cols, this.size.rows);
      } else if (message.type === "exit") this.stop({ is: "exited", code: message.exit_code ?? null });
      return;
    }
    const bytes = new Uint8Array(data);
    const start = this.offset ?? 0;
    const old = Math.min(bytes.length, Math.max(0, this.oldEnd - start));
    this.offset = start + bytes.length;
    for (let at = 0; at < bytes.length; ) {
      const to = Math.min(at + CHUNK, at < old ? old : bytes.length);
      this.waiting.push({ bytes: bytes.slice(at, to), old: at < old });
      at = to;
    }
    this.waitingBytes += bytes.length;
    this.drain();
    if (this.waitingBytes > WAITING_MOST && this.ws) {
      this.paused = true;
      this.ws.onmessage = null; // what is under way comes again, from the offset
      this.ws.close();
      this.ws = null;
    }
  }
  private drain(): void {
    while (this.frame && this.waiting.length && this.inFrame < AHEAD) {
      const { bytes, old } = this.waiting.shift()!;
      this.waitingBytes -= bytes.length;
      this.inFrame += bytes.length;
      this.frame.post({ type: "output", bytes, old });
    }
    if (this.paused && !this.waiting.length) {
      this.paused = false;
      void this.connect();
    }
  }
  written(n: number): void {
    this.inFrame = Math.max(0, this.inFrame - n);
    this.drain();
  }
  start(frame: FrameHandle): void {
    this.frame = frame;
    frame.post({ type: "start", dark: dark.get() });
    this.drain();
    void this.connect();
  }
  input(bytes: Uint8Array): void {
    if (this.ws?.readyState === WebSocket.OPEN) this.ws.send(bytes as Uint8Array<ArrayBuffer>);
  }
  resize(cols: number, rows: number): void {
    this.size = { cols, rows };
    if (this.ws?.readyState === WebSocket.OPEN) this.ws.send(JSON.stringify({ type: "resize", cols, rows }));
  }
  private stop(state: State): void {
    this.close();
    this.tell(state);
  }
  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    this.ws?.close();
    this.ws = null;
  }
}

const within = (x: unknown, most: number): x is number => typeof x === "number" && Number.isInteger(x) && x > 0 && x <= most;

interface PaneProps {
  session: string;
  id: string;
  ours: boolean;
  shown: boolean;
  /** Counts up when the terminal should take the focus. */
  focus: number;
  onState(state: State): void;
  onLeave(): void;
}

function Pane({ session, id, ours, shown, focus, onState, onLeave }: PaneProps) {
  const link = useRef<Link | null>(null);
  const [state, setState] = useState<State>({ is: "connecting" });
  const told = useRef(onState);
  told.current = onState;
  link.current ??= new Link(`${sessionPath(session)}/terminals/${encodeURIComponent(id)}`, ours, (next) => {
    setState(next);
    told.current(next);
  });
  useEffect(() => () => link.current?.close(), []);
  useEffect(() => {
    if (shown) link.current?.frame?.post({ type: "focus" });
  }, [shown, focus]);
  return (
    <div class="terminal-pane" hidden={!shown} role="tabpanel" aria-label="Terminal">
      {state.is === "away" && <p class="terminal-note" role="status"><Spinner label="Connecting" /> The connection broke; trying again. The program goes on.</p>}
      <Frame
        kind="terminal" title="Terminal in the box" height="100%"
        onReady={(frame) => {
          link.current!.start(frame);
          frame.post({ type: "focus" });
        }}
        onMessage={(message) => {
          if (message.type === "input" && message.bytes instanceof Uint8Array) link.current!.input(message.bytes);
          else if (message.type === "resize" && within(message.cols, 1000) && within(message.rows, 1000)) link.current!.resize(message.cols, message.rows);
          else if (message.type === "leave") onLeave();
          else if (message.type === "written" && typeof message.n === "number") link.current!.written(message.n);
        }}
      />
      {state.is === "exited" && <p class="terminal-note" role="status">The shell ended{state.code ? ` with code ${state.code}` : ""}.</p>}
      {state.is === "gone" && <p class="terminal-note" role="status">{state.why}</p>}
    </div>
  );
}

export default function Terminals() {
  const state = useStore(box);
  const session = state.is === "live" ? state.session.session_id : null;
  const [list, setList] = useState<string[] | null>(null);
  const [current, setCurrent] = useState<string | null>(null);
  const [ended, setEnded] = useState<Record<string, boolean>>({});
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const [focus, setFocus] = useState(0);
  const bar = useRef<HTMLDivElement>(null);

  const made = useRef(new Set<string>());
  const creating = useRef(false);
  const create = async () => {
    if (creating.current) return;
    creating.current = true;
    setBusy(true);
    setError("");
    try {
      const live = await ensureBox();
      const { terminal_id: id } = await send<Terminal>("POST", `${sessionPath(live.session_id)}/terminals`, { cols: 100, rows: 24 });
      made.current.add(id);
      setList((old) => [...new Set([...(old ?? []), id])]);
      setCurrent(id);
    } catch (problem) {
      if (!noticeEnd(problem)) setError(problem instanceof Problem && problem.type === "no-such-route" ? "This server has no terminals." : say(problem));
    } finally {
      creating.current = false;
      setBusy(false);
    }
  };

  useEffect(() => {
    setError("");
    setList(null);
    setCurrent(null);
    if (!session) return;
    let gone = false;
    get<{ terminals: Terminal[] }>(`${sessionPath(session)}/terminals`).then(
      ({ terminals }) => {
        if (gone || liveSession()?.session_id !== session) return;
        const running = terminals.filter((one) => one.status === "running").map((one) => one.terminal_id);
        setList((old) => [...new Set([...running, ...(old ?? [])])]);
        setCurrent((old) => old ?? running[0] ?? null);
        if (!running.length) void create();
      },
      (problem: unknown) => {
        if (gone || noticeEnd(problem)) return;
        setError(problem instanceof Problem && problem.type === "no-such-route" ? "This server has no terminals." : say(problem));
      },
    );
    return () => {
      gone = true;
    };
  }, [session]);

  const close = (id: string) => {
    const rest = (list ?? []).filter((one) => one !== id);
    setList(rest);
    if (current === id) setCurrent(rest.at(-1) ?? null);
    if (!ended[id]) void attempt(() => send("DELETE", `${sessionPath(session!)}/terminals/${encodeURIComponent(id)}`)).catch(() => undefined);
  };

  return (
    <div class="terminals">
      <div class="terminal-bar" ref={bar}>
        {list && list.length > 0 && (
          <div role="tablist" aria-label="Terminals" class="terminal-tabs">
            {list.map((id, i) => (
              <button key={id} type="button" role="tab" aria-selected={id === current} title="Ctrl+Shift+L leaves the terminal" onClick={() => {
                setCurrent(id);
                setFocus((n) => n + 1);
              }}>
                <Icon name="terminal" size={14} /> {i + 1}{ended[id] ? " (ended)" : ""}
              </button>
            ))}
          </div>
        )}
        <IconButton icon="add" label="New terminal" disabled={busy} onClick={() => void create()} />
        {current && <IconButton icon="trash" label="End this terminal" onClick={() => close(current)} />}
      </div>
      {error && <Note bad>{error}</Note>}
      {session && list?.map((id) => (
        <Pane key={id} session={session} id={id} ours={made.current.has(id)} shown={id === current} focus={focus}
          onLeave={() => (bar.current?.querySelector("[aria-selected=true]") as HTMLElement | null)?.focus()}
          onState={(next) => (next.is === "exited" || next.is === "gone") && setEnded((old) => ({ ...old, [id]: true }))} />
      ))}
      {!error && !list?.length && (
        <p class="empty">{busy || (session && !list) ? <Spinner /> : <>{state.is === "ended" ? "The terminals ended with their box." : "A shell in the same box: the same files, the same limits."} <button type="button" class="link" onClick={() => void create()}>Open a terminal</button></>}</p>
      )}
    </div>
  );
}
