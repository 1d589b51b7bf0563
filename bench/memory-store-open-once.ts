// Opens a memory in a process of its own and searches once; prints what each took.
import { bestByTerms } from "@rkat/core/recall/rank";
import { openMemoryStore } from "@rkat/node/recall-index/open";
import { type Time, timeOf } from "./memory-store-stopwatch.ts";

export interface Opened {
  /** Until the store can tell how far a session is taken in. */
  readonly open: Time;
  /** The first search by words and the first by vectors: they read what all later ones need. */
  readonly firstSearch: Time;
}

const [, , folder = "", sessionId = "", embedderId = "", word = "", dimensions = ""] = process.argv;
const vector = Float32Array.from({ length: Number(dimensions) }, (_, at) => Math.sin(at));
const scope = { discardedOnly: false };

let store: ReturnType<typeof openMemoryStore> | undefined;
const open = await timeOf(async () => {
  store = openMemoryStore({ folder });
  await store.cursor(sessionId);
});
const firstSearch = await timeOf(async () => {
  await store?.match(bestByTerms(new Map([[word, 1]])), scope);
  await store?.nearest(embedderId, vector, { scope, max: 10 });
});
await store?.close();
console.log(JSON.stringify({ open, firstSearch } satisfies Opened));
