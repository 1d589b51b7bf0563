import { type MessagePort, Worker } from "node:worker_threads";
import type { Readers, Reading, Readings } from "../compaction/reading.ts";
import { account } from "../compaction/receipt.ts";
import { messageOf } from "../contract/error.ts";
import type { Message } from "../contract/message.ts";
import { wholeTextsOf } from "../grounding/exactness.ts";
import { checkSummary } from "../grounding/groundedness.ts";
import { summarySources } from "../grounding/summary-sources.ts";
import type { Clock } from "../ports/clock.ts";
import { workerFile } from "../ports/package-file.ts";
import { createSystemClock } from "../runtime/system-clock.ts";

/** Shorter input is read in this thread: starting a worker takes longer. */
const WORKER_CHARS_MIN = 100_000;
/** Copying a piece takes milliseconds; the event loop runs between pieces. */
const PIECE_CHARS_MAX = 500_000;
const PIECE_ITEMS_MAX = 500;
const READ_MS_MAX = 120_000;
/** An idle worker is ended to free its memory. */
const IDLE_MS_MAX = 10_000;
const WORKERS_MAX = 1;
const HEAP_MB = 2_048;

const READERS: Readers = {
  check: ({ summary, source }, yieldToEventLoop) => checkSummary(summary, source, yieldToEventLoop),
  account,
  sources: summarySources,
};

interface Piece {
  readonly field: string;
  readonly value: unknown;
  /** Whether it continues a list. */
  readonly isPart: boolean;
}

type Order = Piece | { readonly name: keyof Readings };
type Answer = { readonly answer: unknown } | { readonly fault: string };

/** The worker failed: it did not start, ended, ran out of memory, or the input cannot be copied. */
class NotInWorker extends Error {}

const waiting: (() => void)[] = [];
let running = 0;
let idle: { readonly worker: Worker; readonly ending: NodeJS.Timeout } | undefined;

export const readInWorker: Reading = (...work) => {
  reading ??= createReading(createSystemClock().yieldToEventLoop);
  return reading(...work);
};
let reading: Reading | undefined;

/** Reads long input in the process's one worker and short input at once. */
export function createReading(yieldToEventLoop: Clock["yieldToEventLoop"], charsMin = WORKER_CHARS_MIN): Reading {
  return async (name, given, signal) => {
    if (sizeOf(given, charsMin) < charsMin) return READERS[name](given, yieldToEventLoop);
    await takeTurn(signal);
    try {
      // `serveReading` answers with the reader's result.
      return (await readIn(await openWorker(), {
        name,
        given,
        yieldToEventLoop,
        signal,
      })) as Readings[typeof name]["answer"];
    } catch (thrown) {
      if (!(thrown instanceof NotInWorker)) throw thrown;
      return await READERS[name](given, yieldToEventLoop);
    } finally {
      running -= 1;
      waiting.shift()?.();
    }
  };
}

async function takeTurn(signal: AbortSignal): Promise<void> {
  while (running >= WORKERS_MAX) {
    if (signal.aborted) throw interrupted();
    const { promise: woken, resolve } = Promise.withResolvers<void>();
    const wake = (): void => resolve();
    waiting.push(wake);
    signal.addEventListener("abort", wake, { once: true });
    await woken;
    signal.removeEventListener("abort", wake);
    if (!signal.aborted) continue;
    // An aborted waiter must not be woken instead of another; one woken just before wakes the next.
    const at = waiting.indexOf(wake);
    if (at >= 0) waiting.splice(at, 1);
    else waiting.shift()?.();
    throw interrupted();
  }
  running += 1;
}

const interrupted = (): Error => new Error("reading what was said was interrupted");

async function openWorker(): Promise<Worker> {
  if (idle !== undefined) {
    const { worker, ending } = idle;
    clearTimeout(ending);
    idle = undefined;
    return worker;
  }
  const entry = workerFile("@rkat/core", "compactions/reading-thread");
  if (entry === undefined) throw new NotInWorker("the package rkat cannot be found from this bundle");
  const worker = new Worker(entry, { execArgv: [], resourceLimits: { maxOldGenerationSizeMb: HEAP_MB } });
  await new Promise((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", (thrown) => reject(new NotInWorker(messageOf(thrown))));
    worker.once("exit", () => reject(new NotInWorker("the thread that reads did not start")));
  });
  return worker;
}

interface Job {
  readonly name: keyof Readings;
  readonly given: object;
  readonly yieldToEventLoop: Clock["yieldToEventLoop"];
  readonly signal: AbortSignal;
}

async function readIn(worker: Worker, { name, given, yieldToEventLoop, signal }: Job): Promise<unknown> {
  forget(worker);
  worker.ref();
  let late: NodeJS.Timeout | undefined;
  let stop = (): void => {};
  try {
    const answered = new Promise<Answer>((resolve, reject) => {
      stop = () => reject(interrupted());
      late = setTimeout(() => {
        reject(new Error(`reading what was said took longer than ${READ_MS_MAX / 1_000} seconds`));
      }, READ_MS_MAX);
      worker.once("message", resolve); // Only `serveReading` sends messages here.
      worker.once("error", (thrown) => reject(new NotInWorker(messageOf(thrown))));
      worker.once("exit", () => reject(new NotInWorker("the thread that reads has ended")));
      signal.addEventListener("abort", stop, { once: true });
      if (signal.aborted) stop();
    });
    // The worker may end while pieces are sent.
    answered.catch(() => {});
    for (const piece of piecesOf(given)) {
      await yieldToEventLoop();
      hand(worker, piece);
    }
    hand(worker, { name });
    const answer = await answered;
    if ("fault" in answer) throw new Error(answer.fault);
    keep(worker);
    return answer.answer;
  } catch (thrown) {
    forget(worker);
    void worker.terminate();
    throw thrown;
  } finally {
    clearTimeout(late);
    signal.removeEventListener("abort", stop);
  }
}

function hand(worker: Worker, order: Order): void {
  try {
    worker.postMessage(order);
  } catch (thrown) {
    throw new NotInWorker(messageOf(thrown));
  }
}

function keep(worker: Worker): void {
  forget(worker);
  // The worker must not keep the process alive.
  worker.unref();
  const ending = setTimeout(() => {
    idle = undefined;
    void worker.terminate();
  }, IDLE_MS_MAX).unref();
  idle = { worker, ending };
  worker.once("exit", () => {
    if (idle?.worker === worker) idle = undefined;
  });
}

/** An error without a listener would end the process. */
function forget(worker: Worker): void {
  for (const event of ["message", "error", "exit"]) worker.removeAllListeners(event);
  worker.on("error", () => {});
}

/** The size of the input, counted up to a bound. */
function sizeOf(given: object, charsMax: number): number {
  let chars = 0;
  for (const value of Object.values(given)) {
    if (typeof value === "string") chars += value.length;
    if (!Array.isArray(value)) continue;
    for (const item of value) {
      if (chars >= charsMax) return chars;
      chars += charsOf(item);
    }
  }
  return chars;
}

function charsOf(item: unknown): number {
  const message = messageIn(item);
  return message === undefined ? 1 : wholeTextsOf(message).reduce((sum, text) => sum + text.length, 1);
}

function messageIn(item: unknown): Message | undefined {
  const { message = item } = Object(item);
  return Object.hasOwn(Object(message), "role") ? message : undefined;
}

function* piecesOf(given: object): Iterable<Piece> {
  for (const [field, value] of Object.entries(given)) {
    yield { field, value: Array.isArray(value) ? [] : value, isPart: false };
    if (!Array.isArray(value)) continue;
    let part: unknown[] = [];
    let chars = 0;
    for (const item of value) {
      part.push(withoutMedia(item));
      chars += charsOf(item);
      if (chars < PIECE_CHARS_MAX && part.length < PIECE_ITEMS_MAX) continue;
      yield { field, value: part, isPart: true };
      [part, chars] = [[], 0];
    }
    if (part.length > 0) yield { field, value: part, isPart: true };
  }
}

/** Media are not read, so they are not copied. */
function withoutMedia(item: unknown): unknown {
  const message = messageIn(item);
  if (message === undefined) return item;
  const bare = bareMessage(message);
  return message === item ? bare : { ...Object(item), message: bare };
}

function bareMessage(message: Message): Message {
  const texts = <T extends { readonly type: string }>(content: string | T[]): string | T[] =>
    typeof content === "string" ? content : content.filter(({ type }) => type === "text");
  switch (message.role) {
    case "system":
    case "system_notice":
      return message;
    case "user":
      return { ...message, content: texts(message.content) };
    case "tool_results":
      return { ...message, results: message.results.map((one) => ({ ...one, content: texts(one.content) })) };
    case "block_assistant":
      return {
        ...message,
        blocks: message.blocks.filter(({ block_type }) => block_type !== "image" && block_type !== "reasoning"),
      };
  }
}

/** The worker's side: receives pieces, reads them and answers. */
export function serveReading(port: MessagePort): void {
  let given: Record<string, unknown> = {};
  const read = async (name: keyof Readings): Promise<void> => {
    const answering = READERS[name](given as never, () => undefined); // The pieces are this reader's input.
    given = {};
    const answer: Answer = await answering.then(
      (found) => ({ answer: found }),
      (thrown) => ({ fault: messageOf(thrown) }),
    );
    port.postMessage(answer);
  };
  port.on("message", (order: Order) => {
    if ("name" in order) void read(order.name);
    else if (!order.isPart) given[order.field] = order.value;
    else (given[order.field] as unknown[]).push(...(order.value as unknown[])); // A list is begun before its parts.
  });
  port.postMessage("ready");
}
