// Which notebook is shown: from the address, from this browser, or a new one; and files in and out.
import { saveBlob } from "../api";
import { toast } from "../ui/parts";
import { extra, head, notebook, openNew, openNotebook, openStored } from "./book";
import { attach, box, writeAddress } from "./box";
import { exampleCode } from "./example";
import { fileNameOf, newCell, NotebookError, parseNotebook, toIpynb, toScript, type Notebook } from "./notebook";
import { detach, resumeRuns } from "./run";
import { listStored, loadStored, owner as ownerNow } from "./storage";

let opened = ""; // the owner's notebook that is open, so that coming back to the view does not load it again

/** Opens what the address asks for. */
export async function openFromAddress(owner: string): Promise<void> {
  if (opened === owner) {
    writeAddress();
    resumeRuns(); // signed out and in again
    return;
  }
  detach();
  const query = new URLSearchParams(location.search);
  const session = query.get("session");
  const wanted = query.get("notebook");
  let stored = null;
  try {
    const list = await listStored();
    const id = list.find((one) => one.id === wanted)?.id ?? (session ? list.find((one) => one.session === session)?.id : undefined) ?? (session || wanted ? undefined : list[0]?.id);
    if (id) stored = await loadStored(id);
  } catch {
    toast("This browser does not store notebooks (a private window?). Download yours before you leave.", true);
  }
  const example = stored ? "" : await exampleCode();
  if (ownerNow() !== owner) return; // somebody else signed in meanwhile, and their notebook is being opened
  opened = owner;
  if (stored) await openStored(stored);
  else await openNew(example);
  await attach(session ?? extra.session);
  writeAddress();
  resumeRuns();
}

/** Asks again after a box that could not be asked about. */
export async function reattach(id: string | null): Promise<void> {
  await attach(id);
  resumeRuns();
}

export async function openById(id: string): Promise<void> {
  const stored = await loadStored(id);
  if (!stored) return;
  detach();
  await openStored(stored);
  await attach(extra.session);
  writeAddress();
  resumeRuns();
}

export async function startNew(): Promise<void> {
  const example = await exampleCode();
  detach();
  await openNew(example);
  box.set({ is: "none" });
  await attach(null);
  writeAddress();
}

export async function openCopy(one: Notebook, owner: string): Promise<void> {
  detach();
  opened = owner;
  await openNotebook(one);
  await attach(null);
  writeAddress();
}

/** Opens a file that somebody chose or dropped: a notebook, or a script as one cell. */
export async function importText(text: string, name: string): Promise<void> {
  let read: { notebook: Notebook; warnings: string[] };
  try {
    read = /\.py$/i.test(name)
      ? { notebook: { title: name.replace(/\.py$/i, "").slice(0, 120), cells: [newCell("code", text.replace(/\r\n?/g, "\n"))], metadata: {} }, warnings: [] }
      : parseNotebook(text, name);
  } catch (error) {
    toast(error instanceof NotebookError ? error.message : `${name} could not be read.`, true);
    return;
  }
  detach();
  await openNotebook(read.notebook);
  await attach(null);
  writeAddress();
  toast(read.warnings[0] ?? `Opened ${name}`);
  for (const warning of read.warnings.slice(1, 4)) toast(warning);
}

export function exportIpynb(): void {
  saveBlob(new Blob([`${JSON.stringify(toIpynb(notebook()), null, 1)}\n`], { type: "application/x-ipynb+json" }), fileNameOf(head.get().title, "ipynb"));
}

export function exportScript(): void {
  saveBlob(new Blob([toScript(notebook())], { type: "text/x-python" }), fileNameOf(head.get().title, "py"));
}
