// From a number to the place that it comes from, which may be in another answer of the chat.
import { store } from "../store";

export interface Place {
  step: number | null; // null: all of the work
  line: number | null;
}

/** Where somebody wants to be led. */
export interface Lead extends Place {
  messageId: string;
  turn: number; // so that the same place can be shown again
}

export const lead = store<Lead | null>(null);

let last = 0;

export const leadTo = (messageId: string, { step, line }: Place) => lead.set({ messageId, step, line, turn: ++last });

/** Whether this is the first who follows it: an answer that is drawn again later must not. */
export function take(wanted: Lead): boolean {
  if (lead.get() !== wanted) return false;
  lead.set(null);
  return true;
}
