import { describe, expect, it } from "vitest";
import { created, idOf, said } from "../../../../test/support/entries.ts";
import { createInMemoryStore } from "../create-runtime.ts";
import type { RowQuery, SessionRow, Store } from "../ports/store.ts";
import { toNewEntries } from "../state/entry-events.ts";
import { createRowWatch, type Pages, walkRows } from "./walk-rows.ts";

const HOUR_MS = 60 * 60_000;
const START = Date.parse("2026-05-04T10:00:00.000Z");

async function storeOf(sessions: number): Promise<Store> {
  const store = createInMemoryStore();
  for (let at = 0; at < sessions; at += 1)
    await store.log.append(idOf(at), 0, toNewEntries([created]), START + at * 1_000);
  return store;
}

async function idsOf(rows: AsyncIterable<SessionRow>): Promise<readonly string[]> {
  const met: string[] = [];
  for await (const { session_id } of rows) met.push(session_id);
  return met;
}

describe("walking over rows", () => {
  it("[F4] meets every row, a page at a time", async () => {
    const { sessions } = await storeOf(2_500);
    let largest = 0;
    const page = async (query: RowQuery) => {
      const rows = await sessions.page(query);
      largest = Math.max(largest, rows.length);
      return rows;
    };
    expect(new Set(await idsOf(walkRows({ page }))).size).toBe(2_500);
    expect(largest).toBe(1_000);
  });

  it("[F4] does not miss a row that moves to the front while it walks", async () => {
    const store = await storeOf(2_500);
    const met = new Set<string>();
    for await (const { session_id } of walkRows(store.sessions)) {
      if (met.size === 0) await store.log.append(idOf(3), 1, toNewEntries([said("hi")]), START + HOUR_MS);
      met.add(session_id);
    }
    expect(met.size).toBe(2_500);
  });

  it("[F4] ends, and says why, where a store gives the same page again", async () => {
    const { sessions } = await storeOf(1_000);
    const stuck: Pages<SessionRow> = { page: ({ after: _, ...query }) => sessions.page(query) };
    await expect(idsOf(walkRows(stuck))).rejects.toMatchObject({ code: "SESSION_STORE_ERROR" });
  });
});

describe("watching rows", () => {
  it("[F4] looks at all of them once, and then at those that have changed since", async () => {
    const store = await storeOf(2_000);
    let nowMs = START + HOUR_MS;
    const watch = createRowWatch(() => nowMs);
    const look = () => idsOf(watch.changed(store.sessions));
    expect(new Set(await look()).size).toBe(2_000);
    nowMs += 600_000;
    await store.log.append(idOf(5), 1, toNewEntries([said("hi")]), nowMs);
    const changed = await look();
    expect(changed).toContain(idOf(5));
    expect(changed.length).toBeLessThan(400);
    // What was written by a clock that goes behind ours.
    await store.log.append(idOf(6), 1, toNewEntries([said("hi")]), nowMs - 120_000);
    expect(await look()).toEqual([idOf(5), idOf(6)]);
    // What a copy brings is older than anything that was looked at.
    await store.log.append(idOf(9_000), 0, toNewEntries([created]), START - HOUR_MS);
    expect(await look()).not.toContain(idOf(9_000));
    nowMs += HOUR_MS;
    expect(await look()).toContain(idOf(9_000));
  });

  it("[F4] gives again what was not read to its end, and everything after it was told to forget", async () => {
    const store = await storeOf(3);
    const watch = createRowWatch(() => START + 10 * HOUR_MS);
    for await (const _ of watch.changed(store.sessions)) break;
    expect(await idsOf(watch.changed(store.sessions))).toHaveLength(3);
    await store.log.append(idOf(50), 0, toNewEntries([created]), START + 2 * HOUR_MS);
    expect(await idsOf(watch.changed(store.sessions))).toEqual([idOf(50), ...[2, 1, 0].map(idOf)]);
    expect(await idsOf(watch.changed(store.sessions))).toEqual([idOf(50)]);
    watch.forget();
    expect(await idsOf(watch.changed(store.sessions))).toHaveLength(4);
  });
});
