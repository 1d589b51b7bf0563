import type { Compaction } from "../src/contract/compaction.ts";
import type { FactClass } from "./compaction-receipt.tsx";
import type { Said } from "./session-view.ts";

/** A sentence of a message that was taken out, and whether the summary says it. */
export interface Sentence {
  readonly text: string;
  readonly isMissing: boolean;
  /** Names, numbers, paths and rules in it, and where they are now. */
  readonly facts: readonly { readonly text: string; readonly status: FactClass }[];
}

/** So much of a sentence's words in one sentence of the summary, and it is taken to say the same. */
const SAME = 0.6;
/** With fewer words of weight there is nothing to be missed: "Yes, do that." */
const WORDS_MIN = 2;
const GONE: readonly FactClass[] = ["recoverable", "lost"];

const segmenter = new Intl.Segmenter(undefined, { granularity: "sentence" });

export function splitSentences(text: string): readonly string[] {
  return [...segmenter.segment(text)].map(({ segment }) => segment);
}

/**
 * Reads messages against what stands for them: by the facts of the receipts first, and by words where they have none. A
 * fact of what an earlier compaction took out counts as kept where this summary still has it word for word.
 */
export function createComparison(
  compaction: Compaction,
  earlier: readonly Compaction[],
): (said: Said, text: string) => readonly Sentence[] {
  const { summary, rules = [], receipt } = compaction;
  const inherited = earlier
    .flatMap((one) => one.receipt.items)
    .map((item) => {
      return { ...item, status: summary.includes(item.text) ? ("in_summary" as const) : ("recoverable" as const) };
    });
  const all = [...receipt.items, ...inherited];
  const told = [...splitSentences(summary), ...rules.filter(({ follows }) => follows).map(({ text }) => text)];
  const sets = told.map(wordsOf).filter(({ size }) => size > 0);
  return (said, text) => {
    const items = all.filter(({ seq }) => seq === said.seq);
    return splitSentences(text).map((sentence) => {
      const facts = items
        .filter((item) => sentence.includes(item.text))
        .map((item) => ({ text: item.text, status: item.status }));
      return { text: sentence, facts, isMissing: isMissing(sentence, facts) };
    });
  };

  function isMissing(sentence: string, facts: Sentence["facts"]): boolean {
    if (facts.some(({ status }) => GONE.includes(status))) return true;
    const words = wordsOf(sentence);
    if (words.size < WORDS_MIN) return false;
    const best = Math.max(0, ...sets.map((other) => [...words].filter((word) => other.has(word)).length));
    return best / words.size < SAME;
  }
}

/** Words of weight: long enough to mean something, or with a digit. */
function wordsOf(text: string): ReadonlySet<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}_]{4,}|[\p{L}_]*\p{N}[\p{L}\p{N}_]*/gu) ?? []);
}
