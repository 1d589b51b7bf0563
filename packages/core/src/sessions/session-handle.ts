import type { AgentEvent } from "../contract/event.ts";
import type { Content } from "../contract/message.ts";
import type { MessageInput, ReplacementInput } from "../contract/rewrite.ts";
import type { RunResult } from "../contract/session.ts";
import type { Tool } from "../ports/tool.ts";
import type { CallContext } from "../runtime/dispatch.ts";
import {
  type AnswerOf,
  type Ask,
  createMethodsAbout,
  type MethodsAbout,
  type OnApproval,
  type OptionsOf,
  type Standing,
} from "../runtime/operation-calls.ts";
import type { Answer, OutputSchema } from "../runtime/options.ts";
import { createEventQueue, type Delivery } from "./event-queue.ts";

/** Options of a new session: the fields of `session/create` in camel case, and values only code can give. */
export interface SessionOptions<T = unknown>
  extends Omit<OptionsOf<"createSession", "prompt" | "initial_turn">, "outputSchema"> {
  /** A JSON schema, or one of zod or another library, which then types the result. */
  readonly outputSchema?: OutputSchema<T>;
  /** Custom tools of this session. */
  readonly tools?: readonly Tool[];
  /** Answers when a tool call needs approval, in every turn run from here that names no other; without it the call is denied. */
  readonly onApproval?: OnApproval;
}

/** Options of one further turn: the fields of `turn/start` in camel case. */
export interface TurnOptions<T = unknown>
  extends Omit<OptionsOf<"startTurn", "session_id" | "prompt" | "turn_output_schema">, "outputSchema"> {
  /** The shape of this turn's result, also on a session that has run; without it, that of the session. */
  readonly outputSchema?: OutputSchema<T>;
  /** Answers when a tool call needs approval, instead of that of the session. */
  readonly onApproval?: OnApproval;
}

/** Why a transcript is changed, and its expected revision. */
export interface RewriteOptions extends OptionsOf<"restoreRevision", "session_id" | "revision" | "reason"> {
  /** A short label; `edit` by default. */
  readonly reason?: string;
  readonly note?: string;
}

/**
 * How a turn ended. `structuredOutput` is what its `outputSchema` describes; where the model gave none that matches,
 * `extractionError` says why.
 */
export type TurnResult<T = unknown> = TurnEnd &
  (
    | { readonly structuredOutput: T; readonly extractionError?: undefined }
    | { readonly structuredOutput?: undefined; readonly extractionError?: ExtractionError | undefined }
  );

interface TurnEnd extends Omit<Answer<RunResult>, "structuredOutput" | "extractionError"> {}

/** Why a turn has no `structuredOutput` although an `outputSchema` was given. */
export type ExtractionError = NonNullable<Answer<RunResult>["extractionError"]>;

/** The events of one turn, live. Iterating is optional: `result` settles when the turn ends, listened to or not. */
export interface EventStream<T = unknown> extends EventsUntil<TurnResult<T>> {}

export interface EventsUntil<Result> extends AsyncIterable<AgentEvent> {
  readonly result: Promise<Result>;
}

/** A conversation with a model. Every operation on a session is a method: see `docs/operations.md`. */
export interface Session<T = unknown> extends Omit<MethodsAbout<"session_id">, Own> {
  readonly id: string;
  /** How the newest turn ended; undefined before the first. */
  readonly lastResult: TurnResult<T> | undefined;
  /** Text the newest turn ended with. */
  readonly text: string;
  /** Tokens of the session after the newest turn run from here; undefined before the first. */
  readonly usage: TurnResult["usage"] | undefined;
  /** Model calls of the newest turn. */
  readonly turns: number;
  /** Tool calls of the newest turn. */
  readonly toolCalls: number;
  /** The newest turn's result in the shape of `outputSchema`; undefined without one. */
  readonly structuredOutput: T | undefined;
  /** Runs a turn and waits for its end. */
  turn<U = T>(prompt: Content, options?: TurnOptions<U>): Promise<TurnResult<U>>;
  /** Runs a turn; its events can be iterated as they happen. */
  stream<U = T>(prompt: Content, options?: TurnOptions<U>): EventStream<U>;
  /** The transcript at a revision; by default the current one. */
  revision(
    revision?: string,
    options?: OptionsOf<"readRevision", "session_id" | "revision">,
  ): Promise<AnswerOf<"readRevision">>;
  /** Replaces the messages from `start` to before `end`, counted as in `history`. */
  rewrite(
    range: { start: number; end: number },
    messages: readonly MessageInput[],
    options?: RewriteOptions,
  ): Promise<AnswerOf<"rewriteTranscript">>;
  /** Restores the transcript of a revision. */
  restore(revision: string, options?: RewriteOptions): Promise<AnswerOf<"restoreRevision">>;
  /** The rewrites and restorations of the transcript, oldest first. */
  rewrites(): Promise<AnswerOf<"listRewrites">["commits"]>;
  /** Forks before the message at an index, with a replacement for it. */
  fork(messageIndex: number, replacement?: ReplacementInput): Promise<Session<T>>;
  /** Every compaction with its receipt, oldest first. */
  compactions(): Promise<AnswerOf<"listCompactions">["compactions"]>;
  /** Undoes a compaction and those built on it; later turns stay. Resolves with the undone ids. */
  undoCompaction(compactionId: string): Promise<readonly string[]>;
  /** The durable events after a number, a page at a time. */
  listEvents(options?: { after?: number; limit?: number }): Promise<AnswerOf<"listEvents">>;
  /** The events after a number from the log, then live ones; without a number, live ones only. */
  events(options?: { after?: number; signal?: AbortSignal }): AsyncIterable<Delivery>;
}

/** Methods that a session implements itself. */
type Own = "fork" | "revision" | "rewrite" | "restore" | "rewrites" | "compactions" | "undoCompaction";

export interface SessionLink extends Standing {
  readonly ask: Ask;
  readonly subscribe: (
    sessionId: string,
    options?: { after?: number; signal?: AbortSignal },
  ) => AsyncIterable<Delivery>;
}

export function createHandle<T>(link: SessionLink, id: string, first?: TurnResult<T>): Session<T> {
  const { ask, subscribe, onApproval, outputSchema } = link;
  const methods = createMethodsAbout(ask, "session_id", id);
  const about = { session_id: id };
  const scope = { type: "session", ...about };
  let last: TurnResult<unknown> | undefined = first;
  // The runtime has validated the result against the schema.
  const lastResult = () => last as TurnResult<T> | undefined;
  const startTurn = async <U>(prompt: Content, options?: object, context?: CallContext): Promise<TurnResult<U>> => {
    const given = { ...about, prompt };
    const result = (await ask("startTurn", given, options, { ...context, onApproval, outputSchema })) as TurnResult<U>; // As above.
    last = result;
    return result;
  };
  return {
    ...methods,
    id,
    get lastResult() {
      return lastResult();
    },
    get text() {
      return last?.text ?? "";
    },
    get usage() {
      return last?.usage;
    },
    get turns() {
      return last?.turns ?? 0;
    },
    get toolCalls() {
      return last?.toolCalls ?? 0;
    },
    get structuredOutput() {
      return lastResult()?.structuredOutput;
    },
    turn: startTurn,
    stream: <U>(prompt: Content, options?: object) =>
      streamOf((listener) => startTurn<U>(prompt, options, { listener })),
    revision: (revision = "current", options = {}) => methods.revision(revision, options),
    rewrite: async ({ start, end }, replacement, { reason, note, ...options } = {}) => {
      const selection = { type: "message_range", start, end };
      return ask("rewriteTranscript", { ...about, selection, replacement, ...reasonOf(reason, note) }, options);
    },
    restore: async (revision, { reason, note, ...options } = {}) =>
      ask("restoreRevision", { ...about, revision, ...reasonOf(reason, note) }, options),
    rewrites: async () => (await methods.rewrites()).commits,
    fork: async (messageIndex, replacement) => {
      const made = await (replacement === undefined
        ? methods.fork(messageIndex)
        : methods.forkReplacing({ messageIndex, replacement }));
      return createHandle<T>(link, made.sessionId);
    },
    compactions: async () => (await methods.compactions()).compactions,
    undoCompaction: async (compactionId) => (await methods.undoCompaction(compactionId)).compactionIds,
    listEvents: ({ after, limit } = {}) => {
      const cursor = after === undefined ? undefined : { scope, sequence: after };
      return ask("listEvents", { scope, cursor, limit });
    },
    events: (options) => subscribe(id, options),
  };
}

function reasonOf(kind = "edit", note?: string) {
  return { reason: { kind, ...(note === undefined ? {} : { note }) } };
}

/** Starts work with a listener and yields its events. */
export function streamOf<Result>(
  start: (listener: NonNullable<CallContext["listener"]>) => Promise<Result>,
): EventsUntil<Result> {
  const queue = createEventQueue();
  const result = start(queue.listener).finally(queue.end);
  // The iterator throws the failure; it must not also crash the process.
  result.catch(() => {});
  // No generator: a turn emits many small deltas, and each would pass through three more promises.
  const events = (): AsyncIterator<AgentEvent> => {
    let reader: AsyncIterator<Delivery> | undefined;
    let [isReported, isOver] = [false, false];
    return {
      next: async () => {
        if (isOver) return DONE;
        reader ??= queue[Symbol.asyncIterator]();
        const received = await reader.next();
        if (received.done !== true) {
          const { event } = received.value;
          isReported ||= event.type === "run_failed";
          return { done: false, value: event };
        }
        isOver = true;
        // A refused turn, or one whose server is gone, emits no end: half an answer must not pass for a whole one.
        if (!isReported) await result;
        return DONE;
      },
      return: async () => {
        isOver = true;
        isReported = true;
        await reader?.return?.();
        return DONE;
      },
    };
  };
  return { result, [Symbol.asyncIterator]: events };
}

const DONE: IteratorReturnResult<undefined> = { done: true, value: undefined };
