// The box: what it is made of and how much it may use. The time limit of cells can be changed at once; the rest is
// fixed when a box is made, so changing it means a new box.
import { useEffect, useRef, useState } from "preact/hooks";

import { get } from "../api";
import { bytes, plural } from "../format";
import { useStore } from "../store";
import { Dialog, Field, Note, Spinner, useLoad } from "../ui/parts";
import { box, boxWords, time, wishes, type ServerLimits, type Template, type Wishes } from "./box";

const MEMORY = [256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768].map((mb) => mb * 1024 * 1024);
const DISK = [256, 1024, 2048, 4096, 8192, 16_384].map((mb) => mb * 1024 * 1024);
const CPUS = [0.5, 1, 2, 4, 8, 16];
const PIDS = [64, 128, 256, 512, 1024, 2048];
const TIMES = [10, 30, 60, 120, 300, 600, 1800, 3600];
const IDLE = [600, 1800, 3600, 4 * 3600, 12 * 3600, 86_400];

/** The choices up to the operator's maximum, with what is the default and what is chosen. */
function choices(list: number[], most: number, ...also: (number | undefined)[]): number[] {
  const all = new Set(list.filter((n) => most === 0 || n <= most));
  if (most > 0) all.add(most);
  for (const n of also) if (n !== undefined && (most === 0 || n <= most)) all.add(n);
  return [...all].sort((a, b) => a - b);
}

interface SelectProps {
  label: string;
  hint?: string;
  value: number | undefined;
  normal: number;
  list: number[];
  show(n: number): string;
  onChange(n: number | undefined): void;
  focus?: boolean;
}

function Select({ label, hint, value, normal, list, show, onChange, focus }: SelectProps) {
  const element = useRef<HTMLSelectElement>(null);
  useEffect(() => {
    if (focus) element.current?.focus();
  }, []);
  return (
    <Field label={label} {...(hint ? { hint } : {})}>
      {(id) => (
        <select id={id} ref={element} value={String(value ?? normal)} onChange={(event) => {
          const n = Number(event.currentTarget.value);
          onChange(n === normal ? undefined : n);
        }}>
          {list.map((n) => <option key={n} value={String(n)}>{show(n)}{n === normal ? " (default)" : ""}</option>)}
        </select>
      )}
    </Field>
  );
}

export default function BoxSettings({ focus, onClose, onNewBox }: { focus?: string; onClose(): void; onNewBox(): void }) {
  const known = useLoad(async (signal) => ({ limits: await get<ServerLimits>("/v1/limits", signal), templates: (await get<{ templates: Template[] }>("/v1/templates", signal)).templates }), []);
  const state = useStore(box);
  const [draft, setDraft] = useState<Wishes>(wishes.get());
  const live = state.is === "live" ? state.session : null;
  if (!known.value) return <Dialog title="The box" onClose={onClose}>{known.error ? <Note bad>{known.error}</Note> : <Spinner />}</Dialog>;
  const { limits: { session: normal, ceiling, sessions, network }, templates } = known.value;
  const set = (change: Partial<Wishes>) => setDraft((old) => ({ ...old, ...change }));
  const { timeout: _time, ...fixed } = draft;
  const { timeout: _before, ...before } = wishes.get();
  const clean = (one: object) => JSON.stringify(Object.entries(one).filter(([, value]) => value !== undefined && !(Array.isArray(value) && !value.length)).sort());
  const differs = live !== null && clean(fixed) !== clean(before);
  const usual = templates.find((one) => one.default);
  const chosen = templates.find((one) => one.name === draft.template) ?? usual;
  const most = (name: string) => ceiling[name] ?? 0;
  const keep = (fresh: boolean) => {
    wishes.set(draft);
    onClose();
    if (fresh) onNewBox();
  };
  return (
    <Dialog title="The box" onClose={onClose}>
      <p>
        {live ? <>This notebook runs in a live box: template <strong>{live.template}</strong>, {boxWords(live.limits)}. It ends when nobody has used it for {time(live.idle_timeout)}.</>
          : "The first run makes a box for this notebook: a sealed Linux with its own files, processes and memory."}
      </p>
      <Select label="Time limit of a cell" hint="Applies from the next run on." value={draft.timeout} normal={live?.limits.timeout ?? normal.timeout} focus={focus === "timeout"}
        list={choices(TIMES, most("timeout"), normal.timeout, draft.timeout)} show={time} onChange={(timeout) => set({ timeout })} />
      <fieldset class="box-fields">
        <legend>A new box gets</legend>
        <Field label="Template" {...(chosen ? { hint: `${plural(chosen.packages.length, "package")}${chosen.packages.some((one) => one.name === "pandas") ? ", pandas among them" : ""}` } : {})}>
          {(id) => (
            <select id={id} value={chosen?.name ?? ""} onChange={(event) => set({ template: event.currentTarget.value === usual?.name ? undefined : event.currentTarget.value })}>
              {templates.map((one) => <option key={one.name} value={one.name}>{one.name}{one.default ? " (default)" : ""}</option>)}
            </select>
          )}
        </Field>
        <div class="field-grid">
          <Select label="Memory" value={draft.memory} normal={normal.memory} list={choices(MEMORY, most("memory"), normal.memory, draft.memory)} show={bytes} focus={focus === "memory"} onChange={(memory) => set({ memory })} />
          <Select label="CPUs" value={draft.cpus} normal={normal.cpus} list={choices(CPUS, most("cpus"), normal.cpus, draft.cpus)} show={String} onChange={(cpus) => set({ cpus })} />
          <Select label="Disk" value={draft.disk} normal={normal.disk} list={choices(DISK, most("disk"), normal.disk, draft.disk)} show={bytes} focus={focus === "disk"} onChange={(disk) => set({ disk })} />
          <Select label="Processes" value={draft.pids} normal={normal.pids} list={choices(PIDS, most("pids"), normal.pids, draft.pids)} show={String} focus={focus === "pids"} onChange={(pids) => set({ pids })} />
          <Select label="Ends when idle for" value={draft.idle_timeout} normal={sessions.idle_timeout} list={choices(IDLE, sessions.idle_timeout_most, sessions.idle_timeout, draft.idle_timeout)} show={time}
            onChange={(idle_timeout) => set({ idle_timeout })} />
        </div>
        {network.allow.length > 0 ? (
          <div class="field" role="group" aria-label="Hosts that programs may reach">
            <strong class="label">Hosts that programs may reach</strong>
            {network.allow.slice(0, 50).map((host) => (
              <label key={host} class="choice">
                <input type="checkbox" checked={draft.network?.includes(host) ?? false}
                  onChange={(event) => set({ network: event.currentTarget.checked ? [...(draft.network ?? []), host] : (draft.network ?? []).filter((one) => one !== host) })} /> {host}
              </label>
            ))}
          </div>
        ) : <small>Boxes have no network here. Packages can be installed nevertheless, if the operator set up an index.</small>}
      </fieldset>
      <div class="dialog-end">
        {differs && <Note>These changes need a new box. Variables, files and terminals of the present one are then gone; the notebook stays.</Note>}
        <div class="row end">
          {live ? <button type="button" class={differs ? "danger" : "danger-text"} onClick={() => keep(true)}>Start a new box</button> : <button type="button" onClick={onClose}>Cancel</button>}
          <button type="button" class={differs ? "" : "primary"} onClick={() => keep(false)}>{differs ? "Keep for the next box" : "Save"}</button>
        </div>
      </div>
    </Dialog>
  );
}
