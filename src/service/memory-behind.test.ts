import { describe, expect, it } from "vitest";
import { scriptedRuntime } from "../../test/support/runtime.ts";
import { RuntimeError } from "../contract/error.ts";
import type { MemoryStore } from "../ports/memory.ts";
import { createInMemoryStore, type createRuntime } from "../runtime.ts";
import { createMemoryStoreInMemory } from "../stores/recall/in-memory.ts";
import { createSessionMemory } from "./session-memory.ts";
import { createSystemClock } from "./system-clock.ts";

describe("what is behind", () => {
  const script = () => ({ text: "Noted." });
  /** A memory that says how often it was asked how far a log is taken in, and can fail. */
  const countingMemory = () => {
    const kept = createMemoryStoreInMemory();
    const seen = { cursors: 0, fails: false };
    const memory: MemoryStore = {
      ...kept,
      cursor: (id) => {
        seen.cursors += 1;
        return kept.cursor(id);
      },
      add: async (batch) => {
        if (seen.fails) throw new Error("no room");
        return kept.add(batch);
      },
    };
    return { kept, memory, seen };
  };
  const search = async (runtime: ReturnType<typeof createRuntime>, query: string) =>
    (await runtime.dispatch("searchHistory", { query })).results.map(({ content }) => content);

  it("[D4] is looked for among all logs once, and then among those that have changed", async () => {
    const store = createInMemoryStore();
    const { runtime: other } = scriptedRuntime(script, { store });
    await other.createSession("The heron stands in the pond.");
    for (let at = 0; at < 50; at += 1) {
      const { session_id } = await other.dispatch("createSession", { prompt: `Old ${at}.`, initial_turn: "deferred" });
      await store.log.append(session_id, 1, [{ span: 1, body: { kind: "archived" } }], 1_000 + at);
    }
    const { memory, seen } = countingMemory();
    const { runtime } = scriptedRuntime(script, { store, memory: { store: memory } });
    expect(await search(runtime, "heron")).toEqual(["The heron stands in the pond."]);
    seen.cursors = 0;
    await other.createSession("The otter swims.");
    expect(await search(runtime, "otter")).toEqual(["The otter swims."]);
    expect(seen.cursors).toBeLessThan(10);
  });

  it("[D4] is found again after it could not be taken in", async () => {
    const store = createInMemoryStore();
    const { memory, seen } = countingMemory();
    const { runtime } = scriptedRuntime(script, { store, memory: { store: memory } });
    await runtime.createSession("The heron stands in the pond.");
    expect(await search(runtime, "heron")).toHaveLength(1);
    seen.fails = true;
    await runtime.createSession("The otter swims.");
    expect(await search(runtime, "otter")).toEqual([]);
    seen.fails = false;
    expect(await search(runtime, "otter")).toEqual(["The otter swims."]);
  });

  it("[D4] is everything again when a memory has lost what it had", async () => {
    const store = createInMemoryStore();
    let kept = createMemoryStoreInMemory();
    const memory: MemoryStore = {
      ...kept,
      cursor: (id) => kept.cursor(id),
      add: (batch) => kept.add(batch),
      read: (ids) => kept.read(ids),
      match: (...asked) => kept.match(...asked),
    };
    const { runtime } = scriptedRuntime(script, { store, memory: { store: memory } });
    const { id } = await runtime.createSession("The heron stands in the pond.");
    await store.log.append(
      id,
      (await store.sessions.get(id))?.last_seq ?? 0,
      [{ span: 1, body: { kind: "archived" } }],
      5,
    );
    await runtime.createSession("The otter swims.");
    expect(await search(runtime, "heron")).toHaveLength(1);
    expect(await search(runtime, "heron")).toHaveLength(1);
    kept = createMemoryStoreInMemory();
    expect(await search(runtime, "heron")).toEqual(["The heron stands in the pond."]);
  });

  it("[D4] is asked of a memory that can tell it", async () => {
    const store = createInMemoryStore();
    const { runtime: other } = scriptedRuntime(script, { store });
    const { id } = await other.createSession("The heron stands in the pond.");
    const { kept, memory, seen } = countingMemory();
    const behind = async () => ((await kept.cursor(id)) === 0 ? [id] : []);
    const { runtime } = scriptedRuntime(script, { store, memory: { store: { ...memory, behind } } });
    expect(await runtime.dispatch("readMemoryStatus", {})).toMatchObject({ sessions_behind: 1 });
    expect(await search(runtime, "heron")).toEqual(["The heron stands in the pond."]);
    seen.cursors = 0;
    await search(runtime, "heron");
    expect(seen.cursors).toBe(0);
    expect(await runtime.dispatch("readMemoryStatus", {})).toMatchObject({ sessions_behind: 0 });
  });

  it("[D4] what cannot be searched is told at once, not when the next turn is taken in", async () => {
    const { kept } = countingMemory();
    let isUnreadable = true;
    const memory = createSessionMemory({
      memory: {
        ...kept,
        match: async (...asked) => {
          if (isUnreadable) throw new RuntimeError("SESSION_STORE_ERROR", "the index is unreadable");
          return kept.match(...asked);
        },
      },
      store: createInMemoryStore(),
      openEmbedder: undefined,
      clock: createSystemClock(),
    });
    const scope = { discardedOnly: false };
    const { signal } = new AbortController();
    await expect(memory.recall("heron", { scope, limit: 1, signal })).rejects.toThrow("the index is unreadable");
    expect(memory.vitals().problem).toBe("the index is unreadable");
    isUnreadable = false;
    await memory.recall("heron", { scope, limit: 1, signal });
    expect(memory.vitals().problem).toBeUndefined();
    await memory.close();
  });
});
