import { ERRORS, type ErrorCode, hasCode, messageOf, RuntimeError } from "@rkat/core/contract/error";
import type { AgentEvent } from "@rkat/core/contract/event";
import { CONTRACT_VERSION } from "@rkat/core/contract/wire/version";
import type { Dispatch } from "@rkat/core/runtime/dispatch";
import type { Delivery } from "@rkat/core/sessions/event-queue";

/** An event out of its envelope; undefined for what is none. */
export function deliveryOf(envelope: unknown): Delivery | undefined {
  if (!isRecord(envelope)) return undefined;
  const event = eventIn(envelope);
  if (event === undefined) return undefined;
  const { seq, timestamp_ms } = envelope;
  return {
    seq: typeof seq === "number" ? seq : 0,
    timestamp_ms: typeof timestamp_ms === "number" ? timestamp_ms : 0,
    event,
  };
}

const ENVELOPE_FIELDS = ["event_id", "source", "source_id", "seq", "timestamp_ms"];

/** The event stands under `payload`, unless its fields lie beside the envelope's and one of them is called that, too. */
function eventIn(envelope: Fields): AgentEvent | undefined {
  const { payload, type } = envelope;
  const isWhole = isRecord(payload) && typeof payload.type === "string" && (type ?? payload.type) === payload.type;
  // What has a type is an event, of a kind this client may not know yet.
  if (isWhole) return payload as unknown as AgentEvent;
  if (typeof type !== "string") return undefined;
  const own = Object.entries(envelope).filter(([field]) => !ENVELOPE_FIELDS.includes(field));
  return Object.fromEntries(own) as unknown as AgentEvent;
}

/** The error of a server; an unknown code keeps its message. */
export function reportedError(body: unknown, server: string): RuntimeError {
  const { code, message, details } = isRecord(body) ? body : {};
  // A key of the table is a code.
  const known = typeof code === "string" && Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : "INTERNAL_ERROR";
  return new RuntimeError(known, typeof message === "string" ? message : `${server} failed and did not say why`, {
    details,
  });
}

export function closedError(): RuntimeError {
  return new RuntimeError("AGENT_ERROR", "this client is closed");
}

/** The runtime's error for a call that was cancelled before it began. */
export function cancelledError(): RuntimeError {
  return new RuntimeError("REQUEST_CANCELLED", "the request was cancelled before it began");
}

export type Fields = Readonly<Record<string, unknown>>;

export function isRecord(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value as JSON carries it; throws INVALID_PARAMS for one that JSON cannot carry. */
export function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (cause) {
    throw new RuntimeError("INVALID_PARAMS", `the input cannot be written as JSON: ${messageOf(cause)}`, { cause });
  }
}

/** Where a session's events end now, so that none of those to come can slip by; undefined where none are kept. */
export async function lastSeq(dispatch: Dispatch, session_id: string): Promise<number | undefined> {
  try {
    return (await dispatch("readEventCursor", { scope: { type: "session", session_id } })).cursor.sequence;
  } catch (thrown) {
    if (hasCode(thrown, "SESSION_PERSISTENCE_DISABLED")) return undefined;
    throw thrown;
  }
}

/** Resolves after a time, or at once when the signal aborts. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const finish = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    signal.addEventListener("abort", finish, { once: true });
  });
}

/** Throws CAPABILITY_UNAVAILABLE unless a server speaks this client's wire: before 1.0, the same major and minor. */
export function requireSameContract(version: unknown, server: string): void {
  const [major, minor] = partsOf(version);
  if (major === CONTRACT_VERSION.major && minor === CONTRACT_VERSION.minor) return;
  const ours = `${CONTRACT_VERSION.major}.${CONTRACT_VERSION.minor}`;
  const theirs = major === undefined ? "another one" : `${major}.${minor}`;
  throw new RuntimeError(
    "CAPABILITY_UNAVAILABLE",
    `${server} speaks ${theirs} and this client the wire contract ${ours}; use versions that belong together`,
  );
}

/** `initialize` writes a version as a text, `capabilities/get` as an object. */
function partsOf(version: unknown): readonly (number | undefined)[] {
  if (isRecord(version)) return [Number(version.major), Number(version.minor)];
  const [, major, minor] = /^(\d+)\.(\d+)\.\d+$/.exec(String(version)) ?? [];
  return major === undefined ? [] : [Number(major), Number(minor)];
}
