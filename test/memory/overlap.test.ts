import { describe, expect, it } from "vitest";
import { batchOf, found, matchAll } from "../support/memory-chunks.ts";
import { MEMORY_STORES } from "./memory-stores.ts";

describe.each(MEMORY_STORES)("a memory %s", (_, open) => {
  it("[D8] holds once what two processes took in of one log at the same time", async () => {
    const store = open();
    const [first, second] = [batchOf("s1", 1, ["w one", "w two"]), batchOf("s1", 1, ["w one", "w two", "w three"])];
    await Promise.all([store.add(first), store.add(second)]);
    expect(await found(store, "w")).toEqual(["w one", "w two", "w three"]);
    expect(await store.cursor("s1")).toBe(3);
    expect((await matchAll(store, ["w"])).chunks).toBe(3);
    await store.close();
  });
});
