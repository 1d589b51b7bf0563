import type { Caller } from "@rkat/core/contract/caller";
import type { Runtime } from "@rkat/core/runtime/runtime-calls";

/** A runtime as a server has it. */
export type CallerRuntime = Pick<Runtime, "dispatch" | "subscribe">;

/** The same runtime for one caller: whatever is asked of it is asked by that one. */
export function forCaller({ dispatch, subscribe }: CallerRuntime, caller: Caller): CallerRuntime {
  return {
    dispatch: (name, input, call = {}) => dispatch(name, input, { ...call, caller }),
    subscribe: (sessionId, options = {}) => subscribe(sessionId, { ...options, caller }),
  };
}
