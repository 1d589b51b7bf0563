import { invalid } from "@rkat/core/contract/error";

type ListedItem = Readonly<Record<string, unknown>>;

const ITEMS_DEFAULT = 20;
const ITEMS_MAX = 100;

/** A page of items as OpenAI lists them: newest first unless asked otherwise, after the one that was seen last. */
export function pageIn(items: readonly ListedItem[], query: URLSearchParams) {
  const order = query.get("order") ?? "desc";
  if (order !== "asc" && order !== "desc") throw invalid("order: write asc or desc");
  const limit = Number(query.get("limit") ?? ITEMS_DEFAULT);
  if (!Number.isInteger(limit) || limit < 1 || limit > ITEMS_MAX) {
    throw invalid(`limit: write a whole number from 1 to ${ITEMS_MAX}`);
  }
  const ordered = order === "asc" ? items : items.toReversed();
  const after = query.get("after");
  const from = after === null ? 0 : ordered.findIndex(({ id }) => id === after) + 1;
  const data = ordered.slice(from, from + limit);
  return listOf(data, from + data.length < ordered.length);
}

export function listOf(data: readonly ListedItem[], has_more = false) {
  return { object: "list", data, first_id: data.at(0)?.id ?? null, last_id: data.at(-1)?.id ?? null, has_more };
}
