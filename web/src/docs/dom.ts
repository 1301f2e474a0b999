// Elements without a framework: everything is added as text, never as markup.
import { toClipboard } from "../clipboard";

export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** A button that copies what `text` returns at that moment. */
export function copyButton(label: string, text: () => string): HTMLButtonElement {
  const button = make("button", { type: "button", class: "copy" }, label);
  button.addEventListener("click", () => {
    void toClipboard(text()).then((copied) => {
      button.textContent = copied ? "Copied" : "Cannot copy";
      setTimeout(() => (button.textContent = label), 1500);
    });
  });
  return button;
}
