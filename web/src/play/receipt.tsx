// The receipt of a cell as one line: how long, how much CPU, how much memory; and if something was stopped, why, and
// what to change.
import { bytes, duration, plural } from "../format";
import { Icon } from "../ui/icon";
import { time } from "./box";
import type { Receipt } from "./notebook";

export interface Reason {
  title: string;
  advice: string;
  /** Which setting of the box would help. */
  setting?: "timeout" | "memory" | "disk" | "pids";
}

export function reasonOf(receipt: Receipt): Reason | null {
  const { status, limit } = receipt;
  const most = receipt.memory_limit === null ? "" : ` of ${bytes(receipt.memory_limit)}`;
  const after = duration((receipt.execution_time ?? 0) * 1000);
  if (status === "timeout" && limit === "cpu_time")
    return { title: "Stopped: it used up its CPU time.", advice: "Make the work smaller, or ask for a box with a higher CPU time limit." };
  if (status === "timeout")
    return { title: `Stopped after ${receipt.time_limit === null ? after : time(receipt.time_limit)}: the time limit of a cell.`, advice: "Split the work into several cells, or give cells more time.", setting: "timeout" };
  if (status === "oom")
    return { title: `Stopped: the memory${most} was full.`, advice: "Load less at once (fewer columns, chunks, smaller types), or take a box with more memory.", setting: "memory" };
  if (status === "disk" || limit === "disk_bytes" || limit === "disk_inodes" || limit === "file_size")
    return { title: limit === "disk_inodes" ? "Failed: too many files in the box." : limit === "file_size" ? "Failed: a file grew larger than the box allows." : "Failed: the disk of the box is full.",
      advice: "Delete files in the Files panel, or take a box with more disk.", setting: "disk" };
  if (status === "pids") return { title: "Failed: too many processes and threads at one time.", advice: "Use fewer workers, or take a box that allows more.", setting: "pids" };
  if (status === "output") return { title: "Stopped: it printed more than the box allows.", advice: "Print less, or write to a file and download it." };
  if (status === "cancelled") return receipt.session_lost ? { title: `Interrupted after ${after}.`, advice: "It had to be killed, so variables are gone. Run the cells above again." } : null;
  if (status === "killed") {
    const signal = receipt.exit_code !== null && receipt.exit_code > 128 ? ` by signal ${receipt.exit_code - 128}` : "";
    return { title: `The interpreter was killed${signal}.`, advice: "That is a crash, often in a compiled library, or the program signalled itself. Variables are gone; run the cells above again." };
  }
  if (status === "system") return { title: "The box failed to run this.", advice: "This is not the fault of your code. Start a new box; if it happens again, tell the operator." };
  if ((receipt.oom_kills ?? 0) > 0)
    return { title: `${plural(receipt.oom_kills!, "process", "processes")} of this cell ${receipt.oom_kills === 1 ? "was" : "were"} killed: the memory${most} was full.`,
      advice: "Use fewer workers or less data, or take a box with more memory.", setting: "memory" };
  if (receipt.session_lost) return { title: "The interpreter ended with this cell.", advice: "Variables are gone, files are not. Run the cells above again." };
  return null;
}

function Gauge({ part, calm }: { part: number; calm?: boolean }) {
  const level = calm ? "" : part > 0.9 ? "high" : part > 0.7 ? "mid" : "";
  return <span class={`gauge ${level}`} aria-hidden="true"><span style={{ width: `${Math.max(2, Math.min(1, part) * 100)}%` }} /></span>;
}

const WORDS: Record<string, string> = {
  ok: "Done", error: "Failed", timeout: "Time is up", oom: "Out of memory", killed: "Killed", pids: "Too many processes", disk: "Disk is full", output: "Too much output", cancelled: "Interrupted", system: "Not run",
};

export function ReceiptBar({ receipt, onChange }: { receipt: Receipt; onChange?(setting: NonNullable<Reason["setting"]>): void }) {
  const reason = reasonOf(receipt);
  const wall = (receipt.execution_time ?? 0) * 1000;
  const good = receipt.status === "ok" && !reason;
  const calm = receipt.status === "cancelled" || (receipt.status === "ok" && !good);
  const changes = receipt.files.filter((file) => file.path);
  return (
    <div class="receipt-area">
      {reason && (
        <div class="reason" role="status">
          <Icon name="warning" />
          <p><strong>{reason.title}</strong> {reason.advice}{" "}
            {reason.setting && onChange && <button type="button" class="link" onClick={() => onChange(reason.setting!)}>{reason.setting === "timeout" ? "Change the time limit" : "Change the box"}</button>}
          </p>
        </div>
      )}
      {receipt.outputs_left_out !== undefined && <p class="note">{plural(receipt.outputs_left_out, "output")} of this cell {receipt.outputs_left_out === 1 ? "is" : "are"} not shown: malformed, or more than the server takes.</p>}
      <p class="receipt" aria-label="Receipt">
        <span class={good ? "receipt-status good" : calm ? "receipt-status warn" : "receipt-status bad"}>
          <Icon name={good ? "check" : receipt.status === "cancelled" ? "stop" : "warning"} size={14} /> {Object.hasOwn(WORDS, receipt.status) ? WORDS[receipt.status] : receipt.status}
        </span>
        <span title={receipt.time_limit === null ? "Wall time" : `Wall time; a cell may take ${time(receipt.time_limit)}`}>
          {duration(wall)}{receipt.time_limit !== null && <Gauge part={wall / 1000 / receipt.time_limit} />}
        </span>
        {receipt.cpu_ms !== null && <span title="CPU time of all its processes, against wall time">CPU {duration(receipt.cpu_ms)}<Gauge calm part={wall > 0 ? receipt.cpu_ms / wall : 0} /></span>}
        {receipt.peak_memory_bytes !== null && (
          <span title={receipt.memory_limit === null ? "Most memory at one time" : `Most memory at one time, of ${bytes(receipt.memory_limit)}`}>
            {bytes(receipt.peak_memory_bytes)}{receipt.memory_limit !== null && <><span class="of"> of {bytes(receipt.memory_limit)}</span><Gauge part={receipt.peak_memory_bytes / receipt.memory_limit} /></>}
          </span>
        )}
        {changes.length > 0 && <span title={changes.map((file) => `${file.change}: ${file.path}`).join("\n").slice(0, 2000)}>{plural(changes.length, "file")} changed</span>}
        {receipt.hosts.length > 0 && <span title={receipt.hosts.join("\n")}>reached {plural(receipt.hosts.length, "host")}</span>}
      </p>
    </div>
  );
}
