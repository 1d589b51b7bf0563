import { hasCode, messageOf, STORE_AWAY } from "../contract/error.ts";
import type { RunResult } from "../contract/session.ts";
import type { OccurrenceEnd, ScheduleSpec } from "../contract/wire/schedule.ts";
import type { Clock } from "../ports/clock.ts";
import type { Hold, RowQuery } from "../ports/store.ts";
import type { CallContext, Dispatch } from "../runtime/dispatch.ts";
import type { Resuming } from "../sessions/adoption.ts";
import { callerAgain } from "../sessions/turn-input.ts";
import { walkRows } from "../sessions/walk-rows.ts";
import { createDueQueue } from "./due-queue.ts";
import { decideDue } from "./due-times.ts";
import { type OpenOccurrence, type ScheduleRow, type ScheduleStore, spentOn } from "./schedule-row.ts";
import { derivedId, runLock, type Schedules } from "./schedules.ts";

export interface SchedulerParts {
  readonly schedules: Schedules;
  readonly clock: Clock;
  readonly dispatch: Dispatch;
  readonly resuming: Partial<Resuming>;
  /** Reports what could not be run. */
  warn(sentence: string): void;
}

export interface Scheduler {
  /** Begins what is due; resolves before it has run. */
  look(): Promise<void>;
  /** Waits for everything that runs here. */
  settled(): Promise<void>;
  /** Looks again and again until the signal aborts. */
  watch(signal: AbortSignal): Promise<void>;
}

const LOOK_MS = 1_000;
/** Every so many looks also read what other clocks may hide, and occurrences whose server is gone. */
const LOOKS_APART = 5;
const ROWS_A_LOOK = 100;
/** The most that clocks of servers may differ for a change to be seen at once. */
const CLOCKS_APART_MS = 10_000;
/** When a schedule that another server runs is looked at again. */
const ELSEWHERE_MS = 5_000;
/** Occurrences that run here at once, and of one schedule; further ones wait. */
const RUNNING_MAX = 32;
const RUNNING_OF_ONE_MAX = 8;
const DETAIL_CHARS_MAX = 500;

/** A schedule with occurrences that run here: no other server claims its times meanwhile. */
interface Owned {
  readonly hold: Hold;
  readonly running: Map<string, AbortController>;
}

/**
 * Runs schedules. A time is claimed by an append to the schedule's log; the turn is started with a key made of schedule and
 * time, so that a server that repeats what another has begun gets the end of the same turn.
 */
export function createScheduler(parts: SchedulerParts): Scheduler {
  const { schedules, clock, dispatch, resuming } = parts;
  const due = createDueQueue();
  const owned = new Map<string, Owned>();
  const work = new Set<Promise<void>>();
  const stopping = new AbortController();
  let store: ScheduleStore | undefined;
  let looks = 0;
  let newest: Pick<ScheduleRow, "updated_at_ms" | "session_id" | "last_seq"> | undefined;
  /** Where the next reading of all rows, and of those with open occurrences, begins. */
  const cursors: Record<"all" | "open", RowQuery["after"]> = { all: undefined, open: undefined };

  const note = ({ session_id, phase, next_due_ms }: ScheduleRow): void =>
    due.set(session_id, phase === "active" ? next_due_ms : undefined);
  schedules.onChange(note);

  const track = (id: string, running: Promise<unknown>): void => {
    const failed = (thrown: unknown): void => {
      if (hasCode(thrown, "SESSION_BUSY") || stopping.signal.aborted) return;
      parts.warn(`schedule ${id} could not be run: ${messageOf(thrown)}`);
    };
    const ended: Promise<void> = running.then(() => {}, failed).finally(() => work.delete(ended));
    work.add(ended);
  };

  /** Claims what is due of a schedule, and goes on with what a server that is gone has claimed. */
  const step = async (id: string): Promise<void> => {
    const kept = store;
    if (kept === undefined || stopping.signal.aborted) return;
    const before = await kept.sessions.get(id);
    if (before === undefined || !(isDue(before) || before.open.length > 0)) return before && note(before);
    const own = owned.get(id) ?? { hold: await kept.locks.hold(runLock(id)), running: new Map() };
    owned.set(id, own);
    try {
      for (const open of before.open) if (!own.running.has(open.occurrence_id)) start(own, before, open);
      while (own.running.size < RUNNING_OF_ONE_MAX && (await claim(id, own)));
    } finally {
      await letGo(id, own);
    }
  };
  const isDue = ({ phase, next_due_ms }: ScheduleRow): boolean =>
    phase === "active" && next_due_ms !== undefined && next_due_ms <= clock.now();

  /** Claims the time that is due; whether there may be another. */
  const claim = async (id: string, own: Owned): Promise<boolean> => {
    let isClaimed = false;
    const row = await schedules.append(id, (now) => {
      isClaimed = false;
      if (now === undefined || !isDue(now) || now.next_due_ms === undefined) return undefined;
      const reason = now.caller && resuming.lacks?.(now.caller);
      if (reason !== undefined)
        return { kind: "schedule_phase", phase: "paused", reason: `it lacks ${reason}`, next_due_ms: now.next_due_ms };
      if (now.spec.overlap_policy === "queue" && own.running.size > 0) return undefined;
      isClaimed = true;
      const { dueMs, missedSinceMs, isMisfired, nextMs } = decideDue(now.spec, now.next_due_ms, clock.now());
      const left = (now.spec.max_cost_per_day ?? Number.POSITIVE_INFINITY) - spentOn(now, clock.now());
      return {
        kind: "occurrence",
        occurrence_id: derivedId("occurrence", id, dueMs),
        ...{ schedule_revision: now.revision, occurrence_ordinal: now.ordinal, due_ms: dueMs, next_due_ms: nextMs },
        ...(missedSinceMs === undefined ? {} : { missed_since_ms: missedSinceMs }),
        ...(Number.isFinite(left) && left > 0 ? { max_cost: left } : {}),
        ...fateOf(now.spec, { isMisfired, isRunning: own.running.size > 0, isSpent: left <= 0 }),
      };
    });
    if (row === undefined || !isClaimed) return false;
    for (const open of row.open) {
      if (own.running.has(open.occurrence_id)) continue;
      if (row.spec.overlap_policy === "interrupt") for (const other of own.running.values()) other.abort(REPLACED);
      start(own, row, open);
    }
    return true;
  };

  const start = (own: Owned, row: ScheduleRow, open: OpenOccurrence): void => {
    const ending = new AbortController();
    own.running.set(open.occurrence_id, ending);
    const id = row.session_id;
    const run = async (): Promise<void> => {
      if (stopping.signal.aborted) return;
      // Where this server stops, the turn runs on or is left to another one; its end is recorded by that one.
      const { promise: left, resolve: leave } = Promise.withResolvers<undefined>();
      const done = new AbortController();
      stopping.signal.addEventListener("abort", () => leave(undefined), { signal: done.signal });
      const end = await Promise.race([deliver(row, open, ending.signal), left]).finally(() => done.abort());
      if (end === undefined || stopping.signal.aborted) return;
      await schedules.append(id, (now) =>
        now?.open.some(({ occurrence_id }) => occurrence_id === open.occurrence_id)
          ? { kind: "occurrence_ended", occurrence_id: open.occurrence_id, ...end }
          : undefined,
      );
    };
    const over = async (): Promise<void> => {
      own.running.delete(open.occurrence_id);
      await letGo(id, own);
    };
    // One whose end could not be written is found again by a later look.
    track(
      id,
      run()
        .finally(over)
        .then(() => step(id)),
    );
  };

  const letGo = async (id: string, own: Owned): Promise<void> => {
    if (own.running.size > 0 || owned.get(id) !== own) return;
    owned.delete(id);
    await own.hold.release();
  };

  /** Runs an occurrence to its end; run again, it gets the end of the same turn. */
  const deliver = async (row: ScheduleRow, open: OpenOccurrence, signal: AbortSignal): Promise<OccurrenceEnd> => {
    const set = open.set_seq === row.set_seq ? row : await setAt(row.session_id, open.set_seq);
    const { spec } = set;
    const caller = set.caller && callerAgain(set.caller);
    const rights = caller === undefined ? {} : { caller };
    const call = { ...rights, signal, leaving: stopping.signal, unattended: NO_APPROVER };
    for (;;) {
      try {
        return completed(await runTarget(dispatch, { id: row.session_id, spec, open, call }));
      } catch (thrown) {
        if (isAway(thrown) || (hasCode(thrown, "SESSION_BUSY") && WAITING.has(spec.overlap_policy))) {
          if (spec.overlap_policy === "interrupt" && "session_id" in spec.target && !isAway(thrown))
            await dispatch("interruptTurn", { session_id: spec.target.session_id }, call).catch(() => {});
          const over = AbortSignal.any([signal, stopping.signal]);
          await clock.sleep(LOOK_MS, over);
          if (!over.aborted) continue;
        }
        return failed(thrown, spec, signal);
      }
    }
  };

  const setAt = async (id: string, seq: number) => {
    const [entry] = (await store?.log.read(id, seq, 1)) ?? [];
    if (entry?.body.kind !== "schedule_set") throw new Error(`schedule ${id} has no definition at ${seq}`);
    return entry.body;
  };

  const readAll = async (kept: ScheduleStore): Promise<void> => {
    for await (const row of walkRows<ScheduleRow>(kept.sessions)) {
      note(row);
      await clock.yieldToEventLoop();
    }
  };
  /** Reads the rows that changed since the last look, as their clocks say. */
  const readChanged = async (kept: ScheduleStore): Promise<void> => {
    const [first] = await kept.sessions.page({ max: 1 });
    const isSame = first?.session_id === newest?.session_id && first?.last_seq === newest?.last_seq;
    if (first === undefined || isSame) return;
    const since = { updatedSinceMs: (newest?.updated_at_ms ?? 0) - CLOCKS_APART_MS };
    newest = first;
    for await (const row of walkRows<ScheduleRow>(kept.sessions, since)) note(row);
  };
  const readSlice = async (kept: ScheduleStore, which: "all" | "open"): Promise<readonly ScheduleRow[]> => {
    const after = cursors[which];
    const asked = { ...(which === "open" ? { open: true as const } : {}), ...(after === undefined ? {} : { after }) };
    const rows = await kept.sessions.page({ ...asked, max: ROWS_A_LOOK });
    cursors[which] = rows.length < ROWS_A_LOOK ? undefined : rows.at(-1);
    return rows;
  };

  const look = async (): Promise<void> => {
    if (store === undefined) {
      const found = await schedules.store();
      if (found === undefined) return;
      [newest] = await found.sessions.page({ max: 1 });
      await readAll(found);
      store = found;
    }
    await readChanged(store);
    if (looks % LOOKS_APART === 0) {
      for (const row of await readSlice(store, "all")) note(row);
      for (const { session_id: id } of await readSlice(store, "open"))
        if (!owned.has(id) && !(await store.locks.isHeld(runLock(id)))) track(id, step(id));
    }
    looks += 1;
    for (const [id, { running }] of owned) {
      const row = await store.sessions.get(id);
      const lack = row?.caller && resuming.lacks?.(row.caller);
      if (lack !== undefined) for (const one of running.values()) one.abort(`it lacks ${lack}`);
    }
    while (work.size < RUNNING_MAX) {
      const id = due.take(clock.now(), clock.now() + ELSEWHERE_MS);
      if (id === undefined) break;
      track(id, step(id));
    }
  };

  return {
    look,
    settled: async () => {
      while (work.size > 0) await Promise.all(work);
    },
    watch: async (ending) => {
      const { until = ending } = resuming;
      const signal = AbortSignal.any([ending, until]);
      signal.addEventListener("abort", () => stopping.abort(), { once: true });
      while (!signal.aborted) {
        // A store that is away is reported by the calls of clients; the next look tries again.
        await look().catch(() => {});
        await clock.sleep(LOOK_MS, signal, "background");
      }
      stopping.abort();
      await Promise.all(work);
      for (const [id, own] of owned) await letGo(id, { ...own, running: new Map() });
    },
  };
}

const REPLACED = "the next occurrence has begun";
const NO_APPROVER = "a schedule runs it, and no approver is there";
const WAITING: ReadonlySet<string> = new Set<ScheduleSpec["overlap_policy"]>(["queue", "interrupt"]);

function fateOf(
  { overlap_policy }: ScheduleSpec,
  { isMisfired, isRunning, isSpent }: Readonly<Record<"isMisfired" | "isRunning" | "isSpent", boolean>>,
): OccurrenceEnd {
  if (isMisfired) return { phase: "misfired", failure_detail: "its time had passed when a server looked" };
  if (isSpent) return { phase: "skipped", failure_detail: "max_cost_per_day is spent" };
  if (isRunning && overlap_policy === "skip_if_running")
    return { phase: "skipped", failure_class: "target_busy", failure_detail: "the occurrence before it was running" };
  return { phase: "awaiting_completion" };
}

interface Running {
  readonly id: string;
  readonly spec: ScheduleSpec;
  readonly open: OpenOccurrence;
  readonly call: CallContext;
}

/** The turn, or the event, of an occurrence by the ordinary operations. */
async function runTarget(dispatch: Dispatch, { id, spec, open, call }: Running) {
  const { target } = spec;
  const { action } = target;
  const idempotency_key = open.occurrence_id;
  if (action.type === "prompt" && target.type === "new_session") {
    const { type: _type, ...turn } = action;
    return dispatch("createSession", { ...newSession(id, spec, open), ...turn, idempotency_key }, call);
  }
  const session_id = "session_id" in target ? target.session_id : await madeSession(dispatch, { id, spec, open, call });
  if (action.type === "event") {
    const { event_type, payload } = action;
    await dispatch("sendExternalEvent", { session_id, event_type, payload, idempotency_key }, call);
    return { session_id };
  }
  const { type: _type, ...turn } = action;
  return dispatch("startTurn", { ...turn, session_id, idempotency_key }, call);
}

/** A session without a turn: the schedule's own, which its first occurrence makes, or that of one event. */
async function madeSession(dispatch: Dispatch, { id, spec, open, call }: Running): Promise<string> {
  const isNew = spec.target.type === "new_session";
  const input = newSession(id, spec, isNew ? open : {});
  // Another `create` is another session.
  const idempotency_key = isNew ? open.occurrence_id : derivedId("session", id, JSON.stringify(input));
  const made = await dispatch("createSession", { ...input, initial_turn: "deferred", idempotency_key }, call);
  return made.session_id;
}

function newSession(id: string, { target, labels }: ScheduleSpec, { max_cost }: Pick<OpenOccurrence, "max_cost">) {
  const create = "create" in target ? target.create : {};
  const most = Math.min(
    create.budget_limits?.max_cost ?? Number.POSITIVE_INFINITY,
    max_cost ?? Number.POSITIVE_INFINITY,
  );
  const budget = Number.isFinite(most) ? { budget_limits: { ...create.budget_limits, max_cost: most } } : {};
  return { ...create, ...budget, labels: { ...labels, ...create.labels, schedule: id } };
}

function completed(result: Partial<RunResult>): OccurrenceEnd {
  const { session_id, turn_cost, terminal_cause_kind: cause } = result;
  const ran = {
    ...(session_id === undefined ? {} : { session_id }),
    ...(turn_cost === undefined ? {} : { cost: turn_cost.amount }),
  };
  return { phase: "completed", ...ran, ...(cause === undefined ? {} : { failure_detail: `ended early: ${cause}` }) };
}

function failed(thrown: unknown, { target, missing_target_policy }: ScheduleSpec, signal: AbortSignal): OccurrenceEnd {
  const why = signal.aborted && typeof signal.reason === "string" ? `${signal.reason}: ` : "";
  const end = {
    failure_detail: `${why}${messageOf(thrown)}`.slice(0, DETAIL_CHARS_MAX),
    ...("session_id" in target ? { session_id: target.session_id } : {}),
  };
  if (hasCode(thrown, "SESSION_NOT_FOUND"))
    return {
      phase: missing_target_policy === "skip" ? "skipped" : "misfired",
      failure_class: "target_missing",
      ...end,
    };
  if (hasCode(thrown, "SESSION_BUSY")) return { phase: "skipped", failure_class: "target_busy", ...end };
  const failure_class = hasCode(thrown, "INTERNAL_ERROR") ? "internal_error" : "runtime_rejected";
  return { phase: "delivery_failed", failure_class, ...end };
}

function isAway(thrown: unknown): boolean {
  return hasCode(thrown, "SESSION_STORE_ERROR") && JSON.stringify(Object(thrown).details ?? "").includes(STORE_AWAY);
}
