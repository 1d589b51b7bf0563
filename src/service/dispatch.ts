import { CAPABILITY_ABSENT, type Capability } from "../contract/capability.ts";
import { asRuntimeError, RuntimeError } from "../contract/error.ts";
import { invalidInput } from "../contract/input/invalid-input.ts";
import { OPERATIONS, type OperationInput, type OperationName, type OperationOutput } from "../contract/operations.ts";
import type { Tool } from "../ports/tool.ts";
import type { Listener } from "./event-queue.ts";

/** What a call brings besides its input. */
export interface CallContext {
  /** Aborting it interrupts the turn the call runs. */
  readonly signal?: AbortSignal;
  /** Hears the events of the turn the call runs. */
  readonly listener?: Listener;
  /** Tools only code can bring: they are not in the log and must be given again after a restart. */
  readonly tools?: readonly Tool[];
  /** Told of a turn that goes on behind its answer, for whoever must not end before it has. */
  readonly behind?: (turn: Promise<unknown>) => void;
  /** The trace the caller is in, as W3C writes it; in this process the active one counts without being told. */
  readonly traceparent?: string | undefined;
}

/** Every operation of the table as a function; inputs are already parsed. */
export type Service = {
  readonly [N in OperationName]: (input: OperationInput<N>, call: CallContext) => Promise<OperationOutput<N>>;
};

/** Calls an operation by name with an input nobody has looked at yet. */
export type Dispatch = <N extends OperationName>(
  name: N,
  input: unknown,
  call?: CallContext,
) => Promise<OperationOutput<N>>;

/** The one way in: the capability gate, then validation, then the service. It throws errors of the table only. */
export function createDispatch(service: Service, capabilities: ReadonlySet<Capability>): Dispatch {
  return async (name, input, call = {}) => {
    const operation = OPERATIONS[name];
    if ("requires" in operation) requireCapability(capabilities, operation.requires);
    const parsed = operation.input.safeParse(input ?? {});
    if (!parsed.success) throw invalidInput(parsed.error);
    if (call.signal?.aborted) throw new RuntimeError("REQUEST_CANCELLED", "the request was cancelled before it began");
    // The row's schema made this value, so it is the input of the row's function.
    const handler = service[name] as (input: unknown, call: CallContext) => Promise<OperationOutput<typeof name>>;
    try {
      return await handler(parsed.data, call);
    } catch (thrown) {
      throw asRuntimeError(thrown);
    }
  };
}

export function requireCapability(present: ReadonlySet<Capability>, required: Capability): void {
  if (present.has(required)) return;
  const { code, message } = CAPABILITY_ABSENT[required];
  throw new RuntimeError(code, message);
}
