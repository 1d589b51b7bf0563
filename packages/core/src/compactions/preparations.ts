import type { Compacting } from "../compaction/prepare.ts";
import type { EntryBody } from "../contract/entry.ts";
import { hasCode, messageOf } from "../contract/error.ts";
import type { Clock } from "../ports/clock.ts";
import type { ModelClient, ToolSpec } from "../ports/model.ts";
import type { OpenTelemetry, Watch } from "../ports/telemetry.ts";
import { emitLive, type LiveSession, type LiveSessions, type LockedWork } from "../sessions/live-sessions.ts";
import type { Hash } from "../state/context.ts";
import type { WholeState } from "../state/whole-state.ts";
import { isWorthPreparing } from "../turn/boundary.ts";
import type { Redact } from "../turn/redact.ts";
import type { BackgroundPreparation, TurnPolicy } from "../turn/run.ts";

/** Compactions prepared in the background, one per session and a few per process. */
export interface Preparations {
  background(session: LiveSession, making: Making): BackgroundPreparation;
  /** Called at the end of a turn: prepares a compaction while the session rests, if it is worthwhile. */
  rest(session: LiveSession, making: Making): void;
  /** Resolves when the session's preparation has ended or the signal aborts. */
  settled(sessionId: string, signal: AbortSignal): Promise<void>;
  /** Stops the session's preparation; resolves when its end is reported. */
  stop(sessionId: string): Promise<void>;
  /** Stops all preparations and accepts no more; resolves when they have ended or took too long. */
  close(): Promise<void>;
}

interface Making {
  readonly policy: Pick<TurnPolicy, "retry" | "calls">;
  readonly telemetry: OpenTelemetry | undefined;
  readonly compacting: Compacting | undefined;
  readonly model: ModelClient;
  readonly tools: ReadonlyMap<string, ToolSpec>;
  readonly skill: string | undefined;
  /** The caller of the turn, who pays for the preparation. */
  readonly by: string | undefined;
  readonly traceparent: string | undefined;
}

interface PreparationParts {
  readonly clock: Clock;
  readonly redact: Redact;
  readonly hash: Hash;
  readonly live: LiveSessions;
  readonly locked: LockedWork;
  /** Appends to the log of a session held by this process. */
  appending(session: LiveSession, reported: { watch: Watch | undefined; by: string | undefined }): Append;
}

type Append = (bodies: () => readonly EntryBody[]) => Promise<void>;

/** Each is a model call of minutes and a context in memory. */
const PREPARATIONS_MAX = 4;
/** A session rests after this time without a request; a short-lived process starts no preparation. */
const REST_MS = 1_000;
const CLOSE_MS_MAX = 5_000;

export function createPreparations(parts: PreparationParts): Preparations {
  const { clock } = parts;
  const running = new Map<string, { readonly stopping: AbortController; readonly over: Promise<void> }>();
  const resting = new Map<string, AbortController>();
  let isClosed = false;

  const begin = (session: LiveSession, making: Making, idleMs: number | undefined): void => {
    const { sessionId } = session.state;
    const isTaken = isClosed || running.has(sessionId) || running.size >= PREPARATIONS_MAX;
    if (isTaken || !isWorthPreparing({ ...making, state: session.state }, idleMs ?? 0)) return;
    const stopping = new AbortController();
    const over = prepareOne(parts, session, { ...making, idleMs, signal: stopping.signal })
      // Emitted even if it cannot be stored; a failing store fails the session's next turn, too.
      .catch((thrown) => {
        emitLive(session, clock, { type: "compaction_dropped", reason: parts.redact(messageOf(thrown)) });
      })
      .finally(() => running.delete(sessionId));
    running.set(sessionId, { stopping, over });
  };
  const wake = (sessionId: string): void => {
    resting.get(sessionId)?.abort("woken");
    resting.delete(sessionId);
  };
  const settled = async (sessionId: string, signal: AbortSignal): Promise<void> => {
    const over = running.get(sessionId)?.over;
    if (over === undefined) return;
    const ended = new AbortController();
    const given = clock.sleep(Number.POSITIVE_INFINITY, AbortSignal.any([signal, ended.signal]));
    await Promise.race([over, given]);
    ended.abort("over");
  };
  const stop = async (sessionId: string): Promise<void> => {
    wake(sessionId);
    const one = running.get(sessionId);
    one?.stopping.abort("stopped");
    await one?.over;
  };
  return {
    background: (session, making) => ({
      consider: () => {
        wake(session.state.sessionId);
        begin(session, making, undefined);
      },
      isMaking: () => running.has(session.state.sessionId),
      settled: (signal) => settled(session.state.sessionId, signal),
    }),
    rest: (session, making) => {
      const { state } = session;
      const { sessionId, lastPauseMs } = state;
      // The session may rest as long as before the last turn, beyond the life of the provider's cache.
      if (isClosed || running.has(sessionId) || !isWorthPreparing({ ...making, state }, lastPauseMs)) return;
      wake(sessionId);
      const woken = new AbortController();
      resting.set(sessionId, woken);
      void clock.sleep(REST_MS, woken.signal).then(() => {
        if (woken.signal.aborted) return;
        wake(sessionId);
        if (!session.isRunning) begin(session, making, lastPauseMs);
      });
    },
    settled,
    stop,
    close: async () => {
      isClosed = true;
      const over = Promise.all([...running.keys(), ...resting.keys()].map(stop));
      const done = new AbortController();
      await Promise.race([over, clock.sleep(CLOSE_MS_MAX, done.signal)]);
      done.abort("done");
    },
  };
}

interface One extends Making {
  readonly idleMs: number | undefined;
  readonly signal: AbortSignal;
}

/** Prepares a compaction of the current state and records its outcome; the session continues meanwhile. */
async function prepareOne(parts: PreparationParts, session: LiveSession, one: One): Promise<void> {
  const { clock, redact, hash } = parts;
  const { compacting, model, signal, by, idleMs } = one;
  if (compacting === undefined) return;
  const state = snapshotOf(await parts.live.whole(session));
  const watch = await watchOne(one, session);
  // The usage of failed calls is recorded with the outcome: these retries are not the turn's.
  const failed: EntryBody[] = [];
  const asking = {
    model: watch?.model ?? model,
    clock,
    retry: one.policy.retry,
    calls: one.policy.calls,
    deadlineMs: Number.POSITIVE_INFINITY,
    signal,
    redact,
    acceptsEmpty: false,
    emit: () => {},
    append: async (bodies: readonly EntryBody[]) => {
      failed.push(...bodies.filter(({ kind }) => kind === "call_failed"));
    },
  };
  const prepareNow = async () => {
    const { prepareCompaction } = await import("../compaction/run-compaction.ts");
    const calls = { tools: [...one.tools.values()], skill: one.skill };
    return prepareCompaction({ state, compacting, asking, trigger: "threshold", idleMs, ...calls }, hash);
  };
  try {
    const made = await prepareNow().catch((thrown) => ({ error: messageOf(thrown), usage: undefined }));
    const outcome = "error" in made ? dropped(redact(made.error), made.usage) : made;
    failed.push(...(compacting.hooks.reported?.() ?? []));
    if ("nothing" in outcome && failed.length === 0) return;
    const { TOUCHED, isUntouched } = await import("../compaction/published.ts");
    const bodiesFor = (now: WholeState): readonly EntryBody[] => {
      if ("nothing" in outcome) return failed;
      if (outcome.kind === "compaction_dropped") return [...failed, outcome];
      const { usage } = outcome.compaction;
      if (now.prepared !== undefined) return [...failed, dropped("another was prepared meanwhile", usage)];
      const isWhole = isUntouched(now, { seq: 0, body: outcome }, hash);
      return [...failed, isWhole ? outcome : dropped(TOUCHED, usage)];
    };
    await record(parts, { sessionId: state.sessionId, watch, by }, bodiesFor);
  } finally {
    watch?.end({});
  }
}

function dropped(reason: string, usage: (EntryBody & { kind: "compaction_dropped" })["usage"]) {
  return { kind: "compaction_dropped" as const, reason, ...(usage === undefined ? {} : { usage }) };
}

/** A snapshot of the state for the compaction. */
function snapshotOf(state: WholeState): WholeState {
  return { ...state, transcript: [...state.transcript], shown: [...state.shown], pins: new Set(state.pins) };
}

async function watchOne(
  { telemetry, model, signal, traceparent }: One,
  { state }: LiveSession,
): Promise<Watch | undefined> {
  if (telemetry === undefined) return undefined;
  const work = { kind: "preparation" as const, model, tools: new Map(), wantsJson: false, signal, traceparent };
  const isCompacted = () => state.shownBy.length > 0;
  return (await telemetry()).watch({ ...work, sessionId: state.sessionId, isCompacted });
}

const RECORD_ATTEMPTS_MAX = 12;
const RECORD_WAIT_MS = 50;
const RECORD_WAIT_MS_MAX = 15_000;

/**
 * Appends within the turn that runs here, or by holding the session briefly. Waits for another process that holds it:
 * the usage must be recorded, and later messages do not invalidate the summary.
 */
async function record(
  { clock, live, locked, appending }: PreparationParts,
  { sessionId, ...reported }: { sessionId: string; watch: Watch | undefined; by: string | undefined },
  bodiesFor: (now: WholeState) => readonly EntryBody[],
): Promise<void> {
  const never = new AbortController().signal;
  for (let attempt = 0; attempt < RECORD_ATTEMPTS_MAX; attempt += 1) {
    const session = await live.find(sessionId);
    const state = await live.whole(session);
    const append = () => appending(session, reported)(() => bodiesFor(state));
    try {
      return await (session.isRunning ? append() : locked.brief(session, append));
    } catch (thrown) {
      if (!hasCode(thrown, "SESSION_BUSY")) throw thrown;
    }
    await clock.sleep(Math.min(RECORD_WAIT_MS * 2 ** attempt, RECORD_WAIT_MS_MAX), never);
  }
  const session = await live.find(sessionId);
  emitLive(session, clock, { type: "compaction_dropped", reason: "another process has the session" });
}
