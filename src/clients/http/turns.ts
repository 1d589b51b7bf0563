import { RuntimeError } from "../../contract/error.ts";
import type { CallContext } from "../../service/dispatch.ts";
import { deliveryOf } from "../envelope.ts";
import { toldError } from "../failures.ts";
import { isRecord } from "../fields.ts";
import { sleep } from "../sleep.ts";
import type { Exchange } from "./exchange.ts";
import type { HttpRequest } from "./request.ts";
import { isEventStream, readServerSentEvents } from "./server-sent-events.ts";

interface TurnParts {
  readonly exchange: Exchange;
  /** A name for a request, by which it can be taken back. */
  readonly newId: () => string;
  /** Aborts when the client is closed. */
  readonly closing: AbortSignal;
}

/** Runs what has events and waits for its end. A turn goes on at the server when this client leaves. */
export type RunTurn = (request: HttpRequest, call: CallContext) => Promise<unknown>;

/** How often a request that has not arrived yet is tried to be taken back, and how long its answer is waited for. */
const CANCEL_TRIES_MAX = 5;
const CANCEL_WAIT_MS = 50;
const CANCELLED_MS_MAX = 5_000;

/**
 * The events are asked for also when nobody listens: they keep the connection alive, and an answer that takes minutes to
 * begin is one that `fetch` and proxies give up on.
 */
export function createTurns({ exchange, newId, closing }: TurnParts): RunTurn {
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
      const message = `the request was cancelled, and ${exchange.url} did not say what became of it`;
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
      if (type === "error") throw toldError(data, exchange.url);
      const delivery = deliveryOf(data);
      sessionId ??= isRecord(data) && isRecord(data.source) ? data.source.session_id : undefined;
      if (delivery !== undefined) listener?.(delivery);
    }
  } catch (thrown) {
    throw thrown instanceof RuntimeError && sessionId !== undefined ? withSession(thrown, sessionId) : thrown;
  }
  const message = `the connection to ${exchange.url} ended before the turn, which goes on there`;
  throw withSession(new RuntimeError("AGENT_ERROR", message), sessionId);
}

/** The session can be read, and its events followed, to see how it went on. */
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
