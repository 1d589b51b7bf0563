import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LogRow } from "@rkat/core/ports/store";
import { afterAll, describe, expect, it } from "vitest";
import { idOf } from "../../../../test/support/entries.ts";
import { openPrivateDb, type Table } from "../tables/private-db.ts";
import { openLogIndex } from "./log-index.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-order-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const rowOf = (number: number, updated_at_ms: number, last_seq = 1): LogRow => ({
  session_id: idOf(number),
  last_seq,
  updated_at_ms,
});
const ROWS = [rowOf(1, 10), rowOf(2, 30), rowOf(3, 20)];

const openIndex = (path: string) =>
  openLogIndex<LogRow>({ path, warn: () => {}, survey: () => ({ places: [], rows: [], segments: new Map() }) });

async function indexOf(rows: readonly LogRow[]): Promise<string> {
  const path = join(mkdtempSync(join(root, "state-")), "index.db");
  const index = openIndex(path);
  await index.save({ places: [], rows, segments: new Map() });
  await index.close();
  return path;
}

/** Changes the tables as a program would that knows nothing of their order. */
async function changeRows(path: string, change: (rows: Table<LogRow, string>, order: Table<object, Buffer>) => void) {
  const db = openPrivateDb<number, string>(path, {}, () => {});
  change(db.openDB("rows", "json"), db.openDB("order", "json"));
  await db.close();
}

async function orderIn(path: string): Promise<readonly LogRow[]> {
  const index = openIndex(path);
  const page = index.page({ max: 10 }, () => false);
  await index.close();
  return page;
}

describe("the order of rows", () => {
  it("[F4] is that of their last update, on disk as well", async () => {
    const path = await indexOf(ROWS);
    expect(await orderIn(path)).toEqual([rowOf(2, 30), rowOf(3, 20), rowOf(1, 10)]);
    const index = openIndex(path);
    await index.save({ places: [], rows: [rowOf(1, 40, 2)], segments: new Map() });
    index.saveRow(rowOf(2, 5));
    await index.close();
    expect(await orderIn(path)).toEqual([rowOf(1, 40, 2), rowOf(3, 20), rowOf(2, 5)]);
  });

  it("[F4] is made where an index of before has none", async () => {
    const path = await indexOf(ROWS);
    await changeRows(path, (_, order) => order.clear());
    expect(await orderIn(path)).toEqual([rowOf(2, 30), rowOf(3, 20), rowOf(1, 10)]);
  });

  it("[F4] is made anew where rows were written without it", async () => {
    const path = await indexOf(ROWS);
    await changeRows(path, (rows) => {
      rows.put(idOf(2), rowOf(2, 7, 2));
      rows.put(idOf(4), rowOf(4, 25));
    });
    expect(await orderIn(path)).toEqual([rowOf(4, 25), rowOf(3, 20), rowOf(1, 10), rowOf(2, 7, 2)]);
    await changeRows(path, (rows) => rows.put(idOf(4), rowOf(4, 8, 2)));
    expect(await orderIn(path)).toEqual([rowOf(3, 20), rowOf(1, 10), rowOf(4, 8, 2), rowOf(2, 7, 2)]);
  });

  it("[F4] has room for any time a row may be of", async () => {
    const rows = [rowOf(1, -5), rowOf(2, 2 ** 60), rowOf(3, 0.5)];
    const ids = (await orderIn(await indexOf(rows))).map(({ session_id }) => session_id);
    expect(ids).toEqual([2, 3, 1].map(idOf));
  });
});
