import type { Compaction } from "../../contract/compaction.ts";
import type { CompactionRecord } from "../session/shown.ts";

/** A compaction as every wire shows it. */
export function describeCompaction({ seq, body, undone, expanded }: CompactionRecord): Compaction {
  const { kind: _kind, shows, pruned: _pruned, ...facts } = body;
  const kept = shows.filter((part) => "from_seq" in part);
  return { ...facts, seq, kept, undone, expanded: [...expanded] };
}
