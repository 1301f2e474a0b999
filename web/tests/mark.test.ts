// What Mark's view computes without a browser: marks of numbers, events, forms of sources, traces. `npm test` runs it.
import assert from "node:assert/strict";
import { indexesOf, renderMarked, spansOf, withMarkers, stripMarkers, originOf } from "../src/mark/marks";
import { reduce, START, doing, isOver } from "../src/mark/reduce";
import { addBody, changeBody, NEW_SOURCE, formOf, addressOf } from "../src/mark/source-body";
import { requestMessages, replyMessages, repeated } from "../src/mark/exchange";
import { Marked } from "marked";
const md = new Marked({ gfm: true }); const render = (s: string) => md.parse(s) as string;
const bytes = (s: string) => new TextEncoder().encode(s).length;

// one mark that breaks the story costs no other one, however many there are
{
  const many = Array.from({ length: 300 }, (_, i) => `n ${i + 1000} `).join("") + "\n\n2024. was good\n\nand 77";
  const marks = [...many.matchAll(/\d+/g)].map((m) => ({ start: bytes(many.slice(0, m.index)), end: bytes(many.slice(0, m.index! + m[0].length)), kind: "found" as const }));
  const html = renderMarked(many, spansOf(many, marks), render);
  assert.equal(html.split("\ue001").length - 1, marks.length - 1);
  assert.match(html, /\ue00277\ue003/);
}

// a step that restarts forgets what was written of it; not one that is complete
{
  const step = (data: object) => ({ event: "step", data: { n: 1, ...data } });
  let live = [step({ code_delta: "pri" }), step({ code_delta: "", restart: true }), step({ code_delta: "x = 1" })].reduce(reduce, START);
  assert.equal(live.steps[0]!.code, "x = 1");
  live = [step({ code: "y = 2" }), step({ code_delta: "", restart: true })].reduce(reduce, live);
  assert.equal(live.steps[0]!.code, "y = 2");
}

// offsets
const t = "€ 5 😀 12 %"; const at = bytes("€ 5 😀 ");
assert.deepEqual(indexesOf(t, [0, 1, 4, at, 999, -3]), [0, -1, 2, 7, -1, -1]);
assert.equal(t.slice(7, 9), "12");

// hostile marks
assert.deepEqual(spansOf("abc", [{ start: 2, end: 1, kind: "found" }, { start: 0.5, end: 2, kind: "found" }, { start: 0, end: 99, kind: "found" }, { start: -1, end: 1, kind: "found" }] as any), []);
assert.equal(spansOf("1234", [{ start: 0, end: 3, kind: "found" }, { start: 2, end: 4, kind: "found" }]).length, 1);

// escape
const e = "is \\-5 now"; assert.equal(spansOf(e, [{ start: 4, end: 6, kind: "found" }])[0]!.start, 3);

// markers never change the HTML, whatever is marked
const seeds = ["**18** [a 4](http://x/4) `c 5` <b title=\"7\">7</b>\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n1. one 3\n2. two", "2024. was good", "# 5\n\n```\n42\n```\n\nhttps://e.com/2024?x=1 &#49; \\*5\\* ~~6~~ **19%**more", "\ue001\ue013\ue002evil 9\ue003"];
for (const s of seeds) {
  const marks = [...s.matchAll(/\d+%?/g)].map((m) => ({ start: bytes(s.slice(0, m.index)), end: bytes(s.slice(0, m.index! + m[0].length)), kind: "found" as const }));
  const html = renderMarked(s, spansOf(s, marks), render);
  const plain = render(stripMarkers(s));
  assert.equal(html.replace(/[\ue001-\ue003\ue010-\ue019]/g, "").replace(/%EE%80%(?:8[1-3]|9[0-9])/gi, ""), plain);
}
assert.equal(withMarkers("a\ue001b", []), "ab");

// random text
let seed = 7; const rnd = (n: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
for (let i = 0; i < 400; i++) {
  const s = Array.from({ length: 40 }, () => "12 *_`[]()<>|\n#-.%\\€😀a\ue001\ue003&;!"[rnd(30)] ?? "x").join("");
  const total = bytes(s); const marks = Array.from({ length: 6 }, () => { const a = rnd(total + 4) - 2; return { start: a, end: a + rnd(5), kind: "found" as const }; });
  const html = renderMarked(s, spansOf(s, marks), render);
  assert.equal(html.replace(/[\ue001-\ue003\ue010-\ue019]/g, "").replace(/%EE%80%(?:8[1-3]|9[0-9])/gi, ""), render(stripMarkers(s)));
}

// origin
const steps = [{ n: 1, code: "x\nmark.value('a', 1)" }];
assert.deepEqual(originOf({ start: 0, end: 1, kind: "value", name: "a" }, [{ name: "a", step: 1 }], steps), { step: 1, line: 2 });
assert.deepEqual(originOf({ start: 0, end: 1, kind: "value", name: "a", step: 1, line: 99 }, [], steps), { step: 1, line: null });
assert.equal(originOf({ start: 0, end: 1, kind: "found" }, [], steps), null);

// events
let live = START; const ev = (event: string, data: any, id = "1") => (live = reduce(live, { event, data, id }));
for (const bad of [null, 5, "x", [], { n: -1, code: 5 }, { n: 1e9, code: "x" }]) for (const name of ["chat", "thinking", "step", "output", "query", "receipt", "chart", "table", "story", "nothing"]) ev(name, bad);
assert.equal(live.steps.length, 0); live = START;
ev("chat", { chat_id: "c", message_id: "m" }, "1"); ev("thinking", { text: "a" }, "2"); ev("thinking", { text: "b" }, "3"); assert.equal(doing(live), "Thinking");
ev("step", { n: 1, code_delta: "pri" }, "4"); ev("step", { n: 1, code_delta: "nt" }, "5"); assert.equal(doing(live), "Writing code"); ev("step", { n: 1, code: "print(1)" }, "6"); ev("output", { n: 1, stream: "stdout", text: "1\n" }, "7");
ev("query", { n: 1, source: "s", sql: "q", status: "running" }, "8"); assert.equal(doing(live), "Asking the data source"); ev("query", { n: 1, source: "s", sql: "q", status: "ok", rows: 2 }, "9"); assert.equal(live.steps[0]!.queries.length, 1);
ev("receipt", { n: 1, receipt: { status: "ok" } }, "10"); ev("output", { n: 1, stream: "stdout", text: "again" }, "11"); assert.equal(live.steps[0]!.output[0]!.text, "1\n");
ev("chart", { n: 1, spec: { data: [1] } }, "12"); ev("chart", { n: 1, spec: { data: [1] } }, "12"); ev("story", { delta: "a" }, "13"); ev("story", { delta: "", restart: true }, "14"); ev("story", { delta: "b" }, "15"); assert.equal(live.story, "b");
assert.equal(live.charts.length, 1); // told twice, drawn once
const chart = live.charts[0]; ev("done", { chat_id: "c", message_id: "m", status: "ok", answer_story: "B", visualizations: [{ data: [1] }], data: [], steps: [], values: [], numbers: {}, artifacts: [] }, "16");
assert.equal(live.answer!.visualizations[0], chart); assert.equal(live.lastId, "16"); assert.ok(isOver(live)); assert.equal(live.moments.length, 2);

// sources
assert.deepEqual(addBody({ ...NEW_SOURCE, name: " shop ", url: "postgresql://a@b/c", password: "p", rows: "1,000" }), { access: [{ who: "*" }], name: "shop", url: "postgresql://a@b/c", limits: { rows: 1000 }, kind: "postgresql", password: "p" });
assert.throws(() => addBody({ ...NEW_SOURCE, variables: "nonsense" })); assert.throws(() => addBody({ ...NEW_SOURCE, rows: "-4" })); assert.throws(() => addBody({ ...NEW_SOURCE, kind: "bigquery", credentials: "[]" }));
const src: any = { name: "s", kind: "postgresql", description: "d", settings: { host: "h", port: 5433, user: "u", dbname: "x", sslmode: "verify-full", role: "r" }, access: [{ who: "*" }] };
assert.equal(addressOf(src.settings), "postgresql://u@h:5433/x?sslmode=verify-full");
const f = formOf(src); assert.deepEqual(changeBody(f, f), {}); assert.deepEqual(changeBody({ ...f, role: "", access: [] }, f), { access: [], role: null });

// traces
assert.equal(requestMessages({ system: "s", messages: [{ role: "user", content: [{ type: "tool_result", content: "r" }] }] })[1]!.role, "Result of a call");
assert.equal(replyMessages({ choices: [{ message: { role: "assistant", content: null, tool_calls: [{ function: { name: "run", arguments: "{\"code\": \"1\"}" } }] } }] })[0]!.calls[0]!.text, "1");
for (const odd of [null, 5, "x", [], {}, { messages: [null, 5] }, { choices: [null] }, { output: [1] }]) { requestMessages(odd); replyMessages(odd); }
assert.equal(repeated(requestMessages({ messages: [{ role: "user", content: "a" }] }), requestMessages({ messages: [{ role: "user", content: "a" }, { role: "user", content: "b" }] })), 1);
console.log("ok");
