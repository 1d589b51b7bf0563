import { readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import type { Worker } from "node:worker_threads";
import { messageOf, RuntimeError } from "../contract/error.ts";
import type { Embedder } from "../ports/embedder.ts";
import { type Asset, readAsset, readVocabulary } from "./asset.ts";
import type { ThreadAnswer } from "./model-thread.ts";
import { TextQueue } from "./text-queue.ts";
import { clipped } from "./word-pieces.ts";

const DIMENSIONS = 384;
/** Calls that wait at once; each has one text in the queue. */
const CALLS_MAX = 256;
/** From this many cores on, two of them count; fewer are shared with the turn. */
const CORES_FOR_TWO = 4;

const WEIGHTS: Asset = {
  name: "gte-small-int8.onnx",
  sha256: "f7269c17c7efbae22dbf010270c116aac7e411014c9374f0ddc32030f0948d06",
};

interface LocalOptions {
  readonly weights?: Asset;
  readonly threads?: number;
}

/** An embedder that can be asked beforehand whether it works here. */
export interface LocalEmbedder extends Embedder {
  /** Loads the weights, which `embed` does otherwise; rejects with CAPABILITY_UNAVAILABLE when they cannot be used. */
  load(): Promise<void>;
}

/** Sentence embeddings on this machine: gte-small with 8-bit weights, in a thread, without a network. */
export function createLocalEmbedder(options: LocalOptions = {}): LocalEmbedder {
  const weights = options.weights ?? WEIGHTS;
  const threads = options.threads ?? (availableParallelism() < CORES_FOR_TWO ? 1 : 2);
  const queue = new TextQueue();
  let calls = 0;
  let isClosed = false;
  let starting: Promise<Worker> | undefined;

  const start = async (): Promise<Worker> => {
    const thread = await startThread(weights, threads);
    let cause: unknown;
    thread.on("message", (answer: ThreadAnswer) => {
      queue.settle(answer);
      queue.next(thread);
    });
    thread.on("error", (thrown) => {
      cause = thrown;
    });
    // The next call starts another one.
    thread.on("exit", () => {
      starting = undefined;
      queue.fail(isClosed ? closed() : unavailable(`its thread ended: ${messageOf(cause)}`, cause));
    });
    queue.next(thread);
    return thread;
  };

  /** What cannot be loaded once is not tried again: every call is told the same. */
  const started = (): Promise<Worker> => {
    if (isClosed) throw closed();
    starting ??= start();
    return starting;
  };

  const embedOne = (text: string, kind: "passage" | "query", signal: AbortSignal): Promise<Float32Array> => {
    if (signal.aborted) throw new RuntimeError("REQUEST_CANCELLED", "embedding was cancelled");
    const thread = started();
    const vector = queue.add(clipped(text), kind, signal);
    thread.then(
      (ready) => queue.next(ready),
      (error) => queue.fail(error),
    );
    return vector;
  };

  return {
    id: `gte-small-int8-${weights.sha256.slice(0, 8)}`,
    dimensions: DIMENSIONS,
    async load() {
      await started();
    },
    async embed(texts, kind, signal) {
      if (calls >= CALLS_MAX) throw unavailable(`${CALLS_MAX} calls wait for it already`);
      calls += 1;
      try {
        const vectors: Float32Array[] = [];
        for (const text of texts) vectors.push(await embedOne(text, kind, signal));
        return vectors;
      } finally {
        calls -= 1;
      }
    },
    async close() {
      isClosed = true;
      const thread = await starting?.catch(() => undefined);
      // A thread that is ended while the native runtime counts takes the whole process with it.
      await queue.finish(closed());
      await thread?.terminate();
    },
  };
}

/** Resolves when the thread can embed. What it needs is read and checked here, so that it loads nothing else. */
async function startThread(weights: Asset, threads: number): Promise<Worker> {
  await requireShortCommandLine();
  const [bytes, vocabulary, { startModelThread }] = await Promise.all([
    readAsset(weights),
    readVocabulary(),
    import("./model-thread.ts"),
  ]);
  const thread = startModelThread({ weights: bytes, vocabulary, threads });
  const { promise, resolve, reject } = Promise.withResolvers<Worker>();
  thread.once("message", (answer: ThreadAnswer) => {
    if (answer.kind === "ready") resolve(thread);
    else reject(unavailable(answer.kind === "failure" ? answer.message : "its thread spoke out of turn"));
  });
  thread.once("error", (cause) => reject(unavailable(messageOf(cause), cause)));
  thread.once("exit", () => reject(unavailable("its thread ended before it was ready")));
  return promise.catch(async (thrown: unknown) => {
    await thread.terminate();
    throw thrown;
  });
}

/** The native runtime ends a process whose command line is longer than some 16,000 bytes, without a word. */
const COMMAND_LINE_BYTES_MAX = 12_000;

async function requireShortCommandLine(): Promise<void> {
  // Where there is no such file nobody knows, and nobody was seen to crash.
  const line = await readFile("/proc/self/cmdline").catch(() => undefined);
  if ((line?.length ?? 0) <= COMMAND_LINE_BYTES_MAX) return;
  throw unavailable("the command line is longer than its native runtime can bear");
}

function unavailable(why: string, cause?: unknown): RuntimeError {
  return new RuntimeError("CAPABILITY_UNAVAILABLE", `the local embedder cannot be used: ${why}`, { cause });
}

function closed(): RuntimeError {
  return new RuntimeError("REQUEST_CANCELLED", "the local embedder is closed");
}
