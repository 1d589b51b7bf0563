import { messageOf } from "../contract/error.ts";
import { passageFor } from "../memory/chunk.ts";
import type { Clock } from "../ports/clock.ts";
import type { Embedder } from "../ports/embedder.ts";
import type { Chunk, MemoryStore } from "../ports/memory.ts";

/** Loads an embedder; it is called when vectors are first needed, and told when they are not any more. */
export type OpenEmbedder = (signal: AbortSignal) => Promise<Embedder>;

/** Gives chunks their vectors, behind the turns. */
export interface Embedding {
  /** The embedder, loaded now if it was not; undefined when it cannot be. */
  embedder(): Promise<Embedder | undefined>;
  /** There are chunks without a vector: some time later they get one, if the process is still there. */
  wake(): void;
  /** Begins at once; resolves when every chunk has a vector, or so long after the embedder is loaded. The rest is made behind. */
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
    opened ??= open(stop.signal).catch((thrown) => {
      problem = messageOf(thrown);
      return undefined;
    });
    return opened;
  };
  const work = async (): Promise<void> => {
    const model = await embedder();
    while (model !== undefined && !stop.signal.aborted) {
      const chunks = await memory.vectors.missing(model.id, BATCH);
      if (chunks.length === 0) return;
      const vectors = await model.embed(await passagesOf(chunks, memory), "passage", stop.signal);
      if (stop.signal.aborted) return;
      // Asked for the same texts again it would give no more, and the process would do nothing else.
      if (vectors.length < chunks.length) throw new Error(tooFew(model.id, vectors.length, chunks.length));
      const made = chunks.flatMap(({ id }, at) => (vectors[at] === undefined ? [] : [{ id, vector: vectors[at] }]));
      await memory.vectors.put(model.id, made);
      problem = undefined;
    }
  };
  const run = (): Promise<void> => {
    running ??= work()
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
        if (!stop.signal.aborted) await run();
      });
    },
    drain: async (ms) => {
      // A question needs the model, too: loading it is no part of the wait.
      await embedder();
      const done = new AbortController();
      await Promise.race([run().finally(() => done.abort()), clock.sleep(ms, done.signal)]);
    },
    problem: () => problem,
    close: async () => {
      stop.abort();
      await Promise.all([waiting, running]);
      await (await opened)?.close();
    },
  };
}

function tooFew(embedderId: string, vectors: number, texts: number): string {
  return `the embedder ${embedderId} gave ${vectors} vectors for ${texts} texts`;
}

async function passagesOf(chunks: readonly Chunk[], { read }: MemoryStore): Promise<readonly string[]> {
  const earlier = await read(chunks.map(({ before }) => before));
  const byId = new Map(earlier.map((chunk) => [chunk.id, chunk]));
  return chunks.map((chunk) => passageFor(chunk, byId.get(chunk.before)));
}
