import { sentencesIn } from "../../text/sentences.ts";
import { headOf } from "../compaction/input/cut-text.ts";

interface Candidate {
  readonly text: string;
  readonly order: number;
  readonly value: number;
}

/** A sentence may take this share of a summary. */
const SENTENCE_SHARE = 0.4;
const WORD = /[\p{L}\p{N}]+/gu;

/**
 * A summary of texts, oldest first, made of their own sentences: the first of all, so that it reaches back to the
 * beginning, then from every stretch of time what is said there and nowhere else.
 */
export function extractTier(texts: readonly string[], charsMax: number): string {
  const candidates = candidatesIn(texts, Math.floor(charsMax * SENTENCE_SHARE));
  const [first, ...others] = candidates;
  if (first === undefined) return "";
  const chosen = [first];
  let left = charsMax - first.text.length;
  const average = candidates.reduce((sum, { text }) => sum + text.length, 0) / candidates.length;
  const stretches = stretchesOf(others, Math.max(1, Math.floor(left / (average + 1))));
  // The best of each, then the second best of each, until there is no room.
  for (let round = 0; stretches.some((stretch) => stretch.length > round); round += 1) {
    for (const stretch of stretches) {
      const next = stretch[round];
      if (next === undefined || next.text.length + 1 > left) continue;
      chosen.push(next);
      left -= next.text.length + 1;
    }
  }
  return chosen
    .sort((a, b) => a.order - b.order)
    .map(({ text }) => text)
    .join("\n");
}

/** Every sentence once, with what it says that others do not. */
function candidatesIn(texts: readonly string[], bytesMax: number): readonly Candidate[] {
  const sentences = texts.flatMap((text) =>
    text.split("\n").flatMap((line) => sentencesIn(line).map((piece) => piece.text.trim())),
  );
  const unique = [...new Set(sentences)].filter((sentence) => /[\p{L}\p{N}]/u.test(sentence));
  const holders = new Map<string, number>();
  const words = unique.map((sentence) => new Set(sentence.toLowerCase().match(WORD)));
  for (const own of words) for (const word of own) holders.set(word, (holders.get(word) ?? 0) + 1);
  return unique.map((sentence, order) => {
    const own = [...(words[order] ?? [])];
    const rarity = own.reduce((sum, word) => sum + Math.log(unique.length / (holders.get(word) ?? 1)), 0);
    return { text: shortened(sentence, bytesMax), order, value: rarity / Math.sqrt(own.length) };
  });
}

/** A line of its own, also when the next summary reads it; of a long one the beginning. */
function shortened(sentence: string, bytesMax: number): string {
  return sentence.length <= bytesMax ? sentence : `${headOf(sentence, Math.max(1, bytesMax - 4)).trimEnd()} …`;
}

/** The candidates in so many stretches of time, the best of each first. */
function stretchesOf(candidates: readonly Candidate[], count: number): readonly (readonly Candidate[])[] {
  const size = candidates.length / count;
  return Array.from({ length: count }, (_, at) =>
    candidates
      .slice(Math.round(at * size), Math.round((at + 1) * size))
      .sort((a, b) => b.value - a.value || a.order - b.order),
  );
}
