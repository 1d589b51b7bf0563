import { isRecord } from "@rkat/core/contract/json";
import { OPERATION_NAMES, OPERATIONS, type OperationName, operationOf } from "@rkat/core/contract/operations";
import type { Tool } from "@rkat/core/ports/tool";
import type { Runtime } from "@rkat/core/runtime/runtime-calls";
import { CANCELLED_BY_CLIENT, takeBack } from "../http/calls.ts";
import {
  type Params,
  sendTurnEvents,
  sessionIdIn,
  sessionLeftBy,
  toEnvelope,
  withSessionRefs,
} from "../http/events.ts";
import { type Outbox, turnEventFrame } from "../http/frames.ts";
import type { RequestId } from "../http/incoming.ts";
import type { CallbackTools } from "./callback-tools.ts";

/** What serves a method; the ids in its params are plain. */
export type Method = (params: Params, asked: Asked) => unknown;

interface Asked {
  readonly requestId: RequestId;
  /** Aborting it interrupts the turn the method runs, if it runs one. */
  readonly signal: AbortSignal;
}

export interface OperationParts {
  readonly runtime: Pick<Runtime, "dispatch">;
  readonly realm: string;
  readonly outbox: Outbox;
  readonly tools: CallbackTools;
  readonly newId: () => string;
}

/** Every row of the table of operations under its JSON-RPC name. */
export function createOperationMethods(parts: OperationParts): Readonly<Record<string, Method>> {
  const rows = OPERATION_NAMES.map((name): [string, Method] => {
    const { rpc, rpcNulls } = operationOf(name);
    const read = rpcNulls ? withoutNulls : (params: Params) => params;
    return [rpc, (params, asked) => callOperation(parts, name, { params: read(params), ...asked })];
  });
  return {
    ...Object.fromEntries(rows),
    [OPERATIONS.createSession.rpc]: (params, asked) => createSession(parts, withoutNulls(params), asked),
    [OPERATIONS.forkSession.rpc]: (params, asked) => fork(parts, "forkSession", { params, ...asked }),
    [OPERATIONS.forkReplacing.rpc]: (params, asked) => fork(parts, "forkReplacing", { params, ...asked }),
  };
}

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
  const sessionId = sessionIdIn(call.params);
  const external = call.external ?? parts.tools.externalOf(sessionId);
  const tools = parts.tools.withRegistered(external);
  const events = sendTurnEvents(sessionId, async (delivery, id) => {
    // `run_started` names a new session.
    if (id === undefined) throw new Error(`no session is known for the event ${delivery.event.type}`);
    await parts.outbox.send(turnEventFrame(call.requestId, toEnvelope(id, delivery, parts.newId)));
  });
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
    const sessionId = sessionLeftBy(thrown);
    if (sessionId === undefined) throw thrown;
    parts.tools.keep(sessionId, external);
    if (asked.signal.reason === CANCELLED_BY_CLIENT) await takeBack(parts.runtime.dispatch, sessionId);
    throw thrown;
  }
}

/** A fork has the tools of its source. */
async function fork(parts: OperationParts, name: "forkSession" | "forkReplacing", call: Call): Promise<unknown> {
  const made = await callOperation(parts, name, call);
  parts.tools.keep(sessionIdIn(made), parts.tools.externalOf(sessionIdIn(call.params)));
  return made;
}
