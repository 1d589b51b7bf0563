import { agentId, holdSoon } from "../agents/agent-log.ts";
import type { Caller } from "../contract/caller.ts";
import { invalid, RuntimeError } from "../contract/error.ts";
import {
  type CreateSchedule,
  type Occurrence,
  type Schedule,
  type ScheduleEntryBody,
  type ScheduleSpec,
  type ScheduleTarget,
  Trigger,
} from "../contract/wire/schedule.ts";
import type { Clock } from "../ports/clock.ts";
import type { Service } from "../runtime/dispatch.ts";
import { translateFailures } from "../sessions/live-sessions.ts";
import { walkRows } from "../sessions/walk-rows.ts";
import type { DueTimes } from "./due-times.ts";
import {
  describeSchedule,
  occurrencesIn,
  type ScheduleHome,
  type ScheduleRow,
  type ScheduleStore,
} from "./schedule-row.ts";

export type ScheduleOperations = Pick<
  Service,
  | "createSchedule"
  | "listSchedules"
  | "readSchedule"
  | "updateSchedule"
  | "pauseSchedule"
  | "resumeSchedule"
  | "deleteSchedule"
  | "listOccurrences"
>;

export interface ScheduleParts {
  readonly home: ScheduleHome;
  readonly clock: Clock;
  /** Masks the secrets of a text. */
  redact(text: string): string;
}

export interface Schedules {
  readonly operations: ScheduleOperations;
  /** The opened store; undefined if no schedule was ever made. */
  store(): Promise<ScheduleStore | undefined>;
  /** Appends what a function makes of a row; resolves with the row as it is then. */
  append(
    id: string,
    make: (row: ScheduleRow | undefined) => ScheduleEntryBody | undefined,
  ): Promise<ScheduleRow | undefined>;
  /** Makes the realm's schedules of the configuration those that are given. */
  sync(named: readonly CreateSchedule[]): Promise<void>;
  /** Calls a function with every row that changes here. */
  onChange(listener: (row: ScheduleRow) => void): void;
  close(): Promise<void>;
}

const OCCURRENCES_DEFAULT = 100;
/** Of an occurrence there are at most two entries; further ones are changes of the schedule. */
const ENTRIES_PER_OCCURRENCE = 3;
const CONFIGURED = "configuration";
const LEFT_OUT = "it is not in the configuration";

/** The schedules of a realm as records; `createScheduler` runs them. */
export function createSchedules({ home, clock, redact }: ScheduleParts): Schedules {
  let opening: Promise<ScheduleStore> | undefined;
  let changed: (row: ScheduleRow) => void = () => {};
  const opened = (): Promise<ScheduleStore> => {
    // A failed opening is retried by the next call.
    opening ??= home.open().then(translateFailures, (thrown) => {
      opening = undefined;
      throw thrown;
    });
    return opening;
  };
  const store = async () => (opening !== undefined || home.isThere() ? opened() : undefined);

  /** The row of a schedule that the caller may see; throws SCHEDULE_NOT_FOUND for any other. */
  const find = async (id: string, caller: Caller | undefined): Promise<ScheduleRow> => {
    const row = await (await store())?.sessions.get(id);
    if (row !== undefined && hasAll(row.spec.labels, caller?.labels)) return row;
    throw new RuntimeError("SCHEDULE_NOT_FOUND", `schedule_id: there is no schedule ${id}`);
  };
  /** Appends what `make` returns for the row as it is; nothing if that is undefined. */
  const append: Schedules["append"] = async (id, make) => {
    const kept = await opened();
    const hold = await holdSoon(kept, id, clock);
    try {
      const before = await kept.sessions.get(id);
      const body = make(before);
      if (body === undefined) return before;
      await kept.log.append(id, before?.last_seq ?? 0, [{ span: 1, body }]);
    } finally {
      await hold.release();
    }
    const row = await kept.sessions.get(id);
    if (row !== undefined) changed(row);
    return row;
  };
  const set = async (
    id: string,
    settled: (before: ScheduleRow | undefined) => ScheduleSpec,
    { caller, expected }: { readonly caller?: Caller | undefined; readonly expected?: number | undefined },
  ) => {
    const { dueTimes } = await loadTimes();
    const row = await append(id, (before) => {
      if (before?.phase === "deleted") throw gone(id);
      if (before !== undefined && expected !== undefined && before.revision !== expected)
        throw invalid(`expected_revision: schedule ${id} has the revision ${before.revision}, not ${expected}`);
      const wanted = settled(before);
      const spec: ScheduleSpec = JSON.parse(
        redact(JSON.stringify({ ...wanted, labels: { ...wanted.labels, ...caller?.labels } })),
      );
      const isOwn = before !== undefined && before.caller === undefined && caller === undefined;
      if (isOwn && JSON.stringify(before.spec) === JSON.stringify(spec)) return undefined;
      const isKept = before !== undefined && JSON.stringify(before.spec.trigger) === JSON.stringify(spec.trigger);
      const next_due_ms = isKept ? before.next_due_ms : firstDue(spec.trigger, clock.now(), dueTimes);
      return { kind: "schedule_set", spec, caller: caller && recorded(caller), next_due_ms };
    });
    return shown(row, id);
  };
  const shown = (row: ScheduleRow | undefined, id: string): Schedule => {
    if (row === undefined) throw gone(id);
    return describeSchedule(row, clock.now());
  };
  const setPhase = (phase: ScheduleRow["phase"], reason?: string) => {
    return async ({ schedule_id: id }: { readonly schedule_id: string }, { caller }: { readonly caller?: Caller }) => {
      await find(id, caller);
      const { dueTimes } = await loadTimes();
      const row = await append(id, (before) => {
        if (before?.phase === phase) return undefined;
        if (before === undefined || before.phase === "deleted") throw gone(id);
        // Times that passed while it was paused are not run; one that was set for a moment is, unless it passed.
        const next = phase === "active" ? dueTimes(before.spec.trigger).after(clock.now()) : before.next_due_ms;
        return {
          kind: "schedule_phase",
          phase,
          ...(reason && { reason }),
          next_due_ms: phase === "deleted" ? undefined : next,
        };
      });
      return shown(row, id);
    };
  };

  return {
    store,
    append,
    onChange: (listener) => {
      changed = listener;
    },
    operations: {
      createSchedule: (input, { caller }) =>
        set(clock.newId(), () => settle(input, undefined, clock.now()), { caller }),
      updateSchedule: async ({ schedule_id, expected_revision, ...given }, { caller }) => {
        await find(schedule_id, caller);
        const settled = (before?: ScheduleRow) => settle(given, before?.spec, clock.now());
        return set(schedule_id, settled, { caller, expected: expected_revision });
      },
      listSchedules: async ({ labels, limit = Number.POSITIVE_INFINITY, offset = 0 }, { caller }) => {
        const rows = new Map<string, ScheduleRow>();
        const opened = await store();
        const asked = { archived: false, labels: { ...labels, ...caller?.labels } };
        for await (const row of opened === undefined ? [] : walkRows<ScheduleRow>(opened.sessions, asked)) {
          rows.set(row.session_id, row);
          if (rows.size >= offset + limit) break;
        }
        return { schedules: [...rows.values()].slice(offset).map((row) => describeSchedule(row, clock.now())) };
      },
      readSchedule: async ({ schedule_id }, { caller }) => shown(await find(schedule_id, caller), schedule_id),
      pauseSchedule: setPhase("paused"),
      resumeSchedule: setPhase("active"),
      deleteSchedule: setPhase("deleted"),
      listOccurrences: async ({ schedule_id: id, include_terminal, limit = OCCURRENCES_DEFAULT }, { caller }) => {
        const row = await find(id, caller);
        const max = limit * ENTRIES_PER_OCCURRENCE;
        const entries = await (await opened()).log.read(id, Math.max(1, row.last_seq - max + 1), max);
        const passed = occurrencesIn(id, entries).filter(
          (one) => include_terminal !== false || one.completed_at_utc === undefined,
        );
        const { next_due_ms: due, phase } = row;
        const next = due === undefined || phase !== "active" ? [] : [pendingOf(row, due)];
        return { occurrences: [...next, ...passed.toReversed()].slice(0, limit) };
      },
    },
    sync: async (named) => {
      const ids = new Map(named.map((one) => [derivedId(CONFIGURED, one.name ?? ""), one]));
      const kept = ids.size === 0 ? await store() : await opened();
      for (const [schedule_id, one] of ids) {
        const before = await kept?.sessions.get(schedule_id);
        // What a person deleted stays so.
        if (before?.phase === "deleted") continue;
        // Nothing of what a caller has made of it stays: it acts for the user again.
        const settled = (row?: ScheduleRow): ScheduleSpec => {
          const spec = settle({ ...one, labels: { ...one.labels, from: CONFIGURED } }, undefined, clock.now());
          const had = row?.caller === undefined ? row?.spec.trigger : undefined;
          const { trigger } = spec;
          const isSame = had?.type === "interval" && trigger.type === "interval" && one.trigger === undefined;
          const isKept = isSame && one.at === undefined && had.every_seconds === trigger.every_seconds;
          return isKept ? { ...spec, trigger: had } : spec;
        };
        await set(schedule_id, settled, {});
        if (before?.reason === LEFT_OUT) await setPhase("active")({ schedule_id }, {});
      }
      const asked = { archived: false, labels: { from: CONFIGURED } };
      for await (const { session_id: schedule_id, spec } of kept ? walkRows<ScheduleRow>(kept.sessions, asked) : [])
        if (!ids.has(schedule_id) && schedule_id === derivedId(CONFIGURED, spec.name ?? ""))
          await setPhase("paused", LEFT_OUT)({ schedule_id }, {});
    },
    close: async () => (await opening)?.close(),
  };
}

/** Apart from what every runtime loads, since it brings the rules of cron. */
const loadTimes = () => import("./due-times.ts");

/** An id that is always the same for the same purpose and parts. */
export function derivedId(purpose: string, ...parts: readonly (string | number)[]): string {
  return agentId(parts.join(" "), `schedule ${purpose}`);
}

/** The lock of the server that runs a schedule; the schedule's own is held for an append only. */
export const runLock = (id: string): string => derivedId("runs", id);

function gone(id: string): RuntimeError {
  return new RuntimeError("SCHEDULE_NOT_FOUND", `schedule_id: schedule ${id} was deleted`);
}

function hasAll(had: Readonly<Record<string, string>>, wanted: Caller["labels"] = {}): boolean {
  return Object.entries(wanted).every(([key, value]) => Object.hasOwn(had, key) && had[key] === value);
}

function recorded({ name, scopes, labels, maxCostPerDay }: Caller) {
  return {
    ...{ name, scopes: [...scopes], labels },
    ...(maxCostPerDay === undefined ? {} : { max_cost_per_day: maxCostPerDay }),
  };
}

function pendingOf({ session_id, revision, ordinal }: ScheduleRow, dueMs: number): Occurrence {
  return {
    occurrence_id: derivedId("occurrence", session_id, dueMs),
    ...{ schedule_id: session_id, schedule_revision: revision, occurrence_ordinal: ordinal, phase: "pending" },
    due_at_utc: new Date(dueMs).toISOString(),
  };
}

/** A time that is set for one moment runs, also if it has passed; of any other the next does. */
function firstDue(trigger: Trigger, nowMs: number, dueTimes: (trigger: Trigger) => DueTimes): number {
  const due = trigger.type === "once" ? Date.parse(trigger.due_at_utc) : dueTimes(trigger).after(nowMs - 1);
  if (due !== undefined) return due;
  throw invalid("trigger: it is never due; write one with a time that comes");
}

/** What a schedule is after a request: what it says in the place of what was there. */
function settle(given: CreateSchedule, before: ScheduleSpec | undefined, nowMs: number): ScheduleSpec {
  const { name = before?.name, description = before?.description } = given;
  const { max_cost_per_day = before?.max_cost_per_day } = given;
  return {
    ...(name === undefined ? {} : { name }),
    ...(description === undefined ? {} : { description }),
    trigger: triggerOf(given, nowMs) ?? before?.trigger ?? missing("trigger, cron, every or at", "when it is due"),
    target: targetOf(given, before?.target),
    misfire_policy: given.misfire_policy ?? before?.misfire_policy ?? { type: "run_once" },
    overlap_policy: given.overlap_policy ?? before?.overlap_policy ?? "skip_if_running",
    missing_target_policy: given.missing_target_policy ?? before?.missing_target_policy ?? "mark_misfired",
    ...(max_cost_per_day === undefined ? {} : { max_cost_per_day }),
    labels: given.labels ?? before?.labels ?? {},
  };
}

function missing(fields: string, what: string): never {
  throw invalid(`${fields}: say ${what}`);
}

function triggerOf({ trigger, cron, timezone, every, at }: CreateSchedule, nowMs: number): Trigger | undefined {
  const ways = Object.entries({ trigger, cron, every }).flatMap(([name, value]) => (value === undefined ? [] : [name]));
  if (ways.length > 1) throw invalid(`${ways.join(" and ")} say different things, so give one of them`);
  if (trigger !== undefined) return trigger;
  if (timezone !== undefined && cron === undefined) throw invalid("timezone: it belongs to cron; give both");
  if (cron !== undefined) {
    if (at !== undefined) throw invalid("cron and at say different things, so give one of them");
    return { type: "cron", expression: cron, timezone: timezone ?? "UTC" };
  }
  if (every === undefined) return at === undefined ? undefined : { type: "once", due_at_utc: at };
  const start_at_utc = at ?? new Date(nowMs + every).toISOString();
  const read = Trigger.safeParse({ type: "interval", start_at_utc, every_seconds: every / 1_000 });
  if (!read.success) throw invalid("every: write whole seconds, at least 10s");
  return read.data;
}

/** The fields of sessions that a schedule makes. */
const OF_NEW = ["model", "tool_preset", "budget_limits"] as const;

function targetOf({ target, ...given }: CreateSchedule, before: ScheduleTarget | undefined): ScheduleTarget {
  const made = OF_NEW.filter((field) => given[field] !== undefined);
  const { prompt, session_id } = given;
  const others = [
    ...made,
    ...(prompt === undefined ? [] : ["prompt"]),
    ...(session_id === undefined ? [] : ["session_id"]),
  ];
  if (target !== undefined) {
    if (others.length > 0) throw invalid(`${others.join(", ")}: target says it; leave one of them out`);
    return target;
  }
  const action = prompt === undefined ? before?.action : ({ type: "prompt", prompt } as const);
  if (action === undefined) return missing("prompt or target", "what it does");
  const base = { target_kind: "session", action } as const;
  const isGiven = session_id !== undefined || (before !== undefined && "session_id" in before);
  if (isGiven && made.length > 0) throw invalid(`${made.join(", ")}: the session that is given has its own`);
  if (session_id !== undefined) return { ...base, type: "exact_session", session_id };
  if (before !== undefined && "session_id" in before) return { ...before, action };
  const create = { ...before?.create, ...Object.fromEntries(made.map((field) => [field, given[field]])) };
  return { ...base, type: before?.type ?? "new_session", create };
}
