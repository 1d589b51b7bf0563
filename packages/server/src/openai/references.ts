import { type CreateResponse, InputItem } from "@rkat/core/contract/wire/openai";
import { parseParams } from "@rkat/core/contract/wire/requests";
import type { CallerRuntime } from "../http/caller-runtime.ts";
import { notThere, parseItemId, responseId } from "./ids.ts";
import { readResponse } from "./read-response.ts";
import type { Item } from "./response-items.ts";

type Reference = Extract<InputItem, { type: "item_reference" }>;

/**
 * The input with the items it refers to in their places; throws SESSION_NOT_FOUND for one that no response has. What goes
 * on from a response or in a conversation knows them.
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
