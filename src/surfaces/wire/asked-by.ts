import { type Audit, type Caller, hasScope, requireScope, type Scope } from "../../contract/caller.ts";
import { RuntimeError } from "../../contract/error.ts";
import type { OperationName } from "../../contract/operations.ts";
import type { Runtime } from "../../service/runtime-calls.ts";
import { sessionIdIn } from "./events.ts";

/** A runtime as a server has it. */
export type Asked = Pick<Runtime, "dispatch" | "subscribe">;

/** What is told afterwards of whoever did it. */
const AUDITED: Partial<Record<OperationName, string>> = {
  setConfig: "configuration changed",
  patchConfig: "configuration changed",
  archiveSession: "session archived",
};

/** The same runtime for one caller: whatever is asked of it is asked by that one. */
export function askedBy({ dispatch, subscribe }: Asked, caller: Caller, audit?: Audit): Asked {
  return {
    dispatch: async (name, input, call = {}) => {
      const session_id = sessionIdIn(input);
      const fact = { who: caller.name, operation: name, ...(session_id === undefined ? {} : { session_id }) };
      try {
        const output = await dispatch(name, input, { ...call, caller });
        const what = AUDITED[name];
        if (what !== undefined) audit?.({ what, ...fact });
        return output;
      } catch (thrown) {
        if (thrown instanceof RuntimeError && thrown.code === "PERMISSION_DENIED") {
          audit?.({ what: "permission denied", ...fact, why: thrown.message });
        }
        throw thrown;
      }
    },
    subscribe: (sessionId, options = {}) => subscribe(sessionId, { ...options, caller }),
  };
}

/** Throws PERMISSION_DENIED for a caller without the scope, and tells of it. */
export function requireRight(
  caller: Caller,
  scope: Scope,
  { what, audit }: { readonly what: string; readonly audit: Audit | undefined },
): void {
  if (!hasScope(caller, scope)) {
    audit?.({ what: "permission denied", who: caller.name, operation: what, why: `it lacks the scope ${scope}` });
  }
  requireScope(caller, scope, what);
}
