import type { Chunk, MemoryStore, Scope } from "../ports/memory.ts";
import { tokensIn } from "./chunk.ts";

/** How many chunks before and after one are told with it at most. */
const STEPS_MAX = 3;
/** What telling a chunk takes besides its text: who said it, where and when. */
const PLACE_TOKENS = 24;
/** What naming its session takes besides, where that is not the session of a hit. */
const SESSION_TOKENS = 20;

interface Looking {
  readonly store: MemoryStore;
  readonly scope: Scope;
  /** What the chunks and what is told with them may take together; the chunks themselves are told whatever they take. */
  readonly tokensMax: number;
  /** What answers next best after the chunks, the best first. */
  readonly next: readonly Chunk[];
}

/** A chunk that is told with another one. */
interface Told {
  readonly chunk: Chunk;
  /** The id of the other one. */
  readonly of: number;
}

/**
 * What is told with chunks, by their ids, each in the order it was said: by turns what answers next best, in whichever
 * session, and what was said right around them. No text is told twice: what stands between two chunks is told with the
 * better of them.
 */
export async function turnsAround(
  chunks: readonly Chunk[],
  looking: Looking,
): Promise<ReadonlyMap<number, readonly Chunk[]>> {
  const told = new Set(chunks.map(({ text }) => text));
  const sessions = new Set(chunks.map(({ session_id }) => session_id));
  const around = new Map<number, readonly Chunk[]>();
  let left = looking.tokensMax - chunks.reduce((sum, { text }) => sum + tokensIn(text), 0);
  if (left <= PLACE_TOKENS) return around;
  for await (const { chunk, of } of byTurns(answeringToo(chunks, looking.next), nearby(chunks, looking))) {
    if (left <= PLACE_TOKENS) break;
    const tokens = tokensIn(chunk.text) + PLACE_TOKENS + (sessions.has(chunk.session_id) ? 0 : SESSION_TOKENS);
    if (told.has(chunk.text) || tokens > left) continue;
    left -= tokens;
    told.add(chunk.text);
    around.set(of, [...(around.get(of) ?? []), chunk].sort(inOrder));
  }
  return around;
}

/**
 * What answers next best, with the nearest chunk of its session, or with the best where none of its session is told. It
 * takes fewer tokens there than as a hit of its own, and of an answer that needs several messages more are read.
 */
function* answeringToo(chunks: readonly Chunk[], next: readonly Chunk[]): Generator<Told> {
  for (const chunk of next) {
    const distance = ({ id }: Chunk): number => Math.abs(id - chunk.id);
    const [nearest = chunks[0]] = chunks
      .filter(({ session_id }) => session_id === chunk.session_id)
      .sort((a, b) => distance(a) - distance(b));
    if (nearest !== undefined) yield { chunk, of: nearest.id };
  }
}

/** What was said right after and before chunks, then one step further away from each. */
async function* nearby(chunks: readonly Chunk[], { store, scope }: Looking): AsyncGenerator<Told> {
  /** Where the walk away from each chunk has come to, on either side. */
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

/** One of these, one of those, until there are none of either. */
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
