import type { SessionInfo } from "@rkat/core/contract/session-info";
import { type CreateResponse, InputItem } from "@rkat/core/contract/wire/openai";
import { parseParams } from "@rkat/core/contract/wire/requests";
import type { CallerRuntime } from "../http/calls.ts";
import { notThere, parseItemId, type ResponsePlace, responseId } from "./ids.ts";
import { ECHO, type Echo, metadataIn } from "./response-echo.ts";
import { createResponseEncoder } from "./response-encoder.ts";
import type { Item } from "./response-items.ts";
import { messagesUpTo, readOpen, readTurn } from "./response-log.ts";

type Reference = Extract<InputItem, { type: "item_reference" }>;

/**
 * The input with the items it refers to in their places; throws SESSION_NOT_FOUND for one that no response has. An input
 * that continues a response or a conversation has them already.
 */
export async function withReferenced(
  runtime: CallerRuntime,
  asked: Pick<CreateResponse, "input" | "previous_response_id" | "conversation">,
): Promise<CreateResponse["input"]> {
  const { input, previous_response_id, conversation } = asked;
  if (input?.some(isReference) !== true) return input;
  if ((previous_response_id ?? conversation ?? undefined) !== undefined)
    return input.filter((item) => !isReference(item));
  const outputs = new Map<string, readonly Item[]>();
  const items: InputItem[] = [];
  for (const item of input) {
    if (isReference(item)) items.push(parseParams(InputItem, await find(runtime, item.id, outputs)));
    else items.push(item);
  }
  return items;
}

const isReference = (item: InputItem): item is Reference => item.type === "item_reference";

async function find(runtime: CallerRuntime, id: string, outputs: Map<string, readonly Item[]>): Promise<Item> {
  const named = parseItemId(id);
  if (named === undefined) throw notThere("item", id);
  const key = responseId(named.place);
  const output = outputs.get(key) ?? (await readResponse(runtime, named.place)).body.output;
  outputs.set(key, output);
  const item = output[named.index];
  if (item?.id !== id) throw notThere("item", id);
  return item;
}

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
