import type { Runtime, RuntimeWays } from "../service/runtime-calls.ts";
import { closedError } from "./failures.ts";

/** The ways into a runtime of this process. Whoever opened it closes it: closing the client ends only the client. */
export function createLocalWays(runtime: Pick<Runtime, "dispatch" | "subscribe">): RuntimeWays {
  const closing = new AbortController();
  const dispatch: RuntimeWays["dispatch"] = async (...call) => {
    if (closing.signal.aborted) throw closedError();
    return runtime.dispatch(...call);
  };
  return {
    dispatch,
    subscribe: (sessionId, { after, signal } = {}) => {
      const ending = signal === undefined ? closing.signal : AbortSignal.any([closing.signal, signal]);
      return runtime.subscribe(sessionId, { signal: ending, ...(after === undefined ? {} : { after }) });
    },
    close: async () => closing.abort("closed"),
  };
}
