import type { SeqRange } from "../contract/compaction.ts";
import { CASCADE } from "./compaction/shown-messages.ts";
import { type CompactionRecord, evictedFrom, type Placed, type ShownState } from "./context.ts";
import { everSaid, type RewriteRecord } from "./rewrites.ts";
import { rangesOf } from "./seq-ranges.ts";

interface Hiding extends ShownState {
  readonly transcript: readonly Placed[];
  readonly rewrites: readonly RewriteRecord[];
  readonly compactions: readonly CompactionRecord[];
}

/**
 * What has left the context, and the summaries of what has; one that was undone is no memory. What a rewrite took out of
 * the transcript is not in it: whoever rewrote it does not want the model to be shown it.
 */
export function hiddenIn(state: Hiding): readonly SeqRange[] {
  if (state.compactions.length === 0) return [];
  // Of what was evicted only a line is shown.
  const evicted = new Set(evictedFrom(state).map(({ seq }) => seq));
  const shown = new Set(state.shown.map(({ seq }) => seq).filter((seq) => !evicted.has(seq)));
  const said = new Set(state.transcript.map(({ seq }) => seq));
  const cascades = new Map(cascadesIn(state.compactions).map((record) => [record.seq, record]));
  const isHidden = (seq: number): boolean => {
    const record = cascades.get(seq);
    return record === undefined ? said.has(seq) && !shown.has(seq) : !record.undone;
  };
  const all = [...everSaid(state), ...cascades.values()].sort((a, b) => a.seq - b.seq);
  return rangesOf(
    all.filter(({ seq }) => isHidden(seq)),
    all,
  );
}

/** The compactions by cascade, whose recent sections are memory: the next compaction makes less of them. */
export function cascadesIn(compactions: readonly CompactionRecord[]): readonly CompactionRecord[] {
  return compactions.filter(({ body }) => body.strategy === CASCADE && body.summary !== "");
}
