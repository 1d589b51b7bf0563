import type { Compaction, CompactionSettings, CompactResult, ExpandResult } from "../contract/compaction.ts";
import { RuntimeError } from "../contract/error.ts";
import type { AgentEvent } from "../contract/event.ts";
import type { BudgetLimits } from "../contract/input/budget-limits.ts";
import type { Content } from "../contract/message.ts";
import type { CreateSession, RunResult, SessionContext, SessionHistory, StartTurn } from "../contract/session.ts";
import type { MessageInput, ReplacementInput, RewriteCommit } from "../contract/transcript/rewrite.ts";
import type { RewriteResult, TranscriptRevision } from "../contract/transcript/rewrite-operations.ts";
import type { Tool } from "../ports/tool.ts";
import type { CallContext, Dispatch } from "./dispatch.ts";
import { createEventQueue } from "./event-queue.ts";
import { requireNames } from "./option-names.ts";

/** Options of a new session: those of the wire in camel case, and what only code can give. */
export interface SessionOptions {
  readonly model?: string;
  readonly provider?: string;
  readonly systemPrompt?: string;
  readonly additionalInstructions?: readonly string[];
  readonly maxTokens?: number;
  readonly maxTurns?: number;
  /** Budgets as on the wire: `max_tokens`, `max_tool_calls`, `max_duration` ("30s"). */
  readonly budgetLimits?: Readonly<BudgetLimits>;
  readonly enableBuiltins?: boolean;
  readonly enableShell?: boolean;
  readonly enableMemory?: boolean;
  readonly toolPreset?: NonNullable<CreateSession["tool_preset"]>;
  readonly toolFilter?: CreateSession["tool_filter"];
  /** Custom tools of this session. */
  readonly tools?: readonly Tool[];
  readonly outputSchema?: Readonly<Record<string, unknown>>;
  readonly structuredOutputRetries?: number;
  readonly providerParams?: Readonly<Record<string, unknown>>;
  readonly labels?: Readonly<Record<string, string>>;
  readonly appContext?: unknown;
  readonly shellEnv?: Readonly<Record<string, string>>;
  /** How this session is compacted, as on the wire: `auto_compact_threshold`, `recent_turn_budget`, … */
  readonly compaction?: Readonly<CompactionSettings>;
  /** Aborting it interrupts the first turn. */
  readonly signal?: AbortSignal;
}

/** Options of one further turn. */
export interface TurnOptions {
  /** Changes the model for this turn and those after it. */
  readonly model?: string;
  readonly provider?: string;
  readonly providerParams?: Readonly<Record<string, unknown>>;
  readonly additionalInstructions?: readonly string[];
  readonly toolOverlay?: { readonly allowed_tools?: readonly string[]; readonly blocked_tools?: readonly string[] };
  readonly signal?: AbortSignal;
}

/** Why a transcript is changed, and what it must be for that. */
export interface RewriteOptions {
  /** In a word; `edit` without it. */
  readonly reason?: string;
  readonly note?: string;
  readonly actor?: string;
  /** Refused when the transcript is another by now. */
  readonly expectedRevision?: string;
}

/** The events of one turn, live. Iterating is optional: `result` settles when the turn ends, listened to or not. */
export interface EventStream extends AsyncIterable<AgentEvent> {
  readonly result: Promise<RunResult>;
}

/** A conversation with an agent. */
export interface Session {
  readonly id: string;
  /** How the newest turn ended; undefined before the first. */
  readonly lastResult: RunResult | undefined;
  /** Text the newest turn ended with. */
  readonly text: string;
  /** Runs a turn and waits for its end. */
  turn(prompt: Content, options?: TurnOptions): Promise<RunResult>;
  /** Runs a turn and lets its events be iterated as they happen. */
  stream(prompt: Content, options?: TurnOptions): EventStream;
  /** Stops the running turn; what it streamed is kept. */
  interrupt(): Promise<void>;
  /** The full transcript, oldest first. */
  history(page?: { offset?: number; limit?: number }): Promise<SessionHistory>;
  /** The transcript as it was at a revision; without one, as it is, with its revision. */
  revision(revision?: string, page?: { offset?: number; limit?: number }): Promise<TranscriptRevision>;
  /** Puts other messages in the place of those from `start` to before `end`, counted as in `history`. */
  rewrite(
    range: { start: number; end: number },
    messages: readonly MessageInput[],
    options?: RewriteOptions,
  ): Promise<RewriteResult>;
  /** Makes the transcript what it was at a revision. */
  restore(revision: string, options?: RewriteOptions): Promise<RewriteResult>;
  /** How the transcript was rewritten and restored, oldest first. */
  rewrites(): Promise<readonly RewriteCommit[]>;
  /** A new session of the messages before an index, with a replacement in the place of the one at it. */
  fork(messageIndex: number, replacement?: ReplacementInput): Promise<Session>;
  /** What the model is shown now, or was shown at an earlier call. */
  context(at?: { seq?: number }): Promise<SessionContext>;
  /** Compacts the context now; with `preview`, only says what that would keep, drop and cost. */
  compact(options?: { instructions?: string; preview?: boolean; signal?: AbortSignal }): Promise<CompactResult>;
  /** Every compaction with its receipt, oldest first. */
  compactions(): Promise<readonly Compaction[]>;
  /** Undoes a compaction and those built on it; later turns stay. Resolves with the ids of what was undone. */
  undoCompaction(compactionId: string): Promise<readonly string[]>;
  /** Brings turns a compaction took out back into the context. */
  expandCompaction(
    compactionId: string,
    range?: { fromSeq?: number; toSeq?: number; maxTokens?: number },
  ): Promise<ExpandResult>;
  /** Keeps a message in the context through every compaction. */
  pin(seq: number): Promise<void>;
  unpin(seq: number): Promise<void>;
  /** Ends the session: it stays readable and runs no more turns. */
  archive(): Promise<void>;
}

export function createHandle(dispatch: Dispatch, id: string, first?: RunResult): Session {
  let lastResult = first;
  const startTurn = async (prompt: Content, options: TurnOptions, hearing: CallContext = {}): Promise<RunResult> => {
    requireNames(options, [...Object.keys(TURN_FIELDS), "signal"]);
    const fields = { ...fieldsOf(options, TURN_FIELDS), session_id: id, prompt };
    lastResult = await dispatch("startTurn", fields, { ...callOf(options), ...hearing });
    return lastResult;
  };
  return {
    id,
    get lastResult() {
      return lastResult;
    },
    get text() {
      return lastResult?.text ?? "";
    },
    turn: (prompt, options = {}) => startTurn(prompt, options),
    stream: (prompt, options = {}) => streamOf((listener) => startTurn(prompt, options, { listener })),
    interrupt: async () => {
      await dispatch("interruptTurn", { session_id: id });
    },
    history: (page = {}) => dispatch("readHistory", { session_id: id, ...page }),
    revision: (revision = "current", page = {}) => dispatch("readRevision", { session_id: id, revision, ...page }),
    rewrite: ({ start, end }, replacement, options = {}) => {
      const selection = { type: "message_range", start, end };
      return dispatch("rewriteTranscript", { session_id: id, selection, replacement, ...reasonOf(options) });
    },
    restore: (revision, options = {}) =>
      dispatch("restoreRevision", { session_id: id, revision, ...reasonOf(options) }),
    rewrites: async () => (await dispatch("listRewrites", { session_id: id })).commits,
    fork: async (message_index, replacement) => {
      const source = { session_id: id, message_index };
      const made =
        replacement === undefined
          ? await dispatch("forkSession", source)
          : await dispatch("forkReplacing", { ...source, replacement });
      return createHandle(dispatch, made.session_id);
    },
    context: ({ seq } = {}) =>
      dispatch("readContext", { session_id: id, ...(seq === undefined ? {} : { at_seq: seq }) }),
    compact: ({ signal, ...fields } = {}) =>
      dispatch("compactSession", { session_id: id, ...fields }, signal === undefined ? {} : { signal }),
    compactions: async () => (await dispatch("listCompactions", { session_id: id })).compactions,
    undoCompaction: async (compaction_id) =>
      (await dispatch("undoCompaction", { session_id: id, compaction_id })).compaction_ids,
    expandCompaction: (compaction_id, { fromSeq: from_seq, toSeq: to_seq, maxTokens: max_tokens } = {}) =>
      dispatch("expandCompaction", { session_id: id, compaction_id, from_seq, to_seq, max_tokens }),
    pin: async (seq) => {
      await dispatch("pinMessage", { session_id: id, seq });
    },
    unpin: async (seq) => {
      await dispatch("unpinMessage", { session_id: id, seq });
    },
    archive: async () => {
      await dispatch("archiveSession", { session_id: id });
    },
  };
}

function reasonOf(options: RewriteOptions) {
  requireNames(options, ["reason", "note", "actor", "expectedRevision"]);
  const { reason: kind = "edit", note, actor, expectedRevision } = options;
  const reason = { kind, ...(note === undefined ? {} : { note }) };
  return { reason, actor, expected_parent_revision: expectedRevision };
}

/** Starts work with a listener and hands out what it hears. */
export function streamOf<T extends RunResult>(
  start: (listener: NonNullable<CallContext["listener"]>) => Promise<T>,
): EventStream & { readonly result: Promise<T> } {
  const queue = createEventQueue();
  const result = start(queue.listener).finally(queue.end);
  // Whoever iterates sees the failure there; it must not also crash the process.
  result.catch(() => {});
  async function* events(): AsyncGenerator<AgentEvent> {
    let isTold = false;
    for await (const { event } of queue) {
      isTold ||= event.type === "run_failed";
      yield event;
    }
    // A turn that was refused, or whose server is gone, told nothing of its end: half an answer must not pass for one.
    if (!isTold) await result;
  }
  return { result, [Symbol.asyncIterator]: events };
}

/** Options under the names of the wire; those that only code can give are not among them. */
const SESSION_FIELDS = {
  model: "model",
  provider: "provider",
  systemPrompt: "system_prompt",
  additionalInstructions: "additional_instructions",
  maxTokens: "max_tokens",
  maxTurns: "max_turns",
  budgetLimits: "budget_limits",
  enableBuiltins: "enable_builtins",
  enableShell: "enable_shell",
  enableMemory: "enable_memory",
  toolPreset: "tool_preset",
  toolFilter: "tool_filter",
  outputSchema: "output_schema",
  structuredOutputRetries: "structured_output_retries",
  providerParams: "provider_params",
  labels: "labels",
  appContext: "app_context",
  shellEnv: "shell_env",
  compaction: "compaction",
} as const satisfies Record<Exclude<keyof SessionOptions, "tools" | "signal">, keyof CreateSession>;

const TURN_FIELDS = {
  model: "model",
  provider: "provider",
  providerParams: "provider_params",
  additionalInstructions: "additional_instructions",
  toolOverlay: "flow_tool_overlay",
} as const satisfies Record<Exclude<keyof TurnOptions, "signal">, keyof StartTurn>;

/** The wire's input for a new session. */
export function createFields(options: SessionOptions): Record<string, unknown> {
  requireNames(options, [...Object.keys(SESSION_FIELDS), "tools", "signal"]);
  return fieldsOf(options, SESSION_FIELDS);
}

function fieldsOf(options: object, fields: Readonly<Record<string, string>>): Record<string, unknown> {
  const given = new Map(Object.entries(options));
  return Object.fromEntries(Object.entries(fields).map(([option, field]) => [field, given.get(option)]));
}

/** The call context of a new session. */
export function createCall(options: SessionOptions): CallContext {
  return { ...callOf(options), ...(options.tools === undefined ? {} : { tools: options.tools }) };
}

function callOf({ signal }: { readonly signal?: AbortSignal }): CallContext {
  if (signal === undefined) return {};
  if (!(signal instanceof AbortSignal)) throw new RuntimeError("INVALID_PARAMS", "signal: give an AbortSignal");
  return { signal };
}
