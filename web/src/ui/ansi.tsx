// Text of programs with the colours of terminals. Only SGR sequences mean something here; all others, and control
// characters, are dropped. Everything becomes text nodes.
import { useMemo, useState } from "preact/hooks";

import { bytes } from "../format";

interface Style {
  fg?: string | undefined;
  bg?: string | undefined;
  bold?: boolean;
  dim?: boolean;
  italic?: boolean;
  underline?: boolean;
}

const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

function palette(n: number): string | undefined {
  if (n < 8) return `var(--ansi-${NAMES[n]})`;
  if (n < 16) return `var(--ansi-bright-${NAMES[n - 8]})`;
  if (n < 232) {
    const part = (x: number) => (x ? x * 40 + 55 : 0);
    return `rgb(${part(Math.floor((n - 16) / 36))},${part(Math.floor((n - 16) / 6) % 6)},${part((n - 16) % 6)})`;
  }
  return n < 256 ? `rgb(${(n - 232) * 10 + 8},${(n - 232) * 10 + 8},${(n - 232) * 10 + 8})` : undefined;
}

function apply(style: Style, codes: number[]): Style {
  let next = { ...style };
  for (let i = 0; i < codes.length; i++) {
    const c = codes[i]!;
    if (c === 0) next = {};
    else if (c === 1) next.bold = true;
    else if (c === 2) next.dim = true;
    else if (c === 3) next.italic = true;
    else if (c === 4) next.underline = true;
    else if (c === 22) next.bold = next.dim = false;
    else if (c === 23) next.italic = false;
    else if (c === 24) next.underline = false;
    else if (c >= 30 && c < 38) next.fg = palette(c - 30);
    else if (c === 39) next.fg = undefined;
    else if (c >= 40 && c < 48) next.bg = palette(c - 40);
    else if (c === 49) next.bg = undefined;
    else if (c >= 90 && c < 98) next.fg = palette(c - 82);
    else if (c >= 100 && c < 108) next.bg = palette(c - 92);
    else if (c === 38 || c === 48) {
      let colour: string | undefined;
      if (codes[i + 1] === 5) {
        colour = palette(codes[i + 2] ?? 256);
        i += 2;
      } else if (codes[i + 1] === 2) {
        const [r, g, b] = [codes[i + 2] ?? 0, codes[i + 3] ?? 0, codes[i + 4] ?? 0];
        if (r < 256 && g < 256 && b < 256) colour = `rgb(${r},${g},${b})`;
        i += 4;
      }
      if (c === 38) next.fg = colour;
      else next.bg = colour;
    }
  }
  return next;
}

// CSI, OSC and other strings (also cut off), two-byte escapes, carriage returns, other control characters
const SPECIAL = /\x1b\[([0-?]*)([ -/]*[@-~])|\x1b[\]PX^_][\s\S]*?(?:\x07|\x1b\\|$)|\x1b\[[0-?]*[ -/]*$|\x1b[ -/]+[0-~]|\x1b[ -~]?|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]/g;

/** A carriage return starts the line again, as progress bars mean it. */
function overwrite(text: string): string {
  if (!text.includes("\r")) return text;
  return text
    .replace(/\r+\n/g, "\n")
    .split("\n")
    .map((line) => {
      if (!line.includes("\r")) return line;
      // From the last to the first: of each only what is longer than what came after it is still seen. Linear in the length.
      let shown = "";
      for (const part of line.split("\r").reverse()) if (part.length > shown.length) shown += part.slice(shown.length);
      return shown;
    })
    .join("\n");
}

const PARTS_MAX = 5000; // changes of colour that are drawn; nobody looks at more

export function ansiParts(text: string): { text: string; style: Style }[] {
  const parts: { text: string; style: Style }[] = [];
  let style: Style = {};
  let from = 0;
  const add = (piece: string) => {
    if (piece && parts.length < PARTS_MAX) parts.push({ text: piece, style });
    else if (piece) rest.push(piece);
  };
  const rest: string[] = []; // what comes after, without colours
  const seen = overwrite(text);
  for (const match of seen.matchAll(SPECIAL)) {
    add(seen.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === "m" && !/[<-?]/.test(match[1]!)) style = apply(style, (match[1] || "0").split(/[;:]/).slice(0, 32).map(Number));
  }
  add(seen.slice(from));
  if (rest.length) parts.push({ text: rest.join(""), style: {} });
  return parts;
}

export const plainText = (text: string): string => ansiParts(text).map((part) => part.text).join("");

const SHOWN = 100_000; // characters before "show all"
const MOST = 4_000_000;

/** Output of a program. Long output is cut in the middle until somebody wants all of it. */
export function AnsiText({ text, bad, label }: { text: string; bad?: boolean; label?: string }) {
  const [all, setAll] = useState(false);
  const cut = text.length > SHOWN && !all;
  const shown = cut ? text.slice(0, SHOWN * 0.6) : text.slice(0, MOST);
  const parts = useMemo(() => ansiParts(shown), [shown]);
  const tail = useMemo(() => (cut ? ansiParts(text.slice(-SHOWN * 0.4)) : []), [cut, text]);
  const draw = (list: ReturnType<typeof ansiParts>) =>
    list.map((part, i) => {
      const { fg, bg, bold, dim, italic, underline } = part.style;
      if (!fg && !bg && !bold && !dim && !italic && !underline) return part.text;
      return (
        <span key={i} style={{ color: fg, backgroundColor: bg, fontWeight: bold ? 600 : undefined, opacity: dim ? 0.7 : undefined, fontStyle: italic ? "italic" : undefined, textDecoration: underline ? "underline" : undefined }}>
          {part.text}
        </span>
      );
    });
  return (
    <pre class={bad ? "output bad" : "output"} tabIndex={0} aria-label={label ?? (bad ? "Errors" : "Output")}>
      {draw(parts)}
      {cut && (
        <>
          <button type="button" class="link" onClick={() => setAll(true)}>{`\n… show all ${bytes(text.length)} …\n`}</button>
          {draw(tail)}
        </>
      )}
    </pre>
  );
}
