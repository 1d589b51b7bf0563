import type { Chunk, Embedder, LexicalMatches, MemoryStore, Neighbour, Ranked, Scope } from "../ports/memory.ts";
import { isQuestion } from "../text/sentences.ts";
import { lettersOf, plainWords, queryTerms } from "../text/terms.ts";
import { datesAskedFor, isShort, tokensIn } from "./chunk.ts";
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
  NOT_EXACT_MAX,
  rankInContext,
} from "./rank.ts";

/** A found message. */
export interface Hit {
  /** Its best part. */
  readonly chunk: Chunk;
  /** Confidence, 0 to 1, non-increasing down the list. */
  readonly score: number;
  /** How many found chunks have the same text. */
  readonly copies: number;
  /** Its surroundings and the next best chunks, in original order; no text occurs twice in a result. */
  readonly around: readonly Chunk[];
  /** Only on request. */
  readonly why?: Why;
}

/** The reasons for a hit's rank, 0 to 1 each. */
interface Why {
  /** Match by words. */
  readonly words: number;
  /** Similarity of meaning; 0 without vectors. */
  readonly meaning: number;
  /** How much better its direct neighbours match. */
  readonly neighbours: number;
}

export interface Recalled {
  /** Best first. */
  readonly hits: readonly Hit[];
  /** `lexical` without vectors: no embedder, a failed one, or none made yet. */
  readonly mode: "hybrid" | "lexical";
  /** Whether some of the scope has no vector yet. */
  readonly vectorsPending: boolean;
}

interface RecallOptions {
  readonly scope: Scope;
  readonly limit: number;
  /** The budget of hits with their surroundings; without it there are no surroundings. */
  readonly tokensMax?: number;
  /** Whether to include `why`. */
  readonly explain?: boolean;
  /** Settles when the wait for the embedder is over: from then on the search uses words only. */
  readonly late?: Promise<unknown>;
  readonly signal: AbortSignal;
}

export type Recall = (query: string, options: RecallOptions) => Promise<Recalled>;

export interface RecallParts {
  readonly store: MemoryStore;
  readonly embedder: Embedder | undefined;
  readonly now: () => number;
  /** Has missing vectors made, within the time a search may wait; first for the best matches by words. */
  readonly fill?: (found: readonly number[], scope: Scope) => Promise<void> | undefined;
}

/** Searches the history by words and by meaning. */
export function createRecall({ store, embedder, now, fill }: RecallParts): Recall {
  const searchByMeaning = embedder === undefined ? undefined : createSearchByMeaning(store, embedder);
  return async (query, { scope, limit, tokensMax = 0, explain = false, late, signal }) => {
    const weights = weightsOf(query, now());
    if (weights.size === 0) return { hits: [], mode: "lexical", vectorsPending: false };
    const matches = await store.match(bestByTerms(weights), scope);
    // In parallel: the embedder handles queries first, so a late search has at least that.
    const ids = matches.best.map(({ id }) => id);
    const filled = inTime(fill?.(ids, scope), late);
    const searched = await inTime(searchByMeaning?.(query, { scope, filled, signal }), late);
    signal.throwIfAborted();
    const meaning = searched === LATE ? undefined : searched;
    const { found: pool, fused, lifts } = await inContext(store, { weights, matches, meaning }, scope);
    const found = await withOtherMessages(store, pool, { weights, scope, limit });
    const how = { query, fused, weights, matches, meaning, limit, ...(explain ? { lifts } : {}) };
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

/** The result of work, or that it is late. */
export async function inTime<T>(
  work: Promise<T> | undefined,
  late: Promise<unknown> | undefined,
): Promise<T | undefined | typeof LATE> {
  return late === undefined ? work : Promise.race([work, late.then((): typeof LATE => LATE)]);
}

function weightsOf(query: string, nowMs: number): Map<string, number> {
  const weights = queryTerms(query);
  for (const term of datesAskedFor(query, nowMs)) weights.set(term, 1);
  return weights;
}

const NEIGHBOURS_MAX = 200;
/** Models cut longer queries anyway. */
const EMBEDDED_CHARS_MAX = 2_000;
/** The weight of meaning relative to words, for queries that the embedder understands fully and not at all. */
const MEANING_WEIGHT_MAX = 0.5;
const MEANING_WEIGHT_MIN = 0.2;

interface Meaning {
  readonly neighbours: readonly Neighbour[];
  readonly likeness: Likeness;
  readonly weight: number;
}

interface Findings {
  readonly weights: ReadonlyMap<string, number>;
  readonly matches: LexicalMatches;
  readonly meaning: Meaning | undefined;
}

interface MeaningOptions {
  readonly scope: Scope;
  /** Vectors are compared after it settles. */
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
      // Without any vector, do not ask an embedder that is busy making them.
      if (neighbours.length === 0) return undefined;
      return { neighbours, likeness: await likenessFor(vector), weight: await weightFor(query) };
    } catch {
      // Words alone still answer; the mode reports it.
      return undefined;
    }
  };
}

async function inContext(store: MemoryStore, findings: Findings, scope: Scope) {
  const { weights, matches, meaning } = findings;
  const nearest = nearestOf(meaning);
  // A date is found by its terms; by meaning all dates are alike.
  const isDated = [...weights.keys()].some((term) => term.startsWith("@"));
  const weight = Math.min(meaning?.weight ?? 0, isDated ? MEANING_WEIGHT_MIN : 1);
  const byTerms = { list: matches.best, chunks: matches.chunks, rest: 0, weight: 1 - weight };
  const byMeaning = { list: nearest, chunks: nearest.length, weight };
  const fused = fuse(meaning === undefined ? [byTerms] : [byTerms, byMeaning]);
  const found = await store.read([...fused.values.keys()]);
  const beside = await store.read(idsBeside(found), scope);
  const chunks = [...found, ...beside];
  const byId = new Map(chunks.map((chunk) => [chunk.id, chunk]));
  const inOrder = rankInContext(fused, chunks, matches.chunks).flatMap(({ id }) => byId.get(id) ?? []);
  return { found: inOrder, fused, lifts: liftsOf(fused, byId) };
}

const messageOf = ({ session_id, seq }: Chunk): string => `${session_id} ${seq}`;

/** How many times more chunks are fetched if too few messages were found. */
const WIDER = 10;

/** The found chunks; if they are of too few messages, chunks of further messages follow, best first. */
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

/** Texts of one scope are compared relative to its mean vector. */
function nearestOf(meaning: Meaning | undefined): readonly Ranked[] {
  const ranked = meaning?.neighbours.map(({ id, similarity, fromMean }) => ({ id, value: fromMean ?? similarity }));
  return ranked?.sort((a, b) => b.value - a.value || a.id - b.id) ?? [];
}

/** How much better the neighbours of a chunk match, 0 to 1. */
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
  readonly fused: Fused;
  readonly limit: number;
  readonly lifts?: (chunk: Chunk) => number;
};

interface Best {
  readonly best: readonly Omit<Hit, "around">[];
  readonly next: readonly Chunk[];
}

function toHits(found: readonly Chunk[], options: HitOptions): Best {
  const { query, fused, weights, matches, meaning, limit } = options;
  const scoreOf = createScore(query, weights, matches);
  const trust = (meaning?.weight ?? 0) / MEANING_WEIGHT_MAX;
  const likenessOf = new Map(
    meaning?.neighbours.map(({ id, similarity }) => [id, trust * meaning.likeness(similarity)]),
  );
  const byId = new Map(found.map((chunk) => [chunk.id, chunk]));
  const ownScore = ({ id, text }: Chunk): number => scoreOf({ id, text, likeness: likenessOf.get(id) });
  const score = (chunk: Chunk): number => {
    const before = byId.get(chunk.before);
    return Math.max(ownScore(chunk), isBareQuestion(before) ? ANSWER_PULL * ownScore(before) : 0);
  };
  // Reading a text costs more than finding it: chunks far below are not shown anyway.
  const few = [...Map.groupBy(found, messageOf).values()].flatMap((parts) => parts.slice(0, PARTS_LOOKED_AT));
  const lookedAt = new Set(few);
  const looked = found.filter((chunk) => lookedAt.has(chunk)).slice(0, Math.max(LOOKED_AT_MIN, limit * LOOKED_AT_EACH));
  const scored = foldDuplicates(looked, byId)
    .filter((folded) => !isMereReply(folded, byId) || scoreOf({ ...folded.chunk, likeness: 0 }) > 0)
    .map((folded) => {
      return { ...folded, score: score(folded.chunk), isAskedAgain: isAskedAgain(folded.chunk, weights) };
    })
    // What only stands beside others is shown around them.
    .filter((hit) => hit.score > 0 || fused.values.has(hit.chunk.id));
  const ordered = askedAgainLast(exactFirst(liftedLast(scored, fused)));
  const byMessage = Map.groupBy(ordered, ({ chunk }) => messageOf(chunk));
  const shown = [...byMessage.values()].flatMap((parts) => parts.slice(0, 1)).slice(0, limit);
  const next = ordered
    .filter((hit) => !shown.includes(hit) && hit.score >= ANSWER_MIN && !hit.isAskedAgain)
    .map(({ chunk }) => chunk);
  const scores = descending(shown.map((hit) => hit.score));
  const hits = shown.map(({ chunk, copies }, index) => ({ chunk, copies, score: scores[index] ?? 0 }));
  const { lifts } = options;
  if (lifts === undefined) return { best: hits, next };
  const read = createWordScore(query, weights, matches);
  const best = hits.map((hit) => {
    const { chunk } = hit;
    const meaningOf = likenessOf.get(chunk.id) ?? 0;
    return { ...hit, why: { words: read(chunk).byWords, meaning: meaningOf, neighbours: lifts(chunk) } };
  });
  return { best, next };
}

const LOOKED_AT_MIN = 100;
const LOOKED_AT_EACH = 3;
/** Of one message; a book would leave no room for others. */
const PARTS_LOOKED_AT = 8;

type Scored = Folded & { readonly score: number; readonly isAskedAgain: boolean };

function exactFirst(hits: readonly Scored[]): readonly Scored[] {
  const exact = hits.filter(({ score }) => score > NOT_EXACT_MAX).sort((a, b) => b.score - a.score);
  return [...exact, ...hits.filter(({ score }) => score <= NOT_EXACT_MAX)];
}

/** Below this a score says nothing: then the chunk's own rank decides. */
const SCORE_MIN = 0.05;

/** Chunks that match no better than the mean of the candidates rank high by their surroundings alone: they go last. */
function liftedLast(hits: readonly Scored[], { values }: Fused): readonly Scored[] {
  const isLifted = ({ chunk, score }: Scored): boolean => score < SCORE_MIN && (values.get(chunk.id) ?? 0) <= 0;
  return [...hits.filter((hit) => !isLifted(hit)), ...hits.filter(isLifted)];
}

/** The lowest score of a possible answer; with few common words an answer scores little more. */
const ANSWER_MIN = 0.15;

/** An earlier copy of the query answers nothing: it goes below all possible answers. */
function askedAgainLast(hits: readonly Scored[]): readonly Scored[] {
  const [repeated, others] = [true, false].map((is) => hits.filter((hit) => hit.isAskedAgain === is));
  if (repeated === undefined || others === undefined || repeated.length === 0) return hits;
  const place = others.findLastIndex(({ score }) => score >= ANSWER_MIN) + 1;
  const leastSure = Math.min(1, ...others.slice(0, place).map(({ score }) => score));
  const lowered = repeated.map((hit) => ({ ...hit, score: Math.min(hit.score, leastSure) }));
  return [...others.slice(0, place), ...lowered, ...others.slice(place)];
}

/** The share of words that makes a question a repetition. */
const REPEATED_MIN = 0.6;

/** Whether a chunk is a user's question that says little beyond the query. */
function isAskedAgain({ role, kind, text }: Chunk, asked: ReadonlyMap<string, number>): boolean {
  if (role !== "user" || kind !== "text" || !isQuestion(text)) return false;
  let [total, shared] = [0, 0];
  for (const [term, weight] of queryTerms(text)) {
    total += weight;
    if (asked.has(term)) shared += weight;
  }
  return shared >= REPEATED_MIN * total;
}

/** A chunk that represents all with the same text. */
export interface Folded {
  readonly chunk: Chunk;
  readonly copies: number;
}

/** Chunks by id, including those right before others. */
type ById = ReadonlyMap<number, Chunk>;

/**
 * Keeps the first of chunks that are equal except for case, spaces and punctuation. A short answer counts with its
 * question: "yes" to one is no copy of "yes" to another.
 */
export function foldDuplicates(chunks: readonly Chunk[], byId: ById): readonly Folded[] {
  const folded = new Map<string, Folded>();
  const lettered = chunks.map((chunk) => ({ chunk, letters: lettersOf(chunk.text) }));
  const alike = Map.groupBy(lettered, ({ letters }) => letters);
  for (const { chunk, letters } of lettered) {
    const asked = byId.get(chunk.before);
    const isAnswer = isShort(chunk.text) && isBareQuestion(asked);
    const isAlone = alike.get(letters)?.length === 1;
    const key = isAnswer ? `${wordsOf(asked)}\n${wordsOf(chunk)}` : isAlone && letters ? letters : wordsOf(chunk);
    const first = folded.get(key);
    folded.set(key, { chunk: first?.chunk ?? chunk, copies: (first?.copies ?? 0) + 1 });
  }
  return [...folded.values()];
}

function wordsOf({ text }: Chunk): string {
  return plainWords(text) || text;
}

/** Whether a chunk is a short, repeated reply to no question: the message before it is found itself. */
function isMereReply({ chunk, copies }: Folded, byId: ById): boolean {
  return copies > 1 && isShort(chunk.text) && byId.has(chunk.before) && !isBareQuestion(byId.get(chunk.before));
}

const STEPS_MAX = 3;
/** What a hit costs besides its text in what a model reads, and what a chunk with it does. */
const HIT_TOKENS = 43;
const PLACE_TOKENS = 8;
/** The additional cost of a session and a day, if no hit is of that session. */
const SESSION_TOKENS = 20;

interface Looking {
  readonly store: MemoryStore;
  readonly scope: Scope;
  /** The budget of the chunks and their surroundings together; the chunks are always included. */
  readonly tokensMax: number;
  /** The next best chunks, the best first. */
  readonly next: readonly Chunk[];
}

/** A chunk shown with another one. */
interface Companion {
  readonly chunk: Chunk;
  readonly of: number;
}

/**
 * The surroundings of chunks by id, each in its original order: alternately the next best chunks of any session and the
 * direct neighbours. No text is shown twice: a text between two chunks goes with the better one.
 */
export async function turnsAround(
  chunks: readonly Chunk[],
  looking: Looking,
): Promise<ReadonlyMap<number, readonly Chunk[]>> {
  const shown = new Set(chunks.map(({ text }) => text));
  const sessions = new Set(chunks.map(({ session_id }) => session_id));
  const around = new Map<number, readonly Chunk[]>();
  let left = looking.tokensMax - chunks.reduce((sum, { text }) => sum + tokensIn(text) + HIT_TOKENS, 0);
  if (left <= PLACE_TOKENS) return around;
  for await (const { chunk, of } of byTurns(answeringToo(chunks, looking.next), nearby(chunks, looking))) {
    if (left <= PLACE_TOKENS) break;
    const tokens = tokensIn(chunk.text) + PLACE_TOKENS + (sessions.has(chunk.session_id) ? 0 : SESSION_TOKENS);
    if (shown.has(chunk.text) || tokens > left) continue;
    left -= tokens;
    shown.add(chunk.text);
    around.set(of, [...(around.get(of) ?? []), chunk].sort(inOrder));
  }
  return around;
}

/**
 * The next best chunks, each with the nearest chunk of its session, or with the best if there is none. This costs fewer
 * tokens than a separate hit, so answers spread over several messages are read more completely.
 */
function* answeringToo(chunks: readonly Chunk[], next: readonly Chunk[]): Generator<Companion> {
  for (const chunk of next) {
    const distance = ({ id }: Chunk): number => Math.abs(id - chunk.id);
    const [nearest = chunks[0]] = chunks
      .filter(({ session_id }) => session_id === chunk.session_id)
      .sort((a, b) => distance(a) - distance(b));
    if (nearest !== undefined) yield { chunk, of: nearest.id };
  }
}

/** The direct neighbours of chunks, then one step further away. */
async function* nearby(chunks: readonly Chunk[], { store, scope }: Looking): AsyncGenerator<Companion> {
  /** How far the walk from each chunk has come, on either side. */
  let ends: readonly Walk[] = chunks.map((chunk) => ({ of: chunk.id, before: chunk, after: chunk }));
  for (let step = 1; step <= STEPS_MAX; step += 1) {
    const ids = ends.flatMap(({ before, after }) => [before?.before ?? 0, after?.after ?? 0]).filter((id) => id > 0);
    const read = new Map((await store.read([...new Set(ids)], scope)).map((chunk) => [chunk.id, chunk]));
    ends = ends.map(({ of, before, after }) => ({
      of,
      before: read.get(before?.before ?? 0),
      after: read.get(after?.after ?? 0),
    }));
    for (const { of, before, after } of ends) {
      if (after !== undefined) yield { chunk: after, of };
      if (before !== undefined) yield { chunk: before, of };
    }
  }
}

interface Walk {
  readonly of: number;
  readonly before: Chunk | undefined;
  readonly after: Chunk | undefined;
}

/** Alternates between both until they are exhausted. */
async function* byTurns<T>(these: Iterable<T>, those: AsyncIterable<T>): AsyncGenerator<T> {
  const rest = those[Symbol.asyncIterator]();
  for (const one of these) {
    yield one;
    const other = await rest.next();
    if (other.done !== true) yield other.value;
  }
  for (let other = await rest.next(); other.done !== true; other = await rest.next()) yield other.value;
}

/** Chunks of one session have ascending ids in the order of their text. */
function inOrder(a: Chunk, b: Chunk): number {
  return a.id - b.id;
}
