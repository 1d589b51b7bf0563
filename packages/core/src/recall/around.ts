import type { Chunk, MemoryStore, Scope } from "../ports/memory.ts";
import { tokensIn } from "./chunk.ts";

const STEPS_MAX = 3;
/** The cost of a chunk's role, place and time. */
const PLACE_TOKENS = 24;
/** The additional cost of its session, if that is not the session of a hit. */
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
  let left = looking.tokensMax - chunks.reduce((sum, { text }) => sum + tokensIn(text), 0);
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
