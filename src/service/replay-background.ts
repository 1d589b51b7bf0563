import type { EntryBody } from "../contract/entry.ts";
import type { ReplayClock } from "./replay-clock.ts";

/**
 * Summaries that are written while a session goes on. In a replay nothing takes time by itself, so what is written behind a
 * turn is done when the recording's clock has passed as long as writing it takes, and the turn is held until what comes of
 * it is in the log: two replays then find it at the same call.
 */
export interface BackgroundTurns {
  /** Told every entry of the log. */
  appended(body: EntryBody): void;
  /** Whether the turn stands still for a compaction. */
  readonly isTurnWaiting: boolean;
  /** Resolves when a summary that is asked for now, and not waited for, is written; true where a turn did wait for it. */
  written(tokens: number, signal: AbortSignal): Promise<boolean>;
  /** Lets what is due be done, and waits until what came of it is in the log. */
  settle(): Promise<void>;
  /** Lets whatever has just begun ask for what it needs. */
  begin(): Promise<void>;
}

interface Pending {
  readonly dueMs: number;
  readonly release: (isAwaited: boolean) => void;
}

/** What a model writes in a second, and what it takes to begin. */
const TOKENS_PER_SECOND = 60;
const FIRST_TOKEN_MS = 2_000;
/** Rounds of the event loop after which whatever had nothing to wait for has asked. */
const ROUNDS = 12;
/** Nothing moves any more: the turn waits for the summary, which waits for the turn's time to pass. */
const STILL_MS = 5_000;

/** What ends the making of a summary behind a turn, as entries. */
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
    // A summary of several calls asks for the next when the one before is there.
    while (pending !== undefined && pending.dueMs <= clock.now()) {
      const next = changed();
      pending.release(false);
      // However long a receipt takes on this machine: what a summary comes to is in the log, or it asks for more.
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
      // Tools that run at once let the same time pass.
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
