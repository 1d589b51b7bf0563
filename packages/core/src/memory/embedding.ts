import { messageOf } from "../contract/error.ts";
import type { Clock } from "../ports/clock.ts";
import type { Chunk, Embedder, MemoryStore, Scope, Wanted } from "../ports/memory.ts";
import { passageFor } from "../recall/chunk.ts";

/** Loads an embedder on first use; called again with the end of its use. */
export type OpenEmbedder = (signal: AbortSignal) => Promise<Embedder>;

/** Embeds chunks in the background: only those a search may need, since a vector costs more than a turn. */
export interface Embedding {
  /** The embedder, loaded if necessary; undefined if it cannot be loaded. */
  embedder(): Promise<Embedder | undefined>;
  /** Chunks may lack vectors: they are embedded later if the process still runs. */
  wake(): void;
  /**
   * A turn of a session runs until the returned function is called: its context is in use, and embedding waits. A long
   * turn, with a remote model, leaves time for chunks of earlier processes.
   */
  use(sessionId: string): () => void;
  /**
   * Embeds chunks that a word search found, best first, then others of the scope. Resolves when all have vectors or the
   * time after loading is over; the rest is embedded in the background.
   */
  fill(found: readonly number[], options: { readonly scope: Scope; readonly msMax: number }): Promise<void>;
  /** Chunks that were shown to a caller are embedded in the background, even if a word search finds them. */
  reported(ids: readonly number[]): void;
  problem(): string | undefined;
  /** Stops after the current text and stores the vectors; after a search it continues for a while first. */
  close(): Promise<void>;
}

interface EmbeddingOptions {
  /** How long `close` continues after this process answered a search; 0 by default. */
  readonly lingerMs?: number;
}

/** Vectors per commit. A crash loses those made since the last. */
const BATCH = 16;
/** Texts between two checks whether a turn runs. */
const SLICE = 4;
/** A command that ends at once must not load a model first. */
const IDLE_MS = 2_000;
/** After this rest a session's own context may be searched from elsewhere. */
const REST_MS = 600_000;
/** So many chunks of a word search are embedded at once. */
const FOUND_MAX = 16;
/** Searches that embed at once; others use the vectors that exist. */
const FILLS_MAX = 4;
const TOLD_MAX = 64;
/** Turns take precedence; if they never pause, one slice runs this often. */
const YIELD_MS_MAX = 2_000;
const YIELD_STEP_MS = 50;
/** The pause between two turns of a program is too short for a slice. */
const CALM_MS = 250;
type Pause = () => Promise<"go on" | "enough">;

/** No embedder: every chunk lacks a vector of it. */
const NOBODY = "";

export function createEmbedding(
  memory: MemoryStore,
  open: OpenEmbedder,
  clock: Clock,
  { lingerMs = 0 }: EmbeddingOptions = {},
): Embedding {
  const stop = new AbortController();
  const uses = createUses(clock.now);
  /** Chunks that are being embedded, with the end of that work. */
  const making = new Map<number, Promise<void>>();
  const background = new Set<Promise<void>>();
  let reported: readonly number[] = [];
  let hasSearched = false;
  let problem: string | undefined;
  let opened: Promise<Embedder | undefined> | undefined;
  let running: Promise<void> | undefined;
  let waiting: Promise<void> | undefined;
  let resting: Promise<void> | undefined;

  const embedder = (): Promise<Embedder | undefined> => {
    opened ??= open(stop.signal).catch((thrown) => {
      problem = messageOf(thrown);
      return undefined;
    });
    return opened;
  };
  /** Embeds chunks until done or until `pause`, called between slices, returns true. */
  const make = async (model: Embedder, chunks: readonly Chunk[], pause: Pause): Promise<void> => {
    const done = Promise.withResolvers<void>();
    for (const { id } of chunks) making.set(id, done.promise);
    try {
      const passages = await passagesOf(chunks, memory);
      const known = new Map(await memory.vectors.known?.(model.id, passages));
      const unknown = [...new Set(passages)].filter((passage) => !known.has(passage));
      try {
        for (let from = 0; from < unknown.length && !stop.signal.aborted; from += SLICE) {
          const texts = unknown.slice(from, from + SLICE);
          if ((await pause()) === "enough" || stop.signal.aborted) break;
          const vectors = await model.embed(texts, "passage", stop.signal);
          // The same texts would yield no more vectors and keep the process busy for ever.
          if (vectors.length < texts.length) throw new Error(tooFew(model.id, vectors.length, texts.length));
          for (const [at, vector] of vectors.entries()) known.set(texts[at] ?? "", vector);
        }
      } finally {
        // Also in a process that ends: a short one would never complete a batch.
        const made = chunks.flatMap(({ id }, at) => {
          const passage = passages[at] ?? "";
          const vector = known.get(passage);
          return vector === undefined ? [] : [{ id, vector, passage }];
        });
        await memory.vectors.put(model.id, made);
      }
      problem = undefined;
    } finally {
      for (const { id } of chunks) making.delete(id);
      done.resolve();
    }
  };
  /** Chunks that are not being embedded; if all are, waits for one of them. */
  const next = async (model: Embedder, max: number, wanted: Wanted): Promise<readonly Chunk[]> => {
    while (!stop.signal.aborted) {
      const chunks = await memory.vectors.missing(model.id, max, wanted);
      const free = chunks.filter(({ id }) => !making.has(id));
      if (free.length > 0 || chunks.length === 0) return free;
      await making.get(chunks[0]?.id ?? 0);
    }
    return [];
  };
  const yieldToTurns = async (): Promise<"go on"> => {
    for (let waitedMs = 0; uses.isBusy() && waitedMs < YIELD_MS_MAX; waitedMs += YIELD_STEP_MS) {
      await clock.sleep(YIELD_STEP_MS, stop.signal, "background");
      if (stop.signal.aborted) break;
    }
    return "go on";
  };
  const work = async (): Promise<void> => {
    // Loading a model costs as much as many turns.
    if (opened === undefined && reported.length === 0 && (await nothingIsDue())) return;
    const model = await embedder();
    while (model !== undefined && !stop.signal.aborted) {
      const ids = reported;
      reported = [];
      const asked = ids.length === 0 ? [] : await next(model, ids.length, { ids, byWords: true });
      const chunks = asked.length > 0 ? asked : await next(model, BATCH, { inUse: uses.sessions() });
      if (chunks.length === 0) return;
      await make(model, chunks, yieldToTurns);
    }
  };
  const nothingIsDue = async (): Promise<boolean> =>
    (await memory.vectors.missing(NOBODY, 1, { inUse: uses.sessions() })).length === 0;
  /** Searches use words until embedding works again; the next chunk retries. */
  const failed = (thrown: unknown): void => {
    if (!stop.signal.aborted) problem = messageOf(thrown);
  };
  const run = (): Promise<void> => {
    running ??= work()
      .catch(failed)
      .finally(() => {
        running = undefined;
        lookAtRest();
      });
    return running;
  };
  /** Contexts of sessions in use are embedded when the sessions rest. */
  const lookAtRest = (): void => {
    if (stop.signal.aborted || uses.sessions().size === 0) return;
    resting ??= clock.sleep(REST_MS, stop.signal, "background").then(async () => {
      resting = undefined;
      if (!stop.signal.aborted) await run();
    });
  };
  const continueInBackground = (work: Promise<void>): Promise<void> => {
    const kept = work.catch(failed).finally(() => background.delete(kept));
    background.add(kept);
    return kept;
  };
  const fillScope = async (
    model: Embedder,
    { found, scope }: { readonly found: readonly number[]; readonly scope: Scope },
    enough: AbortSignal,
  ): Promise<void> => {
    const ids = found.slice(0, FOUND_MAX);
    for (const wanted of [{ scope, ids }, { scope }]) {
      while (!enough.aborted && !stop.signal.aborted) {
        const chunks = await next(model, BATCH, wanted);
        if (chunks.length === 0 || enough.aborted) break;
        await make(model, chunks, async () => (enough.aborted ? "enough" : "go on"));
      }
    }
  };
  const wake = (): void => {
    if (stop.signal.aborted) return;
    waiting ??= clock.sleep(IDLE_MS, stop.signal, "background").then(async () => {
      waiting = undefined;
      if (!stop.signal.aborted) await run();
    });
  };
  return {
    embedder,
    wake,
    use: (sessionId) => {
      wake();
      return uses.begin(sessionId);
    },
    fill: async (found, { scope, msMax }) => {
      hasSearched = true;
      // The question needs the model, too, so loading does not count as waiting.
      const model = await embedder();
      // Repeated searches on a local embedder would starve everything else.
      await clock.yieldToEventLoop();
      if (model === undefined || stop.signal.aborted || background.size >= FILLS_MAX) return;
      const enough = new AbortController();
      const filled = continueInBackground(fillScope(model, { found, scope }, enough.signal));
      const over = new AbortController();
      await Promise.race([filled.finally(() => over.abort()), clock.sleep(msMax, over.signal)]);
      enough.abort();
      wake();
    },
    reported: (ids) => {
      reported = [...reported, ...ids].slice(-TOLD_MAX);
      wake();
    },
    problem: () => problem,
    close: async () => {
      if (hasSearched && lingerMs > 0 && !stop.signal.aborted) {
        const over = new AbortController();
        await Promise.race([run().finally(() => over.abort()), clock.sleep(lingerMs, over.signal)]);
      }
      stop.abort();
      await Promise.all([waiting, resting, running, ...background]);
      await (await opened)?.close();
    },
  };
}

/** The sessions whose contexts are in use, and whether a turn runs. */
function createUses(now: () => number) {
  const turns = new Map<string, number>();
  const lastMs = new Map<string, number>();
  let endedMs = Number.NEGATIVE_INFINITY;
  return {
    begin: (sessionId: string): (() => void) => {
      turns.set(sessionId, (turns.get(sessionId) ?? 0) + 1);
      lastMs.set(sessionId, now());
      return () => {
        const left = (turns.get(sessionId) ?? 1) - 1;
        if (left > 0) turns.set(sessionId, left);
        else turns.delete(sessionId);
        endedMs = now();
        lastMs.set(sessionId, endedMs);
      };
    },
    isBusy: (): boolean => turns.size > 0 || now() - endedMs < CALM_MS,
    sessions: (): ReadonlySet<string> => {
      for (const [id, atMs] of lastMs) if (!turns.has(id) && now() - atMs >= REST_MS) lastMs.delete(id);
      return new Set(lastMs.keys());
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
