import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ForgetReceipt } from "@rkat/core/contract/forget";
import { createInMemoryStore, createRuntime, type Runtime } from "@rkat/core/create-runtime";
import type { Store } from "@rkat/core/ports/store";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import type { Retention } from "@rkat/core/state/retention";
import { openRuntime, verifyStore } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it, vi } from "vitest";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { beginWaiting, configWith } from "../support/runtime.ts";
import { createVirtualClock } from "../support/virtual-clock.ts";
import { lookFor } from "./look.ts";
import { lookInDatabase } from "./look-in-database.ts";

const DAY_MS = 86_400_000;
const root = mkdtempSync(join(tmpdir(), "rkat-prune-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const retention: Retention = {
  sessions: 90 * DAY_MS,
  labels: { "team=core": 30 * DAY_MS, "hold=legal": "forever" },
};

/** A process that ends with what it was asked, on a clock that stands still, and what its store is. */
function onClock(options: { readonly store?: (store: Store) => Store; readonly retention?: Retention } = {}) {
  const clock = createVirtualClock();
  const store = createInMemoryStore({ now: clock.now });
  const config = configWith({ retention: options.retention ?? retention });
  const open = (more: { readonly isShortLived?: boolean; readonly warn?: (sentence: string) => void } = {}) =>
    createRuntime({
      ...{ model: "offline", toolPreset: "none", env: {}, clock, config, isShortLived: true },
      store: options.store?.(store) ?? store,
      ...more,
    });
  return { clock, store, open, runtime: open() };
}

const say = async (runtime: Runtime, prompt: string, labels: Readonly<Record<string, string>> = {}) => {
  const { session_id } = await runtime.dispatch("createSession", { prompt, labels });
  return session_id;
};
const idsOf = (sessions: readonly { readonly session_id: string }[]) => sessions.map(({ session_id }) => session_id);

describe("pruning", () => {
  it("[K2] lists what is due with its rule, then forgets it as one with one receipt, and leaves the rest", async () => {
    const { clock, runtime } = onClock();
    const old = await say(runtime, "The heron nests at Kiln Weir.");
    const core = await say(runtime, "The otter sleeps at Mill Race.", { team: "core" });
    const legal = await say(runtime, "The kite circles over Long Barn.", { hold: "legal", team: "core" });
    clock.advance(31 * DAY_MS);
    const young = await say(runtime, "The wren is new here.");
    expect(await runtime.dispatch("prune", { dry_run: true })).toEqual({
      dry_run: true,
      sessions: [
        {
          session_id: core,
          title: "The otter sleeps at Mill Race.",
          updated_at: "2026-01-01T00:00:00.000Z",
          rule: "team=core",
          kept_for: "30d",
        },
      ],
      more: 0,
      busy: 0,
    });
    clock.advance(60 * DAY_MS);
    const due = await runtime.dispatch("prune", { dry_run: true });
    expect(idsOf(due.sessions)).toEqual([old, core]);
    const { receipt, signed, ...done } = await runtime.dispatch("prune", {});
    expect(done).toEqual({
      dry_run: false,
      sessions: due.sessions.map(({ title: _, ...rest }) => rest),
      more: 0,
      busy: 0,
    });
    expect(receipt).toMatchObject({
      target: "sessions",
      logs: [
        { session_id: old, all: true, messages: 2 },
        { session_id: core, all: true, messages: 2 },
      ],
      scan: { matches: 0 },
    });
    expect(signed && JSON.parse(signed.receipt)).toEqual(receipt);
    const { forgettings, unfinished } = await runtime.dispatch("listForgettings", {});
    expect({ valid: forgettings.map(({ valid }) => valid), unfinished }).toEqual({ valid: [true], unfinished: 0 });
    for (const session_id of [old, core]) {
      const { messages } = await runtime.dispatch("readHistory", { session_id });
      expect(JSON.stringify(messages)).not.toMatch(/heron|otter|Weir|Race/);
    }
    for (const session_id of [legal, young]) {
      expect((await runtime.dispatch("readHistory", { session_id })).messages).toHaveLength(2);
    }
    // What went is not due again, however much later.
    clock.advance(1_000 * DAY_MS);
    expect(idsOf((await runtime.dispatch("prune", { dry_run: true })).sessions)).toEqual([young]);
  });

  it("[K2] takes the oldest first, so many at a time, and says how many are left", async () => {
    const { clock, runtime } = onClock();
    const ids: string[] = [];
    for (let day = 0; day < 5; day += 1) {
      ids.push(await say(runtime, `Day ${day} of the heron.`));
      clock.advance(DAY_MS);
    }
    clock.advance(90 * DAY_MS);
    const counts: number[] = [];
    for (let round = 0; round < 3; round += 1) {
      const { sessions, more, receipt } = await runtime.dispatch("prune", { limit: 2 });
      expect(idsOf(sessions)).toEqual(ids.slice(2 * round, 2 * round + 2));
      expect(receipt?.logs.length).toBe(sessions.length);
      counts.push(more);
    }
    expect(counts).toEqual([3, 1, 0]);
    expect(await runtime.dispatch("prune", {})).toEqual({ dry_run: false, sessions: [], more: 0, busy: 0 });
  });

  it("[K2] leaves a session that is in a turn, or held, and says how many those are", async () => {
    const { clock, store, runtime } = onClock();
    const held = await say(runtime, "The heron is held.");
    // Nothing was ever said in it, and it goes all the same.
    const empty = await runtime.dispatch("createSession", { initial_turn: "deferred" });
    const model = createScriptedModel([{ text: "Well", ends: "silent" }]);
    const asking = createRuntime({ model, store, env: {}, isShortLived: true });
    const session = await asking.createSession();
    const turn = await beginWaiting(session);
    clock.advance(91 * DAY_MS);
    const hold = await store.locks.hold(held);
    const dry = await runtime.dispatch("prune", { dry_run: true });
    expect({ ids: idsOf(dry.sessions), busy: dry.busy }).toEqual({ ids: [empty.session_id], busy: 2 });
    const { sessions, busy } = await runtime.dispatch("prune", {});
    expect({ ids: idsOf(sessions), busy }).toEqual({ ids: [empty.session_id], busy: 2 });
    await hold.release();
    expect(idsOf((await runtime.dispatch("prune", {})).sessions)).toEqual([held]);
    await session.interrupt();
    await turn.events;
    expect(idsOf((await runtime.dispatch("prune", {})).sessions)).toEqual([]);
    clock.advance(91 * DAY_MS);
    expect(idsOf((await runtime.dispatch("prune", {})).sessions)).toEqual([session.id]);
  });

  it("[K2] takes a session whose turn a crash cut off, and leaves one whose turn waits for a person", async () => {
    const { clock, store, runtime } = onClock();
    const message = { role: "user", content: "The heron was cut off.", created_at: "2026-01-01T00:00:00Z" } as const;
    const opened = { span: 1, body: { kind: "turn_opened", message } } as const;
    const call = { id: "call-1", name: "shell", args: {}, why: "it is asked about" };
    const progress = { turns: 1, elapsed_ms: 0, seq_before: 1, tool_calls_before: 0 };
    const question = { approval_id: "a", calls: [call], expires_at_ms: 0, progress };
    const ids: string[] = [];
    for (const more of [[], [{ span: 1, body: { kind: "approval_asked", ...question } } as const]]) {
      const { session_id } = await runtime.dispatch("createSession", { initial_turn: "deferred" });
      const row = await store.sessions.get(session_id);
      await store.log.append(session_id, row?.last_seq ?? 0, [opened, ...more]);
      ids.push(session_id);
    }
    clock.advance(91 * DAY_MS);
    const { sessions, busy } = await runtime.dispatch("prune", {});
    expect({ ids: idsOf(sessions), busy }).toEqual({ ids: ids.slice(0, 1), busy: 1 });
    const [gone] = await store.log.read(ids[0] ?? "", 2, 1);
    expect(JSON.stringify(gone?.body)).not.toContain("heron");
  });

  it("[K2] asks again once it holds a session: one that was gone on with meanwhile stays", async () => {
    let meanwhile: (id: string) => Promise<void> = async () => {};
    const { clock, runtime } = onClock({
      store: (store) => ({
        ...store,
        locks: {
          ...store.locks,
          isHeld: (id) => store.locks.isHeld(id),
          interrupt: (id) => store.locks.interrupt(id),
          hold: async (id) => {
            await meanwhile(id);
            return store.locks.hold(id);
          },
        },
      }),
    });
    const goes = await say(runtime, "The heron goes.");
    const stays = await say(runtime, "The otter stays.");
    clock.advance(91 * DAY_MS);
    meanwhile = async (id) => {
      if (id !== stays) return;
      meanwhile = async () => {};
      await runtime.dispatch("injectContext", { session_id: stays, text: "Somebody came back." });
    };
    const { sessions, busy } = await runtime.dispatch("prune", {});
    expect({ ids: idsOf(sessions), busy }).toEqual({ ids: [goes], busy: 1 });
    const { messages } = await runtime.dispatch("readHistory", { session_id: stays });
    expect(JSON.stringify(messages)).toContain("The otter stays.");
  });

  it("[K2] leaves a fork what it copied, which is kept as long as the fork is", async () => {
    const { clock, runtime } = onClock();
    const source = await say(runtime, "The heron nests at Kiln Weir.");
    clock.advance(80 * DAY_MS);
    const fork = await runtime.dispatch("forkSession", { session_id: source, message_index: 2 });
    clock.advance(11 * DAY_MS);
    const { sessions, receipt } = await runtime.dispatch("prune", {});
    expect(idsOf(sessions)).toEqual([source]);
    const { messages } = await runtime.dispatch("readHistory", { session_id: fork.session_id });
    expect(JSON.stringify(messages)).toContain("Kiln Weir");
    // The receipt does not hide it.
    expect(receipt?.quoted_in).toContainEqual(expect.objectContaining({ session_id: fork.session_id }));
  });

  it("[K2] is refused where nothing says how long sessions are kept, and to tokens with labels", async () => {
    const { runtime } = onClock({ retention: { labels: {} } });
    await expect(runtime.dispatch("prune", { dry_run: true })).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message:
        'retention: nothing says how long sessions are kept; write [retention] sessions = "90d" in the configuration',
    });
    const { runtime: other } = onClock();
    const caller = { name: "ci", scopes: new Set(["admin"] as const), labels: { team: "core" } };
    await expect(other.dispatch("prune", {}, { caller })).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
    const reader = { name: "ci", scopes: new Set(["read", "run", "config"] as const), labels: {} };
    await expect(other.dispatch("prune", {}, { caller: reader })).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
    for (const limit of [0, -1, 1.5, 1_001, "7", Number.NaN]) {
      await expect(other.dispatch("prune", { limit })).rejects.toMatchObject({ code: "INVALID_PARAMS" });
    }
    await expect(other.dispatch("prune", { older_than: "1d" })).rejects.toMatchObject({ code: "INVALID_PARAMS" });
  });
});

describe("a server", () => {
  it("[K2] prunes behind its work, one of those that have the realm, and another when that ends", async () => {
    const { store, runtime, open } = onClock();
    const first = await say(runtime, "The heron nests at Kiln Weir.");
    const reported: Record<"a" | "b", string[]> = { a: [], b: [] };
    const a = open({ isShortLived: false, warn: (sentence) => reported.a.push(sentence) });
    const b = open({ isShortLived: false, warn: (sentence) => reported.b.push(sentence) });
    await vi.waitFor(() => expect(reported.a.length).toBe(1), { timeout: 30_000 });
    const sentence = /^1 session was kept long enough and forgotten, receipt [0-9a-f-]{36}$/;
    expect(reported).toEqual({ a: [expect.stringMatching(sentence)], b: [] });
    expect((await store.sessions.get(first))?.forgotten_whole).toBe(true);
    await a.close();
    await say(runtime, "The otter sleeps at Mill Race.", { team: "core" });
    await say(runtime, "The otter wakes at Mill Race.", { team: "core" });
    await vi.waitFor(() => expect(reported.b.join()).toContain("forgotten"), { timeout: 30_000 });
    await b.close();
    expect(reported.a).toHaveLength(1);
    const receipts = (await runtime.dispatch("listForgettings", {})).forgettings.map(
      // As the runtime signed it.
      ({ receipt }) => JSON.parse(receipt) as ForgetReceipt,
    );
    expect(receipts.flatMap(({ logs }) => logs)).toHaveLength(3);
    expect(await store.locks.isHeld("retention")).toBe(false);
  }, 60_000);

  it("[K2] looks for nothing in a process that ends with its turn, or where nothing is configured", async () => {
    for (const { configured, isShortLived } of [
      { configured: retention, isShortLived: true },
      { configured: { labels: {} }, isShortLived: false },
    ]) {
      const { clock, runtime, open } = onClock({ retention: configured });
      await say(runtime, "The heron nests at Kiln Weir.");
      const before = clock.now();
      const other = open({ isShortLived });
      // The clock would move to the next look, were there one.
      for (let round = 0; round < 50; round += 1) await new Promise(setImmediate);
      expect(clock.now()).toBe(before);
      await other.close();
    }
  });
});

/** Ten sessions of which half are kept for a millisecond, pruned in a place that outlives the process. */
async function pruneHalf(place: { readonly stateFolder: string; readonly store?: string }) {
  const config = configWith({ memory: { embedder: "hashing" }, retention: { labels: { "keep=short": 1 } } });
  const open = () =>
    openRuntime({ ...place, model: "offline", toolPreset: "none", env: {}, isShortLived: true, config });
  const runtime = await open();
  const secrets = Array.from({ length: 10 }, (_, number) => `heron-number-${number}-${1_000 + number * 37}`);
  for (const [number, secret] of secrets.entries()) {
    await say(runtime, `Keep this in mind: ${secret}.`, { keep: number % 2 === 0 ? "short" : "long" });
  }
  await runtime.searchHistory("heron");
  const madeAt = Date.now();
  await vi.waitUntil(() => Date.now() > madeAt + 2);
  const { sessions, receipt } = await runtime.dispatch("prune", {});
  expect({ went: sessions.length, matches: receipt?.scan.matches }).toEqual({ went: 5, matches: 0 });
  await runtime.close();
  const again = await open();
  expect((await again.dispatch("prune", {})).sessions).toEqual([]);
  const listed = await again.dispatch("listSessions", {});
  expect(listed.sessions.filter(({ title = "" }) => title.includes("heron-number"))).toHaveLength(5);
  await again.close();
  return {
    gone: secrets.filter((_, number) => number % 2 === 0),
    kept: secrets.filter((_, number) => number % 2 === 1),
  };
}

describe("what was pruned", () => {
  it("[K2] is nowhere below the state folder, and what stays is whole", async () => {
    const stateFolder = mkdtempSync(join(root, "folder-"));
    const { gone, kept } = await pruneHalf({ stateFolder });
    expect(lookFor(stateFolder, gone)).toEqual([]);
    expect(new Set(lookFor(stateFolder, kept).map(({ text }) => text)).size).toBe(5);
    expect(await verifyStore(stateFolder)).toMatchObject({ problems: [] });
  }, 60_000);

  withPostgres("in a database", () => {
    it("[K2] is in no table either", async () => {
      const store = await databaseFor("prune");
      const { gone } = await pruneHalf({ stateFolder: mkdtempSync(join(root, "beside-")), store });
      expect(await lookInDatabase(store, gone)).toEqual([]);
    }, 60_000);
  });
});
