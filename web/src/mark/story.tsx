// The story of an answer: Markdown in which every number knows where it comes from.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { placeMarks, renderMarked, spansOf, type Span } from "./marks";
import type { Mark } from "./types";

type Renderer = (markdown: string) => string;

let renderer: Renderer | undefined;

function useRenderer(): Renderer | undefined {
  const [, draw] = useState(0);
  useEffect(() => {
    if (renderer) return;
    let here = true;
    void import("../markdown").then((module) => {
      renderer = module.renderStory;
      if (here) draw((n) => n + 1);
    });
    return () => {
      here = false;
    };
  }, []);
  return renderer;
}

const NO_MARKS: Mark[] = [];

export interface StoryProps {
  text: string;
  marks?: Mark[] | undefined;
  /** What to say about a number that was computed. */
  explain?(mark: Mark): string;
  onMark?(mark: Mark): void;
}

export function Story({ text, marks = NO_MARKS, explain, onMark }: StoryProps) {
  const element = useRef<HTMLDivElement>(null);
  const render = useRenderer();
  const calls = useRef({ explain, onMark });
  calls.current = { explain, onMark };
  useLayoutEffect(() => {
    const root = element.current!;
    if (!render) {
      root.textContent = text;
      return;
    }
    const spans = spansOf(text, marks);
    root.innerHTML = renderMarked(text, spans, render);
    placeMarks(root, spans, (shown, span, _, first, inLink) => elementOf(shown, span, first, inLink, calls));
    // Tables of a story can be wider than the page.
    for (const table of root.querySelectorAll("table")) {
      const box = document.createElement("div");
      box.className = "scroll-x";
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", "Table");
      table.replaceWith(box);
      box.append(table);
    }
    for (const pre of root.querySelectorAll("pre")) pre.tabIndex = 0;
  }, [text, marks, render]);
  return <div class="story" ref={element} />;
}

function elementOf(shown: string, span: Span, first: boolean, inLink: boolean, calls: { current: Pick<StoryProps, "explain" | "onMark"> }): Node {
  if (span.mark.kind === "unsupported") {
    const node = document.createElement("span");
    node.className = "num number unsupported";
    node.title = "No program computed this number. Do not rely on it.";
    node.append(shown);
    if (first) {
      const hidden = document.createElement("span");
      hidden.className = "visually-hidden";
      hidden.textContent = " (not computed)";
      node.append(hidden);
    }
    return node;
  }
  const why = calls.current.explain?.(span.mark) ?? "";
  const node = document.createElement(inLink ? "span" : "button");
  node.className = "num number computed";
  node.title = why;
  node.append(shown);
  if (node instanceof HTMLButtonElement) {
    node.type = "button";
    node.setAttribute("aria-label", `${shown}: ${why}`);
    node.addEventListener("click", () => calls.current.onMark?.(span.mark));
  }
  return node;
}
