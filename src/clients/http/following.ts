import { asRuntimeError, ERRORS, RuntimeError } from "../../contract/error.ts";
import type { Dispatch } from "../../service/dispatch.ts";
import type { Delivery } from "../../service/event-queue.ts";
import type { Runtime } from "../../service/runtime-calls.ts";
import { deliveryOf } from "../envelope.ts";
import { toldError } from "../failures.ts";
import { lastSeq } from "../last-seq.ts";
import { sleep } from "../sleep.ts";
import type { Exchange } from "./exchange.ts";
import { requestOf } from "./request.ts";
import { isEventStream, readServerSentEvents } from "./server-sent-events.ts";

interface FollowParts {
  readonly exchange: Exchange;
  readonly dispatch: Dispatch;
  /** Aborts when the client is closed. */
  readonly closing: AbortSignal;
}

/** Connections that fail one after the other before a reader is told. */
const FAILURES_MAX = 8;
const WAIT_MS = 100;
const WAIT_MS_MAX = 5_000;

/** A session's events. A connection that breaks is made again, from the last event that was seen. */
export function createFollowing({ exchange, dispatch, closing }: FollowParts): Runtime["subscribe"] {
  return async function* follow(sessionId, { after, signal } = {}) {
    const ending = signal === undefined ? closing : AbortSignal.any([closing, signal]);
    let seen = after;
    let isPlaced = after !== undefined;
    let lastMs = 0;
    for (let failures = 0; !ending.aborted; ) {
      try {
        if (!isPlaced) seen = await lastSeq(dispatch, sessionId);
        isPlaced = true;
        for await (const told of eventsOf(exchange, { sessionId, after: seen, signal: ending })) {
          failures = 0;
          if (told === "loaded") continue;
          if (told === "archived") return;
          if (told.seq !== 0 && told.seq <= (seen ?? 0)) continue;
          if (told.seq !== 0) seen = told.seq;
          lastMs = told.timestamp_ms;
          yield told;
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
    if (type === "error") throw toldError(data, exchange.url);
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

/** Whether another try would be told the same. */
function isFinal(thrown: unknown): boolean {
  const { code } = asRuntimeError(thrown);
  const { http } = ERRORS[code];
  return http < SERVER_FAULT || http === NOT_SERVED || code === "INTERNAL_ERROR";
}
