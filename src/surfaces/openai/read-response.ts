import type { Asked } from "../wire/asked-by.ts";
import { notThere, type ResponsePlace, responseId } from "./ids.ts";
import { ECHO, type Echo } from "./response-echo.ts";
import { createResponseEncoder } from "./response-encoder.ts";
import { readOpen, readTurn } from "./response-log.ts";

/** A response as the log has it; `echo` is what is remembered of its request. Throws SESSION_NOT_FOUND. */
export async function readResponse(runtime: Asked, place: ResponsePlace, echo?: Echo) {
  const { model } = await readOpen(runtime, place.session_id, notThere("response", responseId(place)));
  const { deliveries, endSeq } = await readTurn(runtime, place);
  const pending = new Set(
    deliveries.flatMap(({ event }) => (event.type === "run_completed" ? (event.pending_calls ?? []) : [])),
  );
  const encoder = createResponseEncoder({
    echo: echo ?? { ...ECHO, model },
    isClientCall: ({ id }) => pending.has(id),
    wantsJson: deliveries.some(({ event }) => event.type === "extraction_succeeded"),
  });
  for (const delivery of deliveries) encoder.hear(delivery);
  return endSeq === undefined ? encoder.body() : encoder.end(undefined).body;
}
