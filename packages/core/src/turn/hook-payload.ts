import type { HookCall } from "../ports/hook.ts";

/** JSON takes at most this many bytes per UTF-16 unit: `\u0000`. */
const BYTES_PER_UNIT = 6;
/** Allowance for names, numbers and punctuation. */
const REST_BYTES = 64;

/** A copy of the call for one hook. Its JSON is bounded: long texts are cut and marked. */
export function fitPayload(given: HookCall, bytesMax: number): HookCall {
  // The plan of a custom compactor need not be JSON.
  if (given.compaction !== undefined) return fitted(structuredClone(given), bytesMax);
  const room = { left: bytesMax };
  const call = isPlain(given) ? copyOfPlain(given, room) : copyOf(given, room);
  // Most calls are small, which is known without serializing them.
  return room.left >= 0 ? call : fitted(call, bytesMax);
}

/** Whether, apart from a tool's arguments, it has only known fields. */
function isPlain({ prompt, labels, llm_request }: HookCall): boolean {
  return typeof prompt !== "object" && labels === undefined && llm_request?.provider_params === undefined;
}

/** Upper bound for the names and numbers of a call, its reason and session id. */
const PLAIN_BYTES = 2_048;

/** The same copy by name: a turn makes ten of these, and the generic walk takes five times as long. */
function copyOfPlain(call: HookCall, room: { left: number }): HookCall {
  const { llm_request, llm_response, tool_call, tool_result } = call;
  let units = (typeof call.prompt === "string" ? call.prompt.length : 0) + (call.error?.length ?? 0);
  let own = call;
  if (llm_request !== undefined) {
    units += llm_request.model.length;
    own = { ...own, llm_request: { ...llm_request } };
  }
  if (llm_response !== undefined) {
    units += llm_response.assistant_text.length;
    const tool_call_names = copyOf(llm_response.tool_call_names, room);
    own = { ...own, llm_response: { ...llm_response, tool_call_names, usage: { ...llm_response.usage } } };
  }
  if (tool_call !== undefined) {
    units += tool_call.tool_use_id.length + tool_call.name.length;
    own = { ...own, tool_call: { ...tool_call, args: copyOf(tool_call.args, room) } };
  }
  if (tool_result !== undefined) {
    units += tool_result.tool_use_id.length + tool_result.name.length + tool_result.content.length;
    own = { ...own, tool_result: { ...tool_result } };
  }
  room.left -= PLAIN_BYTES + units * BYTES_PER_UNIT;
  return own;
}

/** Copies JSON several times as fast as a structured clone when it is small; subtracts its size from `room`. */
function copyOf<T extends object>(value: T, room: { left: number }): T {
  // Spread copies a field called __proto__ as a plain field.
  const copy = (Array.isArray(value) ? [...value] : { ...value }) as T & Record<string, unknown>; // A list for a list.
  for (const key in copy) {
    const one: unknown = copy[key];
    room.left -= REST_BYTES + key.length * BYTES_PER_UNIT;
    if (typeof one === "string") room.left -= one.length * BYTES_PER_UNIT;
    else if (typeof one === "object" && one !== null) Reflect.set(copy, key, copyOf(one, room));
  }
  return copy;
}

function fitted(call: HookCall, bytesMax: number): HookCall {
  return bytesOf(call) <= bytesMax ? call : shortCall(call, bytesMax);
}

function shortCall(call: HookCall, bytesMax: number): HookCall {
  const cut = (unitsMax: number): HookCall => ({ ...shortened(call, unitsMax), truncated: true });
  let [fits, over] = [0, longestIn(call)];
  if (bytesOf(cut(0)) > bytesMax) return bare(call);
  while (over - fits > 1) {
    const middle = (fits + over) >> 1;
    if (bytesOf(cut(middle)) <= bytesMax) fits = middle;
    else over = middle;
  }
  return cut(fits);
}

const encoder = new TextEncoder();

function bytesOf(call: HookCall): number {
  return encoder.encode(JSON.stringify(call)).length;
}

/** Fields that a hook needs in full to identify the step. */
const WHOLE: ReadonlySet<string> = new Set(["point", "session_id", "tool_use_id", "name", "stop_reason", "type"]);

function shortened<T>(value: T, unitsMax: number, key = ""): T {
  if (typeof value === "string") {
    if (WHOLE.has(key) || value.length <= unitsMax) return value;
    return cutText(value, unitsMax) as T & string; // A text for a text.
  }
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((one) => shortened(one, unitsMax)) as T & unknown[]; // A list for a list.
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shortened(one, unitsMax, name)])) as T;
}

function cutText(text: string, unitsMax: number): string {
  return text.slice(0, unitsMax).replace(/[\uD800-\uDBFF]$/, "");
}

function longestIn(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 0;
  return Object.values(value).reduce<number>((most, one) => Math.max(most, longestIn(one)), 0);
}

/** What is left when even names and numbers are too large. */
function bare({ point, session_id, turn_number, tool_call, tool_result }: HookCall): HookCall {
  return {
    point,
    session_id,
    ...(turn_number === undefined ? {} : { turn_number }),
    ...(tool_call === undefined ? {} : { tool_call: { ...tool_call, args: {} } }),
    ...(tool_result === undefined ? {} : { tool_result: { ...tool_result, content: "" } }),
    truncated: true,
  };
}
