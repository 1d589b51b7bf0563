import { describe, expect, it } from "vitest";
import { idOf } from "../support/entries.ts";
import { batchOf, embedAll, found, matchAll, near, turned } from "../support/memory-chunks.ts";
import { MEMORY_STORES } from "./memory-stores.ts";

const [A, B, C] = [idOf(1), idOf(2), idOf(3)];

describe.each(MEMORY_STORES)("a memory %s", (_, open) => {
  it("[I4] finds among the sessions asked for alone, counts those alone, and nothing among none", async () => {
    const store = open();
    await store.add(batchOf(A, 1, ["w one", "w two"]));
    await store.add(batchOf(B, 1, ["w secret"]));
    await store.add(batchOf(C, 1, ["w three"]));
    await store.add(batchOf(A, 3, ["w four"]));
    await embedAll(store);
    const own = { among: new Set([A, C, idOf(99)]), discardedOnly: false };
    expect(await found(store, "w", own)).toEqual(["w one", "w two", "w three", "w four"]);
    expect([...(await near(store, turned(0), own))].sort()).toEqual(["w four", "w one", "w three", "w two"]);
    const { chunks, holders } = await matchAll(store, ["w", "secret"], own);
    expect([chunks, [...holders.values()]]).toEqual([4, [4, 0]]);
    expect(await found(store, "w", { ...own, sessionId: B })).toEqual([]);
    expect(await near(store, turned(0), { ...own, sessionId: B })).toEqual([]);
    expect(await found(store, "w", { ...own, sessionId: A, upToSeq: 1 })).toEqual(["w one"]);
    const nobody = { among: new Set<string>(), discardedOnly: false };
    expect(await found(store, "w", nobody)).toEqual([]);
    expect(await near(store, turned(0), nobody)).toEqual([]);
    await store.close();
  });
});
