import type { SessionInfo } from "@rkat/core/contract/session-info";
import type { CallerRuntime } from "../http/calls.ts";
import { notThere, type ResponsePlace, responseId } from "./ids.ts";
import { metadataIn } from "./metadata.ts";
import { ECHO, type Echo } from "./response-echo.ts";
import { createResponseEncoder } from "./response-encoder.ts";
import { messagesUpTo, readOpen, readTurn } from "./response-log.ts";

/** A response as the log has it, and what a stream of it is; `echo` is what is remembered of its request. Throws SESSION_NOT_FOUND. */
export async function readResponse(runtime: CallerRuntime, place: ResponsePlace, echo?: Echo) {
  const session = await readOpen(runtime, place.session_id, notThere("response", responseId(place)));
  const turn = await readTurn(runtime, place);
  const { deliveries, endSeq } = turn;
  const pending = new Set(
    deliveries.flatMap(({ event }) => (event.type === "run_completed" ? (event.pending_calls ?? []) : [])),
  );
  const encoder = createResponseEncoder({
    echo: echo ?? { ...ECHO, ...(await keptOf(runtime, place, session, turn)) },
    isClientCall: ({ id }) => pending.has(id),
    wantsJson: deliveries.some(({ event }) => event.type === "extraction_succeeded"),
  });
  const frames = deliveries.flatMap((delivery) => encoder.encode(delivery));
  if (endSeq === undefined) return { body: encoder.body(), frames };
  const end = encoder.end(undefined);
  return { body: end.body, frames: [...frames, ...end.frames] };
}

/** What the session has of a request that is no longer in memory: settings of its newest turn, labels of its first. */
async function keptOf(
  runtime: CallerRuntime,
  { session_id, seq }: ResponsePlace,
  { model, labels }: SessionInfo,
  { isNewest }: { readonly isNewest: boolean },
): Promise<Echo> {
  const scope = { type: "session", session_id };
  const { events } = await runtime.dispatch("listEvents", { scope, cursor: { scope, sequence: 0 }, limit: 1 });
  const metadata = events[0]?.cursor.sequence === seq ? metadataIn(labels) : {};
  if (!isNewest) return { model, metadata };
  const [first] = await messagesUpTo(runtime, session_id, 0);
  const instructions = first?.role === "system" ? first.content : null;
  return { model, metadata, instructions };
}
