// A terminal: xterm.js draws the bytes of a program and sends keys. It makes style elements, which the shell's policy
// forbids, and what it draws is hostile; so it lives in a frame. The socket is the shell's.
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";

import { fromShell, toShell } from "./channel";

const sheet = document.createElement("style");
sheet.textContent = "html, body { margin: 0; height: 100%; overflow: hidden; } #terminal { height: 100%; } #terminal .xterm { padding: 6px 0 4px 8px; } #terminal .xterm-viewport { background: transparent !important; }";
document.head.append(sheet);
const root = document.createElement("div");
root.id = "terminal";
document.body.append(root);

const THEMES = {
  light: { background: "#ffffff", foreground: "#1d2126", cursor: "#0b6e5f", selectionBackground: "#bfe3db",
    black: "#1d2126", red: "#a3262a", green: "#0b6e3f", yellow: "#8a5a08", blue: "#2a4fb0", magenta: "#8a2a80", cyan: "#0b6e6f", white: "#5c6570",
    brightBlack: "#5c6570", brightRed: "#b8383c", brightGreen: "#0b7a4a", brightYellow: "#8a5a08", brightBlue: "#3a5fc0", brightMagenta: "#9a3a90", brightCyan: "#0b7e7f", brightWhite: "#3a424b" },
  dark: { background: "#11151a", foreground: "#e6e4df", cursor: "#5fc9b5", selectionBackground: "#2c5a52" },
};

const terminal = new Terminal({
  cursorBlink: true,
  fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace",
  fontSize: 13,
  scrollback: 5000,
  allowProposedApi: false,
  linkHandler: { activate: () => undefined }, // a link of a program opens nothing
  screenReaderMode: false,
});
const fit = new FitAddon();
terminal.loadAddon(fit);
terminal.open(root);
terminal.textarea?.setAttribute("aria-label", "Terminal");

const encoder = new TextEncoder();

let drawingOld = 0; // pieces of output that was there before us: answers to what is asked in it are no input

const input = (bytes: Uint8Array): void => {
  if (!drawingOld) toShell({ type: "input", bytes });
};
terminal.onData((text) => input(encoder.encode(text)));
terminal.onBinary((text) => input(Uint8Array.from(text, (c) => c.charCodeAt(0))));
terminal.onResize(({ cols, rows }) => toShell({ type: "resize", cols, rows }));
// Ctrl+Shift+C copies the selection, as terminals do. Tab belongs to the program, so Ctrl+Shift+L leaves the terminal.
terminal.attachCustomKeyEventHandler((event) => {
  if (event.type === "keydown" && event.ctrlKey && event.shiftKey && event.code === "KeyC") {
    document.execCommand("copy");
    return false;
  }
  if (event.type === "keydown" && event.ctrlKey && event.shiftKey && event.code === "KeyL") {
    event.preventDefault();
    toShell({ type: "leave" });
    return false;
  }
  return true;
});

const refit = (): void => {
  try {
    fit.fit();
  } catch {
    // not shown at the moment
  }
};
new ResizeObserver(refit).observe(root);

// The size of the window is the program's business only after it asked; titles and the clipboard are not given away.
for (const code of [52]) terminal.parser.registerOscHandler(code, () => true);

function colour(dark: boolean): void {
  terminal.options.theme = dark ? THEMES.dark : THEMES.light;
  document.body.style.background = terminal.options.theme.background!;
}

fromShell((message) => {
  if (message.type === "output" && message.bytes instanceof Uint8Array) {
    const old = message.old === true ? 1 : 0;
    drawingOld += old;
    terminal.write(message.bytes, () => {
      drawingOld -= old;
      toShell({ type: "written", n: message.bytes.length });
    });
  } else if (message.type === "theme") colour(message.dark === true);
  else if (message.type === "focus") terminal.focus();
  else if (message.type === "reset") terminal.reset();
  else if (message.type === "note") terminal.write(`\r\n\x1b[2m${String(message.text).replace(/[^\x20-\x7e]/g, "")}\x1b[0m\r\n`);
  else if (message.type === "start") {
    colour(message.dark === true);
    refit();
    toShell({ type: "resize", cols: terminal.cols, rows: terminal.rows });
  }
});

toShell({ type: "ready" });
