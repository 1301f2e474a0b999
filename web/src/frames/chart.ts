// Draws a Plotly figure. The figure is data that a program made; plotly.js runs here and not in the shell, so
// that a fault in how it treats titles and labels is worth nothing, and because it makes style elements.
import Plotly from "plotly.js-strict-dist-min";

import { fromShell, toShell } from "./channel";

const root = document.createElement("div");
const sheet = document.createElement("style");
sheet.textContent = "html, body { margin: 0; height: 100%; background: transparent; overflow: hidden; } #chart { height: 100%; }";
document.head.append(sheet);
root.id = "chart";
root.setAttribute("role", "img");
document.body.append(root);

let figure: { data?: any[]; layout?: any } = {};
let drawn = false;

// Where nothing hovers, the buttons would always be there, in front of the title; pinching and dragging zoom as well.
const CONFIG = { responsive: true, displayModeBar: matchMedia("(hover: none)").matches ? false : "hover", displaylogo: false, scrollZoom: false, plotlyServerURL: "", showSendToCloud: false,
  modeBarButtonsToRemove: ["toImage", "sendDataToCloud"] };

/** A figure with the shell's colours wherever it does not choose its own. */
function themed(dark: boolean, given: any): any {
  const ink = dark ? "#e6e4df" : "#1d2126";
  const line = dark ? "#3a424b" : "#dfdcd4";
  const layout = structuredClone(given ?? {});
  const template = layout.template?.layout ?? {};
  delete layout.width;
  layout.autosize = true;
  layout.paper_bgcolor = "rgba(0,0,0,0)";
  layout.plot_bgcolor = "rgba(0,0,0,0)";
  layout.font = { ...(template.font ?? {}), ...(layout.font ?? {}), color: ink };
  for (const key of Object.keys({ xaxis: 0, yaxis: 0, ...layout })) {
    if (!/^[xy]axis\d*$/.test(key)) continue;
    layout[key] = { automargin: true, ...layout[key], gridcolor: line, zerolinecolor: line, linecolor: line };
  }
  layout.modebar = { ...(layout.modebar ?? {}), bgcolor: "rgba(0,0,0,0)", color: dark ? "#a3acb5" : "#59626c", activecolor: ink };
  layout.margin = { l: 56, r: 20, t: layout.title ? 56 : 20, b: 48, ...(layout.margin ?? {}) };
  return layout;
}

async function draw(dark: boolean): Promise<void> {
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
  try {
    await Plotly.react(root, (figure.data ?? []) as any, themed(dark, figure.layout), CONFIG as any);
    drawn = true;
    toShell({ type: "drawn" });
  } catch (error) {
    toShell({ type: "failed", detail: String(error).slice(0, 300) });
  }
}

fromShell((message) => {
  if (message.type === "show") {
    figure = message.figure ?? {};
    root.setAttribute("aria-label", String(message.label ?? "chart"));
    void draw(message.dark === true);
  } else if (message.type === "theme" && drawn) void draw(message.dark === true);
  else if (message.type === "image" && (message.format === "png" || message.format === "svg")) {
    // As the figure is, on white, in a size that prints well.
    const layout = { ...(figure.layout ?? {}), width: 1100, height: 650 };
    void Plotly.toImage({ data: figure.data ?? [], layout } as any, { format: message.format, width: 1100, height: 650, scale: message.format === "png" ? 2 : 1 } as any)
      .then((url: string) => toShell({ type: "image", id: message.id, url }))
      .catch((error: unknown) => toShell({ type: "image", id: message.id, error: String(error).slice(0, 300) }));
  }
});

toShell({ type: "ready" });
