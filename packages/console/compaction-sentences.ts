import type { Compaction } from "@rkat/core/contract/compaction";
import type { FactClass } from "./compaction-receipt.tsx";
import type { Message, SessionView } from "./session-view.ts";

/** A sentence of a removed message, and whether the summary omits it. */
export interface Sentence {
  readonly text: string;
  readonly isOmitted: boolean;
  /** The names, numbers, paths and rules in the sentence, and where they are now. */
  readonly facts: readonly { readonly text: string; readonly status: FactClass }[];
}

/** A sentence counts as kept if one sentence of the summary has at least this share of its words. */
const SHARED_WORDS_MIN = 0.6;
/** A sentence with fewer significant words has no content to omit: "Yes, do that." */
const WORDS_MIN = 2;
/** The facts that are neither in the summary nor in another message of the context. */
export const OMITTED: readonly FactClass[] = ["recoverable", "lost"];

const segmenter = new Intl.Segmenter(undefined, { granularity: "sentence" });

function splitSentences(text: string): readonly string[] {
  return [...segmenter.segment(text)].map(({ segment }) => segment);
}

/**
 * Compares messages with the summary that replaces them: first by the facts of the receipts, then by words. A fact from
 * an earlier compaction counts as kept if this summary still contains it verbatim.
 */
export function createComparison(
  compaction: Compaction,
  earlier: readonly Compaction[],
): (message: Message, text: string) => readonly Sentence[] {
  const { summary, rules = [], receipt } = compaction;
  const inherited = earlier
    .flatMap((one) => one.receipt.items)
    .map((item) => {
      return { ...item, status: summary.includes(item.text) ? ("in_summary" as const) : ("recoverable" as const) };
    });
  const all = [...receipt.items, ...inherited];
  const kept = [...splitSentences(summary), ...rules.filter(({ follows }) => follows).map(({ text }) => text)];
  const sets = kept.map(wordsOf).filter(({ size }) => size > 0);
  return (message, text) => {
    const items = all.filter(({ seq }) => seq === message.seq);
    return splitSentences(text).map((sentence) => {
      const facts = items
        .filter((item) => sentence.includes(item.text))
        .map((item) => ({ text: item.text, status: item.status }));
      return { text: sentence, facts, isOmitted: isOmitted(sentence, facts) };
    });
  };

  function isOmitted(sentence: string, facts: Sentence["facts"]): boolean {
    if (facts.some(({ status }) => OMITTED.includes(status))) return true;
    const words = wordsOf(sentence);
    if (words.size < WORDS_MIN) return false;
    const best = Math.max(0, ...sets.map((other) => [...words].filter((word) => other.has(word)).length));
    return best / words.size < SHARED_WORDS_MIN;
  }
}

/** Significant words: at least four letters, or with a digit. */
function wordsOf(text: string): ReadonlySet<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}_]{4,}|[\p{L}_]*\p{N}[\p{L}\p{N}_]*/gu) ?? []);
}

export interface SummarySentence {
  readonly text: string;
  readonly seqs: readonly number[];
}

/** The sentences of a summary with the seqs of the messages they come from. */
export async function readSentences(view: SessionView, compaction: Compaction): Promise<readonly SummarySentence[]> {
  const { sentences } = await view.handle.summarySources(compaction.compaction_id);
  if (sentences.length > 0) return sentences;
  return splitSentences(compaction.summary).map((text) => ({ text, seqs: [] }));
}
