import { RuntimeError } from "../contract/error.ts";
import type { ModelAnswer } from "./model-child.ts";

/** The part of a model's process the queue talks to. */
export interface TextModel {
  send(text: string): void;
  ref(): void;
  unref(): void;
}

interface Job extends PromiseWithResolvers<Float32Array> {
  readonly text: string;
  readonly kind: "query" | "passage";
  /** Processes that ended while they had it. */
  losses: number;
}

/** A text that a second process ends over is told as a failure. */
const LOSSES_MAX = 2;

/** Hands a model one text at a time: a question goes before every passage that waits. */
export class TextQueue {
  readonly #waiting: Record<"query" | "passage", Job[]> = { query: [], passage: [] };
  #current: Job | undefined;

  /** Resolves with the text's vector; rejects at once when the signal fires, also while the text is being embedded. */
  add(text: string, kind: "passage" | "query", signal: AbortSignal): Promise<Float32Array> {
    const queue = this.#waiting[kind];
    const job: Job = { text, kind, losses: 0, ...Promise.withResolvers<Float32Array>() };
    const onAbort = () => {
      const place = queue.indexOf(job);
      if (place >= 0) queue.splice(place, 1);
      job.losses = LOSSES_MAX; // Nobody wants it sent again.
      job.reject(new RuntimeError("REQUEST_CANCELLED", "embedding was cancelled"));
    };
    queue.push(job);
    signal.addEventListener("abort", onAbort);
    return job.promise.finally(() => signal.removeEventListener("abort", onAbort));
  }

  /** Sends the next text unless one is on its way. An idle model must not keep our process from ending. */
  next(model: TextModel): void {
    if (this.#current !== undefined) return;
    this.#current = this.#waiting.query.shift() ?? this.#waiting.passage.shift();
    if (this.#current === undefined) {
      model.unref();
      return;
    }
    model.ref();
    model.send(this.#current.text);
  }

  /** Settles the text that was sent last. */
  settle(answer: ModelAnswer): void {
    if (answer.kind === "vector") this.#current?.resolve(answer.vector);
    if (answer.kind === "failure") this.#current?.reject(new RuntimeError("CAPABILITY_UNAVAILABLE", answer.message));
    this.#current = undefined;
  }

  /** The text that was sent last will not be answered: it is sent again, once. True when there is something to send. */
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

  /** Rejects everything that waits or is on its way. */
  fail(error: unknown): void {
    const jobs = [this.#current, ...this.#waiting.query.splice(0), ...this.#waiting.passage.splice(0)];
    this.#current = undefined;
    for (const job of jobs) job?.reject(error);
  }
}
