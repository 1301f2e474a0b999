// The service at a glance: tiles, plots, and why things were stopped.
import { useState } from "preact/hooks";

import { get } from "../api";
import { bytes, count, duration, plural } from "../format";
import { follow } from "../router";
import { Badge, Bars, Shown, Tile, useLive } from "./parts";
import { Plot } from "./plot";
import { WHY, type Chain, type Overview, type Series, type Values } from "./types";

const perSecond = (n: number): string => (n === 0 ? "0/s" : n < 1 ? `${n.toFixed(2)}/s` : n < 10 ? `${n.toFixed(1)}/s` : `${Math.round(n)}/s`);
const ms = (n: number): string => (n === 0 ? "0" : n < 60_000 ? duration(n) : n < 3_600_000 ? `${(n / 60_000).toFixed(1)} min` : `${(n / 3_600_000).toFixed(1)} h`);
const MB = 2 ** 20;
const inMb = (values: Values): Values => values.map((n) => (n === null ? null : n / MB)); // so that the axis has round numbers
const whole = (n: number): string => (Number.isInteger(n) ? count(n) : n.toFixed(1));

function Tiles({ now, series, chain }: { now: Overview; series: Series | undefined; chain: Chain | undefined }) {
  const rate = series?.rate.at(-1) ?? null;
  const p95 = [...(series?.p95_ms ?? [])].reverse().find((value) => value !== null) ?? null;
  const { memory, executions, sessions, boxes } = now;
  const full = memory.host_bytes !== null && memory.host_total_bytes ? memory.host_bytes / memory.host_total_bytes : null;
  return (
    <div class="tiles">
      <Tile label="Sessions" value={count(sessions.live)} detail={`of ${count(sessions.most)} · ${count(sessions.made)} made`} href="/admin/sessions" bad={sessions.live >= sessions.most} />
      <Tile label="Running" value={count(executions.running)} detail={`${count(executions.waiting)} waiting · ${count(executions.refused)} refused`} href="/admin/executions" />
      <Tile label="Boxes ready" value={count(boxes.ready)} detail={`of ${count(boxes.pool)} kept ready · ${count(boxes.live)} live`} bad={boxes.pool > 0 && boxes.ready === 0} />
      <Tile label="Executions" value={rate === null ? "–" : perSecond(rate)} detail={p95 === null ? "none lately" : `95% within ${ms(p95)}`} href="/admin/executions" />
      <Tile label="Memory of the host" value={full === null ? "–" : `${Math.round(full * 100)}%`} detail={`${bytes(memory.host_bytes)} of ${bytes(memory.host_total_bytes)}`} bad={full !== null && full > 0.92} />
      <Tile label="Memory of the server" value={bytes(memory.server_bytes)} detail={`${bytes(memory.kept_memory_bytes)} kept results`} />
      <Tile label="Audit log" value={chain ? <Badge word={chain.state} text={chain.state === "off" ? "off" : chain.state} /> : "–"} detail={chain ? `${count(chain.checked)} of ${plural(chain.entries, "entry", "entries")} checked` : ""} href="/admin/audit" bad={chain?.state === "broken"} />
      <Tile label="Answers of Mark" value={count(now.mark.running)} detail={`running · ${count(now.mark.waiting)} waiting · ${count(now.mark.ok)} done`} href="/admin/models" />
    </div>
  );
}

function Plots({ series }: { series: Series }) {
  const time = series.time;
  return (
    <div class="plots">
      <section class="card"><Plot title="Executions" time={time} show={perSecond} least={0.5} lines={[
        { name: "all", values: series.rate, colour: 1, area: true }, { name: "errors", values: series.error_rate, colour: 2 }, { name: "stopped", values: series.stopped_rate, colour: 3 }]} /></section>
      <section class="card"><Plot title="How long they took" time={time} show={ms} least={10} lines={[
        { name: "median", values: series.p50_ms, colour: 1 }, { name: "95%", values: series.p95_ms, colour: 4 }]} /></section>
      <section class="card"><Plot title="Sessions and executions" time={time} show={whole} least={2} lines={[
        { name: "sessions", values: series.sessions, colour: 1, area: true }, { name: "running", values: series.running, colour: 4 }, { name: "waiting", values: series.waiting, colour: 2 }, { name: "boxes ready", values: series.boxes_ready, colour: 5 }]} /></section>
      <section class="card"><Plot title="Memory" time={time} show={(mb) => bytes(mb * MB)} least={64} lines={[
        { name: "boxes", values: inMb(series.memory_boxes), colour: 1, area: true }, { name: "server", values: inMb(series.memory_server), colour: 4 }]} /></section>
    </div>
  );
}

export default function OverviewPage() {
  const [minutes, setMinutes] = useState(15);
  const now = useLive((signal) => get<Overview>("/admin/v1/overview", signal), [], 3000);
  const series = useLive((signal) => get<Series>(`/admin/v1/series?minutes=${minutes}`, signal), [minutes], 5000);
  const chain = useLive((signal) => get<Chain>("/admin/v1/audit/chain", signal), [], 5000);
  return (
    <Shown of={now}>
      {(value) => (
        <>
          {value.draining && <p class="note warn">The service is shutting down: it refuses new work.</p>}
          <Tiles now={value} series={series.value} chain={chain.value} />
          <div class="row spread">
            <h2>The last {minutes === 60 ? "hour" : `${minutes} minutes`}</h2>
            <label>Show{" "}
              <select value={String(minutes)} onChange={(event) => setMinutes(Number(event.currentTarget.value))}>
                <option value="5">5 minutes</option><option value="15">15 minutes</option><option value="60">1 hour</option>
              </select>
            </label>
          </div>
          {series.value && (series.value.time.length === 0 ? <p class="empty">The first values come a few seconds after the start.</p> : <Plots series={series.value} />)}
          <div class="plots">
            <section class="card">
              <h2>How executions ended</h2>
              <p class="quiet">Since the start, {duration(value.uptime_seconds * 1000)} ago.</p>
              <Bars empty="Nothing has run yet." rows={Object.entries(value.executions.by_status).map(([key, n]) => ({ key, label: WHY[key] ?? key, count: n, tone: key === "ok" ? "good" : key === "error" ? "warn" : "bad" }))} />
            </section>
            <section class="card">
              <h2>Why things were stopped</h2>
              <p class="quiet">The limits that ended executions. <a href="/admin/executions?state=stopped" onClick={follow}>See which</a></p>
              <Bars empty="No execution has hit a limit." rows={Object.entries(value.executions.by_limit).map(([key, n]) => ({ key, label: WHY[key] ?? key, count: n, tone: "bad" }))} />
            </section>
          </div>
          <p class="quiet">
            Glovebox {value.version}, template {value.template}. {plural(value.http.requests, "request")} since the start
            {value.packages.installs > 0 && `, ${plural(value.packages.installs, "install")} of packages`}.
          </p>
        </>
      )}
    </Shown>
  );
}
