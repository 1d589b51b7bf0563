import type { Embedder } from "../ports/embedder.ts";
import type { Chunk, LexicalMatches, Ranked, TermQuery } from "../ports/memory.ts";
import { rarity } from "../text/bm25.ts";
import { isQuestion } from "../text/sentences.ts";
import { plainWords, termsOf } from "../text/terms.ts";

/** So many are the best; of equals, mostly the same text said again, so many: they must not crowd out everything else. */
const POOL_MAX = 100;
const EQUALS_MAX = 24;

/** What a store is asked for: the best that hold terms of a question. */
export function bestByTerms(weights: ReadonlyMap<string, number>): TermQuery {
  return { weights, max: POOL_MAX, equalsMax: EQUALS_MAX };
}

export function byValue(a: Ranked, b: Ranked): number {
  return b.value - a.value || b.id - a.id;
}

/** How well chunks answer by everything that is known of them; what is in no list has `floor`. */
export interface Fused {
  readonly values: ReadonlyMap<number, number>;
  readonly floor: number;
}

/** A ranking of a scope by one means. */
export interface Ranking {
  /** Best first. */
  readonly list: readonly Ranked[];
  /** How many chunks were looked at; those beyond the list are worth `rest`, or as little as the last of it. */
  readonly chunks: number;
  readonly rest?: number;
  readonly weight: number;
}

/**
 * Adds rankings whose values have nothing in common. Each is cut to its best and measured by their spread, so neither the
 * size of the scope nor the scale of a model changes its say.
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

/** What is known of a hit when it is scored. */
interface Evidence {
  readonly text: string;
  /** How alike question and hit are, 0 for as alike as any two texts, 1 for the same; absent without vectors. */
  readonly likeness: number | undefined;
}

export type Score = (evidence: Evidence) => number;

/** How sure a hit answers a question, 0 to 1, on a scale that means the same for every question and scope. */
export function createScore(query: string, weights: ReadonlyMap<string, number>, matches: LexicalMatches): Score {
  const read = createWordScore(query, weights, matches);
  return ({ text, likeness }) => {
    const { exactness, byWords } = read(text);
    if (exactness > 0) return exactness;
    const byMeaning = likeness ?? 0;
    return NOT_EXACT_MAX * (1 - (1 - byWords) * (1 - byMeaning));
  };
}

/** How much of a question a text says, 0 to 1: as a passage, where it is one, and by its words. */
export function createWordScore(query: string, weights: ReadonlyMap<string, number>, matches: LexicalMatches) {
  const asked = plainWords(query.slice(0, QUERY_CHARS_MAX));
  const worths = worthsOf(weights, matches);
  return (text: string): { readonly exactness: number; readonly byWords: number } => {
    const exactness = exactnessOf(asked, text);
    return { exactness, byWords: exactness > 0 ? 1 : sharpen(coverage(text, worths)) };
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
function worthsOf(weights: ReadonlyMap<string, number>, { holders, chunks }: LexicalMatches): Map<string, number> {
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

/** Turns the cosines of a question into likeness: 0 for as near as anything is, 1 for the same. */
export type Likeness = (cosine: number) => number;

/**
 * Measures what a model's cosine means by texts that have nothing to do with any question: models differ, and for some
 * two strangers are at 0.7.
 */
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

/** Searches share it: a search that is cancelled does not cancel it. */
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

/** Halfway between strangers and the same text is a clear match. */
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

/** The ids next to chunks that were found, which a reading in context needs besides. */
export function idsBeside(found: readonly Chunk[]): readonly number[] {
  const ids = new Set(found.flatMap(({ before, after }) => [before, after]));
  for (const { id } of found) ids.delete(id);
  ids.delete(0);
  return [...ids];
}

/**
 * Ranks chunks with what was said around them: the answer to a question seldom repeats it. A chunk rises towards its
 * better neighbour and never past it, so that talk about something else cannot push out a message that stands alone. What
 * answers a bare question rises nearly to it, and where the user answers, the question steps back: it only asked. What the
 * talk around a chunk has to say on the whole counts besides.
 */
export function rankInContext(fused: Fused, chunks: readonly Chunk[]): readonly Ranked[] {
  const byId = new Map(chunks.map((chunk) => [chunk.id, chunk]));
  const worthOf = (id: number): number => fused.values.get(id) ?? fused.floor;
  const talkAround = createTalkAround(chunks, worthOf);
  return chunks
    .map((chunk): Ranked => {
      const [before, after] = [byId.get(chunk.before), byId.get(chunk.after)];
      const own = worthOf(chunk.id);
      const best = Math.max(
        own,
        ...[before, after].flatMap((beside) => (beside === undefined ? [] : worthOf(beside.id))),
      );
      const pulled = own + NEIGHBOUR_PULL * (best - own);
      const answering = isBareQuestion(before) ? own + ANSWER_PULL * (worthOf(before.id) - own) : pulled;
      const risen = Math.max(pulled, answering);
      const isAnswered = after?.role === "user" && isBareQuestion(chunk);
      const stepped = isAnswered ? risen - STEP_BACK * (risen - fused.floor) : risen;
      return { id: chunk.id, value: stepped + TALK_WEIGHT * talkAround(chunk) };
    })
    .sort(byValue);
}

// Chosen together on the development split of public dialogues, between values that did hardly worse.
const NEIGHBOUR_PULL = 0.4;
/** What of a bare question's worth, and of how sure it is, goes to what answers it. */
export const ANSWER_PULL = 0.9;
const STEP_BACK = 0.2;
const TALK_WEIGHT = 0.4;
const TALK_TURNS = 10;
const TALK_CHUNKS_MAX = 3;

/** A longer one tells something besides. */
const BARE_QUESTION_CHARS_MAX = 160;

export function isBareQuestion(chunk: Chunk | undefined): chunk is Chunk {
  return chunk?.kind === "text" && chunk.text.length <= BARE_QUESTION_CHARS_MAX && isQuestion(chunk.text);
}

/**
 * The mean of the best chunks of the turns around one, itself among them: a session that goes on for months is about as
 * many things as many short ones.
 */
function createTalkAround(chunks: readonly Chunk[], worthOf: (id: number) => number): (chunk: Chunk) => number {
  const byPlace = Map.groupBy(chunks, ({ session_id, turn }) => `${session_id} ${turn}`);
  return ({ session_id, turn }) => {
    const worths: number[] = [];
    for (let near = turn - TALK_TURNS; near <= turn + TALK_TURNS; near += 1) {
      for (const { id } of byPlace.get(`${session_id} ${near}`) ?? []) worths.push(worthOf(id));
    }
    const best = worths.sort((a, b) => b - a).slice(0, TALK_CHUNKS_MAX);
    return best.reduce((sum, value) => sum + value, 0) / best.length;
  };
}
