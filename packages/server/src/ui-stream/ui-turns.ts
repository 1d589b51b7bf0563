import { RuntimeError } from "@rkat/core/contract/error";
import type { Clock } from "@rkat/core/ports/clock";
import type { Delivery } from "@rkat/core/sessions/event-queue";
import { type createUiEncoder, startOf, type UiChunk } from "./ui-encoder.ts";

/** A turn of a chat and its readers: the page that started it, and pages loaded since. */
export interface UiTurn {
  readonly onDelivery: (delivery: Delivery) => void;
  /** Resolves when the turn has begun; undefined where it has not and will not. */
  readonly begun: Promise<Begun | undefined>;
  readonly signal: AbortSignal;
  readonly over: Promise<void>;
  isWaiting(): boolean;
  isRead(): boolean;
  length(): number;
  /** An approval was answered, or is requested again: readers get what follows, or nothing for now. */
  setWaiting(isWaiting: boolean): void;
  /** Adds a reader; the returned function removes it. */
  attach(): () => void;
  /** The chunks from an index on, until the turn ends or waits. */
  read(from: number, left: AbortSignal): AsyncGenerator<UiChunk>;
  stop(why: string): void;
  /** Ends the turn; `failure` where no chunk reported one. */
  end(failure: RuntimeError | undefined): void;
  /** The chunks that a continued message begins with. */
  carried(): readonly UiChunk[];
}

interface Begun {
  readonly sessionId: string;
  readonly messageId: string;
}

interface TurnOptions {
  readonly encoder: ReturnType<typeof createUiEncoder>;
  readonly clock: Clock;
  /** How long it runs without a reader; undefined: to its end. */
  readonly graceMs: number | undefined;
  /** The chunks its message has already. */
  readonly carried: readonly UiChunk[];
  readonly messageId: string | undefined;
}

/** The most chunks of a turn; one with more is stopped. */
const CHUNKS_MAX = 200_000;
/** Chunks that end a message; they are left out in the middle of a continued one. */
const ENDS: readonly string[] = ["finish", "abort", "error"];

export function createUiTurn({ encoder, clock, graceMs, carried, messageId }: TurnOptions): UiTurn {
  const chunks: UiChunk[] = [...carried];
  const stopping = new AbortController();
  const begun = Promise.withResolvers<Begun | undefined>();
  const over = Promise.withResolvers<void>();
  const wakers = new Set<() => void>();
  let readers = 0;
  let alone = new AbortController();
  let isOver = false;
  let isWaiting = false;

  const wake = (): void => {
    for (const each of wakers) each();
  };
  const add = (more: readonly UiChunk[]): void => {
    if (chunks.length + more.length > CHUNKS_MAX) stopping.abort("the turn has more output than can be streamed");
    else chunks.push(...more);
    wake();
  };
  /** A page that is loaded again comes back in a moment; one that stopped its turn does not. */
  const leave = async (): Promise<void> => {
    alone = new AbortController();
    if (graceMs === undefined || isOver || isWaiting) return;
    const { signal } = alone;
    await clock.sleep(graceMs, signal);
    if (!signal.aborted && !isOver && !isWaiting) stopping.abort("the turn has no reader any more");
  };
  async function* read(from: number, left: AbortSignal): AsyncGenerator<UiChunk> {
    left.addEventListener("abort", wake);
    let next = from;
    try {
      for (;;) {
        const chunk = left.aborted ? undefined : chunks[next];
        if (chunk !== undefined) {
          next += 1;
          yield chunk;
        } else if (left.aborted || isOver) return;
        else if (isWaiting) {
          yield { type: "finish-step" };
          yield { type: "finish", finishReason: "tool-calls" };
          return;
        } else {
          const { promise, resolve } = Promise.withResolvers<void>();
          wakers.add(resolve);
          await promise;
          wakers.delete(resolve);
        }
      }
    } finally {
      left.removeEventListener("abort", wake);
    }
  }
  return {
    begun: begun.promise,
    over: over.promise,
    signal: stopping.signal,
    onDelivery: (delivery) => {
      const { event, seq } = delivery;
      if (event.type === "run_started") {
        const id = messageId ?? `msg_${event.session_id.replaceAll("-", "")}_${seq}`;
        begun.resolve({ sessionId: event.session_id, messageId: id });
      }
      if (event.type === "tool_approval_requested") isWaiting = true;
      add(encoder.encode(delivery));
    },
    isWaiting: () => isWaiting,
    isRead: () => readers > 0,
    length: () => chunks.length,
    setWaiting: (waits) => {
      isWaiting = waits;
      wake();
    },
    attach: () => {
      readers += 1;
      alone.abort("a reader came");
      return () => {
        readers -= 1;
        if (readers === 0) void leave();
      };
    },
    read,
    stop: (why) => stopping.abort(why),
    end: (failure) => {
      if (isOver) return;
      isOver = true;
      alone.abort("the turn is over");
      const isReported = chunks.slice(carried.length).some(({ type }) => ENDS.includes(type));
      if (failure !== undefined && !isReported) add([{ type: "error", errorText: failure.message }]);
      begun.resolve(undefined);
      over.resolve();
      wake();
    },
    carried: () => (encoder.pendingCalls().length === 0 ? [] : chunks.filter(({ type }) => !ENDS.includes(type))),
  };
}

/** The turns that run here, by the chats they are of. */
export interface UiTurns {
  running(key: string): UiTurn | undefined;
  /** The beginning of the message that the chat's next turn continues. */
  carried(key: string): readonly UiChunk[];
  keep(key: string, turn: UiTurn): void;
}

/** Messages that wait for results of the page's, of as many chats as these. */
const CARRIED_MAX = 256;

export function createUiTurns(): UiTurns {
  const turns = new Map<string, UiTurn>();
  const carried = new Map<string, readonly UiChunk[]>();
  return {
    running: (key) => turns.get(key),
    carried: (key) => carried.get(key) ?? [],
    keep: (key, turn) => {
      if (turns.has(key))
        throw new RuntimeError("SESSION_BUSY", "the chat is already answering; wait, or stop it first");
      turns.set(key, turn);
      void turn.over.then(() => {
        turns.delete(key);
        carried.delete(key);
        const chunks = turn.carried();
        if (chunks.length > 0) carried.set(key, chunks);
        const [oldest] = carried.keys();
        if (carried.size > CARRIED_MAX && oldest !== undefined) carried.delete(oldest);
      });
    },
  };
}

/** A reader of a turn: the beginning of the message, then the chunks from an index on. */
export async function* chunksFrom(turn: UiTurn, from: number, left: AbortSignal): AsyncGenerator<UiChunk> {
  const begun = await turn.begun;
  if (begun === undefined) return;
  yield* startOf(begun.messageId, begun.sessionId);
  yield* turn.read(from, left);
}
