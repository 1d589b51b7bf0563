import type { EntryBody } from "../contract/entry.ts";
import type { Clock } from "../ports/clock.ts";

/**
 * Background summaries in a replay. A replay has no real time: a summary is done when the recording's clock has
 * advanced by its writing time, and the turn waits until the outcome is in the log, so that two replays agree.
 */
export interface BackgroundTurns {
  appended(body: EntryBody): void;
  /** Whether the turn waits for a compaction. */
  readonly isTurnWaiting: boolean;
  /** Resolves when a background summary requested now is written; true if a turn waited for it. */
  written(tokens: number, signal: AbortSignal): Promise<boolean>;
  /** Runs due work and waits until its outcome is in the log. */
  settle(): Promise<void>;
  /** Lets work that has just begun make its requests. */
  begin(): Promise<void>;
}

interface Pending {
  readonly dueMs: number;
  readonly release: (isAwaited: boolean) => void;
}

/** The tokens a model writes per second, and its time to first token. */
const TOKENS_PER_SECOND = 60;
const FIRST_TOKEN_MS = 2_000;
/** Rounds of the event loop after which pending work has made its requests. */
const ROUNDS = 12;
/** Deadlock: the turn waits for the summary, which waits for the turn's time to pass. */
const STILL_MS = 5_000;

/** The entries that end a background summary. */
const ENDS: ReadonlySet<string> = new Set(["compaction_prepared", "compaction_dropped"]);

export function createBackgroundTurns(clock: ReplayClock): BackgroundTurns {
  let isTurnWaiting = false;
  let pending: Pending | undefined;
  let moves = 0;
  let notify = (): void => {};
  let settling: Promise<void> | undefined;
  const changed = (): Promise<void> =>
    new Promise((resolve) => {
      notify = resolve;
    });
  const written = (tokens: number, signal: AbortSignal): Promise<boolean> =>
    new Promise((resolve) => {
      const { promise, resolve: settle } = Promise.withResolvers<boolean>();
      const dueMs = clock.now() + FIRST_TOKEN_MS + (tokens / TOKENS_PER_SECOND) * 1_000;
      const mine: Pending = { dueMs, release: settle };
      pending = mine;
      notify();
      let seen = moves;
      const watching = setInterval(() => {
        if (seen === moves) settle(true);
        seen = moves;
      }, STILL_MS);
      const onAbort = (): void => settle(false);
      signal.addEventListener("abort", onAbort, { once: true });
      void promise.then((isAwaited) => {
        clearInterval(watching);
        signal.removeEventListener("abort", onAbort);
        if (pending === mine) pending = undefined;
        resolve(isAwaited);
      });
    });
  const settleDue = async (): Promise<void> => {
    // A summary of several calls requests the next after each.
    while (pending !== undefined && pending.dueMs <= clock.now()) {
      const next = changed();
      pending.release(false);
      // Independent of the time a receipt takes on this machine.
      await next;
      moves += 1;
    }
  };
  return {
    appended: (body) => {
      if (body.kind === "event" && body.event.type === "compaction_started") isTurnWaiting = true;
      if (body.kind === "compacted" || body.kind === "compaction_failed") isTurnWaiting = false;
      if (ENDS.has(body.kind)) notify();
    },
    get isTurnWaiting() {
      return isTurnWaiting;
    },
    written,
    settle: () => {
      moves += 1;
      // Parallel tools share the same time.
      settling ??= settleDue().finally(() => {
        settling = undefined;
      });
      return settling;
    },
    begin: async () => {
      moves += 1;
      for (let round = 0; round < ROUNDS; round += 1) await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

/** A clock with the recording's times: it is advanced explicitly and never goes back. */
export interface ReplayClock extends Clock {
  moveTo(ms: number): void;
}

interface Sleeper {
  readonly atMs: number;
  readonly wake: () => void;
}

/** Its randomness and ids are the same in every replay. */
export function createReplayClock(startMs: number): ReplayClock {
  let nowMs = startMs;
  let ids = 0;
  const sleepers = new Set<Sleeper>();
  return {
    now: () => nowMs,
    random: () => 0.5,
    newId: () => {
      ids += 1;
      return `00000000-0000-7000-8000-${ids.toString(16).padStart(12, "0")}`;
    },
    // Only the recording decides the order, or two replays would differ.
    yieldToEventLoop: () => undefined,
    moveTo: (ms) => {
      nowMs = Math.max(nowMs, ms);
      const due = [...sleepers].filter(({ atMs }) => atMs <= nowMs).sort((a, b) => a.atMs - b.atMs);
      for (const { wake } of due) wake();
    },
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal.aborted || ms <= 0) return resolve();
        const sleeper: Sleeper = {
          atMs: nowMs + ms,
          wake: () => {
            sleepers.delete(sleeper);
            signal.removeEventListener("abort", sleeper.wake);
            resolve();
          },
        };
        sleepers.add(sleeper);
        signal.addEventListener("abort", sleeper.wake, { once: true });
      }),
  };
}
