import type { ChildProcess } from "node:child_process";
import { constants, getPriority, setPriority } from "node:os";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import type { Embedder } from "@rkat/core/ports/memory";
import type { ModelAnswer } from "./model-child.ts";
import { type Asset, clipped } from "./word-pieces.ts";

const DIMENSIONS = 384;
/** Concurrent calls; each has one text in the queue. */
const CALLS_MAX = 256;
/** A process without an answer for this long is killed: a text takes a second, loading half of one. */
const ANSWER_MS_MAX = 120_000;
/** An idle process ends after this long to free its memory; the next text starts another. */
const IDLE_MS_MAX = 300_000;

const WEIGHTS: Asset = {
  name: "gte-small-int8.bin",
  sha256: "69ef15ac8c6e73e75a1a714c3328825222a36a750ecb8426f021e5ab5bc27d66",
};

/** The mean of its vectors for a dozen unrelated texts, so that a first search need not compute it. */
const UNRELATED = Int8Array.from(
  Buffer.from(
    "8f4Q+AoNEBAE9wDkEBAEAf0J6QkM8/HpDxPy+u2l/OYL8ADu9hXzDw4K/uzy9PYAIu8E7wkJDw4RChMRCQeQHgwD8+0NFfQPDw0L7v/x/AgD8/oE+/IE7A8H//jwBtn5Aw70Y+0OCvEH7/Pv7wAB+RXwDBMXCPEC/ggV9gr1FzEFERXp8/j8BAX6DebvyvbUASPxDvUG8Q73+AsOCijyBvn27xcH5v4JBvgQDPMDKQP4/AcEFfjyFBTx+uwPG/kB9fr29/H6CvgV9fMSDw8G9hEN9QcU+fkKAgYQDRTd56ADAfMX7gr5FQ0h+vcF+w4NEQAB/AXu6g/6WQ8J5w8C99UXCxX/+/EAGgPr+/X2BPMCD/gRBgj03Q7tCgTvCO8GCgDzC+/1FfTpFQQR9vj1D+wICQgEEwcE9v0I7vcO/YEVB/vxCggU5gEHCBP/AQwD7xHrBAta+QMJAAoO+wn+G+kQD+8dB/jtB/TxJPPs5woN9vz7BwcB6/n18gji9gMT",
    "base64",
  ),
);
const UNRELATED_STEP = 0.2695424 / 127;

interface LocalOptions {
  readonly weights?: Asset;
  readonly answerMsMax?: number;
  readonly idleMsMax?: number;
}

/** An embedder that can be loaded in advance. */
export interface LocalEmbedder extends Embedder {
  /** Loads the weights, which `embed` does otherwise; rejects with CAPABILITY_UNAVAILABLE if they cannot be used. */
  load(): Promise<void>;
}

/** Local sentence embeddings: gte-small with 8-bit weights in a child process, without a network. */
export function createLocalEmbedder(options: LocalOptions = {}): LocalEmbedder {
  const weights = options.weights ?? WEIGHTS;
  const queue = new TextQueue();
  let calls = 0;
  let isClosed = false;
  let hasWorked = false;
  let starting: Promise<TextModel> | undefined;
  let latest: ChildProcess | undefined;

  const start = async (): Promise<TextModel> => {
    const { startModelChild, unusable } = await import("./model-child.ts");
    if (isClosed) throw closed();
    const { promise, resolve, reject } = Promise.withResolvers<TextModel>();
    const child = startChild(() => startModelChild(weights), unusable);
    latest = child;
    const model = modelOf(child, options);
    let isReady = false;
    let isOver = false;
    const end = (how: string): void => {
      if (isOver) return;
      isOver = true;
      model.forget();
      const error = isClosed ? closed() : unusable(how);
      reject(error);
      // A failed first load is not repeated: every call gets the same error.
      if (hasWorked) starting = undefined;
      // The text in progress may have killed it and gets one more try; waiting texts are unaffected.
      if (isReady && queue.lose(error)) work();
    };
    child.on("message", (answer: ModelAnswer) => {
      // After a close only the exit matters; an answer would release the process that is waited for.
      if (isOver || isClosed) return;
      if (answer.kind === "ready") {
        [isReady, hasWorked] = [true, true];
        resolve(model);
        queue.next(model);
      } else if (isReady) {
        queue.settle(answer);
        queue.next(model);
      } else {
        reject(new RuntimeError("CAPABILITY_UNAVAILABLE", answer.kind === "failure" ? answer.message : "no model"));
        child.kill("SIGKILL");
      }
    });
    child.on("error", (cause) => end(messageOf(cause)));
    child.on("exit", (code, signal) => end(`its process was ended by ${signal ?? `exit code ${code}`}`));
    return promise;
  };

  const started = (): Promise<TextModel> => {
    if (isClosed) throw closed();
    starting ??= start();
    return starting;
  };

  /** Starts work on waiting texts. */
  const work = (): void => {
    started().then(
      (model) => queue.next(model),
      (error) => queue.fail(error),
    );
  };

  const embedOne = (text: string, kind: "passage" | "query", signal: AbortSignal): Promise<Float32Array> => {
    if (signal.aborted) throw new RuntimeError("REQUEST_CANCELLED", "embedding was cancelled");
    if (isClosed) throw closed();
    const vector = queue.add(clipped(text), kind, signal);
    work();
    return vector;
  };

  return {
    id: `gte-small-int8-${weights.sha256.slice(0, 8)}`,
    dimensions: DIMENSIONS,
    ...(weights === WEIGHTS ? { unrelated: Float32Array.from(UNRELATED, (level) => level * UNRELATED_STEP) } : {}),
    async load() {
      await started();
    },
    async embed(texts, kind, signal) {
      if (calls >= CALLS_MAX) {
        const message = `the local embedder cannot be used: ${CALLS_MAX} calls are already waiting for it`;
        throw new RuntimeError("CAPABILITY_UNAVAILABLE", message);
      }
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
      queue.fail(closed());
      await ended(latest);
    },
  };
}

/** Starting a process may be forbidden. */
function startChild(start: () => ChildProcess, unusable: (why: string, cause: unknown) => RuntimeError): ChildProcess {
  try {
    return start();
  } catch (thrown) {
    throw unusable(messageOf(thrown), thrown);
  }
}

/** The queue's interface to the process; ends it when it is idle or stuck for too long. */
function modelOf(child: ChildProcess, options: LocalOptions): TextModel & { forget(): void } {
  const { answerMsMax = ANSWER_MS_MAX, idleMsMax = IDLE_MS_MAX } = options;
  let timer: NodeJS.Timeout | undefined;
  const endAfter = (ms: number): void => {
    clearTimeout(timer);
    timer = setTimeout(() => child.kill("SIGKILL"), ms).unref();
  };
  const usual = getPriority();
  let current = usual;
  /** Most passages are not urgent. */
  const prioritise = (kind: Job["kind"]): void => {
    const wanted = kind === "query" ? usual : Math.max(usual, constants.priority.PRIORITY_BELOW_NORMAL);
    if (wanted === current || child.pid === undefined) return;
    try {
      setPriority(child.pid, wanted);
      current = wanted;
    } catch {
      // It has ended, or raising a priority is not permitted, as on Linux: the text is embedded at the current one.
    }
  };
  endAfter(answerMsMax);
  return {
    send: (text, kind) => {
      endAfter(answerMsMax);
      prioritise(kind);
      // A process that cannot be reached ends, which is reported then.
      child.send(text, () => {});
    },
    ref: () => {
      child.ref();
      // Bun's channel has neither, and follows the child.
      child.channel?.ref?.();
    },
    unref: () => {
      endAfter(idleMsMax);
      child.unref();
      child.channel?.unref?.();
    },
    forget: () => clearTimeout(timer),
  };
}

async function ended(child: ChildProcess | undefined): Promise<void> {
  const isRunning = child?.pid !== undefined && child.exitCode === null && child.signalCode === null;
  if (child === undefined || !isRunning) return;
  const exited = new Promise((resolve) => child.once("exit", resolve));
  // Keep this process alive until the child has ended.
  child.ref();
  child.kill("SIGKILL");
  await exited;
}

function closed(): RuntimeError {
  return new RuntimeError("REQUEST_CANCELLED", "the local embedder is closed");
}

export interface TextModel {
  send(text: string, kind: Job["kind"]): void;
  ref(): void;
  unref(): void;
}

interface Job extends PromiseWithResolvers<Float32Array> {
  readonly text: string;
  readonly kind: "query" | "passage";
  /** Processes that ended while they had it. */
  losses: number;
}

/** A text that ends two processes is reported as a failure. */
const LOSSES_MAX = 2;

/** Gives the model one text at a time; queries go before waiting passages. */
export class TextQueue {
  readonly #waiting: Record<"query" | "passage", Job[]> = { query: [], passage: [] };
  #current: Job | undefined;

  /** Resolves with the vector; rejects as soon as the signal fires, even while the text is being embedded. */
  add(text: string, kind: "passage" | "query", signal: AbortSignal): Promise<Float32Array> {
    const queue = this.#waiting[kind];
    const job: Job = { text, kind, losses: 0, ...Promise.withResolvers<Float32Array>() };
    const onAbort = () => {
      const place = queue.indexOf(job);
      if (place >= 0) queue.splice(place, 1);
      job.losses = LOSSES_MAX; // It is not sent again.
      job.reject(new RuntimeError("REQUEST_CANCELLED", "embedding was cancelled"));
    };
    queue.push(job);
    signal.addEventListener("abort", onAbort);
    return job.promise.finally(() => signal.removeEventListener("abort", onAbort));
  }

  /** Sends the next text unless one is in progress. An idle model must not keep our process alive. */
  next(model: TextModel): void {
    if (this.#current !== undefined) return;
    this.#current = this.#waiting.query.shift() ?? this.#waiting.passage.shift();
    if (this.#current === undefined) {
      model.unref();
      return;
    }
    model.ref();
    model.send(this.#current.text, this.#current.kind);
  }

  settle(answer: ModelAnswer): void {
    if (answer.kind === "vector") this.#current?.resolve(answer.vector);
    if (answer.kind === "failure") this.#current?.reject(new RuntimeError("CAPABILITY_UNAVAILABLE", answer.message));
    this.#current = undefined;
  }

  /** The text in progress will not be answered: it is sent again, once. True if there is something to send. */
  lose(error: unknown): boolean {
    const job = this.#current;
    this.#current = undefined;
    if (job !== undefined) {
      job.losses += 1;
      if (job.losses < LOSSES_MAX) this.#waiting[job.kind].unshift(job);
      else job.reject(error);
    }
    return this.#waiting.query.length + this.#waiting.passage.length > 0;
  }

  fail(error: unknown): void {
    const jobs = [this.#current, ...this.#waiting.query.splice(0), ...this.#waiting.passage.splice(0)];
    this.#current = undefined;
    for (const job of jobs) job?.reject(error);
  }
}
