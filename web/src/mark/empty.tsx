// A new chat: what one can ask, and data to try it with.
import { useState } from "preact/hooks";

import { useStore } from "../store";
import { authState } from "../session";
import { Icon } from "../ui/icon";
import { attempt } from "../ui/parts";
import { choices, handOver } from "./composer";
import { models, sources } from "./data";
import { addFile, pendingFiles } from "./files";
import { ask } from "./thread";

const SAMPLE_QUESTIONS = ["What is in this file?", "Which region grew fastest?", "Show revenue by month", "What are the top products?", "Which products are returned most?", "What do discounts cost?"];
const OWN_QUESTIONS = ["What is in this data, and what should I watch out for?", "Which groups grew or shrank most?", "Show the trend over time"];

/** Uploads the sample and asks about it. */
async function askSample(question: string): Promise<void> {
  const known = pendingFiles.get().find((one) => one.name === "sales.csv" && one.id);
  if (!known) {
    const { sampleFile } = await import("./sample");
    await addFile(sampleFile());
  }
  const file = pendingFiles.get().find((one) => one.name === "sales.csv" && one.id);
  if (!file) return; // the chip says why
  pendingFiles.set((list) => list.filter((one) => one !== file));
  await ask({ query: question, attachments: [file.id!], ...choices() });
}

export function Empty() {
  const state = useStore(authState);
  const files = useStore(pendingFiles);
  const known = useStore(models);
  const available = useStore(sources)?.filter((one) => one.usable) ?? [];
  const [busy, setBusy] = useState(false);
  const demo = known ? known.models.every((one) => one.demo) && known.models.length > 0 : state?.mark === "demo";
  const run = (work: () => Promise<void>) => {
    setBusy(true);
    void attempt(work).finally(() => setBusy(false));
  };
  const useSample = () => run(async () => addFile((await import("./sample")).sampleFile()));
  const sampled = files.some((one) => one.name === "sales.csv");
  const own = files.length > 0 && !sampled;
  return (
    <div class="hero">
      <h1>What do you want to know?</h1>
      <p class="hero-lead">Attach a file{available.length ? " or ask a data source" : ""}, and ask in plain words. Every number of the answer is computed by a program that you can read.</p>
      {demo && <p class="note demo-note"><Icon name="box" size={16} /> <span>This is the <strong>demo</strong>: a script that knows a few questions about sample data. Its programs are really run. For your own questions the operator connects a model.</span></p>}
      {own ? (
        <div class="examples" role="group" aria-label="Examples">
          {OWN_QUESTIONS.map((one) => <button key={one} type="button" onClick={() => handOver(one)}>{one}</button>)}
        </div>
      ) : (
        <>
          <p class="examples-head">{sampled ? "Ask about the sample" : "Try it with two years of orders of a shop that does not exist"}
            {!sampled && <button type="button" class="link" disabled={busy} onClick={useSample}>Use the sample data</button>}
          </p>
          <div class="examples" role="group" aria-label="Examples">
            {SAMPLE_QUESTIONS.map((one) => <button key={one} type="button" disabled={busy} onClick={() => run(() => askSample(one))}>{one}</button>)}
          </div>
        </>
      )}
    </div>
  );
}
