// Copying. Browsers have navigator.clipboard on loopback and behind TLS only; a page from another machine over plain HTTP
// copies what is selected, the old way.

/** Whether it was copied. */
export async function toClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

function copySelected(text: string): boolean {
  const before = document.activeElement;
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  area.readOnly = true;
  // Beside an open dialog nothing can be selected.
  ([...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body).append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  if (before instanceof HTMLElement) before.focus();
  return copied;
}
