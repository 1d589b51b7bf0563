import { RuntimeError } from "../../contract/error.ts";
import { OPERATIONS, type OperationName } from "../../contract/operations.ts";
import type { Tool } from "../../ports/tool.ts";
import type { Runtime } from "../../runtime.ts";
import { isRecord, type RequestId } from "../wire/incoming.ts";
import type { Outbox } from "../wire/outbox.ts";
import { formatSessionRef, parseSessionRef } from "../wire/realm.ts";
import type { CallbackTools } from "./callback-tools.ts";
import { createTurnEvents } from "./turn-events.ts";

/** What serves a method; the ids in its params are plain. */
export type Method = (params: Params, asked: Asked) => unknown;

/** The request a method serves. */
interface Asked {
  readonly requestId: RequestId;
  /** Aborting it interrupts the turn the method runs, if it runs one. */
  readonly signal: AbortSignal;
}

export type Params = Readonly<Record<string, unknown>>;

export interface OperationParts {
  readonly runtime: Pick<Runtime, "dispatch">;
  readonly realm: string;
  readonly outbox: Outbox;
  readonly tools: CallbackTools;
  readonly newId: () => string;
}

/** The reason of a signal that the client aborted with `cancel`, rather than the end of the connection. */
export const CANCELLED_BY_CLIENT = "cancelled by the client";

/** Every row of the table of operations under its JSON-RPC name. */
export function createOperationMethods(parts: OperationParts): Readonly<Record<string, Method>> {
  const rows = Object.entries(OPERATIONS).map(([name, { rpc }]): [string, Method] => {
    // The keys of OPERATIONS are the names of operations.
    const operation = name as OperationName;
    const read = TAKES_NULL.includes(operation) ? withoutNulls : (params: Params) => params;
    return [rpc, (params, asked) => callOperation(parts, operation, { params: read(params), ...asked })];
  });
  return {
    ...Object.fromEntries(rows),
    [OPERATIONS.createSession.rpc]: (params, asked) => createSession(parts, withoutNulls(params), asked),
    [OPERATIONS.forkSession.rpc]: (params, asked) => fork(parts, "forkSession", { params, ...asked }),
    [OPERATIONS.forkReplacing.rpc]: (params, asked) => fork(parts, "forkReplacing", { params, ...asked }),
  };
}

/** Clients of this wire may write null for what they leave out. */
const TAKES_NULL: readonly OperationName[] = [
  "startTurn",
  "readHistory",
  "listSessions",
  "injectContext",
  "readRevision",
];
/** Fields whose own fields are options as well; what else is in a field is the client's business. */
const OPTION_FIELDS = ["budget_limits", "flow_tool_overlay"];

function withoutNulls(params: Params): Params {
  const given = Object.entries(params).filter(([, value]) => value !== null);
  return Object.fromEntries(
    given.map(([field, value]) => {
      const holdsOptions = OPTION_FIELDS.includes(field) && isRecord(value);
      return [field, holdsOptions ? withoutNulls(value) : value];
    }),
  );
}

interface Call extends Asked {
  readonly params: Params;
  /** The tools of a session that is not there yet. */
  readonly external?: readonly Tool[];
}

/** Calls an operation; the events of its turn have all been sent when this settles. */
async function callOperation(parts: OperationParts, name: OperationName, call: Call): Promise<unknown> {
  const { session_id } = call.params;
  const sessionId = typeof session_id === "string" ? session_id : undefined;
  const external = call.external ?? parts.tools.externalOf(sessionId ?? "");
  const tools = parts.tools.withRegistered(external);
  const events = createTurnEvents(parts, { requestId: call.requestId, sessionId });
  try {
    const context = { signal: call.signal, listener: events.listener, ...(tools.length === 0 ? {} : { tools }) };
    return withSessionRefs(await parts.runtime.dispatch(name, call.params, context), parts.realm);
  } finally {
    await events.finish();
  }
}

async function createSession(parts: OperationParts, given: Params, asked: Asked): Promise<unknown> {
  const external = parts.tools.parseExternal(given);
  const { external_tools: _, ...params } = given;
  try {
    const created = await callOperation(parts, "createSession", { params, ...asked, external });
    parts.tools.keep(sessionIdIn(created), external);
    return created;
  } catch (thrown) {
    const details = thrown instanceof RuntimeError && isRecord(thrown.details) ? thrown.details : {};
    const sessionId = sessionIdIn(details);
    if (sessionId === "") throw thrown;
    parts.tools.keep(sessionId, external);
    // Whoever takes a creation back does not want what was begun of it; it stays readable.
    if (asked.signal.reason === CANCELLED_BY_CLIENT) await archive(parts, sessionId);
    throw thrown;
  }
}

async function archive({ runtime }: OperationParts, session_id: string): Promise<void> {
  try {
    await runtime.dispatch("archiveSession", { session_id });
  } catch (thrown) {
    // Without a store the session ends with the process anyway.
    if (!(thrown instanceof RuntimeError && thrown.code === "SESSION_PERSISTENCE_DISABLED")) throw thrown;
  }
}

/** A fork has the tools of its source. */
async function fork(parts: OperationParts, name: "forkSession" | "forkReplacing", call: Call): Promise<unknown> {
  const made = await callOperation(parts, name, call);
  const source = isRecord(made) && typeof made.source_session_id === "string" ? made.source_session_id : "";
  parts.tools.keep(sessionIdIn(made), parts.tools.externalOf(source));
  return made;
}

function sessionIdIn(value: unknown): string {
  return isRecord(value) && typeof value.session_id === "string" ? value.session_id : "";
}

/** Where params name a session: itself, the scope of its events, the cursor in them. */
const ID_FIELDS = ["session_id", "scope", "cursor"];

/** The params with every `<realm>:<uuid>` as a plain id; INVALID_PARAMS when the realm is another. */
export function withPlainIds(params: Params, realm: string): Params {
  const plain = ID_FIELDS.filter((field) => Object.hasOwn(params, field)).map((field) => {
    const value = params[field];
    if (field === "session_id" && typeof value === "string") return [field, parseSessionRef(value, realm)];
    return [field, isRecord(value) ? withPlainIds(value, realm) : value];
  });
  return { ...params, ...Object.fromEntries(plain) };
}

/** The result with a `session_ref` beside the `session_id` of whatever session it is about, or of each it lists. */
export function withSessionRefs(result: unknown, realm: string): unknown {
  if (!isRecord(result)) return result;
  const { session_id, sessions } = result;
  const ref = typeof session_id === "string" ? { session_ref: formatSessionRef(realm, session_id) } : {};
  const rows = Array.isArray(sessions) ? { sessions: sessions.map((row) => withSessionRefs(row, realm)) } : {};
  return { ...result, ...ref, ...rows };
}
