import { asRuntimeError, ERRORS, hasCode, RuntimeError } from "@rkat/core/contract/error";
import type { OperationName } from "@rkat/core/contract/operations";
import { WIRE_TABLE } from "@rkat/core/contract/wire/wire-table";
import type { CallContext, Dispatch } from "@rkat/core/runtime/dispatch";
import { createRuntimeCalls, type Runtime } from "@rkat/core/runtime/runtime-calls";
import type { Delivery } from "@rkat/core/sessions/event-queue";
import {
  cancelledError,
  closedError,
  deliveryOf,
  isRecord,
  lastSeq,
  reportedError,
  requireSameContract,
  sleep,
} from "./answers.ts";
import {
  createExchange,
  type Exchange,
  type HttpRequest,
  isEventStream,
  readServerSentEvents,
  requestOf,
} from "./http-exchange.ts";

/** A server at an address: `rkat serve`. */
export interface HttpOptions {
  readonly url: string;
  /** The server's token; without it none is sent. */
  readonly token?: string | undefined;
}

/** Connects to a server over HTTP; throws when nothing answers there, or nothing this client can speak with. */
export async function openHttp(options: HttpOptions): Promise<Runtime> {
  const url = baseOf(options.url);
  const exchange = createExchange({ url, token: tokenOf(options.token) });
  const ending = new AbortController();
  const { signal: closing } = ending;
  const runTurn = createTurns({ exchange, newId, closing });

  const ask = async (name: OperationName, input: unknown, signal: AbortSignal | undefined): Promise<unknown> => {
    const either = signal === undefined ? closing : AbortSignal.any([closing, signal]);
    return exchange.read(await exchange.send(requestOf(name, input), { signal: either }));
  };
  const dispatch: Dispatch = async (name, input, call = {}) => {
    if (closing.aborted) throw closedError();
    if (call.tools !== undefined && call.tools.length > 0) throw toolsRefused();
    if (call.signal?.aborted) throw cancelledError();
    try {
      const answer = WIRE_TABLE[name].hasEvents
        ? await runTurn(requestOf(name, input), call)
        : await ask(name, input, call.signal);
      // The server answers a row's route with the row's output.
      return inTableForm(name, answer) as Awaited<ReturnType<typeof dispatch<typeof name>>>;
    } catch (thrown) {
      if (closing.aborted) throw closedError();
      if (call.signal?.aborted && isBroken(thrown))
        throw new RuntimeError("REQUEST_CANCELLED", "the request was cancelled");
      throw thrown;
    }
  };
  const { contract_version } = await dispatch("readCapabilities", {});
  requireSameContract(contract_version, url);
  const subscribe = createFollowing({ exchange, dispatch, closing });
  return createRuntimeCalls({ dispatch, subscribe, close: async () => ending.abort("closed") });
}

function isBroken(thrown: unknown): boolean {
  return hasCode(thrown, "AGENT_ERROR") && thrown.cause !== undefined;
}

function toolsRefused(): RuntimeError {
  const message = "tools: over HTTP the server has no way to call them; tools of the client's own need a command";
  return new RuntimeError("INVALID_PARAMS", message);
}

const TIMES = ["created_at", "updated_at"];

/** REST writes the times of a session as texts; everywhere else they are seconds. */
function inTableForm(name: OperationName, answer: unknown): unknown {
  if (name !== "readSession" || !isRecord(answer)) return answer;
  const seconds = TIMES.map((field) => [field, Date.parse(String(answer[field])) / 1_000]);
  return { ...answer, ...Object.fromEntries(seconds) };
}

/** The address without what follows the path, and without a slash at its end. */
function baseOf(url: unknown): string {
  const text = url instanceof URL ? url.href : url;
  const parsed = typeof text === "string" && URL.canParse(text) ? new URL(text) : undefined;
  if (parsed === undefined || !/^https?:$/.test(parsed.protocol)) {
    throw new RuntimeError("INVALID_PARAMS", "url: write the address of a server, such as http://127.0.0.1:8080");
  }
  if (parsed.username !== "" || parsed.password !== "") {
    throw new RuntimeError("INVALID_PARAMS", "url: leave out the name and password; a token is given as token");
  }
  return `${parsed.origin}${parsed.pathname.replace(/(?<!\/)\/+$/, "")}`;
}

function tokenOf(token: unknown): string | undefined {
  if (token === undefined) return undefined;
  if (typeof token === "string" && /^[\x21-\x7e]+$/.test(token)) return token;
  throw new RuntimeError("INVALID_PARAMS", "token: write visible characters without blanks, as the server has it");
}

const ID_BYTES = 16;

/** Not a UUID: pages that were not loaded over TLS cannot make one. */
function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(ID_BYTES)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
}

interface TurnParts {
  readonly exchange: Exchange;
  readonly newId: () => string;
  readonly closing: AbortSignal;
}

/** Runs an operation with events to its end. A turn continues on the server when this client leaves. */
type RunTurn = (request: HttpRequest, call: CallContext) => Promise<unknown>;

/** How often a request that has not arrived yet is tried to be taken back, and how long its answer is waited for. */
const CANCEL_TRIES_MAX = 5;
const CANCEL_WAIT_MS = 50;
const CANCELLED_MS_MAX = 5_000;

/**
 * Events are requested even without a listener: they keep the connection alive, and an answer that takes minutes to
 * begin is one that `fetch` and proxies give up on.
 */
function createTurns({ exchange, newId, closing }: TurnParts): RunTurn {
  return async (request, { signal, listener }) => {
    const id = newId();
    const leaving = new AbortController();
    const settled = new AbortController();
    const onAbort = (): void => void takeBack(exchange, id, { leaving, settled: settled.signal });
    signal?.addEventListener("abort", onAbort, { once: true });
    const headers = { accept: "text/event-stream", "x-meerkat-request-id": id };
    try {
      const response = await exchange.send(request, {
        headers,
        signal: AbortSignal.any([leaving.signal, closing]),
      });
      return await endOf(response, exchange, listener);
    } catch (thrown) {
      if (!leaving.signal.aborted) throw thrown;
      const message = `the request was cancelled, and ${exchange.url} did not report its outcome`;
      throw new RuntimeError("REQUEST_CANCELLED", message, { cause: thrown });
    } finally {
      settled.abort("settled");
      signal?.removeEventListener("abort", onAbort);
    }
  };
}

async function endOf(response: Response, exchange: Exchange, listener: CallContext["listener"]): Promise<unknown> {
  // What is refused before it begins, and what has no events to tell, is answered as ever.
  if (!isEventStream(response)) return exchange.read(response);
  let sessionId: unknown;
  try {
    for await (const { type, data } of readServerSentEvents(response, exchange.url)) {
      if (type === "result") return data;
      if (type === "error") throw reportedError(data, exchange.url);
      const delivery = deliveryOf(data);
      sessionId ??= isRecord(data) && isRecord(data.source) ? data.source.session_id : undefined;
      if (delivery !== undefined) listener?.(delivery);
    }
  } catch (thrown) {
    throw thrown instanceof RuntimeError && sessionId !== undefined ? withSession(thrown, sessionId) : thrown;
  }
  const message = `the connection to ${exchange.url} ended before the turn, which continues there`;
  throw withSession(new RuntimeError("AGENT_ERROR", message), sessionId);
}

/** The session can be read, and its events followed, to see the outcome. */
function withSession(error: RuntimeError, session_id: unknown): RuntimeError {
  if (error.details !== undefined || session_id === undefined) return error;
  return new RuntimeError(error.code, error.message, { cause: error.cause, details: { session_id } });
}

/** Has the server interrupt a request, whose own answer then says so; leaves it when the server does not know it. */
async function takeBack(
  exchange: Exchange,
  id: string,
  { leaving, settled }: { leaving: AbortController; settled: AbortSignal },
): Promise<void> {
  const cancel = { method: "POST", path: `/requests/${id}/cancel` };
  for (let tries = 0; tries < CANCEL_TRIES_MAX && !settled.aborted; tries += 1) {
    const isKnown = await exchange.send(cancel, { signal: settled }).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isKnown) {
      await sleep(CANCELLED_MS_MAX, settled);
      break;
    }
    await sleep(CANCEL_WAIT_MS * 2 ** tries, settled);
  }
  if (!settled.aborted) leaving.abort("cancelled");
}

interface FollowParts {
  readonly exchange: Exchange;
  readonly dispatch: Dispatch;
  readonly closing: AbortSignal;
}

/** Connections that fail one after the other before a reader gets the error. */
const FAILURES_MAX = 8;
const WAIT_MS = 100;
const WAIT_MS_MAX = 5_000;

/** A session's events. A connection that breaks is made again, from the last event that was seen. */
function createFollowing({ exchange, dispatch, closing }: FollowParts): Runtime["subscribe"] {
  return async function* follow(sessionId, { after, signal } = {}) {
    const ending = signal === undefined ? closing : AbortSignal.any([closing, signal]);
    let seen = after;
    let isPlaced = after !== undefined;
    let lastMs = 0;
    for (let failures = 0; !ending.aborted; ) {
      try {
        if (!isPlaced) seen = await lastSeq(dispatch, sessionId);
        isPlaced = true;
        for await (const reported of eventsOf(exchange, { sessionId, after: seen, signal: ending })) {
          failures = 0;
          if (reported === "loaded") continue;
          if (reported === "archived") return;
          if (reported.seq !== 0 && reported.seq <= (seen ?? 0)) continue;
          if (reported.seq !== 0) seen = reported.seq;
          lastMs = reported.timestamp_ms;
          yield reported;
        }
      } catch (thrown) {
        if (ending.aborted) return;
        failures += 1;
        if (isFinal(thrown) || failures > FAILURES_MAX) throw thrown;
      }
      if (ending.aborted) return;
      await sleep(Math.min(WAIT_MS * 2 ** failures, WAIT_MS_MAX), ending);
      if (!ending.aborted) yield interruption(lastMs);
    }
  };
}

function interruption(timestamp_ms: number): Delivery {
  const reason = "the connection broke and was made again: live events may be missing";
  return { seq: 0, timestamp_ms, event: { type: "stream_truncated", reason } };
}

interface Place {
  readonly sessionId: string;
  readonly after: number | undefined;
  readonly signal: AbortSignal;
}

/** The events of one connection; "loaded" when it stands, "archived" when none can come any more. */
async function* eventsOf(
  exchange: Exchange,
  { sessionId, after, signal }: Place,
): AsyncGenerator<Delivery | "loaded" | "archived"> {
  const { path } = requestOf("readSession", { session_id: sessionId });
  const headers = { accept: "text/event-stream", ...(after === undefined ? {} : { "last-event-id": String(after) }) };
  const response = await exchange.send({ method: "GET", path: `${path}/events` }, { headers, signal });
  if (!isEventStream(response)) throw await refusalIn(response, exchange);
  yield "loaded";
  for await (const { type, data } of readServerSentEvents(response, exchange.url)) {
    if (type === "error") throw reportedError(data, exchange.url);
    if (type === "done") {
      if (Object(data).archived === true) yield "archived";
      return;
    }
    const delivery = deliveryOf(data);
    if (delivery !== undefined) yield delivery;
  }
}

async function refusalIn(response: Response, exchange: Exchange): Promise<RuntimeError> {
  try {
    await exchange.read(response);
  } catch (thrown) {
    return asRuntimeError(thrown);
  }
  return new RuntimeError("METHOD_NOT_FOUND", `${exchange.url} has no events for ${response.url}`);
}

const SERVER_FAULT = 500;
const NOT_SERVED = 501;

/** Whether another try would fail the same way. */
function isFinal(thrown: unknown): boolean {
  const { code } = asRuntimeError(thrown);
  const { http } = ERRORS[code];
  return http < SERVER_FAULT || http === NOT_SERVED || code === "INTERNAL_ERROR";
}
