import { CASCADE, readSections } from "../../core/compaction/cascade/sections.ts";
import type { SessionState } from "../../core/session/session-state.ts";
import type { CompactionRecord } from "../../core/session/shown.ts";
import { chunksOf } from "../../memory/chunk.ts";
import type { NewChunk } from "../../ports/memory.ts";

/** The compactions by cascade, whose recent sections are memory: the next compaction makes less of them. */
export function cascadesIn({ compactions }: SessionState): readonly CompactionRecord[] {
  return compactions.filter(({ body }) => body.strategy === CASCADE && body.summary !== "");
}

/**
 * What a compaction's summary says of the recent past. It has the seq of its compaction: chunks come in the order of
 * seqs, and what is before the cursor is never taken in again.
 */
export function summaryChunks(record: CompactionRecord, of: { session_id: string; turn: number }): readonly NewChunk[] {
  const { seq, body } = record;
  const { created_at, summary } = body;
  const notice = { role: "system_notice", kind: "summary", body: readSections(summary).recent, created_at } as const;
  const place = { ...of, seq, created_at_ms: Date.parse(created_at) };
  return [...chunksOf(notice, place)].map((chunk) => ({ ...chunk, kind: "summary" }));
}
