import type { Embedder } from "../ports/embedder.ts";
import type { Chunk, LexicalMatches, MemoryStore, Neighbour, Ranked, Scope } from "../ports/memory.ts";
import { isQuestion } from "../text/sentences.ts";
import { plainWords, queryTerms } from "../text/terms.ts";
import { turnsAround } from "./around.ts";
import { isShort } from "./chunk.ts";
import { datesAskedFor } from "./date-terms.ts";
import {
  ANSWER_PULL,
  bestByTerms,
  createLikeness,
  createScore,
  createWordScore,
  descending,
  type Fused,
  fuse,
  idsBeside,
  isBareQuestion,
  type Likeness,
  rankInContext,
} from "./rank.ts";

/** A message that was found. */
export interface Hit {
  /** The part of it that answers best. */
  readonly chunk: Chunk;
  /** How sure it answers, 0 to 1, never rising down the list. */
  readonly score: number;
  /** How many chunks were found that say the same. */
  readonly copies: number;
  /** What was said around it, and what answers next best, in the order it was said; no text stands twice in an answer. */
  readonly around: readonly Chunk[];
  /** Only where it was asked for. */
  readonly why?: Why;
}

/** What brought a hit where it stands, 0 to 1 each. */
interface Why {
  /** How much of the question its words say. */
  readonly words: number;
  /** How alike it is in meaning; 0 without vectors. */
  readonly meaning: number;
  /** How much better what was said right before or after it answers; 0 where it stands by itself. */
  readonly neighbours: number;
}

export interface Recalled {
  /** Best first. */
  readonly hits: readonly Hit[];
  /** `lexical` when there are no vectors to compare: no embedder, one that failed, or none made yet. */
  readonly mode: "hybrid" | "lexical";
  /** Whether some of what was looked at has no vector yet. */
  readonly vectorsPending: boolean;
}

interface RecallOptions {
  readonly scope: Scope;
  /** How many messages at most. */
  readonly limit: number;
  /** What scores less is not shown and takes no place; 0 unless it is said. */
  readonly scoreMin?: number;
  /** What hits and what was said around them may take together; nothing around them unless it is said. */
  readonly tokensMax?: number;
  /** Whether hits say why they stand where they do. */
  readonly explain?: boolean;
  /** Settles when the embedder has been waited for long enough: the search goes by words from then on. */
  readonly late?: Promise<unknown>;
  readonly signal: AbortSignal;
}

export type Recall = (query: string, options: RecallOptions) => Promise<Recalled>;

export interface RecallParts {
  readonly store: MemoryStore;
  readonly embedder: Embedder | undefined;
  readonly now: () => number;
  /** Has vectors made of what a search is about, for as long as it may wait; first of what words found, best first. */
  readonly fill?: (found: readonly number[], scope: Scope) => Promise<void> | undefined;
}

/** Finds again what was said, by words and by meaning. */
export function createRecall({ store, embedder, now, fill }: RecallParts): Recall {
  const searchByMeaning = embedder === undefined ? undefined : createSearchByMeaning(store, embedder);
  return async (query, { scope, limit, scoreMin = 0, tokensMax = 0, explain = false, late, signal }) => {
    const weights = weightsOf(query, now());
    if (weights.size === 0) return { hits: [], mode: "lexical", vectorsPending: false };
    const matches = await store.match(bestByTerms(weights), scope);
    // At the same time: an embedder takes a question first, and a search that is late has at least that.
    const ids = matches.best.map(({ id }) => id);
    const filled = inTime(fill?.(ids, scope), late);
    const searched = await inTime(searchByMeaning?.(query, { scope, filled, signal }), late);
    signal.throwIfAborted();
    const meaning = searched === LATE ? undefined : searched;
    const { found: pool, lifts } = await inContext(store, { weights, matches, meaning }, scope);
    const found = await withOtherMessages(store, pool, { weights, scope, limit });
    const how = { query, weights, matches, meaning, limit, scoreMin, ...(explain ? { lifts } : {}) };
    const { best, next } = toHits(found, how);
    const chunks = best.map(({ chunk }) => chunk);
    const around = await turnsAround(chunks, { store, scope, tokensMax, next });
    const hits = best.map((hit) => ({ ...hit, around: around.get(hit.chunk.id) ?? [] }));
    const vectorsPending =
      searched === LATE ||
      (embedder !== undefined && (await store.vectors.missing(embedder.id, 1, { scope })).length > 0);
    return { hits, mode: meaning ? "hybrid" : "lexical", vectorsPending };
  };
}

const LATE = "late";

/** What comes of work, or that it is late. */
export async function inTime<T>(
  work: Promise<T> | undefined,
  late: Promise<unknown> | undefined,
): Promise<T | undefined | typeof LATE> {
  return late === undefined ? work : Promise.race([work, late.then((): typeof LATE => LATE)]);
}

function weightsOf(query: string, nowMs: number): Map<string, number> {
  const weights = queryTerms(query);
  for (const term of datesAskedFor(query, nowMs)) weights.set(term, DATE_WEIGHT);
  return weights;
}

const DATE_WEIGHT = 1;
const NEIGHBOURS_MAX = 200;
/** What a model reads of a question; more would be cut by the model itself. */
const EMBEDDED_CHARS_MAX = 2_000;
/** What meaning weighs beside words, where the embedder grasps all of a question and where it grasps nothing of it. */
const MEANING_WEIGHT_MAX = 0.5;
const MEANING_WEIGHT_MIN = 0.2;

interface Meaning {
  readonly neighbours: readonly Neighbour[];
  readonly likeness: Likeness;
  /** What it weighs beside words. */
  readonly weight: number;
}

interface Findings {
  readonly weights: ReadonlyMap<string, number>;
  readonly matches: LexicalMatches;
  readonly meaning: Meaning | undefined;
}

interface MeaningOptions {
  readonly scope: Scope;
  /** Vectors are compared once it has settled. */
  readonly filled: Promise<unknown>;
  readonly signal: AbortSignal;
}

type SearchByMeaning = (query: string, options: MeaningOptions) => Promise<Meaning | undefined>;

function createSearchByMeaning(store: MemoryStore, embedder: Embedder): SearchByMeaning {
  const likenessFor = createLikeness(embedder);
  const weightFor = async (query: string): Promise<number> => {
    const grasp = (await embedder.grasp?.(query.slice(0, EMBEDDED_CHARS_MAX))) ?? 1;
    return MEANING_WEIGHT_MIN + (MEANING_WEIGHT_MAX - MEANING_WEIGHT_MIN) * grasp;
  };
  return async (query, { scope, filled, signal }) => {
    try {
      const [vector] = await embedder.embed([query.slice(0, EMBEDDED_CHARS_MAX)], "query", signal);
      await filled;
      if (vector === undefined) return undefined;
      const neighbours = await store.nearest(embedder.id, vector, { scope, max: NEIGHBOURS_MAX });
      // Before anything has a vector, nothing is asked of an embedder that is busy making them.
      if (neighbours.length === 0) return undefined;
      return { neighbours, likeness: await likenessFor(vector), weight: await weightFor(query) };
    } catch {
      // Words alone still answer; the mode says that they did.
      return undefined;
    }
  };
}

async function inContext(store: MemoryStore, findings: Findings, scope: Scope) {
  const { matches, meaning } = findings;
  const nearest = nearestOf(meaning);
  const weight = meaning?.weight ?? 0;
  const byTerms = { list: matches.best, chunks: matches.chunks, rest: 0, weight: 1 - weight };
  const byMeaning = { list: nearest, chunks: nearest.length, weight };
  const fused = fuse(meaning === undefined ? [byTerms] : [byTerms, byMeaning]);
  const found = await store.read([...fused.values.keys()]);
  const beside = await store.read(idsBeside(found), scope);
  const chunks = [...found, ...beside];
  const byId = new Map(chunks.map((chunk) => [chunk.id, chunk]));
  const inOrder = rankInContext(fused, chunks).flatMap(({ id }) => byId.get(id) ?? []);
  return { found: inOrder, lifts: liftsOf(fused, byId) };
}

/** The message a chunk is a part of. */
const messageOf = ({ session_id, seq }: Chunk): string => `${session_id} ${seq}`;

/** How many more chunks than usual are asked for where the parts of few messages are all that was found. */
const WIDER = 10;

/** What was found; where that is of fewer messages than may be hits, chunks of further messages follow, best first. */
async function withOtherMessages(
  store: MemoryStore,
  found: readonly Chunk[],
  { weights, scope, limit }: { weights: ReadonlyMap<string, number>; scope: Scope; limit: number },
): Promise<readonly Chunk[]> {
  const messages = new Set(found.map(messageOf));
  const asked = bestByTerms(weights);
  if (messages.size >= limit || found.length < asked.max) return found;
  const { best } = await store.match({ ...asked, max: asked.max * WIDER }, scope);
  const further = await store.read(best.slice(asked.max).map(({ id }) => id));
  return [...found, ...further.filter((chunk) => !messages.has(messageOf(chunk)))];
}

/** What tells texts of one scope apart is how near they are as seen from its middle. */
function nearestOf(meaning: Meaning | undefined): readonly Ranked[] {
  const ranked = meaning?.neighbours.map(({ id, similarity, fromMiddle }) => ({ id, value: fromMiddle ?? similarity }));
  return ranked?.sort((a, b) => b.value - a.value || a.id - b.id) ?? [];
}

/** How much better the neighbours of a chunk answer than it does itself, 0 to 1. */
function liftsOf(fused: Fused, chunks: ReadonlyMap<number, Chunk>): (chunk: Chunk) => number {
  const worthOf = (id: number): number => (chunks.has(id) ? (fused.values.get(id) ?? fused.floor) : fused.floor);
  return ({ id, before, after }) => {
    const own = worthOf(id);
    const best = Math.max(own, worthOf(before), worthOf(after));
    return best > fused.floor ? (best - own) / (best - fused.floor) : 0;
  };
}

type HitOptions = Findings & {
  readonly query: string;
  readonly limit: number;
  readonly scoreMin: number;
  readonly lifts?: (chunk: Chunk) => number;
};

/** The hits, and what answers next best. */
interface Best {
  readonly best: readonly Omit<Hit, "around">[];
  readonly next: readonly Chunk[];
}

function toHits(found: readonly Chunk[], options: HitOptions): Best {
  const { query, weights, matches, meaning, limit, scoreMin } = options;
  const scoreOf = createScore(query, weights, matches);
  const trust = (meaning?.weight ?? 0) / MEANING_WEIGHT_MAX;
  const likenessOf = new Map(
    meaning?.neighbours.map(({ id, similarity }) => [id, trust * meaning.likeness(similarity)]),
  );
  const byId = new Map(found.map((chunk) => [chunk.id, chunk]));
  const ownScore = ({ id, text }: Chunk): number => scoreOf({ text, likeness: likenessOf.get(id) });
  const score = (chunk: Chunk): number => {
    const before = byId.get(chunk.before);
    return Math.max(ownScore(chunk), isBareQuestion(before) ? ANSWER_PULL * ownScore(before) : 0);
  };
  // Reading a text for copies and for its score costs more than finding it: what stands far below is not shown anyway.
  const few = [...Map.groupBy(found, messageOf).values()].flatMap((parts) => parts.slice(0, PARTS_LOOKED_AT));
  const lookedAt = new Set(few);
  const looked = found.filter((chunk) => lookedAt.has(chunk)).slice(0, Math.max(LOOKED_AT_MIN, limit * LOOKED_AT_EACH));
  const scored = foldDuplicates(looked, byId)
    .filter((folded) => !isMereReply(folded, byId) || scoreOf({ text: folded.chunk.text, likeness: 0 }) > 0)
    .map((folded) => ({ ...folded, score: score(folded.chunk) }))
    .filter((hit) => hit.score >= scoreMin);
  const ordered = askedAgainLast(exactFirst(scored), weights);
  const byMessage = Map.groupBy(ordered, ({ chunk }) => messageOf(chunk));
  const shown = [...byMessage.values()].flatMap((parts) => parts.slice(0, 1)).slice(0, limit);
  const next = ordered
    .filter((hit) => !shown.includes(hit))
    .slice(0, NEXT_MAX)
    .filter((hit) => hit.score >= ANSWER_MIN && !isAskedAgain(hit.chunk, weights))
    .map(({ chunk }) => chunk);
  const scores = descending(shown.map((hit) => hit.score));
  const hits = shown.map(({ chunk, copies }, index) => ({ chunk, copies, score: scores[index] ?? 0 }));
  const { lifts } = options;
  if (lifts === undefined) return { best: hits, next };
  const read = createWordScore(query, weights, matches);
  const best = hits.map((hit) => {
    const { chunk } = hit;
    const meaningOf = likenessOf.get(chunk.id) ?? 0;
    return { ...hit, why: { words: read(chunk.text).byWords, meaning: meaningOf, neighbours: lifts(chunk) } };
  });
  return { best, next };
}

const LOOKED_AT_MIN = 100;
const LOOKED_AT_EACH = 3;
/** Of one message; a book would leave no place for others. */
const PARTS_LOOKED_AT = 8;
/** What stands further down hardly answers. */
const NEXT_MAX = 20;

type Scored = Folded & { readonly score: number };

const EXACT_MIN = 0.99;

function exactFirst(hits: readonly Scored[]): readonly Scored[] {
  const exact = hits.filter(({ score }) => score >= EXACT_MIN).sort((a, b) => b.score - a.score);
  return [...exact, ...hits.filter(({ score }) => score < EXACT_MIN)];
}

/** A score from which on a hit may be an answer: one to what shares few words with its question scores little more. */
const ANSWER_MIN = 0.15;

/** The question itself, asked before, answers nothing: it stands below all that may, and is told no surer than they are. */
function askedAgainLast(hits: readonly Scored[], weights: ReadonlyMap<string, number>): readonly Scored[] {
  const [repeated, others] = [true, false].map((is) => hits.filter(({ chunk }) => isAskedAgain(chunk, weights) === is));
  if (repeated === undefined || others === undefined || repeated.length === 0) return hits;
  const place = others.findLastIndex(({ score }) => score >= ANSWER_MIN) + 1;
  const leastSure = Math.min(1, ...others.slice(0, place).map(({ score }) => score));
  const lowered = repeated.map((hit) => ({ ...hit, score: Math.min(hit.score, leastSure) }));
  return [...others.slice(0, place), ...lowered, ...others.slice(place)];
}

/** So much of a question's words are those that are asked now. */
const REPEATED_MIN = 0.6;

/** Whether a chunk is a question of the user's that says little beyond what is asked now. */
function isAskedAgain({ role, kind, text }: Chunk, asked: ReadonlyMap<string, number>): boolean {
  if (role !== "user" || kind !== "text" || !isQuestion(text)) return false;
  let [total, shared] = [0, 0];
  for (const [term, weight] of queryTerms(text)) {
    total += weight;
    if (asked.has(term)) shared += weight;
  }
  return shared >= REPEATED_MIN * total;
}

/** A chunk that stands for all that say the same. */
export interface Folded {
  readonly chunk: Chunk;
  /** How many of the chunks looked at say it. */
  readonly copies: number;
}

/** Chunks by their ids, those among them that were said right before others. */
type ById = ReadonlyMap<number, Chunk>;

/**
 * Keeps the first of chunks that say the same but for case, spaces and marks, in their order. A short answer says what its
 * question makes of it: "yes" to one question is no copy of "yes" to another.
 */
export function foldDuplicates(chunks: readonly Chunk[], byId: ById): readonly Folded[] {
  const folded = new Map<string, Folded>();
  for (const chunk of chunks) {
    const asked = byId.get(chunk.before);
    const isAnswer = isShort(chunk.text) && isBareQuestion(asked);
    const key = isAnswer ? `${wordsOf(asked)}\n${wordsOf(chunk)}` : wordsOf(chunk);
    const first = folded.get(key);
    folded.set(key, { chunk: first?.chunk ?? chunk, copies: (first?.copies ?? 0) + 1 });
  }
  return [...folded.values()];
}

function wordsOf({ text }: Chunk): string {
  return plainWords(text) || text;
}

/**
 * Whether a chunk is a short reply that is given again and again, and to no question: all its meaning is that of what it
 * follows, which is found itself.
 */
export function isMereReply({ chunk, copies }: Folded, byId: ById): boolean {
  return copies > 1 && isShort(chunk.text) && byId.has(chunk.before) && !isBareQuestion(byId.get(chunk.before));
}
