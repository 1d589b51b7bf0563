import { RuntimeError } from "../contract/error.ts";
import type { Dispatch } from "../service/dispatch.ts";

/** Where a session's events end now, so that none of those to come can slip by; undefined where none are kept. */
export async function lastSeq(dispatch: Dispatch, session_id: string): Promise<number | undefined> {
  try {
    return (await dispatch("readEventCursor", { scope: { type: "session", session_id } })).cursor.sequence;
  } catch (thrown) {
    if (thrown instanceof RuntimeError && thrown.code === "SESSION_PERSISTENCE_DISABLED") return undefined;
    throw thrown;
  }
}
