import type { Chunk, Ranked } from "../ports/memory.ts";
import { isQuestion } from "../text/sentences.ts";
import { byValue, type Fused } from "./rank.ts";

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
