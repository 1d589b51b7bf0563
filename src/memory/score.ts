import type { LexicalMatches } from "../ports/memory.ts";
import { plainWords, termsOf } from "../text/terms.ts";
import { rarity } from "./rank.ts";

/** What is known of a hit when it is scored. */
interface Evidence {
  readonly text: string;
  /** How alike question and hit are, 0 for as alike as any two texts, 1 for the same; absent without vectors. */
  readonly likeness: number | undefined;
}

export type Score = (evidence: Evidence) => number;

/** How sure a hit answers a question, 0 to 1, on a scale that means the same for every question and scope. */
export function createScore(query: string, weights: ReadonlyMap<string, number>, matches: LexicalMatches): Score {
  const asked = plainWords(query.slice(0, QUERY_CHARS_MAX));
  const worths = worthsOf(weights, matches);
  return ({ text, likeness }) => {
    const exactness = exactnessOf(asked, text);
    if (exactness > 0) return exactness;
    const byWords = sharpen(coverage(text, worths));
    const byMeaning = likeness ?? 0;
    return NOT_EXACT_MAX * (1 - (1 - byWords) * (1 - byMeaning));
  };
}

/** Scores as they are told, never rising down the list: neighbours in the wrong order meet in their middle. */
export function descending(scores: readonly number[]): readonly number[] {
  const runs: { sum: number; count: number }[] = [];
  for (const score of scores) {
    let run = { sum: score, count: 1 };
    for (
      let last = runs.at(-1);
      last !== undefined && last.sum / last.count < run.sum / run.count;
      last = runs.at(-1)
    ) {
      run = { sum: last.sum + run.sum, count: last.count + run.count };
      runs.pop();
    }
    runs.push(run);
  }
  return runs.flatMap(({ sum, count }) => Array<number>(count).fill(Math.round((sum / count) * 1_000) / 1_000));
}

/** 1 for the same words, 0.99 where one is a passage of the other, 0 otherwise. */
export function exactnessOf(asked: string, text: string): number {
  const said = plainWords(text);
  if (asked === "" || said === "") return 0;
  if (asked === said) return 1;
  const [short, long] = asked.length < said.length ? [asked, said] : [said, asked];
  return isPassage(short) && ` ${long} `.includes(` ${short} `) ? 0.99 : 0;
}

const QUERY_CHARS_MAX = 20_000;
const NOT_EXACT_MAX = 0.98;
/** A third of a question's words is chance, half of them is hardly: where chance ends was measured on public dialogues. */
const CHANCE = 0.3;
const HALF = 0.5;

function sharpen(covered: number): number {
  if (covered <= CHANCE) return covered * 0.8;
  if (covered <= HALF) return 0.24 + ((covered - CHANCE) / (HALF - CHANCE)) * 0.46;
  return 0.7 + ((covered - HALF) / (1 - HALF)) * 0.3;
}
/** Fewer words than these are a phrase that any text may hold. */
const PASSAGE_WORDS_MIN = 5;

function isPassage(words: string): boolean {
  return words.split(" ").length >= PASSAGE_WORDS_MIN;
}

/** What each term of the question is worth, together 1. A term that nobody ever said still counts: it was asked for. */
function worthsOf(weights: ReadonlyMap<string, number>, { postings, chunks }: LexicalMatches): Map<string, number> {
  const holders = new Map(postings.map(({ term, ids }) => [term, ids.length]));
  // A scope of a few chunks knows nothing of rarity; these stand in for the language.
  const seen = Math.max(chunks, CHUNKS_ASSUMED);
  const worths = [...weights]
    .filter(([term]) => !term.startsWith("@"))
    .map(([term, weight]) => [term, weight * rarity(Math.max(1, holders.get(term) ?? 0), seen)] as const);
  const total = worths.reduce((sum, [, worth]) => sum + worth, 0) || 1;
  return new Map(worths.map(([term, worth]) => [term, worth / total]));
}

const CHUNKS_ASSUMED = 1_000;

function coverage(text: string, worths: ReadonlyMap<string, number>): number {
  const terms = termsOf(text);
  const held = [...worths].filter(([term]) => terms.has(term)).map(([, worth]) => worth);
  const covered = held.reduce((sum, worth) => sum + worth, 0);
  const telling = held.filter((worth) => worth >= covered * TELLING_SHARE);
  // One word in common, of several that were asked, is chance however rare it is.
  return telling.length === 1 && covered < ONE_WORD_ENOUGH ? Math.min(covered, CHANCE) : covered;
}

/** A word that carries less of what is covered is as good as a stop word. */
const TELLING_SHARE = 0.15;
const ONE_WORD_ENOUGH = 0.6;
