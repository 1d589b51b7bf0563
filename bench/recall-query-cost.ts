import type { Embedder, MemoryStore } from "@rkat/core/ports/memory";
import { createRecall } from "@rkat/core/recall/recall";
import { type Spread, spreadOf, type Time, timeOf } from "./memory-store-stopwatch.ts";

const RUNS = 200;
const WARM_UP_RUNS = 10;
/** Of a million entries a question may take seconds: after so long, fewer of them must do. */
const MEASURING_MS_MAX = 300_000;
/** As many as a recall asks for. */
const NEIGHBOURS = 200;
const HITS = 10;
const SCOPE = { discardedOnly: false };
const { signal } = new AbortController();

export interface QueryCost {
  readonly runs: number;
  readonly wall: Spread;
  readonly cpu: Spread;
}

/** The whole of a recall, and its parts each by itself: they are not a sum, as each has its own queue and cache. */
const WAYS = ["recall", "recall by words only", "embedding the question", "nearest vectors"] as const;
export type Way = (typeof WAYS)[number];

/** What questions cost in a store, over every session in it. */
export async function measureQueries(
  store: MemoryStore,
  embedder: Embedder,
  question: (run: number) => string,
): Promise<Readonly<Record<Way, QueryCost>>> {
  const now = (): number => Date.UTC(2026, 0, 1);
  const options = { scope: SCOPE, limit: HITS, signal };
  const recall = createRecall({ store, embedder, now });
  const recallByWords = createRecall({ store, embedder: undefined, now });
  const times: Record<Way, Time[]> = {
    recall: [],
    "recall by words only": [],
    "embedding the question": [],
    "nearest vectors": [],
  };
  const startedMs = performance.now();
  for (let run = 0; run < WARM_UP_RUNS + RUNS; run += 1) {
    if (performance.now() - startedMs > MEASURING_MS_MAX) break;
    const query = question(run);
    let vector: Float32Array = new Float32Array();
    let mode = "";
    const works: Record<Way, () => Promise<unknown>> = {
      recall: async () => {
        ({ mode } = await recall(query, options));
      },
      "recall by words only": () => recallByWords(query, options),
      "embedding the question": async () => {
        [vector = vector] = await embedder.embed([query], "query", signal);
      },
      "nearest vectors": () => store.nearest(embedder.id, vector, { scope: SCOPE, max: NEIGHBOURS }),
    };
    for (const way of WAYS) {
      const time = await timeOf(works[way]);
      if (run >= WARM_UP_RUNS) times[way].push(time);
    }
    // An embedder that fails is passed over in silence, and would make this a bench of words.
    if (mode !== "hybrid") throw new Error(`question ${run} was answered without vectors`);
  }
  const costOf = (way: Way): QueryCost => ({
    runs: times[way].length,
    wall: spreadOf(times[way].map(({ wallMs }) => wallMs)),
    cpu: spreadOf(times[way].map(({ cpuMs }) => cpuMs)),
  });
  return {
    recall: costOf("recall"),
    "recall by words only": costOf("recall by words only"),
    "embedding the question": costOf("embedding the question"),
    "nearest vectors": costOf("nearest vectors"),
  };
}
