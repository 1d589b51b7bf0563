import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { createDriver, type Killed, runKiller, STRIKES } from "../../bench/durability/killer.ts";
import { byEffort } from "../support/effort.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { openPostgresStore } from "../support/postgres-store.ts";

const TURNS = byEffort({ usual: STRIKES.length, full: 200 });
const LEASE_MS = 1_000;
const root = mkdtempSync(join(tmpdir(), "rkat-killed-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

function expectWhole(killed: readonly Killed[]): void {
  for (const { continuedMs, ...one } of killed) {
    expect(one).toEqual({ ...one, isCompleted: true, paidTwice: 0, effectsTwice: 0, effectsLost: 0 });
  }
  expect(killed.filter(({ continuedMs }) => continuedMs !== undefined).length).toBeGreaterThan(0);
}

describe("kill -9 in a turn", () => {
  it(`[P1] [P2] ${TURNS} turns end without a person, no answer is paid and no effect is done twice`, async () => {
    const folder = mkdtempSync(join(root, "folder-"));
    const driver = createDriver(folder, LEASE_MS, await openEmbeddedStore(folder));
    expectWhole(await runKiller(driver, { turns: TURNS, others: 2 }));
  }, 1_200_000);
});

withPostgres("kill -9 in a turn of a realm in a database", () => {
  it(`[P1] [P2] ${TURNS} turns end without a person, no answer is paid and no effect is done twice`, async () => {
    const url = await databaseFor("killed");
    const driver = createDriver(url, LEASE_MS, await openPostgresStore({ url, realm: "default" }));
    expectWhole(await runKiller(driver, { turns: TURNS, others: 2 }));
  }, 1_200_000);
});
