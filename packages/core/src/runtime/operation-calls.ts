import { questionIn } from "../contract/describe-event.ts";
import { type ErrorCode, hasCode, messageOf, RuntimeError } from "../contract/error.ts";
import type { AgentEventOf } from "../contract/event.ts";
import { defined } from "../contract/json.ts";
import type { OPERATIONS, OperationName, OperationOutput } from "../contract/operations.ts";
import type { Remember } from "../contract/permission.ts";
import type { JsonObject } from "../contract/session.ts";
import { type NoOption, type OperationWritten, WIRE_TABLE } from "../contract/wire/wire-table.ts";
import { isStandard, jsonSchemaOf } from "../ports/standard-schema.ts";
import type { Listener } from "../sessions/event-queue.ts";
import type { CallContext, Dispatch } from "./dispatch.ts";
import {
  type Answer,
  type CamelCased,
  camelOf,
  fromWire,
  inCamelCase,
  readResult,
  requireNames,
  toWire,
} from "./options.ts";

interface CallOptions {
  /** Aborting it gives the call up; a turn that runs for it is interrupted. */
  readonly signal?: AbortSignal;
}

/** The options of an operation: the fields of its input, without those that are given another way. */
export type OptionsOf<N extends OperationName, Given extends string = never> = CamelCased<
  Omit<OperationWritten<N>, Given | NoOption<N>>
> &
  CallOptions;

type RequiredKey<T> = { [K in keyof T]-?: Record<never, never> extends Pick<T, K> ? never : K }[keyof T];
type OnlyOne<K, All = K> = K extends unknown ? ([All] extends [K] ? K : never) : never;

/** The one field besides those given that cannot be left out: a call begins with it. */
type PositionalOf<N extends OperationName, Given extends string> = OnlyOne<
  Exclude<RequiredKey<OperationWritten<N>>, Given>
> &
  string;

/** An operation as a method: the one field it cannot do without comes first, everything else is an option. */
type Method<N extends OperationName, Given extends string = never> = [
  Exclude<RequiredKey<OperationWritten<N>>, Given>,
] extends [never]
  ? (options?: OptionsOf<N, Given>) => Promise<AnswerOf<N>>
  : [PositionalOf<N, Given>] extends [never]
    ? (options: OptionsOf<N, Given>) => Promise<AnswerOf<N>>
    : (
        positional: PositionalValue<N, PositionalOf<N, Given>>,
        options?: OptionsOf<N, Given | PositionalOf<N, Given>>,
      ) => Promise<AnswerOf<N>>;

/** What a method resolves with: the output of its operation, in camel case. */
export type AnswerOf<N extends OperationName> = Answer<OperationOutput<N>>;

type PositionalValue<N extends OperationName, Positional extends string> = CamelCased<
  OperationWritten<N>[Positional & keyof OperationWritten<N>]
>;

/** The operations about one thing, which they name by this field. */
type OperationAbout<Field extends string> = {
  [N in OperationName]: Field extends RequiredKey<OperationWritten<N>> ? N : never;
}[OperationName];

/** What a method is called whose object is known already: `readHistory` of a session is `history`. */
type MethodName<N extends OperationName> = (typeof OPERATIONS)[N] extends { readonly method: infer M extends string }
  ? M
  : N;

/** The operations about a session or an agent as methods of it; its turns have more to them than a method. */
export type MethodsAbout<Field extends "session_id" | "agent"> = {
  readonly [N in Exclude<OperationAbout<Field>, OperationAbout<"prompt">> as MethodName<N>]: Method<N, Field>;
};

/** The operations about neither as methods of the runtime, under their own names. */
export type OtherMethods = {
  readonly [N in Exclude<OperationName, OperationAbout<"session_id" | "agent" | "scope">>]: Method<N>;
};

/** Calls an operation with fields of the wire and options of the caller; what is wrong is said in the caller's words. */
export type Ask = <N extends OperationName>(
  name: N,
  given: Readonly<Record<string, unknown>>,
  options?: object,
  /** Its approver and its schema stand in where the options name none. */
  more?: CallContext & Standing,
) => Promise<AnswerOf<N>>;

/** What a session keeps of the options that it was created with. */
export interface Standing {
  readonly onApproval?: OnApproval | undefined;
  readonly outputSchema?: unknown;
}

/** Sentences that say what to do, by the code of the error they take the place of. */
export type Advice = Partial<Record<ErrorCode, string>>;

export function createAsk(dispatch: Dispatch, advice: Advice = {}): Ask {
  return async (name, given, options = {}, { onApproval: usual, outputSchema: kept, ...more } = {}) => {
    const { fields, call, onApproval = usual, outputSchema = kept } = readOptions(name, given, options);
    const context = { ...call, ...more };
    const hasListener = onApproval !== undefined || context.listener !== undefined;
    const approver = onApproval && createApprover(dispatch, onApproval, context);
    const unattended = WIRE_TABLE[name].runsTurn && !hasListener ? { unattended: NO_APPROVER } : {};
    try {
      const output = await dispatch(name, fields, { ...context, ...unattended, ...approver?.context });
      approver?.requireUsable();
      const answer = fromWire(output, WIRE_TABLE[name].answer) as AnswerOf<typeof name>; // By the schema of the type.
      return (await readResult(answer, outputSchema)) as typeof answer; // The same, with what the caller's schema reads.
    } catch (thrown) {
      approver?.requireUsable();
      throw thrown instanceof RuntimeError ? inWords(thrown, name, advice[thrown.code]) : thrown;
    }
  };
}

const NO_APPROVER =
  "no approver was given: pass onApproval to createSession or turn, or allow the call by a rule of permissions";

/**
 * An answer to an approval: for all of its calls, or for some; only "allow" can be remembered. To an MCP server's question,
 * "allow" with `content` answers, "deny" declines and "cancel" dismisses.
 */
export type ApprovalAnswer =
  | "allow"
  | "deny"
  | "cancel"
  | {
      readonly decision: "allow" | "deny" | "cancel";
      readonly remember?: Remember;
      readonly calls?: readonly string[];
      readonly reason?: string;
      readonly content?: JsonObject;
    };

/**
 * Answers an approval. Returning undefined leaves the answer to another client; until it comes, or the time is over, the
 * turn waits. A promise may be of any string, since TypeScript widens the literal of `async () => "allow"`: one that is no
 * answer rejects the turn.
 */
export type OnApproval = (
  approval: AgentEventOf<"tool_approval_requested">,
) => ApprovalAnswer | undefined | Promise<ApprovalAnswer | string | undefined>;

const ANSWERS =
  'return "allow", "deny", { decision: "allow" or "deny", remember, calls, reason, content }, or undefined';

/** Calls a function for each approval of a turn and sends its answer; one that cannot be used ends the turn. */
function createApprover(dispatch: Dispatch, onApproval: OnApproval, { listener, signal }: CallContext) {
  const ending = new AbortController();
  let failure: unknown;
  const answer = async (approval: AgentEventOf<"tool_approval_requested">): Promise<void> => {
    const { session_id, approval_id } = approval;
    const word: unknown = await (async () => onApproval(approval))().catch((thrown: unknown) => {
      return { decision: "deny", reason: `the approval handler failed: ${messageOf(thrown)}` };
    });
    if (word === undefined) return;
    const given = typeof word === "string" ? { decision: word } : Object(word);
    try {
      await dispatch("answerApproval", { ...given, session_id, approval_id });
    } catch (thrown) {
      // Another client may have answered first, or the time may be over: then the turn continues without this answer.
      const open = await dispatch("listApprovals", { session_id }).catch(() => undefined);
      if (open?.approvals.some((one) => one.approval_id === approval_id) === false) return;
      failure = unusable(word, thrown);
      // A turn that waits is ended by the operation; a parent whose sub-agent waits is running, and ends by its signal.
      await dispatch("interruptTurn", { session_id }).catch(() => {});
      ending.abort("an approval could not be answered");
    }
  };
  const onDelivery: Listener = (delivery) => {
    listener?.(delivery);
    const question = questionIn(delivery.event);
    if (question !== undefined) void answer(question);
  };
  return {
    context: {
      hasApprover: true as const,
      listener: onDelivery,
      signal: signal === undefined ? ending.signal : AbortSignal.any([signal, ending.signal]),
    },
    requireUsable: () => {
      if (failure !== undefined) throw failure;
    },
  };
}

function unusable(word: unknown, thrown: unknown): unknown {
  if (!hasCode(thrown, "INVALID_PARAMS")) return thrown;
  const shown = typeof word === "object" ? "an answer that cannot be used" : String(word);
  return new RuntimeError("INVALID_PARAMS", `onApproval returned ${shown}: ${thrown.message}; ${ANSWERS}`);
}

/** Options as an operation's input and what goes beside it; throws INVALID_PARAMS for a name that is none. */
function readOptions(
  name: OperationName,
  given: Readonly<Record<string, unknown>>,
  options: object,
): { readonly fields: Record<string, unknown>; readonly call: CallContext } & Standing {
  const { fields, runsTurn } = WIRE_TABLE[name];
  const own = Object.keys(fields).filter((field) => !(field in given));
  // Tools are code, which only who makes a session can give it.
  const beside = ["signal", ...(name === "createSession" ? ["tools"] : []), ...(runsTurn ? ["onApproval"] : [])];
  requireNames(options, [...own.map(camelOf), ...beside]);
  const {
    signal,
    tools,
    outputSchema,
    onApproval,
    ...rest
  }: CallContext & {
    outputSchema?: unknown;
    onApproval?: OnApproval;
  } = options;
  if (onApproval !== undefined && typeof onApproval !== "function") {
    throw new RuntimeError("INVALID_PARAMS", "onApproval: give a function that says allow or deny");
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new RuntimeError("INVALID_PARAMS", "signal: give an AbortSignal");
  }
  const schema = isStandard(outputSchema) ? jsonSchemaOf("outputSchema", outputSchema) : outputSchema;
  const field = name === "createSession" ? "output_schema" : "turn_output_schema";
  return {
    fields: { ...toWire(rest, fields), ...(schema === undefined ? {} : { [field]: schema }), ...given },
    call: { ...(signal === undefined ? {} : { signal }), ...(tools === undefined ? {} : { tools }) },
    ...defined({ onApproval, outputSchema }),
  };
}

function inWords(error: RuntimeError, name: OperationName, advice: string | undefined): RuntimeError {
  const { code, message, details, cause } = error;
  const words = (advice ?? (code === "INVALID_PARAMS" ? inCamelCase(message, WIRE_TABLE[name].fields) : message))
    // The SDK has one name for a session's schema and for a turn's.
    .replace(/^turnOutputSchema\b/, "outputSchema");
  return words === message ? error : new RuntimeError(code, words, { details, cause });
}

/** The methods of what a field of the wire names. */
export function createMethodsAbout<Field extends "session_id" | "agent">(
  ask: Ask,
  field: Field,
  value: string,
): MethodsAbout<Field> {
  const names = OPERATION_NAMES.filter((name) => {
    const { required } = WIRE_TABLE[name];
    return required.includes(field) && !required.includes("prompt");
  });
  const methods = names.map((name) => [WIRE_TABLE[name].method, createMethod(ask, name, { [field]: value })]);
  return Object.fromEntries(methods); // Named and made as the type says, of the same table.
}

export function createOtherMethods(ask: Ask): OtherMethods {
  const names = OPERATION_NAMES.filter(
    (name) => !["session_id", "agent", "scope"].some((field) => WIRE_TABLE[name].required.includes(field)),
  );
  // As above.
  return Object.fromEntries(names.map((name) => [name, createMethod(ask, name, {})])) as OtherMethods;
}

const OPERATION_NAMES = Object.keys(WIRE_TABLE) as OperationName[]; // The keys of the table are its names.

function createMethod(ask: Ask, name: OperationName, given: Readonly<Record<string, unknown>>) {
  const [positional, ...others] = WIRE_TABLE[name].required.filter((field) => !(field in given));
  if (positional === undefined || others.length > 0) return (options?: object) => ask(name, given, options);
  return (value: unknown, options?: object) => {
    const { [positional]: written } = toWire({ [positional]: value }, WIRE_TABLE[name].fields);
    return ask(name, { ...given, [positional]: written }, options);
  };
}
