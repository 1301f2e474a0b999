// Where the numbers of a story are, carried through Markdown.
//
// A mark says which bytes of the story are a number. The story is Markdown, so the place of a number in the
// page is not known before it is rendered. We put characters of the private use area around each number, render, and
// look for them in the text of the result. What a story itself has of these characters is taken out first.
// Markers must not change what is rendered: the result without them has to be the same HTML as that of the plain story. Where
// it is not (a number inside of a tag, say), marks are tried in halves, and those that would break something are left out.
import type { Mark } from "./types";

const OPEN = "\ue001";
const MIDDLE = "\ue002"; // between the mark's number and its text
const CLOSE = "\ue003";
const DIGIT = 0xe010; // to e019
const ANY = /[\ue001-\ue003\ue010-\ue019]/g;
const ANY_ENCODED = /%EE%80%(?:8[1-3]|9[0-9])/gi;
const TRIED = 160; // times that a story is rendered at most, to find the marks that break it

export const stripMarkers = (text: string): string => text.replace(ANY, "");

const stripHtml = (html: string): string => html.replace(ANY, "").replace(ANY_ENCODED, "");

/** Offsets in bytes of UTF-8 as offsets in the string; -1 for one beyond its end or within a character. */
export function indexesOf(text: string, offsets: number[]): number[] {
  const order = offsets.map((_, i) => i).sort((a, b) => offsets[a]! - offsets[b]!);
  const found = new Array<number>(offsets.length).fill(-1);
  let bytes = 0;
  let next = 0;
  for (let i = 0; i <= text.length && next < order.length; ) {
    while (next < order.length && offsets[order[next]!]! < bytes) next++; // within a character, or negative
    while (next < order.length && offsets[order[next]!] === bytes) found[order[next++]!] = i;
    if (i === text.length) break;
    const c = text.codePointAt(i)!;
    bytes += c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    i += c > 0xffff ? 2 : 1;
  }
  return found;
}

export interface Span {
  start: number; // in the string
  end: number;
  mark: Mark;
}

const SPANS = 10_000;

/** The marks as spans of the string: in order, none empty, none over another. What is malformed is left out. */
export function spansOf(text: string, marks: Mark[]): Span[] {
  const usable = marks.slice(0, SPANS).filter((mark) => Number.isInteger(mark.start) && Number.isInteger(mark.end) && mark.end > mark.start);
  const at = indexesOf(text, usable.flatMap((mark) => [mark.start, mark.end]));
  const spans: Span[] = [];
  let last = 0;
  const sorted = usable.map((mark, i) => ({ start: at[2 * i]!, end: at[2 * i + 1]!, mark })).sort((a, b) => a.start - b.start);
  for (const span of sorted) {
    if (span.start < last || span.end <= span.start) continue;
    // "\-5": the backslash belongs to what it escapes
    let slashes = 0;
    while (text[span.start - 1 - slashes] === "\\") slashes++;
    if (slashes % 2 === 1 && span.start - 1 >= last) span.start--;
    spans.push(span);
    last = span.end;
  }
  return spans;
}

const numeral = (n: number): string => [...String(n)].map((d) => String.fromCharCode(DIGIT + Number(d))).join("");

/** The text with markers around the spans in `which` (by their place in `spans`). */
export function withMarkers(text: string, spans: Span[], which?: Set<number>): string {
  let out = "";
  let from = 0;
  spans.forEach((span, i) => {
    if (which && !which.has(i)) return;
    out += stripMarkers(text.slice(from, span.start)) + OPEN + numeral(i) + MIDDLE + stripMarkers(text.slice(span.start, span.end)) + CLOSE;
    from = span.end;
  });
  return out + stripMarkers(text.slice(from));
}

/** HTML of the story with markers where they do no harm. `render` is the sanitizing Markdown renderer. */
export function renderMarked<T>(text: string, spans: Span[], render: (markdown: string) => T): T {
  if (spans.length === 0) return render(stripMarkers(text));
  const plain = String(render(stripMarkers(text)));
  const harmless = (which?: Set<number>) => {
    const html = render(withMarkers(text, spans, which));
    return stripHtml(String(html)) === plain ? html : null;
  };
  const all = harmless();
  if (all !== null) return all;
  let good = new Set<number>();
  let best: T | null = null;
  let left = TRIED;
  const tryRange = (from: number, to: number) => {
    if (left-- <= 0) return;
    const more = new Set(good);
    for (let i = from; i < to; i++) more.add(i);
    const html = harmless(more);
    if (html !== null) [good, best] = [more, html];
    else if (to - from > 1) {
      const middle = (from + to) >> 1;
      tryRange(from, middle);
      tryRange(middle, to);
    }
  };
  const middle = spans.length >> 1;
  if (middle) tryRange(0, middle);
  if (spans.length > 1) tryRange(middle, spans.length);
  return best ?? render(stripMarkers(text));
}

/** Takes the markers out of a rendered tree; `wrap` makes the element for a span. Returns which spans were placed. */
export function placeMarks(root: HTMLElement, spans: Span[], wrap: (text: string, span: Span, index: number, first: boolean, inLink: boolean) => Node): Set<number> {
  const placed = new Set<number>();
  for (const element of root.querySelectorAll("[href],[title],[alt],[src]"))
    for (const name of ["href", "title", "alt", "src"]) {
      const value = element.getAttribute(name);
      if (value !== null && stripHtml(value) !== value) element.setAttribute(name, stripHtml(value));
    }
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const texts: Text[] = [];
  while (walker.nextNode()) texts.push(walker.currentNode as Text);
  let open = -1; // the span that we are in
  let left = 0; // characters that it can still have
  for (const node of texts) {
    const value = node.data;
    if (open < 0 && !value.includes(OPEN)) {
      if (stripMarkers(value) !== value) node.data = stripMarkers(value);
      continue;
    }
    const inLink = Boolean(node.parentElement?.closest("a, summary"));
    const parts: (string | Node)[] = [];
    const add = (text: string) => {
      const clean = stripMarkers(text);
      if (!clean) return;
      if (open < 0) {
        parts.push(clean);
        return;
      }
      const mine = clean.slice(0, left);
      if (mine) parts.push(wrap(mine, spans[open]!, open, !placed.has(open), inLink));
      placed.add(open);
      left -= mine.length;
      if (clean.length > mine.length) {
        open = -1;
        parts.push(clean.slice(mine.length));
      }
    };
    for (const token of value.split(/(\ue001[\ue010-\ue019]+\ue002|\ue003)/)) {
      if (token === CLOSE) open = -1;
      else if (token.startsWith(OPEN)) {
        const n = Number([...token.slice(1, -1)].map((c) => c.charCodeAt(0) - DIGIT).join(""));
        open = spans[n] ? n : -1;
        left = open < 0 ? 0 : spans[n]!.end - spans[n]!.start;
      } else add(token);
    }
    node.replaceWith(...parts);
  }
  return placed;
}

/** The step and line where the number of a mark was computed, as far as the answer tells. */
export function originOf(mark: Mark, values: { name: string; step: number; line?: number }[], steps: { n: number; code: string }[]): { step: number; line: number | null } | null {
  const value = mark.name === undefined ? undefined : values.find((one) => one.name === mark.name);
  const step = mark.step ?? value?.step;
  const program = steps.find((one) => one.n === step);
  if (step === undefined || !program) return null;
  const lines = program.code.split("\n");
  let line = mark.line ?? value?.line ?? null;
  if (line === null && mark.name !== undefined) {
    const at = lines.findIndex((text) => text.includes("mark.value") && (text.includes(`"${mark.name}"`) || text.includes(`'${mark.name}'`)));
    line = at >= 0 ? at + 1 : null;
  }
  return { step, line: line !== null && line >= 1 && line <= lines.length ? line : null };
}
