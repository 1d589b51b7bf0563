import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openMemoryStore } from "@rkat/node/recall-index/open";
import { afterAll, describe, expect, it } from "vitest";
import { created, idOf, said } from "../../../../test/support/entries.ts";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import { createVirtualClock } from "../../../../test/support/virtual-clock.ts";
import { RuntimeError } from "../contract/error.ts";
import { createInMemoryStore, type createRuntime } from "../create-runtime.ts";
import type { MemoryStore } from "../ports/memory.ts";
import type { Store } from "../ports/store.ts";
import { createSystemClock } from "../runtime/system-clock.ts";
import { toNewEntries } from "../state/entry-events.ts";
import { createMemoryStoreInMemory } from "../stores/recall-in-memory.ts";
import { createSessionMemory } from "./session-memory.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-behind-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Ids that no runtime here gives. */
const OLD = 1_000_000;

interface Seen {
  rows: number;
  cursors: number;
}

function countReads({ cursor, cursors }: MemoryStore, seen: Seen): Pick<MemoryStore, "cursor" | "cursors"> {
  return {
    cursor: (id) => {
      seen.cursors += 1;
      return cursor(id);
    },
    ...(cursors === undefined
      ? {}
      : {
          cursors: (ids) => {
            seen.cursors += ids.length;
            return cursors(ids);
          },
        }),
  };
}

function countRows(sessions: Store["sessions"], seen: Seen): Store["sessions"] {
  return {
    ...sessions,
    page: async (query) => {
      const rows = await sessions.page(query);
      seen.rows += rows.length;
      return rows;
    },
  };
}

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

  const onDisk = () => openMemoryStore({ folder: mkdtempSync(join(root, "memory-")), version: 7 });

  it("[L3] is looked for by the first search of a process among what has changed alone", async () => {
    const counts = [];
    for (const sessions of [20, 400]) {
      const store = createInMemoryStore();
      const memory = onDisk();
      for (let at = 0; at < sessions; at += 1)
        await store.log.append(idOf(OLD + at), 0, toNewEntries([created, said(`Old ${at}.`)]), 1_000 + at);
      const seen = { rows: 0, cursors: 0 };
      const counting = { ...memory, ...countReads(memory, seen), close: async () => {} };
      const counted = { ...store, sessions: countRows(store.sessions, seen) };
      const firstSearch = async (query: string) => {
        Object.assign(seen, { rows: 0, cursors: 0 });
        const { runtime } = scriptedRuntime(script, { store: counted, memory: { store: counting } });
        const found = await search(runtime, query);
        await runtime.close();
        return found;
      };
      expect(await firstSearch(`Old ${sessions - 1}`)).toContain(`Old ${sessions - 1}.`);
      const { runtime } = scriptedRuntime(script, { store });
      await runtime.createSession("The otter swims.");
      expect(await firstSearch("otter")).toEqual(["The otter swims."]);
      expect(await firstSearch("otter")).toEqual(["The otter swims."]);
      counts.push({ ...seen });
      // What was taken away is taken in again, by whichever process comes next.
      await memory.reset(idOf(OLD + 3));
      expect(await firstSearch("Old 3")).toContain("Old 3.");
      await memory.close();
    }
    expect(counts[1]).toEqual(counts[0]);
    expect(counts[0]).toEqual({ rows: 1, cursors: 1 });
  });

  it("[L3] is looked for among all logs, behind an answer, once an hour: a copy brings what is older", async () => {
    const [store, kept, clock] = [createInMemoryStore(), onDisk(), createVirtualClock(9e11)];
    const open = () =>
      createSessionMemory({ memory: { ...kept, close: async () => {} }, store, openEmbedder: undefined, clock });
    const append = (at: number, text: string, atMs: number) =>
      store.log.append(idOf(at), 0, toNewEntries([created, said(text)]), atMs);
    const options = { scope: { discardedOnly: false }, limit: 5, signal: new AbortController().signal };
    const searchOnce = async (query: string) => {
      const memory = open();
      await memory.catchUp();
      const { hits } = await memory.recall(query, options);
      await memory.close();
      return hits.map(({ chunk }) => chunk.text);
    };
    await append(1, "The heron stands.", 9e11);
    expect(await searchOnce("heron")).toEqual(["The heron stands."]);
    await append(2, "The otter swims.", 1_000);
    expect(await searchOnce("otter")).toEqual([]);
    clock.advance(3_600_000);
    await searchOnce("otter");
    expect(await searchOnce("otter")).toEqual(["The otter swims."]);
  });

  it("[L3] is not noted as taken in while a session that asks is left out", async () => {
    const [store, kept] = [createInMemoryStore(), onDisk()];
    await store.log.append(idOf(1), 0, toNewEntries([created, said("The heron stands.")]), 1_000);
    await store.log.append(idOf(2), 0, toNewEntries([created, said("The otter swims.")]), 9e11);
    const open = () =>
      createSessionMemory({ memory: kept, store, openEmbedder: undefined, clock: createSystemClock() });
    // The process is gone before the turn of the session has ended.
    await open().catchUp(idOf(1));
    await open().catchUp();
    expect(await kept.cursor(idOf(1))).toBeGreaterThan(0);
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
