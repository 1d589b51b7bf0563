import { RuntimeError } from "@rkat/core/contract/error";
import { spellDuration } from "@rkat/core/contract/input";
import { WIRE_TABLE } from "@rkat/core/contract/wire/wire-table";
import type { Clock } from "@rkat/core/ports/clock";
import type { CallContext, Dispatch } from "@rkat/core/runtime/dispatch";

/** The turns that a server runs, so that it can wait for them before it ends. */
export interface RunningTurns {
  /** Calls operations, and tracks their turns, also those that continue after the answer. */
  readonly dispatch: Dispatch;
  /** Refuses new turns, waits for running ones up to a limit, and logs how many there are. */
  drain(graceMs: number): Promise<void>;
}

/** The refusal of new work while the server stops. */
export const IS_ENDING = "this server is ending";

/** How often the log reports that turns still run. */
const TELL_MS = 10_000;
/** Many turns may end at once. */
const TELL_AGAIN_MS = 1_000;

export function watchTurns(
  dispatch: Dispatch,
  { clock, log }: { readonly clock: Clock; readonly log: (sentence: string) => void },
): RunningTurns {
  const running = new Set<Promise<void>>();
  // A pending approval is in the log and outlives this process.
  const leaving = new AbortController();
  let isEnding = false;
  const watch = (turn: Promise<unknown>): void => {
    const end = (): void => void running.delete(ended);
    // The caller gets the outcome.
    const ended = turn.then(end, end);
    running.add(ended);
  };
  return {
    dispatch: (name, input, call = {}) => {
      if (!WIRE_TABLE[name].hasEvents) return dispatch(name, input, call);
      if (isEnding) return Promise.reject(new RuntimeError("AGENT_ERROR", IS_ENDING));
      const answer = dispatch(name, input, { ...call, background: watch, leaving: leaving.signal });
      watch(answer);
      return answer;
    },
    drain: async (graceMs) => {
      isEnding = true;
      leaving.abort("the server is ending");
      if (running.size === 0) return;
      const grace = spellDuration(graceMs);
      log(`waits at most ${grace} for ${turns(running.size)} to end; a second signal leaves at once`);
      const untilMs = clock.now() + graceMs;
      let reported = { count: running.size, atMs: clock.now() };
      // An end can be the beginning of another: a session whose first turn goes on behind its creation.
      for (let leftMs = graceMs; leftMs > 0 && running.size > 0; leftMs = untilMs - clock.now()) {
        const isNews = running.size !== reported.count;
        const quietMs = reported.atMs + (isNews ? TELL_AGAIN_MS : TELL_MS) - clock.now();
        // What has ended since is told in a moment, with whatever ends until then.
        const work = isNews ? Promise.all(running) : Promise.race(running);
        if (quietMs > 0) await within(clock, Math.min(leftMs, quietMs), work);
        else {
          reported = { count: running.size, atMs: clock.now() };
          log(`still waits for ${turns(running.size)}`);
        }
      }
      if (running.size > 0) log(`interrupts ${turns(running.size)} after ${grace}; what was said is kept`);
    },
  };
}

function turns(count: number): string {
  return count === 1 ? "1 turn" : `${count} turns`;
}

/** Waits for work, and not for longer than this. */
export async function within(clock: Clock, ms: number, work: Promise<unknown>): Promise<void> {
  const done = new AbortController();
  await Promise.race([work, clock.sleep(ms, done.signal)]);
  done.abort("done");
}

/** The reason of a signal that a client aborted, rather than the end of its connection or of the server. */
export const CANCELLED_BY_CLIENT = "cancelled by the client";

/** Archives the session of a creation that its client cancelled; it stays readable. */
export async function takeBack(dispatch: Dispatch, session_id: string): Promise<void> {
  try {
    await dispatch("archiveSession", { session_id });
  } catch (thrown) {
    // Without a store the session ends with the process anyway.
    if (!(thrown instanceof RuntimeError && thrown.code === "SESSION_PERSISTENCE_DISABLED")) throw thrown;
  }
}

/**
 * Runs a further turn where one name stands for both operations: a session that this process knows goes on in every
 * build, and any other is resumed, which without a store is refused for what it lacks.
 */
export async function furtherTurn(dispatch: Dispatch, input: unknown, call: CallContext): Promise<unknown> {
  try {
    return await dispatch("startTurn", input, call);
  } catch (thrown) {
    if (!(thrown instanceof RuntimeError && thrown.code === "SESSION_NOT_FOUND")) throw thrown;
    return dispatch("resumeSession", input, call);
  }
}
