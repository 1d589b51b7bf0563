import type { Compaction } from "../src/contract/compaction.ts";
import { splitSentences } from "./compaction-sentences.ts";
import { client } from "./server.ts";

export interface SummarySentence {
  readonly text: string;
  readonly seqs: readonly number[];
}

/** The sentences of a summary with the messages they come from; without them where the server cannot tell. */
export async function readSentences(id: string, compaction: Compaction): Promise<readonly SummarySentence[]> {
  const dispatch = client().dispatch as unknown as (
    name: string,
    input: unknown,
  ) => Promise<{ sentences: readonly SummarySentence[] }>;
  try {
    const { sentences } = await dispatch("readSummarySources", {
      session_id: id,
      compaction_id: compaction.compaction_id,
    });
    if (sentences.length > 0) return sentences;
  } catch {}
  return splitSentences(compaction.summary).map((text) => ({ text, seqs: [] }));
}
