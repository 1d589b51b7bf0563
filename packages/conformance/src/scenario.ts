import type { Capability } from "@rkat/core/contract/capability";
import type { ErrorCode } from "@rkat/core/contract/error";
import type { AgentEventType } from "@rkat/core/contract/event";
import type { OperationName } from "@rkat/core/contract/operations";

/**
 * What is expected of a value: an object has at least these fields, a list exactly these elements, a text is this or
 * fits the pattern. `{name}` in a text stands for what was kept under the name.
 */
export type Expected = unknown;

/** An event with the fields that matter; pieces of streamed text are told as one. */
export interface ExpectedEvent {
  readonly type: AgentEventType;
  readonly [field: string]: Expected;
}

/** What a scenario needs of a surface besides the operations of the table. */
export type Ability =
  /** To be ended and started again, with what it kept. */
  | "restart"
  /** To create a session that has not run. */
  | "deferred sessions"
  /** To go on with a session that only the process knows. */
  | "turns of unkept sessions"
  /** To tell a further turn from a resume. */
  | "turns apart from resumes"
  /** To compact a session that only the process knows. */
  | "compactions of unkept sessions"
  /** To be called with an input that its own form has no place for. */
  | "free input"
  /** To pin messages, which is for people to decide. */
  | "pins"
  /** To change which MCP servers a session has, which is for people to decide. */
  | "servers"
  /** To be brought a session's log, which only who owns a server may. */
  | "imports"
  /** To let go of what is kept no longer, which is for people to decide. */
  | "pruning"
  /** To be given tools that its caller runs. */
  | "client tools"
  /** To have a turn wait for a person's word, and to give it. */
  | "questions"
  /** To have the skill that the scenarios bring. */
  | "skills"
  /** To do what only an operator may. */
  | "operation";

/** One call of an operation of the table, and what must come of it. */
export interface CallStep {
  readonly call: OperationName;
  readonly input: Readonly<Record<string, unknown>>;
  readonly result?: Expected;
  /** What its input asks for: without it the call is refused with the capability's code. */
  readonly asksFor?: Capability;
  /** The code it must fail with instead, and what the sentence must say. */
  readonly error?: { readonly code: ErrorCode; readonly message?: string | RegExp };
  /** The events of the turn it runs, all of them. */
  readonly events?: readonly ExpectedEvent[];
  /** Values of the result to keep, by the name to keep them under: a path of fields joined by dots. */
  readonly keep?: Readonly<Record<string, string>>;
  /** What is done while it runs, as soon as it has told an event of the type. */
  readonly meanwhile?: { readonly after: AgentEventType; readonly steps: readonly CallStep[] };
}

/** A call of an operation with its input, and what must come of it. */
export function step(
  call: OperationName,
  input: CallStep["input"],
  expected: Omit<CallStep, "call" | "input"> = {},
): CallStep {
  return { call, input, ...expected };
}

/** The input of an operation on the session that was kept as `session`. */
export const SESSION = { session_id: "{session}" };

type Step = CallStep | { readonly restart: true };

/** A story that is the same on every surface. */
export interface Scenario {
  readonly name: string;
  readonly title: string;
  /** Without these it is not told. */
  readonly requires?: readonly Capability[];
  readonly needs?: readonly Ability[];
  readonly steps: readonly Step[];
}
