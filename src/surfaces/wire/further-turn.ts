import { RuntimeError } from "../../contract/error.ts";
import type { CallContext, Dispatch } from "../../service/dispatch.ts";

/**
 * Runs a further turn where one name stands for both operations: a session that this process knows goes on in every
 * build, and any other is resumed, which without a store is refused for what it lacks.
 */
export async function furtherTurn(dispatch: Dispatch, input: unknown, call: CallContext): Promise<unknown> {
  try {
    return await dispatch("startTurn", input, call);
  } catch (thrown) {
    const isUnknown = thrown instanceof RuntimeError && thrown.code === "SESSION_NOT_FOUND";
    if (!isUnknown) throw thrown;
    return dispatch("resumeSession", input, call);
  }
}
