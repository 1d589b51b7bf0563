import type { Entry } from "../contract/entry.ts";
import type {
  Occurrence,
  Schedule,
  ScheduleEntryBody,
  ScheduleEntryOf,
  SchedulePhase,
} from "../contract/wire/schedule.ts";
import type { LogRow, Store } from "../ports/store.ts";

type Claim = ScheduleEntryOf<"occurrence">;
type Set = ScheduleEntryOf<"schedule_set">;

/** An occurrence that has not ended, with the place of what it runs. */
export interface OpenOccurrence extends Pick<Claim, "occurrence_id" | "due_ms" | "max_cost"> {
  readonly set_seq: number;
}

/** A schedule without its log: a fold that is never behind. */
export interface ScheduleRow extends LogRow, Pick<Set, "spec" | "caller" | "next_due_ms"> {
  readonly created_at_ms: number;
  readonly phase: SchedulePhase;
  readonly reason?: string | undefined;
  readonly revision: number;
  /** Seq of the entry that says what it is. */
  readonly set_seq: number;
  readonly ordinal: number;
  readonly open: readonly OpenOccurrence[];
  /** The cost of the last UTC day on which an occurrence ended. */
  readonly spent?: { readonly day: string; readonly amount: number };
}

export type ScheduleStore = Store<ScheduleEntryBody, ScheduleRow>;

/** The store of schedules before it is opened. */
export interface ScheduleHome {
  open(): Promise<ScheduleStore>;
  /** Whether there may be a schedule: opening an empty store would create it. */
  isThere(): boolean;
}

export const isRunningPhase = (phase: Occurrence["phase"]): boolean => phase === "awaiting_completion";

/** Folds one entry into a row; the first entry of a log is a `schedule_set`. */
export function foldSchedule(
  row: ScheduleRow | undefined,
  session_id: string,
  { seq, timestamp_ms, body }: Entry<ScheduleEntryBody>,
): ScheduleRow {
  if (body.kind === "schedule_set") {
    const { spec, caller, next_due_ms } = body;
    const { created_at_ms = timestamp_ms, phase = "active", revision = 0, ordinal = 0, open = [], spent } = row ?? {};
    return {
      ...{ session_id, last_seq: seq, updated_at_ms: timestamp_ms, created_at_ms, labels: spec.labels, spec, caller },
      ...{ phase, revision: revision + 1, set_seq: seq, ordinal, open, next_due_ms, has_open_turn: open.length > 0 },
      ...(spent === undefined ? {} : { spent }),
    };
  }
  if (row === undefined) throw new Error(`the log of schedule ${session_id} begins with ${body.kind}`);
  const after = { ...row, last_seq: seq, updated_at_ms: timestamp_ms };
  switch (body.kind) {
    case "schedule_phase": {
      const { phase, reason, next_due_ms } = body;
      return { ...after, phase, reason, next_due_ms, archived: phase === "deleted" };
    }
    case "occurrence": {
      const { occurrence_id, due_ms, max_cost, next_due_ms } = body;
      const added = { occurrence_id, due_ms, max_cost, set_seq: row.set_seq };
      const open = isRunningPhase(body.phase) ? [...row.open, added] : row.open;
      return { ...after, ordinal: row.ordinal + 1, open, next_due_ms, has_open_turn: open.length > 0 };
    }
    case "occurrence_ended": {
      const open = row.open.filter(({ occurrence_id }) => occurrence_id !== body.occurrence_id);
      const day = dayOf(timestamp_ms);
      const spent = { day, amount: spentOn(row, timestamp_ms) + (body.cost ?? 0) };
      return { ...after, open, has_open_turn: open.length > 0, ...(body.cost === undefined ? {} : { spent }) };
    }
  }
}

const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** What its turns have cost on the day of this moment, in US dollars. */
export function spentOn({ spent }: Pick<ScheduleRow, "spent">, ms: number): number {
  return spent?.day === dayOf(ms) ? spent.amount : 0;
}

const utc = (ms: number): string => new Date(ms).toISOString();

export function describeSchedule(row: ScheduleRow, nowMs: number): Schedule {
  const { next_due_ms, reason, caller } = row;
  const cost_today = spentOn(row, nowMs);
  return {
    ...row.spec,
    schedule_id: row.session_id,
    phase: row.phase,
    ...(reason === undefined ? {} : { phase_reason: reason }),
    revision: row.revision,
    ...(next_due_ms === undefined ? {} : { next_due_at_utc: utc(next_due_ms) }),
    next_occurrence_ordinal: row.ordinal,
    running: row.open.length,
    ...(caller === undefined ? {} : { caller: caller.name }),
    ...(cost_today === 0 ? {} : { cost_today }),
    created_at_utc: utc(row.created_at_ms),
    updated_at_utc: utc(row.updated_at_ms),
  };
}

/** The occurrences that begin among these entries, oldest first. */
export function occurrencesIn(id: string, entries: readonly Entry<ScheduleEntryBody>[]): readonly Occurrence[] {
  const found = new Map<string, Occurrence>();
  for (const { timestamp_ms, body } of entries) {
    const claimed = "occurrence_id" in body ? found.get(body.occurrence_id) : undefined;
    if (body.kind === "occurrence") {
      const { kind: _kind, due_ms, missed_since_ms, max_cost: _cost, next_due_ms: _next, ...facts } = body;
      found.set(body.occurrence_id, {
        ...{ schedule_id: id, ...facts, due_at_utc: utc(due_ms) },
        ...(missed_since_ms === undefined ? {} : { missed_since_utc: utc(missed_since_ms) }),
        [isRunningPhase(body.phase) ? "claimed_at_utc" : "completed_at_utc"]: utc(timestamp_ms),
      });
    } else if (body.kind === "occurrence_ended" && claimed !== undefined) {
      const { kind: _kind, ...end } = body;
      found.set(body.occurrence_id, { ...claimed, ...end, completed_at_utc: utc(timestamp_ms) });
    }
  }
  return [...found.values()];
}
