import { messageOf } from "../../contract/error.ts";
import { passageFor } from "../../memory/passage.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Embedder } from "../../ports/embedder.ts";
import type { Chunk, MemoryStore } from "../../ports/memory.ts";

/** Loads an embedder; it is called when vectors are first needed. */
export type OpenEmbedder = () => Promise<Embedder>;

/** Gives chunks their vectors, behind the turns. */
export interface Embedding {
  /** The embedder, loaded now if it was not; undefined when it cannot be. */
  embedder(): Promise<Embedder | undefined>;
  /** There are chunks without a vector: some time later they get one, if the process is still there. */
  wake(): void;
  /** Goes on for at most so long; what is left is for later. */
  drain(ms: number): Promise<void>;
  /** What last failed; undefined when nothing did. */
  problem(): string | undefined;
  /** Stops after the text at hand. */
  close(): Promise<void>;
}

const BATCH = 16;
/** A command that ends at once must not first load a model; a process that stays has the time. */
const IDLE_MS = 2_000;

export function createEmbedding(memory: MemoryStore, open: OpenEmbedder, clock: Clock): Embedding {
  const stop = new AbortController();
  let problem: string | undefined;
  let opened: Promise<Embedder | undefined> | undefined;
  let running: Promise<void> | undefined;
  let waiting: Promise<void> | undefined;

  const embedder = (): Promise<Embedder | undefined> => {
    opened ??= open().catch((thrown) => {
      problem = messageOf(thrown);
      return undefined;
    });
    return opened;
  };
  const work = async (until: number): Promise<void> => {
    const model = await embedder();
    while (model !== undefined && !stop.signal.aborted && clock.now() < until) {
      const chunks = await memory.vectors.missing(model.id, BATCH);
      if (chunks.length === 0) return;
      const vectors = await model.embed(await passagesOf(chunks, memory), "passage", stop.signal);
      if (stop.signal.aborted) return;
      const made = chunks.flatMap(({ id }, at) => (vectors[at] === undefined ? [] : [{ id, vector: vectors[at] }]));
      await memory.vectors.put(model.id, made);
      problem = undefined;
    }
  };
  const run = (until: number): Promise<void> => {
    running ??= work(until)
      .catch((thrown) => {
        // Searches go by words until it works again; the next chunk wakes it.
        if (!stop.signal.aborted) problem = messageOf(thrown);
      })
      .finally(() => {
        running = undefined;
      });
    return running;
  };
  return {
    embedder,
    wake: () => {
      if (stop.signal.aborted) return;
      waiting ??= clock.sleep(IDLE_MS, stop.signal).then(async () => {
        waiting = undefined;
        if (!stop.signal.aborted) await run(Number.POSITIVE_INFINITY);
      });
    },
    drain: (ms) => run(clock.now() + ms),
    problem: () => problem,
    close: async () => {
      stop.abort();
      await Promise.all([waiting, running]);
      await (await opened)?.close();
    },
  };
}

async function passagesOf(chunks: readonly Chunk[], { read }: MemoryStore): Promise<readonly string[]> {
  const earlier = await read(chunks.map(({ id }) => id - 1));
  const byId = new Map(earlier.map((chunk) => [chunk.id, chunk]));
  return chunks.map((chunk) => passageFor(chunk, byId.get(chunk.id - 1)));
}
