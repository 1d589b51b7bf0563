import { createHash } from "node:crypto";
import type { Caller } from "../../contract/caller.ts";
import { RuntimeError } from "../../contract/error.ts";
import { OPERATIONS, type OperationName } from "../../contract/operations.ts";
import { WIRE_TABLE } from "../../contract/wire-table.ts";
import type { Listener } from "../../service/event-queue.ts";
import { sessionLeftBy } from "../wire/events.ts";
import { type Answer, errorAnswer, jsonAnswer } from "../wire/http-answer.ts";
import { CANCELLED_BY_CLIENT, furtherTurn, takeBack } from "../wire/running-turns.ts";
import { createInputReader, restShape } from "./operation-shape.ts";
import type { AnsweredRoute, RestRequest } from "./router.ts";
import type { TurnRequests } from "./turn-requests.ts";

interface OperationParts {
  readonly realm: string;
  readonly turns: TurnRequests;
}

/** The names of OPERATIONS in the table's order. */
export const OPERATION_NAMES = Object.keys(OPERATIONS) as OperationName[]; // The keys of the table are its names.

/** Where a request may take minutes, be cancelled, and must not be done twice. */
const RUNS_TURN: readonly OperationName[] = ["createSession", "startTurn", "resumeSession"];

/** A route a row of the table; of two rows with the same route, the first is found. */
export function createOperationRoutes(parts: OperationParts): readonly AnsweredRoute[] {
  // The answers that one caller was given are nobody else's, whatever key it sends.
  const onces = new WeakMap<Caller, Once>();
  const once: Once = (request, work) => {
    const own = onces.get(request.caller) ?? createOnce();
    onces.set(request.caller, own);
    return own(request, work);
  };
  return OPERATION_NAMES.map((name) => {
    const [method = "", path = ""] = OPERATIONS[name].http.split(" ");
    const call = createCall(parts, name);
    const { hasEvents } = WIRE_TABLE[name];
    const { scope } = OPERATIONS[name];
    if (!RUNS_TURN.includes(name)) {
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
  hearing: { readonly signal?: AbortSignal | undefined; readonly listener: Listener | undefined },
) => Promise<unknown>;

function createCall({ realm }: OperationParts, name: OperationName): Call {
  const readInput = createInputReader(name, realm);
  return async (request, { signal, listener }) => {
    const input = readInput(request);
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

/** Runs a request once for each `Idempotency-Key`: the same request again is given the first answer. */
type Once = (request: RestRequest, work: () => Promise<Outcome>) => Promise<Answer>;

/** An answer, and whether something has happened that a repetition must not do again. */
interface Outcome {
  readonly answer: Answer;
  readonly isFinal: boolean;
}

const KEYS_MAX = 1_024;
const ANSWERS_CHARS_MAX = 16 * 1_024 * 1_024;
const KEY = /^[\x21-\x7e]{1,255}$/;

interface Kept {
  readonly fingerprint: string;
  readonly answer: Promise<Answer>;
  /** Undefined while the request runs: such an entry is never dropped. */
  chars: number | undefined;
}

/** Remembers as long as the process lives, and the newest answers only. */
function createOnce(): Once {
  const kept = new Map<string, Kept>();
  let heldChars = 0;

  const forget = (key: string): void => {
    heldChars -= kept.get(key)?.chars ?? 0;
    kept.delete(key);
  };
  const makeRoom = (): void => {
    for (const [key, { chars }] of kept) {
      if (kept.size <= KEYS_MAX && heldChars <= ANSWERS_CHARS_MAX) return;
      if (chars !== undefined) forget(key);
    }
  };
  const begin = (key: string, fingerprint: string, work: () => Promise<Outcome>): Promise<Answer> => {
    const outcome = work();
    const entry: Kept = { fingerprint, answer: outcome.then(({ answer }) => answer), chars: undefined };
    kept.set(key, entry);
    const settle = ({ answer, isFinal }: Outcome): void => {
      if (!isFinal) {
        forget(key);
        return;
      }
      entry.chars = answer.text.length;
      heldChars += entry.chars;
      makeRoom();
    };
    outcome.then(settle, () => forget(key));
    return entry.answer;
  };
  return async (request, work) => {
    const key = request.headers["idempotency-key"];
    if (key === undefined) return (await work()).answer;
    if (typeof key !== "string" || !KEY.test(key)) {
      throw new RuntimeError("INVALID_PARAMS", "Idempotency-Key: write 1 to 255 visible characters");
    }
    const fingerprint = fingerprintOf(request);
    const first = kept.get(key);
    if (first === undefined) return begin(key, fingerprint, work);
    if (first.fingerprint !== fingerprint) {
      throw new RuntimeError("DUPLICATE_INPUT", `the Idempotency-Key ${key} was used for another request`);
    }
    const answer = await first.answer;
    return { ...answer, headers: { ...answer.headers, "idempotent-replayed": "true" } };
  };
}

function fingerprintOf({ path, body }: RestRequest): string {
  return createHash("sha256").update(`${path}\n${body.text}`).digest("base64");
}
