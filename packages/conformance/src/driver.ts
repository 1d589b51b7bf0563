import type { Capability } from "@rkat/core/contract/capability";
import { ERRORS, type ErrorCode, RuntimeError } from "@rkat/core/contract/error";
import { isRecord } from "@rkat/core/contract/json";
import { type OperationName, operationOf } from "@rkat/core/contract/operations";
import type { Runtime } from "@rkat/core/runtime/runtime-calls";
import type { Ability } from "./scenario.ts";

/** The ways in that the scenarios are told through. */
export type Surface = "runtime" | "cli" | "rpc" | "rest" | "mcp" | "mcp-http" | "typescript" | "python";

/** An event as a surface told it, without its envelope. */
export interface ReportedEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

export type Outcome =
  | { readonly ok: true; readonly result: unknown }
  | { readonly ok: false; readonly code: string; readonly message: string; readonly details?: unknown };

/** A surface to tell scenarios through: what comes back is in the form of the table, whatever the surface's own is. */
export interface Driver {
  readonly surface: Surface;
  /** Why the surface cannot do what a scenario needs; undefined when it can. */
  lacks(ability: Ability, present: ReadonlySet<Capability>): string | undefined;
  /** Whether it tells the events of an operation while they happen. */
  hasEvents(operation: OperationName): boolean;
  call(
    operation: OperationName,
    input: Readonly<Record<string, unknown>>,
    onEvent?: (event: ReportedEvent) => void,
  ): Promise<Outcome>;
  /** Ends the server and starts it again with what it kept. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

export type Fields = Readonly<Record<string, unknown>>;

/** Whether an operation runs a turn, and tells its events on every surface. */
export function runsTurn(operation: OperationName): boolean {
  return operationOf(operation).runs === "turn";
}

/** Where one name stands for both (contract §15), a session nobody knows is one that would have to be resumed. */
export function lackOfTurns(ability: Ability, present: ReadonlySet<Capability>): string | undefined {
  if (ability !== "turns apart from resumes" || present.has("session-store")) return undefined;
  return "a further turn and a resume have one name here";
}

/** A failure with its code; one that comes with another number than the table's says so in the place of the code. */
export function failure(
  wire: { readonly code: unknown; readonly message: unknown; readonly details?: unknown },
  number: { readonly kind: "rpc" | "http" | "exit"; readonly value: number | null },
): Extract<Outcome, { ok: false }> {
  const code = String(wire.code);
  // A code that is not in the table has no number there.
  const wanted = Object.hasOwn(ERRORS, code) ? ERRORS[code as ErrorCode][number.kind] : undefined;
  const details = wire.details === undefined ? {} : { details: wire.details };
  const toWireEvent = { ok: false, message: String(wire.message), ...details } as const;
  if (wanted === number.value) return { ...toWireEvent, code };
  return { ...toWireEvent, code: `${code} with the ${NUMBERS[number.kind]} ${number.value}, which is not the table's` };
}

const NUMBERS = { rpc: "number", http: "status", exit: "exit code" } as const;

/** An envelope's event; what is none has a type that nobody expects. */
export function eventIn(envelope: unknown): ReportedEvent {
  const payload = isRecord(envelope) ? envelope.payload : undefined;
  if (isRecord(payload) && typeof payload.type === "string") return { ...payload, type: payload.type };
  return { type: "no event", envelope };
}

/** Whatever has the calls of a runtime: one in this process, or a client of one elsewhere. */
export type RuntimeLike = Pick<Runtime, "dispatch" | "close">;

/** Tells scenarios through a runtime; `open` makes it, and after a restart the one that takes its place. */
export async function openRuntimeDriver(surface: Surface, open: () => Promise<RuntimeLike>): Promise<Driver> {
  let runtime = await open();
  return {
    surface,
    lacks: () => undefined,
    hasEvents: () => true,
    call: async (operation, input, onEvent) => {
      const listening =
        onEvent === undefined ? {} : { listener: ({ event }: { event: object }) => onEvent(toWireEvent(event)) };
      try {
        return { ok: true, result: asJson(await runtime.dispatch(operation, input, listening)) };
      } catch (thrown) {
        if (!(thrown instanceof RuntimeError)) throw thrown;
        const { code, message, details } = thrown;
        return { ok: false, code, message, ...(details === undefined ? {} : { details: asJson(details) }) };
      }
    },
    restart: async () => {
      await runtime.close();
      runtime = await open();
    },
    close: () => runtime.close(),
  };
}

/** As it would come over a wire: without fields that are there and undefined. */
function asJson(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}

function toWireEvent(event: object): { readonly type: string } {
  return asJson(event) as { type: string }; // Every event has a type.
}
