import type { CompactionCadence } from "../../contract/compaction.ts";
import type { EntryBody } from "../../contract/entry.ts";

export const NO_CADENCE: CompactionCadence = { session_boundary_index: 0 };

/**
 * The fold of when a session compacted. It lives in the log, so a session that is resumed or reused neither compacts
 * at once nor never; an attempt counts when it begins, so one that fails or whose process ends is not repeated at
 * every boundary.
 */
export function advanceCadence(cadence: CompactionCadence, body: EntryBody): CompactionCadence {
  const { session_boundary_index } = cadence;
  switch (body.kind) {
    case "model_called":
      return { ...cadence, session_boundary_index: session_boundary_index + 1 };
    case "imported":
      // A forked session has seen the boundaries of the answers it took over.
      if (body.message.role !== "block_assistant") return cadence;
      return { ...cadence, session_boundary_index: session_boundary_index + 1 };
    case "compacted":
      return { ...cadence, last_compaction_boundary_index: session_boundary_index };
    // Undone by a person, it is not to be made again at the very next boundary.
    case "compaction_undone":
      return { ...cadence, last_compaction_attempt_boundary_index: session_boundary_index };
    case "event":
      if (body.event.type !== "compaction_started") return cadence;
      return { ...cadence, last_compaction_attempt_boundary_index: session_boundary_index };
    default:
      return cadence;
  }
}
