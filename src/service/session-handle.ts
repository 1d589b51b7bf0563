import type { AgentEvent } from "../contract/event.ts";
import type { Content } from "../contract/message.ts";
import type { CreateSession, RunResult, SessionHistory } from "../contract/session.ts";
import type { Tool } from "../ports/tool.ts";
import type { CallContext, Dispatch } from "./dispatch.ts";
import { createEventQueue } from "./event-queue.ts";

/** Options of a new session: those of the wire in camel case, and what only code can give. */
export interface SessionOptions {
  readonly model?: string;
  readonly provider?: string;
  readonly systemPrompt?: string;
  readonly additionalInstructions?: readonly string[];
  readonly maxTokens?: number;
  readonly maxTurns?: number;
  /** Budgets as on the wire: `max_tokens`, `max_tool_calls`, `max_duration` ("30s"). */
  readonly budgetLimits?: Readonly<Record<string, unknown>>;
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
  /** Ends the session: it stays readable and runs no more turns. */
  archive(): Promise<void>;
}

export function createHandle(dispatch: Dispatch, id: string, first?: RunResult): Session {
  let lastResult = first;
  const startTurn = async (prompt: Content, options: TurnOptions, call: CallContext): Promise<RunResult> => {
    lastResult = await dispatch("startTurn", { session_id: id, prompt, ...turnFields(options) }, call);
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
    turn: (prompt, options = {}) => startTurn(prompt, options, callOf(options)),
    stream: (prompt, options = {}) =>
      streamOf((listener) => startTurn(prompt, options, { ...callOf(options), listener })),
    interrupt: async () => {
      await dispatch("interruptTurn", { session_id: id });
    },
    history: (page = {}) => dispatch("readHistory", { session_id: id, ...page }),
    archive: async () => {
      await dispatch("archiveSession", { session_id: id });
    },
  };
}

/** Starts work with a listener and hands out what it hears. */
export function streamOf<T extends RunResult>(
  start: (listener: NonNullable<CallContext["listener"]>) => Promise<T>,
): EventStream & { readonly result: Promise<T> } {
  const queue = createEventQueue();
  const result = start(queue.listener).finally(queue.end);
  // Whoever only iterates sees the failure as the `run_failed` event; it must not also crash the process.
  result.catch(() => {});
  async function* events(): AsyncGenerator<AgentEvent> {
    for await (const { event } of queue) yield event;
  }
  return { result, [Symbol.asyncIterator]: events };
}

/** The wire's input for a new session. */
export function createFields(options: SessionOptions): Record<string, unknown> {
  return {
    model: options.model,
    provider: options.provider,
    system_prompt: options.systemPrompt,
    additional_instructions: options.additionalInstructions,
    max_tokens: options.maxTokens,
    max_turns: options.maxTurns,
    budget_limits: options.budgetLimits,
    enable_builtins: options.enableBuiltins,
    enable_shell: options.enableShell,
    enable_memory: options.enableMemory,
    tool_preset: options.toolPreset,
    tool_filter: options.toolFilter,
    output_schema: options.outputSchema,
    structured_output_retries: options.structuredOutputRetries,
    provider_params: options.providerParams,
    labels: options.labels,
    app_context: options.appContext,
    shell_env: options.shellEnv,
  };
}

/** The call context of a new session. */
export function createCall(options: SessionOptions): CallContext {
  return { ...callOf(options), ...(options.tools === undefined ? {} : { tools: options.tools }) };
}

function turnFields(options: TurnOptions): Record<string, unknown> {
  return {
    model: options.model,
    provider: options.provider,
    provider_params: options.providerParams,
    additional_instructions: options.additionalInstructions,
    flow_tool_overlay: options.toolOverlay,
  };
}

function callOf(options: { readonly signal?: AbortSignal }): CallContext {
  return options.signal === undefined ? {} : { signal: options.signal };
}
