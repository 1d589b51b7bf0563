import { describe, expect, it } from "vitest";
import { fc } from "../../../../test/support/property.ts";
import type { AgentEntryBody } from "../contract/agent.ts";
import { type AgentRow, coveredBy, dueAt, dueWaterfall, foldAgent, type Windows, waterfallNow } from "./tiers.ts";

const WINDOWS: Windows = { immediate: 64, recent: 64 };
const ID = "00000000-0000-8000-8000-000000000000";

/** An agent's log, as far as its row is concerned. */
function life(given = WINDOWS) {
  let windows = given;
  let row: AgentRow | undefined;
  const append = (body: AgentEntryBody): AgentRow => {
    row = foldAgent(row, ID, { seq: (row?.last_seq ?? 0) + 1, span: 1, timestamp_ms: 1, body });
    return row;
  };
  return {
    row: () => row,
    resize: (sizes: Windows) => {
      windows = sizes;
    },
    note: () => append({ kind: "note_added", agent: "ada", content: "a note" }),
    remember: () => append({ kind: "memory_added", agent: "ada", number: (row?.count ?? 0) + 1, content: "x" }),
    fail: () => append({ kind: "tiers_failed", at_count: row?.count ?? 0, error: "no" }),
    compact: (forced = false) => {
      if (row === undefined) return undefined;
      const fall = forced ? waterfallNow(row, windows) : dueWaterfall(row, windows);
      if (fall === undefined) return undefined;
      const tier = (range: { from: number; to: number }) => ({ summary: "s", by: "model" as const, ...range });
      append({
        kind: "tiers_compacted",
        at_count: fall.atCount,
        recent: tier(fall.recent),
        ...(fall.longterm === undefined ? {} : { longterm: tier(fall.longterm) }),
        usage: { input_tokens: 0, output_tokens: 0 },
        forced,
      });
      return fall;
    },
  };
}

describe("the waterfall", () => {
  it("[E2] is due at 129 memories, then every 64", () => {
    const { remember, compact } = life();
    const counts: number[] = [];
    for (let n = 1; n <= 400; n += 1) {
      remember();
      if (compact() !== undefined) counts.push(n);
    }
    expect(counts).toEqual([129, 193, 257, 321, 385]);
  });

  it("[E1] [E3] covers what is outside the immediate window, and pushes the summary before it down", () => {
    const { remember, compact } = life();
    const falls = [];
    for (let n = 1; n <= 257; n += 1) {
      remember();
      const fall = compact();
      if (fall !== undefined) falls.push(fall);
    }
    expect(falls).toEqual([
      { atCount: 129, recent: { from: 1, to: 65 } },
      { atCount: 193, recent: { from: 66, to: 129 }, longterm: { from: 1, to: 65 } },
      { atCount: 257, recent: { from: 130, to: 193 }, longterm: { from: 1, to: 129 } },
    ]);
  });

  it("[E2] covers the same whenever it is made, so many memories brought in at once are many compactions", () => {
    const { remember, compact } = life();
    for (let n = 1; n <= 400; n += 1) remember();
    const counts: number[] = [];
    for (let fall = compact(); fall !== undefined; fall = compact()) counts.push(fall.atCount);
    expect(counts).toEqual([129, 193, 257, 321, 385]);
  });

  it("[E8] that failed is tried again at the next memory, takes in what came since, and is due a window later", () => {
    const { remember, compact, fail, row } = life();
    for (let n = 1; n <= 129; n += 1) remember();
    fail();
    expect(compact()).toBeUndefined();
    remember();
    fail();
    remember();
    expect(compact()).toEqual({ atCount: 131, recent: { from: 1, to: 67 } });
    expect(dueAt(row() ?? {}, WINDOWS)).toBe(195);
    expect(row()).not.toHaveProperty("last_error");
  });

  it("[E1] [E2] goes on when the windows are made larger or smaller in the middle of a life", () => {
    const { remember, compact, resize } = life();
    const falls: number[] = [];
    const live = (to: number): void => {
      for (let n = remember().count; n < to; n = remember().count) {
        for (let fall = compact(); fall !== undefined; fall = compact()) falls.push(fall.atCount);
      }
    };
    live(130);
    resize({ immediate: 200, recent: 64 });
    live(600);
    resize({ immediate: 2, recent: 4 });
    live(610);
    expect(falls.slice(0, 6)).toEqual([129, 329, 393, 457, 521, 585]);
    // What is outside the smaller window now is taken in by pieces.
    expect(falls.slice(6, 8)).toEqual([391, 395]);
    expect(falls.at(-1)).toBeGreaterThan(600);
  });

  it("[E6] can be forced as soon as a memory has left the immediate window, and only then", () => {
    const { remember, compact } = life();
    for (let n = 1; n <= 64; n += 1) remember();
    expect(compact(true)).toBeUndefined();
    remember();
    expect(compact(true)).toEqual({ atCount: 65, recent: { from: 1, to: 1 } });
    expect(compact(true)).toBeUndefined();
    remember();
    expect(compact(true)).toEqual({ atCount: 66, recent: { from: 2, to: 2 }, longterm: { from: 1, to: 1 } });
  });

  it("[E1] leaves no memory in no tier, whatever happens, with any windows", () => {
    const step = fc.constantFrom("remember", "remember", "remember", "note", "compact", "force", "fail");
    const windows = fc.record({ immediate: fc.integer({ min: 1, max: 9 }), recent: fc.integer({ min: 1, max: 9 }) });
    fc.assert(
      fc.property(windows, fc.array(step, { maxLength: 200 }), (sizes, steps) => {
        const agent = life(sizes);
        let remembered = 0;
        for (const what of steps) {
          if (what === "remember") {
            agent.remember();
            remembered += 1;
          } else if (what === "note") agent.note();
          else if (what === "fail" && remembered > 0) agent.fail();
          else if (what !== "fail") agent.compact(what === "force");
          const row = agent.row();
          if (row === undefined) continue;
          expect(row.count).toBe(remembered);
          if (row.longterm !== undefined)
            expect([row.longterm.from, row.longterm.to + 1]).toEqual([1, row.recent?.from]);
          else if (row.recent !== undefined) expect(row.recent.from).toBe(1);
          // What no summary covers is what the log is read for: the newest at least, and all of it in its place.
          const first = coveredBy(row) + 1;
          if (row.recent !== undefined) expect(row.count - coveredBy(row)).toBeGreaterThanOrEqual(sizes.immediate);
          if (first <= row.count) expect(row.places[0]?.number).toBeLessThanOrEqual(first);
        }
      }),
      { numRuns: 500 },
    );
  });
});
