import { type Caller, requireScope } from "../contract/caller.ts";
import {
  CAPABILITY_ABSENT,
  type Capabilities,
  type Capability,
  type CapabilityStatus,
} from "../contract/capability.ts";
import { asRuntimeError, RuntimeError } from "../contract/error.ts";
import { invalidInput, requireNames } from "../contract/input.ts";
import { type OperationInput, type OperationName, type OperationOutput, operationOf } from "../contract/operations.ts";
import { CONTRACT_VERSION } from "../contract/version.ts";
import type { Unattended } from "../core/approval.ts";
import type { ToolChoice } from "../ports/model.ts";
import type { Tool } from "../ports/tool.ts";
import type { CallerView } from "./caller-view.ts";
import type { Listener } from "./event-queue.ts";

/** What a call brings besides its input. */
export interface CallContext {
  /** Absent for the user of this process, who may do everything. */
  readonly caller?: Caller;
  /** Aborting it interrupts the turn the call runs. */
  readonly signal?: AbortSignal;
  /** Aborts when a person's word is waited for no longer; a turn that runs goes on. */
  readonly leaving?: AbortSignal;
  /** What the model is told where nobody can be asked: such calls are denied then. */
  readonly unattended?: Unattended;
  /** Hears the events of the turn the call runs. */
  readonly listener?: Listener;
  /** Tools only code can bring: they are not in the log and must be given again after a restart. */
  readonly tools?: readonly Tool[];
  /** What the first model call of the turn must do. */
  readonly toolChoice?: ToolChoice | undefined;
  /** The turn asks again what the session's last turn asked, which failed: that is not said twice. */
  readonly isRetry?: boolean | undefined;
  /** Told of a turn that goes on behind its answer, for whoever must not end before it has. */
  readonly background?: (turn: Promise<unknown>) => void;
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

/**
 * The one way in: what the caller may do, the capability gate, validation, what is there for the caller, then the
 * service. It throws errors of the table only.
 */
export function createDispatch(
  service: Service,
  capabilities: ReadonlySet<Capability>,
  view: CallerView,
  /** What the calls of somebody of this name have cost today, in US dollars. */
  spentToday: (name: string) => Promise<number>,
): Dispatch {
  return async (name, input, given = {}) => {
    const operation = operationOf(name);
    const { caller } = given;
    requireScope(caller, operation.scope, operation.rpc);
    if (operation.requires !== undefined) requireCapability(capabilities, operation.requires);
    requireNames(input);
    const parsed = operation.input.safeParse(input ?? {});
    if (!parsed.success) throw invalidInput(parsed.error);
    const call = endingWith(given);
    if (call.signal?.aborted) throw new RuntimeError("REQUEST_CANCELLED", "the request was cancelled before it began");
    // The row's schema made this value, so it is the input of the row's function.
    const handler = service[name] as (input: unknown, call: CallContext) => Promise<OperationOutput<typeof name>>;
    try {
      if (caller === undefined) return await handler(parsed.data, call);
      // What costs money begins only while the caller may still spend some.
      if (operation.runs !== undefined) await requireLeft(caller, spentToday);
      // As above, of the row's input.
      const seen = await view.narrow(name, parsed.data as OperationInput<typeof name>, caller);
      return await handler(seen, call);
    } catch (thrown) {
      throw asRuntimeError(thrown);
    }
  };
}

/** Throws BUDGET_EXHAUSTED when a caller has spent what it may: no further turn begins. */
export async function requireLeft(
  { name, maxCostPerDay: limit }: Caller,
  spentToday: (name: string) => Promise<number>,
): Promise<void> {
  if (limit === undefined || (await spentToday(name)) < limit) return;
  const message = `token ${name} has spent the ${limit} dollars it may cost a day; it can run turns again after midnight, UTC`;
  throw new RuntimeError("BUDGET_EXHAUSTED", message);
}

/** What a caller runs is interrupted when it may do nothing any more. */
function endingWith(call: CallContext): CallContext {
  const until = call.caller?.until;
  if (until === undefined) return call;
  return { ...call, signal: call.signal === undefined ? until : AbortSignal.any([call.signal, until]) };
}

export function requireCapability(present: ReadonlySet<Capability>, required: Capability): void {
  if (present.has(required)) return;
  const { code, message } = CAPABILITY_ABSENT[required];
  throw new RuntimeError(code, message);
}

const OPTIONAL: Readonly<Record<Capability, { id: string; description: string }>> = {
  "session-store": { id: "session_store", description: "Sessions survive restarts and can be read, listed, archived" },
  "memory-store": { id: "memory_store", description: "What compaction hid is searchable with memory_search" },
  "session-compaction": { id: "session_compaction", description: "Long sessions are compacted before they overflow" },
};

const ALWAYS: readonly (readonly [id: string, description: string])[] = [
  ["sessions", "Sessions and turns"],
  ["streaming", "Events as they happen"],
  ["structured_output", "Results that match a JSON schema"],
  ["builtins", "Built-in tools: time, tasks, patches"],
  ["shell", "Shell commands and background jobs"],
  ["hooks", "Hooks around a turn's steps"],
  ["skills", "Skills loaded into the prompt"],
];

/** Parts of the wire contract that this runtime does not have. */
const NEVER: readonly (readonly [id: string, description: string])[] = [
  ["comms", "Messages between agents"],
  ["schedule", "Scheduled turns"],
  ["work_graph", "Shared work graphs"],
  ["mcp_live", "MCP servers added to a running session"],
];

/** What a runtime of these capabilities can do. */
export function describeCapabilities(present: ReadonlySet<Capability>): Capabilities {
  const row = (id: string, description: string, status: CapabilityStatus) => ({ id, description, status });
  const optional = Object.entries(OPTIONAL).map(([feature, { id, description }]) =>
    // The keys of OPTIONAL are exactly the capabilities.
    row(id, description, present.has(feature as Capability) ? "Available" : { NotCompiled: { feature } }),
  );
  return {
    contract_version: CONTRACT_VERSION,
    capabilities: [
      ...ALWAYS.map(([id, description]) => row(id, description, "Available")),
      ...optional,
      ...NEVER.map(([id, description]) => row(id, description, { NotCompiled: { feature: id } })),
    ],
  };
}
