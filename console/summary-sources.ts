import type { Compaction } from "../src/contract/compaction.ts";
import { splitSentences } from "./compaction-sentences.ts";
import type { SessionView } from "./session-view.ts";

export interface SummarySentence {
  readonly text: string;
  readonly seqs: readonly number[];
}

/** The sentences of a summary with the messages they come from. */
export async function readSentences(view: SessionView, compaction: Compaction): Promise<readonly SummarySentence[]> {
  const { sentences } = await view.handle.summarySources(compaction.compaction_id);
  if (sentences.length > 0) return sentences;
  return splitSentences(compaction.summary).map((text) => ({ text, seqs: [] }));
}
