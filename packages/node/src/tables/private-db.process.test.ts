import {
  appendFileSync,
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createRandom } from "../../../../test/crash/random.ts";
import { byEffort } from "../../../../test/support/effort.ts";
import { testSeed } from "../../../../test/support/seed.ts";
import { openPrivateDb } from "./private-db.ts";
import { DamagedDb, isSoundDb } from "./table-file.ts";

const FLIPS = byEffort({ quick: 20, usual: 60, full: 1_000 });

let folder: string;
const warnings: string[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rkat-tables-"));
  warnings.length = 0;
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const openTables = () => {
  const db = openPrivateDb<unknown, string>(join(folder, "tables.db"), {}, (sentence) => warnings.push(sentence));
  return {
    db,
    texts: db.openDB<string, number>("texts", "json"),
    bytes: db.openDB<Buffer, [number, number]>("bytes", "binary"),
  };
};

describe("a file of tables", () => {
  it("[F4] holds what a map holds, through transactions that fail, other readers, and being opened again", async () => {
    const seed = testSeed();
    const random = createRandom(seed);
    let writer = openTables();
    const reader = openTables();
    let expected = new Map<number, string>();
    for (let round = 0; round < 120; round += 1) {
      const next = new Map(expected);
      const isFailing = random() < 0.2;
      const work = () =>
        writer.db.transactionSync(() => {
          for (let change = 0; change < random() * 60; change += 1) {
            const key = Math.floor(random() * 2_000);
            if (random() < 0.3) {
              writer.texts.remove(key);
              next.delete(key);
            } else {
              const text = "x".repeat(Math.floor(random() ** 4 * 5_000)) + String(round);
              writer.texts.put(key, text);
              next.set(key, text);
            }
          }
          if (random() < 0.02) {
            writer.texts.clear();
            next.clear();
          }
          if (isFailing) throw new Error("on purpose");
        });
      if (isFailing) expect(work).toThrow("on purpose");
      else {
        work();
        expected = next;
      }
      const sorted = [...expected].sort(([a], [b]) => a - b).map(([key, value]) => ({ key, value }));
      expect({ seed, rows: reader.texts.getRange() }).toEqual({ seed, rows: sorted });
      expect(reader.texts.getCount()).toBe(expected.size);
      const start = Math.floor(random() * 2_000);
      expect(reader.texts.getRange({ start, end: start + 300 })).toEqual(
        sorted.filter(({ key }) => key >= start && key < start + 300),
      );
      const key = Math.floor(random() * 2_000);
      expect(reader.texts.get(key)).toBe(expected.get(key));
      if (random() < 0.1) {
        await writer.db.close();
        writer = openTables();
      }
    }
    await writer.db.close();
    await reader.db.close();
    expect(isSoundDb(join(folder, "tables.db"))).toBe(true);
    expect(warnings).toEqual([]);
  });

  it("[F4] gives ranges that begin or end at zero", async () => {
    const { db, texts } = openTables();
    for (const key of [0, 1]) texts.put(key, `text ${key}`);
    expect(texts.getRange({ start: 0, end: 1 })).toEqual([{ key: 0, value: "text 0" }]);
    expect(texts.getRange({ end: 0 })).toEqual([]);
    await db.close();
  });

  it("[F8] does not grow with what has passed", async () => {
    const { db, texts } = openTables();
    for (let at = 0; at < 4_000; at += 1) texts.put(1, `now ${at}`);
    expect(statSync(join(folder, "tables.db")).size).toBeLessThan(600_000);
    expect(texts.getRange()).toEqual([{ key: 1, value: "now 3999" }]);
    await db.close();
  });

  it("[F8] leaves little of what has passed when it closes", async () => {
    const sizeOf = (): number => statSync(join(folder, "tables.db")).size;
    const first = openTables();
    for (let at = 0; at < 200; at += 1) first.texts.put(at, "kept".repeat(250));
    await first.db.close();
    const { db, texts } = openTables();
    for (let at = 0; sizeOf() < 1_000_000; at += 1) texts.put(at % 200, `now ${at} ${"kept".repeat(250)}`);
    const before = texts.getRange();
    await db.close();
    expect(sizeOf()).toBeLessThan(600_000);
    expect(openTables().texts.getRange()).toEqual(before);
  });

  it("[F7] goes back to the last whole state when its end is torn, and writes on from there", async () => {
    const first = openTables();
    first.texts.put(1, "kept");
    await first.db.close();
    const path = join(folder, "tables.db");
    const whole = readFileSync(path);
    const second = openTables();
    second.texts.put(2, "torn");
    await second.db.close();
    const both = readFileSync(path);
    for (let bytes = whole.length + 1; bytes < both.length; bytes += 7) {
      writeFileSync(path, both.subarray(0, bytes));
      const { db, texts } = openTables();
      expect(texts.getRange()).toEqual([{ key: 1, value: "kept" }]);
      texts.put(3, "after");
      expect(texts.getCount()).toBe(2);
      await db.close();
    }
    expect(warnings).toEqual([]);
  });

  it("[F7] passes over what lies behind its newest state, whatever it says", async () => {
    const { db, texts } = openTables();
    texts.put(1, "kept");
    const path = join(folder, "tables.db");
    appendFileSync(path, readFileSync(path));
    expect(texts.getRange()).toEqual([{ key: 1, value: "kept" }]);
    texts.put(2, "after");
    await db.close();
    const again = openTables();
    expect(again.texts.getCount()).toBe(2);
    await again.db.close();
  });

  it("[F4] tells every flipped bit or passes it over, and never gives a wrong value", async () => {
    const { db, texts, bytes } = openTables();
    for (let at = 0; at < 300; at += 1) texts.put(at, `text ${at}`);
    for (let at = 0; at < 40; at += 1) bytes.put([at, 1], Buffer.alloc(2_000, at));
    await db.close();
    const path = join(folder, "tables.db");
    const whole = readFileSync(path);
    const seed = testSeed();
    const random = createRandom(seed);
    for (let flip = 0; flip < FLIPS; flip += 1) {
      const at = Math.floor(random() * whole.length);
      writeFileSync(path, whole);
      const fd = openSync(path, "r+");
      writeSync(fd, Buffer.of((whole[at] ?? 0) ^ (1 << Math.floor(random() * 8))), 0, 1, at);
      closeSync(fd);
      const damaged = openTables();
      try {
        // An earlier state may be all that is left, which the logs make whole; what it says is true.
        for (const { key, value } of damaged.texts.getRange())
          expect({ seed, at, value }).toEqual({ seed, at, value: `text ${key}` });
        for (const { key, value } of damaged.bytes.getRange()) expect(value).toEqual(Buffer.alloc(2_000, key[0]));
      } catch (error) {
        expect(error).toBeInstanceOf(DamagedDb);
        damaged.db.renew();
        expect(damaged.texts.getRange()).toEqual([]);
      }
      await damaged.db.close();
    }
  });

  it("[D8] is begun anew by one of several who find it damaged, and followed by the others", async () => {
    const [one, two] = [openTables(), openTables()];
    one.texts.put(1, "before");
    expect(two.texts.get(1)).toBe("before");
    one.db.renew();
    one.texts.put(2, "after");
    two.db.renew();
    expect(two.texts.getRange()).toEqual([{ key: 2, value: "after" }]);
    expect(two.db.generation()).toBe(one.db.generation());
    await one.db.close();
    await two.db.close();
  });
});
