import type { Chunk, Embedder, LexicalMatches, Ranked, TermQuery } from "../ports/memory.ts";
import { isQuestion } from "../text/sentences.ts";
import { lettersOf, plainWords, rarity, termsOf } from "../text/terms.ts";

/** The best candidates, and how many of equals, which are mostly repetitions and must not crowd out the rest. */
const POOL_MAX = 100;
const EQUALS_MAX = 24;

/** The query to a store: the best chunks for the terms. */
export function bestByTerms(weights: ReadonlyMap<string, number>): TermQuery {
  return { weights, max: POOL_MAX, equalsMax: EQUALS_MAX };
}

function byValue(a: Ranked, b: Ranked): number {
  return b.value - a.value || b.id - a.id;
}

/** Combined values of chunks; chunks in no list have `floor`. */
export interface Fused {
  readonly values: ReadonlyMap<number, number>;
  readonly floor: number;
}

export interface Ranking {
  /** Best first. */
  readonly list: readonly Ranked[];
  /** How many chunks were ranked; those beyond the list have the value `rest`, or that of the last. */
  readonly chunks: number;
  readonly rest?: number;
  readonly weight: number;
}

/**
 * Adds rankings of unrelated scales. Each is cut to its best and normalized by their spread, so that neither the size
 * of the scope nor the scale of a model matters.
 */
export function fuse(rankings: readonly Ranking[]): Fused {
  const values = new Map<number, number>();
  const pools = rankings.map(toPool);
  const floor = pools.reduce((sum, pool) => sum + pool.floor, 0);
  for (const id of new Set(pools.flatMap((pool) => [...pool.values.keys()]))) {
    values.set(
      id,
      pools.reduce((sum, pool) => sum + (pool.values.get(id) ?? pool.floor), 0),
    );
  }
  return { values, floor };
}

function toPool({ list, chunks, rest, weight }: Ranking): Fused {
  const best = withoutCrowds(list);
  const size = Math.min(POOL_MAX, Math.max(chunks, best.length));
  const least = rest ?? best.at(-1)?.value ?? 0;
  const all = best.map(({ value }) => value);
  while (all.length < size) all.push(least);
  const mean = all.reduce((sum, value) => sum + value, 0) / Math.max(1, all.length);
  const variance = all.reduce((sum, value) => sum + (value - mean) ** 2, 0) / Math.max(1, all.length);
  const spread = Math.sqrt(variance) || 1;
  const scaled = (value: number): number => (weight * (value - mean)) / spread;
  return {
    values: new Map(best.map(({ id, value }) => [id, scaled(value)])),
    floor: scaled(all.at(-1) ?? 0),
  };
}

function withoutCrowds(list: readonly Ranked[]): readonly Ranked[] {
  const kept: Ranked[] = [];
  let equals = 0;
  for (const [index, row] of list.entries()) {
    equals = list[index - 1]?.value === row.value ? equals + 1 : 0;
    if (equals < EQUALS_MAX) kept.push(row);
    if (kept.length >= POOL_MAX) break;
  }
  return kept;
}

interface Evidence extends Pick<Chunk, "id" | "text"> {
  /** Similarity of query and hit: 0 for unrelated texts, 1 for equal ones; absent without vectors. */
  readonly likeness: number | undefined;
}

export type Score = (evidence: Evidence) => number;

/** The confidence of a hit, 0 to 1, comparable across queries and scopes. */
export function createScore(query: string, weights: ReadonlyMap<string, number>, matches: LexicalMatches): Score {
  const read = createWordScore(query, weights, matches);
  return ({ id, text, likeness }) => {
    const { exactness, byWords } = read({ id, text });
    if (exactness > 0) return exactness;
    const byMeaning = likeness ?? 0;
    return NOT_EXACT_MAX * (1 - (1 - byWords) * (1 - byMeaning));
  };
}

/** How much of a query a text contains, 0 to 1: as a phrase, or by its words. */
export function createWordScore(query: string, weights: ReadonlyMap<string, number>, matches: LexicalMatches) {
  const asked = plainWords(query.slice(0, QUERY_CHARS_MAX));
  const askedLetters = lettersOf(asked);
  const worths = worthsOf(weights, matches);
  const { holds } = matches;
  const known = new Map<number, { readonly exactness: number; readonly byWords: number }>();
  const read = ({ id, text }: Pick<Chunk, "id" | "text">) => {
    const letters = lettersOf(text);
    const mayContain = letters.includes(askedLetters) || askedLetters.includes(letters);
    const exactness = mayContain ? exactnessOf(asked, text) : 0;
    if (exactness > 0) return { exactness, byWords: 1 };
    const terms = holds === undefined ? termsOf(text) : undefined;
    const held: number[] = [];
    for (const [term, worth] of worths) if (terms?.has(term) ?? holds?.(id, term)) held.push(worth);
    return { exactness, byWords: sharpen(coverage(held)) };
  };
  return (chunk: Pick<Chunk, "id" | "text">) => {
    const result = known.get(chunk.id) ?? read(chunk);
    known.set(chunk.id, result);
    return result;
  };
}

/** Makes scores non-increasing: neighbours in the wrong order get their mean. */
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

/** 1 for the same words, 0.99 if one contains the other, otherwise 0. */
export function exactnessOf(asked: string, text: string): number {
  const said = plainWords(text);
  if (asked === "" || said === "") return 0;
  if (asked === said) return 1;
  const [short, long] = asked.length < said.length ? [asked, said] : [said, asked];
  return isPassage(short) && ` ${long} `.includes(` ${short} `) ? 0.99 : 0;
}

const QUERY_CHARS_MAX = 20_000;
/** Above it, a hit has the words of the query in their order. */
export const NOT_EXACT_MAX = 0.98;
/** A third of a query's words is coincidence, half of them hardly; measured on public dialogues. */
const CHANCE = 0.3;
const HALF = 0.5;

function sharpen(covered: number): number {
  if (covered <= CHANCE) return covered * 0.8;
  if (covered <= HALF) return 0.24 + ((covered - CHANCE) / (HALF - CHANCE)) * 0.46;
  return 0.7 + ((covered - HALF) / (1 - HALF)) * 0.3;
}
/** A shorter phrase may occur in any text. */
const PASSAGE_WORDS_MIN = 5;

function isPassage(words: string): boolean {
  return words.split(" ").length >= PASSAGE_WORDS_MIN;
}

/** Weights of the query's terms, with sum 1. A term that occurs nowhere still counts. */
function worthsOf(weights: ReadonlyMap<string, number>, { holders, chunks }: LexicalMatches): Map<string, number> {
  // A small scope has no statistics; these chunks stand for the language.
  const seen = Math.max(chunks, CHUNKS_ASSUMED);
  const worths = [...weights]
    .filter(([term]) => !term.startsWith("@"))
    .map(([term, weight]) => [term, weight * rarity(Math.max(1, holders.get(term) ?? 0), seen)] as const);
  const total = worths.reduce((sum, [, worth]) => sum + worth, 0) || 1;
  return new Map(worths.map(([term, worth]) => [term, worth / total]));
}

const CHUNKS_ASSUMED = 1_000;

function coverage(held: readonly number[]): number {
  const covered = held.reduce((sum, worth) => sum + worth, 0);
  const telling = held.filter((worth) => worth >= covered * TELLING_SHARE);
  // One common word of several is coincidence, however rare it is.
  return telling.length === 1 && covered < ONE_WORD_ENOUGH ? Math.min(covered, CHANCE) : covered;
}

/** A word with a smaller share counts as a stop word. */
const TELLING_SHARE = 0.15;
const ONE_WORD_ENOUGH = 0.6;

/** Maps cosines to similarity: 0 for the usual distance, 1 for equal. */
export type Likeness = (cosine: number) => number;

/** Calibrates a model's cosine with unrelated texts: models differ, and for some unrelated texts are at 0.7. */
export function createLikeness(embedder: Embedder): (question: Float32Array) => Promise<Likeness> {
  let unrelated: Promise<Float32Array> | undefined;
  return async (question) => {
    unrelated ??= meanOfStrangers(embedder);
    try {
      const mean = dot(question, await unrelated);
      return (cosine) => curve((cosine - mean) / Math.max(1e-6, 1 - mean));
    } catch (error) {
      unrelated = undefined;
      throw error;
    }
  };
}

/** Shared by searches: a cancelled search does not cancel it. */
async function meanOfStrangers(embedder: Embedder): Promise<Float32Array> {
  if (embedder.unrelated !== undefined) return embedder.unrelated;
  const vectors = await embedder.embed(STRANGERS, "passage", new AbortController().signal);
  const sumAt = (at: number): number => vectors.reduce((sum, vector) => sum + (vector[at] ?? 0), 0);
  return Float32Array.from({ length: embedder.dimensions }, (_, at) => sumAt(at) / vectors.length);
}

export const STRANGERS = [
  "The glacier has lost eleven metres of ice since last summer.",
  "Whisk the egg whites until they hold soft peaks.",
  "The court adjourned the hearing until the witness arrives.",
  "Our goalkeeper saved two penalties in the second half.",
  "The function returns a list sorted by the second column.",
  "She tuned the violin and waited for the conductor.",
  "Inflation fell for the third month in a row.",
  "The bus to the harbour leaves from platform nine.",
  "Prune the roses before the first warm days.",
  "I can't believe how quickly the weekend went by!",
  "The vaccine is stored between two and eight degrees.",
  "He painted the fence blue and the gate white.",
];

/** Halfway between unrelated and equal is a clear match. */
function curve(nearness: number): number {
  return Math.min(1, Math.max(0, (nearness - NEARNESS_MIN) / (NEARNESS_FULL - NEARNESS_MIN)));
}

const NEARNESS_MIN = 0.2;
const NEARNESS_FULL = 0.8;

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (const [index, value] of a.entries()) sum += value * (b[index] ?? 0);
  return sum;
}

/** The ids next to found chunks, needed for ranking in context. */
export function idsBeside(found: readonly Chunk[]): readonly number[] {
  const ids = new Set(found.flatMap(({ before, after }) => [before, after]));
  for (const { id } of found) ids.delete(id);
  ids.delete(0);
  return [...ids];
}

/**
 * Ranks chunks with their context: an answer seldom repeats its question. A chunk rises towards its better neighbour
 * and never past it, so that other topics cannot displace a message that stands alone. An answer to a bare question
 * rises nearly to it, and a question that the user answered steps back. The conversation around a chunk counts as a
 * whole, too. In a small scope everything is near everything else, so that only answers count with their questions.
 */
export function rankInContext(fused: Fused, chunks: readonly Chunk[], chunksInScope: number): readonly Ranked[] {
  const context = chunksInScope < SCOPE_CHUNKS_MIN ? 0 : CONTEXT_WEIGHT;
  const byId = new Map(chunks.map((chunk) => [chunk.id, chunk]));
  const worthOf = (id: number): number => fused.values.get(id) ?? fused.floor;
  const talkAround = createTalkAround(chunks, worthOf);
  return chunks
    .map((chunk): Ranked => {
      const [before, after] = [byId.get(chunk.before), byId.get(chunk.after)];
      const own = worthOf(chunk.id);
      const best = Math.max(own, before ? worthOf(before.id) : own, after ? worthOf(after.id) : own);
      const pulled = own + context * (best - own);
      const answering = isBareQuestion(before) ? own + ANSWER_PULL * (worthOf(before.id) - own) : pulled;
      const risen = Math.max(pulled, answering);
      const isAnswered = after?.role === "user" && isBareQuestion(chunk);
      const stepped = isAnswered ? risen - CONTEXT_WEIGHT * (risen - fused.floor) : risen;
      return { id: chunk.id, value: stepped + context * talkAround(chunk) };
    })
    .sort(byValue);
}

/** The weight of a neighbour, of the talk around, and of a question's answer against the question. */
const CONTEXT_WEIGHT = 0.4;
/** The share of a bare question's value and confidence that its answer gets. */
export const ANSWER_PULL = 0.9;
const TALK_TURNS = 10;
const TALK_CHUNKS_MAX = 3;
const SCOPE_CHUNKS_MIN = 50;

/** A longer question contains other information. */
const BARE_QUESTION_CHARS_MAX = 160;

export function isBareQuestion(chunk: Chunk | undefined): chunk is Chunk {
  return (
    (chunk?.kind === "text" || chunk?.kind === "imported") &&
    chunk.text.length <= BARE_QUESTION_CHARS_MAX &&
    isQuestion(chunk.text)
  );
}

/** The mean of the best chunks in the turns around one: a session of months covers many topics. */
function createTalkAround(chunks: readonly Chunk[], worthOf: (id: number) => number): (chunk: Chunk) => number {
  const ranked = chunks.map(({ id, session_id, turn }) => ({ session_id, turn, worth: worthOf(id) }));
  const bySession = Map.groupBy(
    ranked.sort((a, b) => b.worth - a.worth),
    ({ session_id }) => session_id,
  );
  return ({ session_id, turn }) => {
    let [sum, count] = [0, 0];
    for (const near of bySession.get(session_id) ?? []) {
      if (Math.abs(near.turn - turn) > TALK_TURNS) continue;
      sum += near.worth;
      count += 1;
      if (count === TALK_CHUNKS_MAX) break;
    }
    return sum / count;
  };
}
