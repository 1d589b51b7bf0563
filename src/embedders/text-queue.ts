import { RuntimeError } from "../contract/error.ts";
import type { ThreadAnswer } from "./model-thread.ts";

/** The part of a thread the queue talks to. */
export interface TextThread {
  postMessage(text: string): void;
  ref(): void;
  unref(): void;
}

interface Job extends PromiseWithResolvers<Float32Array> {
  readonly text: string;
}

/** Hands a thread one text at a time: a question goes before every passage that waits. */
export class TextQueue {
  readonly #waiting: Record<"query" | "passage", Job[]> = { query: [], passage: [] };
  #current: Job | undefined;
  #answered: PromiseWithResolvers<void> | undefined;

  /** Resolves with the text's vector; rejects at once when the signal fires, also while the text is being embedded. */
  add(text: string, kind: "passage" | "query", signal: AbortSignal): Promise<Float32Array> {
    const queue = this.#waiting[kind];
    const job: Job = { text, ...Promise.withResolvers<Float32Array>() };
    const onAbort = () => {
      const place = queue.indexOf(job);
      if (place >= 0) queue.splice(place, 1);
      job.reject(new RuntimeError("REQUEST_CANCELLED", "embedding was cancelled"));
    };
    queue.push(job);
    signal.addEventListener("abort", onAbort);
    return job.promise.finally(() => signal.removeEventListener("abort", onAbort));
  }

  /** Sends the next text unless one is on its way. An idle thread must not keep the process from ending. */
  next(thread: TextThread): void {
    if (this.#current !== undefined) return;
    this.#current = this.#waiting.query.shift() ?? this.#waiting.passage.shift();
    if (this.#current === undefined) {
      thread.unref();
      return;
    }
    thread.ref();
    thread.postMessage(this.#current.text);
  }

  /** Settles the text that was sent last. */
  settle(answer: ThreadAnswer): void {
    if (answer.kind === "vector") this.#current?.resolve(answer.vector);
    if (answer.kind === "failure") this.#current?.reject(new RuntimeError("CAPABILITY_UNAVAILABLE", answer.message));
    this.#rest();
  }

  /** Rejects what waits; resolves when the thread has answered the text it was sent last. */
  async finish(error: unknown): Promise<void> {
    for (const job of this.#takeWaiting()) job.reject(error);
    if (this.#current === undefined) return;
    this.#answered ??= Promise.withResolvers<void>();
    await this.#answered.promise;
  }

  /** Rejects everything that waits or is on its way. */
  fail(error: unknown): void {
    const jobs = [this.#current, ...this.#takeWaiting()];
    for (const job of jobs) job?.reject(error);
    this.#rest();
  }

  #rest(): void {
    this.#current = undefined;
    this.#answered?.resolve();
  }

  #takeWaiting(): readonly Job[] {
    return [...this.#waiting.query.splice(0), ...this.#waiting.passage.splice(0)];
  }
}
