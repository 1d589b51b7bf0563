import { OPERATION_NAMES, type OperationName, operationOf } from "@rkat/core/contract/operations";
import { WIRE_TABLE } from "@rkat/core/contract/wire/wire-table";
import type { Listener } from "@rkat/core/sessions/event-queue";
import { sessionLeftBy } from "../http/events.ts";
import { errorAnswer, jsonAnswer } from "../http/http-answer.ts";
import { createOnce, type Outcome } from "../http/once.ts";
import type { AnsweredRoute, RestRequest } from "../http/router.ts";
import { CANCELLED_BY_CLIENT, furtherTurn, takeBack } from "../http/running-turns.ts";
import type { TurnRequests } from "../http/turn-requests.ts";
import { createInputReader, restShape } from "./operation-shape.ts";

interface OperationParts {
  readonly realm: string;
  readonly turns: TurnRequests;
}

/** A route a row of the table; of two rows with the same route, the first is found. */
export function createOperationRoutes(parts: OperationParts): readonly AnsweredRoute[] {
  const once = createOnce();
  return OPERATION_NAMES.map((name) => {
    const { http, scope, runs } = operationOf(name);
    const [method = "", path = ""] = http.split(" ");
    const call = createCall(parts, name);
    const { hasEvents } = WIRE_TABLE[name];
    if (runs !== "turn") {
      const serve = async (request: RestRequest, listener?: Listener) => jsonAnswer(await call(request, { listener }));
      return { method, path, operation: name, scope, hasEvents, serve };
    }
    const serve = (request: RestRequest, listener?: Listener) =>
      once(request, () => runTurn(parts.turns, request, (asked, signal) => call(asked, { signal, listener })));
    return { method, path, operation: name, scope, hasEvents, serve };
  });
}

type Call = (
  request: RestRequest,
  listening: { readonly signal?: AbortSignal | undefined; readonly listener: Listener | undefined },
) => Promise<unknown>;

function createCall({ realm }: OperationParts, name: OperationName): Call {
  const readInput = createInputReader(name, realm);
  return async (request, { signal, listener }) => {
    const input = withRequestKey(readInput(request), name, request);
    const { dispatch } = request.runtime;
    const traceparent = request.headers.traceparent?.toString();
    try {
      const context = {
        traceparent,
        ...(signal === undefined ? {} : { signal }),
        ...(listener === undefined ? {} : { listener }),
      };
      const output = await (name === "startTurn"
        ? furtherTurn(dispatch, input, context)
        : dispatch(name, input, context));
      return restShape(name, output, { input, realm });
    } catch (thrown) {
      const isTakenBack = name === "createSession" && signal?.reason === CANCELLED_BY_CLIENT;
      const session_id = sessionLeftBy(thrown);
      if (isTakenBack && session_id !== undefined) await takeBack(dispatch, session_id);
      throw thrown;
    }
  };
}

/** The header `Idempotency-Key` as the field of the operation: every server of the realm knows the request by it. */
function withRequestKey<I extends object>(input: I, name: OperationName, { headers }: RestRequest): I {
  const key = headers["idempotency-key"];
  if (key === undefined || !("idempotency_key" in WIRE_TABLE[name].fields)) return input;
  return { idempotency_key: String(key), ...input };
}

/** Runs a turn to its end, also when the client has left meanwhile: what was asked for is done and kept. */
async function runTurn(
  turns: TurnRequests,
  request: RestRequest,
  call: (request: RestRequest, signal: AbortSignal) => Promise<unknown>,
): Promise<Outcome> {
  const id = request.headers["x-meerkat-request-id"];
  // What was refused before a turn began has changed nothing, so the same key may try again.
  let isFinal = false;
  const work = async (signal: AbortSignal) => {
    try {
      const result = await call(request, signal);
      isFinal = true;
      return jsonAnswer(result);
    } catch (thrown) {
      isFinal = sessionLeftBy(thrown) !== undefined;
      return errorAnswer(thrown);
    }
  };
  const answer = await turns.run(Array.isArray(id) ? id.join() : id, request.caller, work);
  return { answer, isFinal };
}
