import type { AgentRow } from "../agent-memory/tiers.ts";
import type { AgentPlace } from "../agents/agent-operations.ts";
import type { AgentEntryBody } from "../contract/agent.ts";
import { FORGOTTEN } from "../contract/compaction.ts";
import type { Entry, EntryBody } from "../contract/entry.ts";
import { RuntimeError } from "../contract/error.ts";
import type { ForgetResult, Going } from "../contract/forget.ts";
import type { ScheduleEntryBody } from "../contract/wire/schedule.ts";
import type { Clock } from "../ports/clock.ts";
import type { SessionRow, Store } from "../ports/store.ts";
import type { ScheduleRow, ScheduleStore } from "../schedules/schedule-row.ts";
import { walkRows } from "../sessions/walk-rows.ts";
import { type ForgetPlan, type Forgetting, planForgetting } from "../state/forgetting.ts";
import { entryPages } from "../transfer/portable-log.ts";

/** A log with entries to erase. */
export interface Target {
  readonly kind: "session" | "agent" | "schedule";
  readonly id: string;
  readonly agent?: string;
  readonly isAll: boolean;
  /** Seqs to erase whatever their text. */
  readonly seqs: readonly number[];
  /** Whether copies of erased messages are erased. */
  readonly isCopy: boolean;
}

export type LogPlan = ForgetPlan<EntryBody> | ForgetPlan<AgentEntryBody> | ForgetPlan<ScheduleEntryBody>;
export type AnyEntry = Entry<EntryBody> | Entry<AgentEntryBody> | Entry<ScheduleEntryBody>;

const GOING_MAX = 1_000;
const EXCERPT_CHARS = 120;

export interface ForgetReading {
  readonly store: Store;
  readonly agents: AgentPlace | undefined;
  readonly schedules: ScheduleStore | undefined;
  readonly clock: Pick<Clock, "yieldToEventLoop">;
}

export async function readLog(
  { store, agents, schedules, clock }: ForgetReading,
  { kind, id }: Pick<Target, "kind" | "id">,
): Promise<readonly AnyEntry[]> {
  const entries: AnyEntry[] = [];
  const pages = {
    session: () => entryPages(store.log, id),
    agent: () => (agents === undefined ? [] : entryPages(agents.store.log, id)),
    schedule: () => (schedules === undefined ? [] : entryPages(schedules.log, id)),
  };
  for await (const page of pages[kind]()) {
    for (const entry of page) entries.push(entry);
    await clock.yieldToEventLoop();
  }
  return entries;
}

export async function* everyLog(reading: ForgetReading): AsyncGenerator<{
  readonly kind: Target["kind"];
  readonly id: string;
  readonly agent?: string;
  readonly entries: readonly AnyEntry[];
}> {
  const seen = new Set<string>();
  for await (const { session_id: id } of walkRows<SessionRow>(reading.store.sessions)) {
    if (seen.has(id)) continue;
    seen.add(id);
    yield { kind: "session", id, entries: await readLog(reading, { kind: "session", id }) };
    await reading.clock.yieldToEventLoop();
  }
  const { agents, schedules } = reading;
  for await (const { session_id: id, agent } of agents ? walkRows<AgentRow>(agents.store.sessions) : []) {
    if (seen.has(id)) continue;
    seen.add(id);
    yield { kind: "agent", id, agent, entries: await readLog(reading, { kind: "agent", id }) };
    await reading.clock.yieldToEventLoop();
  }
  for await (const { session_id: id } of schedules ? walkRows<ScheduleRow>(schedules.sessions) : []) {
    if (seen.has(id)) continue;
    seen.add(id);
    yield { kind: "schedule", id, entries: await readLog(reading, { kind: "schedule", id }) };
    await reading.clock.yieldToEventLoop();
  }
}

/** Sessions forked from these, transitively. */
export async function forksOf({ store }: ForgetReading, ids: ReadonlySet<string>): Promise<ReadonlySet<string>> {
  const parents = new Map<string, string>();
  for await (const { session_id } of walkRows<SessionRow>(store.sessions)) {
    const [first] = await store.log.read(session_id, 1, 1);
    const parent = first?.body.kind === "session_created" ? first.body.forked_from?.session_id : undefined;
    if (parent !== undefined) parents.set(session_id, parent);
  }
  const found = new Set<string>();
  for (let before = -1; found.size > before; ) {
    before = found.size;
    for (const [child, parent] of parents)
      if (!ids.has(child) && (ids.has(parent) || found.has(parent))) found.add(child);
  }
  return found;
}

/** The plan for a target's log, read from its beginning. */
export async function planTarget(
  entries: readonly AnyEntry[],
  how: Forgetting,
  yieldToEventLoop: Clock["yieldToEventLoop"],
): Promise<LogPlan> {
  // All kinds of bodies are read by their fields.
  return planForgetting(entries as readonly Entry<EntryBody>[], how, yieldToEventLoop);
}

/** A log by the field of its kind. */
export function namedLog({ kind, id, agent = id }: Pick<Target, "kind" | "id" | "agent">) {
  if (kind === "agent") return { agent };
  return kind === "session" ? { session_id: id } : { schedule_id: id };
}

export function describeLog(
  target: Target,
  { holes, emptied, cut }: Pick<LogPlan, "holes" | "emptied" | "cut">,
): ForgetResult["logs"][number] {
  const ranges = holes.map(({ from_seq, to_seq }) => ({ from_seq, to_seq }));
  return {
    ...namedLog(target),
    all: target.isAll,
    messages: emptied,
    cut,
    holes: ranges,
  };
}

/** The erased part of a log, one row per message; a preview shows how each begins. */
export function goingOf(
  target: Target,
  entries: readonly AnyEntry[],
  { changed }: Pick<LogPlan, "changed">,
  { isDry }: { readonly isDry: boolean },
): readonly Going[] {
  const seqs = new Set(changed.map(({ seq }) => seq));
  return entries
    .filter(({ seq }) => seqs.has(seq))
    .flatMap(({ seq, timestamp_ms, body }): Going[] => {
      const said = saidBy(body);
      if (said === undefined) return [];
      const excerpt = said.slice(0, EXCERPT_CHARS).replace(/\s+/gu, " ").trim();
      return [
        {
          ...namedLog(target),
          seq,
          kind: body.kind,
          at: new Date(timestamp_ms).toISOString(),
          ...(isDry ? { excerpt } : {}),
        },
      ];
    });
}

export function boundGoing(going: readonly Going[]): Pick<ForgetResult, "going" | "more"> {
  return { going: going.slice(0, GOING_MAX), more: Math.max(0, going.length - GOING_MAX) };
}

/** The content of an entry; undefined for an entry that only records an event. */
function saidBy(body: AnyEntry["body"]): string | undefined {
  switch (body.kind) {
    case "imported":
    case "notice":
    case "turn_opened":
    case "message_queued":
    case "message_delivered":
    case "assistant":
    case "tool_results":
      return textsOfJson(body.message).join(" ");
    case "results_held":
      return textsOfJson(body.results).join(" ");
    case "rewritten":
      return "messages" in body.to ? textsOfJson(body.to.messages).join(" ") : undefined;
    case "memory_added":
    case "note_added":
      return body.content;
    case "schedule_set": {
      const { name = "", description = "", target } = body.spec;
      const { action } = target;
      const does = action.type === "prompt" ? textsOfJson(action.prompt, "text") : [action.event_type];
      return [name, description, ...does].join(" ");
    }
    default:
      return undefined;
  }
}

/** The texts of a message by field. */
function textsOfJson(value: unknown, key = ""): readonly string[] {
  if (typeof value === "string") return ["content", "text", "body"].includes(key) ? [value] : [];
  if (Array.isArray(value)) return value.flatMap((one) => textsOfJson(one, key));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, field]) => textsOfJson(field, name));
}

/** The texts to search for afterwards, without those already erased. */
export function textsSaid(entries: readonly AnyEntry[]): readonly string[] {
  return entries.flatMap(({ body }) => saidBy(body) ?? []).filter((text) => text !== "" && text !== FORGOTTEN);
}

/** The messages of entries as a fork copies them. */
export function copiesIn(entries: readonly AnyEntry[]): readonly string[] {
  return entries.flatMap(({ body }) => ("message" in body ? [JSON.stringify(body.message)] : []));
}

export function requireLog(entries: readonly AnyEntry[], what: string): void {
  if (entries.length === 0) throw new RuntimeError("SESSION_NOT_FOUND", `${what} is not there`);
}
