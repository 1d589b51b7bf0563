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
import type { z } from "../contract/schema.ts";
import { CONTRACT_VERSION } from "../contract/wire/version.ts";
import type { ToolChoice } from "../ports/model.ts";
import type { Tool } from "../ports/tool.ts";
import type { Listener } from "../sessions/event-queue.ts";
import type { Unattended } from "../turn/approval.ts";
import type { CallerView } from "./caller-view.ts";
import { yieldToEventLoop } from "./system-clock.ts";

/** What a call brings besides its input. */
export interface CallContext {
  /** Absent for the user of this process, who may do everything. */
  readonly caller?: Caller;
  /** Aborting it interrupts the turn the call runs. */
  readonly signal?: AbortSignal;
  /** Aborts when a person's word is waited for no longer; a turn that runs goes on. */
  readonly leaving?: AbortSignal;
  /** The reason the model sees for calls that need approval and are denied, since the caller has no approver. */
  readonly unattended?: Unattended;
  /** A function of the program, or its user, answers the approvals of the turn. */
  readonly hasApprover?: true | undefined;
  /** Hears the events of the turn the call runs. */
  readonly listener?: Listener;
  /** Tools only code can bring: they are not in the log and must be given again after a restart. */
  readonly tools?: readonly Tool[];
  /** What the first model call of the turn must do. */
  readonly toolChoice?: ToolChoice | undefined;
  /** The session has memory search, besides what the input says, as far as there is one and the caller may have it. */
  readonly offersMemory?: boolean | undefined;
  /** The turn asks again what the session's last turn asked, which failed: that is not said twice. */
  readonly isRetry?: boolean | undefined;
  /** Receives a turn that continues after the response, for a caller that must not end before it. */
  readonly background?: (turn: Promise<unknown>) => void;
  /** The trace the caller is in, as W3C writes it; in this process the active one counts without being told. */
  readonly traceparent?: string | undefined;
  /** Called after each log that a search indexes first. */
  readonly indexed?: (() => void) | undefined;
}

/** Every operation of the table as a function; inputs are already parsed. */
export type Service = {
  readonly [N in OperationName]: (input: OperationInput<N>, call: CallContext) => Promise<OperationOutput<N>>;
};

/** Calls an operation by name with an unchecked input. */
export type Dispatch = <N extends OperationName>(
  name: N,
  input: unknown,
  call?: CallContext,
) => Promise<OperationOutput<N>>;

interface DispatchParts {
  readonly service: Service;
  readonly capabilities: ReadonlySet<Capability>;
  readonly view: CallerView;
  /** What the calls of a caller of this name have cost today, in US dollars. */
  readonly spentToday: (name: string) => Promise<number>;
  readonly isClosed: () => boolean;
}

/** The only way to call an operation: its checks in order, then its function. It throws errors of the table only. */
export function createDispatch({ service, capabilities, view, spentToday, isClosed }: DispatchParts): Dispatch {
  return async (name, input, given = {}) => {
    if (isClosed()) throw new RuntimeError("AGENT_ERROR", "this runtime is closed");
    const row = operationOf(name);
    requireScope(given.caller, row.scope, row.rpc);
    if (row.requires !== undefined) requireCapability(capabilities, row.requires);
    const long = longListIn(input);
    const parsed = long === undefined ? parseInput(row.input, input) : await parsePieces(row.input, long);
    const call = endingWith(given);
    if (call.signal?.aborted) throw new RuntimeError("REQUEST_CANCELLED", "the request was cancelled before it began");
    try {
      // Without a caller nothing is waited for: calls take a session's lock in the order they are made.
      if (call.caller === undefined) return await service[name](parsed as OperationInput<typeof name>, call); // The schema is that of the row.
      if (row.runs !== undefined) await requireLeft(call.caller, spentToday);
      return await service[name](await view.narrow(name, parsed as OperationInput<typeof name>, call.caller), call);
    } catch (thrown) {
      throw asRuntimeError(thrown);
    }
  };
}

function parseInput(schema: z.ZodType, input: unknown): unknown {
  requireNames(input);
  const parsed = schema.safeParse(input ?? {});
  if (!parsed.success) throw invalidInput(parsed.error);
  return parsed.data;
}

/** A list may hold thousands of messages: they are checked so many at a time, with other work in between. */
const PIECE_ITEMS = 500;

interface LongList {
  readonly input: Readonly<Record<string, unknown>>;
  readonly field: string;
  readonly items: readonly unknown[];
}

function longListIn(input: unknown): LongList | undefined {
  for (const [field, items] of Object.entries(input ?? {}))
    if (Array.isArray(items) && items.length > PIECE_ITEMS) return { input: Object(input), field, items };
  return undefined;
}

async function parsePieces(schema: z.ZodType, { input, field, items }: LongList): Promise<unknown> {
  const parsed: unknown[] = [];
  let whole: object = {};
  for (let from = 0; from < items.length; from += PIECE_ITEMS) {
    const piece = items.slice(from, from + PIECE_ITEMS);
    for (const [at, item] of piece.entries()) requireNames(item, [field, String(from + at)]);
    const read = schema.safeParse({ ...input, [field]: piece });
    if (!read.success) {
      for (const { path } of read.error.issues) if (path[0] === field) path[1] = Number(path[1]) + from;
      throw invalidInput(read.error);
    }
    whole = Object(read.data);
    for (const item of Reflect.get(whole, field)) parsed.push(item);
    await yieldToEventLoop();
  }
  // What is said of the whole list, such as its length; each item is read already.
  const [first] = items;
  const lengths = schema.safeParse({ ...input, [field]: items.map(() => first) });
  if (!lengths.success) throw invalidInput(lengths.error);
  return { ...whole, [field]: parsed };
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
  ["comms", "Messages between sessions of the realm"],
  ["schedule", "Scheduled turns"],
  ["mcp_live", "MCP servers added to a running session"],
];

/** Parts of the wire contract that this runtime does not have. */
const NEVER: readonly (readonly [id: string, description: string])[] = [["work_graph", "Shared work graphs"]];

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
