import type { Chunk, MemoryStore } from "@rkat/core/ports/memory";
import { createRecall, type Recall, type RecallParts } from "@rkat/core/recall/recall";

/** So far apart no turn is near another. */
const TURNS_APART = 1_000;

/** Recall without one of its parts each: a store or an embedder keeps what that part needs to itself. */
export function withoutEach({ store, embedder, now }: RecallParts): readonly (readonly [string, Recall])[] {
  if (embedder === undefined) return [];
  const { grasp: _, ...graspsAll } = embedder;
  return [
    ["  without the middle of the scope", createRecall({ store: withoutMean(store), embedder, now })],
    ["  without telling questions apart", createRecall({ store: telling(store, asStatement), embedder, now })],
    ["  without the talk around", createRecall({ store: telling(store, apart), embedder, now })],
    ["  without neighbours", createRecall({ store: telling(store, alone), embedder, now })],
    ["  with neighbours and talk in small scopes", createRecall({ store: asLarge(store), embedder, now })],
    ["  without what the embedder grasps", createRecall({ store, embedder: graspsAll, now })],
  ];
}

function withoutMean(store: MemoryStore): MemoryStore {
  return {
    ...store,
    nearest: async (...asked) => (await store.nearest(...asked)).map(({ id, similarity }) => ({ id, similarity })),
  };
}

/** The same store, whose scopes are never small. */
function asLarge(store: MemoryStore): MemoryStore {
  return {
    ...store,
    match: async (...asked) => {
      const matches = await store.match(...asked);
      return { ...matches, chunks: Math.max(matches.chunks, LARGE_CHUNKS) };
    },
  };
}

const LARGE_CHUNKS = 50;

/** The same store, whose chunks are told otherwise. */
function telling(store: MemoryStore, change: (chunk: Chunk) => Chunk): MemoryStore {
  return { ...store, read: async (...asked) => (await store.read(...asked)).map(change) };
}

const asStatement = (chunk: Chunk): Chunk => ({ ...chunk, text: chunk.text.replace(/[?？؟;՞]+\s*$/u, "") });
const apart = (chunk: Chunk): Chunk => ({ ...chunk, turn: chunk.turn * TURNS_APART });
const alone = (chunk: Chunk): Chunk => ({ ...chunk, before: 0, after: 0 });
