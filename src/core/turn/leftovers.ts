import type { EntryBody, TurnEnd } from "../../contract/entry.ts";
import type { Clock } from "../../ports/clock.ts";
import type { SessionState } from "../session/session-state.ts";
import { closeCalls, INTERRUPTED } from "../tools/tool-batch.ts";

const CUT_SHORT: TurnEnd = {
  status: "failed",
  error_class: "terminal",
  error: "the process ended before the turn did",
  cause: "fatal_failure",
};

/** The ends of what a process that ended first left open: said by whoever holds the session next. */
export function closeLeftovers(state: SessionState, clock: Clock): readonly EntryBody[] {
  const ends: EntryBody[] = [];
  if (state.isCompacting) {
    ends.push({ kind: "compaction_failed", error: "the process ended before the compaction did" });
  }
  if (state.isTurnOpen) ends.push({ kind: "turn_closed", end: CUT_SHORT });
  // Calls are not run again: they may have taken effect.
  if (state.openCalls.length > 0) ends.push(closeCalls(state.openCalls, INTERRUPTED, clock));
  return ends;
}
