// Requests and replies of models as messages that people can read. Every vendor writes them in another way; what is not
// understood is shown as JSON.
export interface Said {
  role: string;
  text: string;
  calls: { name: string; text: string }[];
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

const json = (value: unknown): string => JSON.stringify(value, null, 2) ?? "";

/** Arguments of a call: a program is shown as such. */
function argumentsText(given: unknown): string {
  let value = given;
  if (typeof given === "string")
    try {
      value = JSON.parse(given);
    } catch {
      return given;
    }
  if (!isObject(value)) return json(value);
  const keys = Object.keys(value);
  if (keys.length === 1 && typeof value[keys[0]!] === "string") return value[keys[0]!] as string;
  return keys.map((key) => `${key}: ${typeof value[key] === "string" ? (value[key] as string) : json(value[key])}`).join("\n");
}

function partText(part: unknown): string {
  if (typeof part === "string") return part;
  if (!isObject(part)) return "";
  if (typeof part.text === "string") return part.text;
  if (typeof part.thinking === "string") return `(thinking) ${part.thinking}`;
  if (part.type === "tool_result") return contentText(part.content);
  if (part.type === "image" || part.type === "image_url" || part.type === "input_image") return "[picture]";
  return "";
}

function contentText(content: unknown): string {
  if (typeof content === "string") return content;
  if (Array.isArray(content)) return content.map(partText).filter(Boolean).join("\n");
  return "";
}

function callsOf(message: Record<string, unknown>): Said["calls"] {
  const calls: Said["calls"] = [];
  if (Array.isArray(message.tool_calls))
    for (const call of message.tool_calls) {
      if (!isObject(call)) continue;
      const body = isObject(call.function) ? call.function : call;
      calls.push({ name: String(body.name ?? "call"), text: argumentsText(body.arguments) });
    }
  if (Array.isArray(message.content))
    for (const part of message.content) if (isObject(part) && part.type === "tool_use") calls.push({ name: String(part.name ?? "call"), text: argumentsText(part.input) });
  if (message.type === "function_call") calls.push({ name: String(message.name ?? "call"), text: argumentsText(message.arguments) });
  return calls;
}

const NAMES: Record<string, string> = { system: "Instructions", developer: "Instructions", user: "You, with what Mark added", assistant: "Model", tool: "Result of a call" };

export function messageOf(message: unknown): Said {
  if (!isObject(message)) return { role: "?", text: json(message), calls: [] };
  const calls = callsOf(message);
  let role = typeof message.role === "string" ? message.role : message.type === "function_call" ? "assistant" : message.type === "function_call_output" ? "tool" : "?";
  if (Array.isArray(message.content) && message.content.length > 0 && message.content.every((part) => isObject(part) && part.type === "tool_result")) role = "tool";
  const text = message.type === "function_call_output" ? contentText(message.output) : contentText(message.content);
  return { role: NAMES[role] ?? role, text: text || (calls.length ? "" : role === "?" ? json(message) : ""), calls };
}

export function requestMessages(request: unknown): Said[] {
  if (!isObject(request)) return request === null || request === undefined ? [] : [{ role: "Request", text: typeof request === "string" ? request : json(request), calls: [] }];
  const said: Said[] = [];
  const system = contentText(request.system ?? request.instructions);
  if (system) said.push({ role: "Instructions", text: system, calls: [] });
  const list = Array.isArray(request.messages) ? request.messages : Array.isArray(request.input) ? request.input : null;
  if (!list) return [...said, { role: "Request", text: json(request), calls: [] }];
  return [...said, ...list.map(messageOf)];
}

export function replyMessages(reply: unknown): Said[] {
  if (reply === null || reply === undefined) return [];
  if (!isObject(reply)) return [{ role: "Model", text: String(reply), calls: [] }];
  if (Array.isArray(reply.choices)) return reply.choices.map((one) => messageOf(isObject(one) ? (one.message ?? one) : one));
  if (Array.isArray(reply.output)) return reply.output.map(messageOf);
  if (isObject(reply.message)) return [messageOf({ role: "assistant", ...reply.message })];
  if (reply.role !== undefined || reply.content !== undefined) return [messageOf({ role: "assistant", ...reply })];
  return [{ role: "Model", text: json(reply), calls: [] }];
}

/** How many messages at the start of a request were in the one before: they need not be read again. */
export function repeated(before: Said[], now: Said[]): number {
  let n = 0;
  while (n < before.length && n < now.length && JSON.stringify(before[n]) === JSON.stringify(now[n])) n++;
  return n;
}
