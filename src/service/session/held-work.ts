import { RuntimeError } from "../../contract/error.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Store } from "../../ports/store.ts";
import type { CallContext } from "../dispatch.ts";
import type { LiveSession } from "./live-session.ts";
import type { LiveSessions } from "./live-sessions.ts";

/** Work that holds a session while it runs: one at a time per session, also across processes. */
export interface HeldWork {
  /** Runs work as the session's turn, with the caller listening and able to stop it. */
  run<T>(session: LiveSession, call: CallContext, work: (signal: AbortSignal) => Promise<T>): Promise<T>;
  /** Interrupts what runs and resolves when it has ended, or when that takes too long. */
  stop(): Promise<void>;
}

const STOP_MS_MAX = 5_000;

export function createHeldWork(parts: { store: Store; clock: Clock; live: LiveSessions }): HeldWork {
  const { clock, live } = parts;
  const { locks } = parts.store;
  const running = new Set<{ readonly sessionId: string; readonly ended: Promise<void> }>();
  return {
    run: async (session, call, work) => {
      const { sessionId } = session.state;
      const hold = await locks.hold(sessionId);
      const { promise: ended, resolve: end } = Promise.withResolvers<void>();
      const run = { sessionId, ended };
      running.add(run);
      if (call.listener !== undefined) session.listeners.add(call.listener);
      session.isRunning = true;
      try {
        await live.refresh(session);
        if (session.state.archived)
          throw new RuntimeError("SESSION_NOT_FOUND", `session ${sessionId} is archived and runs no more turns`);
        const { signal } = call;
        return await work(signal === undefined ? hold.interrupted : AbortSignal.any([hold.interrupted, signal]));
      } finally {
        session.isRunning = false;
        if (call.listener !== undefined) session.listeners.delete(call.listener);
        await hold.release().finally(() => {
          running.delete(run);
          end();
        });
      }
    },
    stop: async () => {
      const ending = [...running];
      if (ending.length === 0) return;
      // A store that cannot even interrupt must not keep the rest from being closed: the wait below is bounded.
      await Promise.allSettled(ending.map(({ sessionId }) => locks.interrupt(sessionId)));
      const done = new AbortController();
      await Promise.race([Promise.all(ending.map(({ ended }) => ended)), clock.sleep(STOP_MS_MAX, done.signal)]);
      done.abort("done");
    },
  };
}
