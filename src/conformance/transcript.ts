import type { OperationName } from "../contract/operations.ts";
import type { Outcome, ToldEvent } from "./drivers/driver.ts";
import type { Kept } from "./placeholders.ts";

/** What a step came to: what a surface told while it ran, and its end. */
export interface Told {
  readonly call: OperationName;
  readonly events: readonly ToldEvent[];
  readonly outcome: Outcome;
}

/** Events with each run of streamed pieces as one: where a stream is cut is nobody's promise. */
export function joinDeltas(events: readonly ToldEvent[]): readonly ToldEvent[] {
  const joined: ToldEvent[] = [];
  for (const event of events) {
    const last = joined.at(-1);
    const isMore = event.type === "text_delta" && last?.type === "text_delta";
    if (isMore) joined.splice(-1, 1, { ...last, delta: `${last.delta}${event.delta}` });
    else joined.push(event);
  }
  return joined;
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)/g;
const HASH = /\b[0-9a-f]{64}\b/g;
/** Fields whose value is of the moment, or of the place. */
const OF_THE_MOMENT = /_ms$|^(?:created_at|updated_at|unix_timestamp|session_ref|sha256|bytes)$/;

/** A transcript with what differs from one telling to the next taken out: what is left must be the same everywhere. */
export function normalised(told: readonly Told[], kept: Kept): unknown {
  const names = [...kept].flatMap(([name, value]) =>
    typeof value === "string" && value.length > 3 ? [[value, `<${name}>`] as const] : [],
  );
  const plain = (text: string): string => {
    const named = names.reduce((so, [value, name]) => so.replaceAll(value, name), text);
    return named.replace(UUID, "<id>").replace(TIME, "<time>").replace(HASH, "<hash>");
  };
  const visit = (value: unknown): unknown => {
    if (typeof value === "string") return plain(value);
    if (Array.isArray(value)) return value.map(visit);
    if (typeof value !== "object" || value === null) return value;
    const fields = Object.entries(value).filter(([field]) => !OF_THE_MOMENT.test(field));
    return Object.fromEntries(fields.map(([field, inside]) => [field, visit(inside)]));
  };
  return told.map(({ call, events, outcome }) => visit({ call, events, outcome }));
}
