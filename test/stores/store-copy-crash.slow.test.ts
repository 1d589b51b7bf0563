import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { copyStore, verifyDatabase } from "@rkat/node/store-places";
import type { Client } from "pg";
import { afterAll, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { callsCounted, compileFailingDisk, failingEnv, orderFailure, WHY_NOT } from "../faults/failing-disk.ts";
import { byEffort } from "../support/effort.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { connect, startPostgres } from "../support/postgres-server.ts";
import { startRkat } from "../support/rkat-process.ts";
import { testSeed } from "../support/seed.ts";
import { differenceOf, everythingInDatabase, everythingInFolder, fillFolder } from "./random-store.ts";

const SESSIONS = byEffort({ usual: 150, full: 10_000 });
const KILLS = 5;
const POLL_MS = 10;
const MINUTES_MAX = byEffort({ usual: 5, full: 120 }) * 60_000;

const root = mkdtempSync(join(tmpdir(), "rkat-copy-crash-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const newFolder = (): string => mkdtempSync(join(root, "place-"));

async function filled(seed: number, sessions = SESSIONS): Promise<string> {
  const folder = newFolder();
  await fillFolder(folder, createRandom(seed), { sessions, agents: 3, blobs: 10, turnsMax: 4 });
  return folder;
}

/** Copies by the real command, which is killed each time the target holds so much of the whole, and at last is not. */
async function copyKilled(
  places: readonly [string, string],
  { random, amount }: { readonly random: () => number; readonly amount: (place: string) => Promise<number> },
): Promise<{ readonly kills: number; readonly report: unknown }> {
  const whole = await amount(places[0]);
  let kills = 0;
  for (let round = 0; round < KILLS; round += 1) {
    const threshold = (whole * (round + random())) / (KILLS + 1);
    const { child, ended } = startRkat(root, ["store", "copy", ...places]);
    while (child.exitCode === null && (await amount(places[1])) < threshold) await pause(POLL_MS);
    if (child.kill("SIGKILL")) kills += 1;
    await ended;
  }
  const { code, stdout, stderr } = await startRkat(root, ["store", "copy", ...places, "--json"]).ended;
  if (code !== 0) throw new Error(`the copy ended with ${code}: ${stdout}${stderr}`);
  return { kills, report: JSON.parse(stdout) };
}

/** Bytes of the logs of a folder, or of the entries in a database. */
function amountBy(client: Client | undefined): (place: string) => Promise<number> {
  return async (place) => {
    if (!place.startsWith("postgres")) {
      const logs = join(place, "log");
      const names = existsSync(logs) ? readdirSync(logs) : [];
      return names.reduce((sum, name) => sum + (statSync(join(logs, name)).size ?? 0), 0);
    }
    const found = await client
      ?.query("select coalesce(sum(octet_length(body)), 0)::float8 as bytes from rkat.entries")
      .catch(() => undefined);
    return Number(found?.rows[0]?.bytes ?? 0);
  };
}

describe("a copy that is killed", () => {
  it(
    `[F11] ${KILLS} times between two folders is equal at the end, with nothing twice`,
    async () => {
      const seed = testSeed();
      const [from, to] = [await filled(seed), newFolder()];
      const { kills } = await copyKilled([from, to], { random: createRandom(seed), amount: amountBy(undefined) });
      expect({ seed, kills }).toEqual({ seed, kills: KILLS });
      expect(differenceOf(await everythingInFolder(from), await everythingInFolder(to))).toBeUndefined();
    },
    MINUTES_MAX,
  );
});

const library = compileFailingDisk(root);

describe(`a copy to a full disk${library === undefined ? ` (left out: ${WHY_NOT})` : ""}`, () => {
  it.skipIf(library === undefined)(
    "[F11] says so, keeps what it has, and goes on when there is room",
    async () => {
      const [from, to, command] = [await filled(4, 60), join(newFolder(), "disk"), join(newFolder(), "command")];
      const env = failingEnv(library ?? "", to, command);
      orderFailure(command, 0, 0);
      expect((await startRkat(root, ["store", "copy", from, to], { env }).ended).code).toBe(0);
      const calls = callsCounted(command);
      for (const share of [0.1, 0.3, 0.6]) {
        // What is there already takes no calls: each begins anew, and the last is gone on with.
        rmSync(to, { recursive: true, force: true });
        orderFailure(command, Math.floor(calls * share), constants.errno.ENOSPC);
        const { code, stderr } = await startRkat(root, ["store", "copy", from, to], { env }).ended;
        expect({ share, code, stderr }).toEqual({
          share,
          code: 31,
          stderr: expect.stringMatching(/ENOSPC|the disk is full/),
        });
      }
      expect((await startRkat(root, ["store", "copy", from, to]).ended).code).toBe(0);
      expect(differenceOf(await everythingInFolder(from), await everythingInFolder(to))).toBeUndefined();
    },
    120_000,
  );
});

withPostgres("a copy over a database that is killed", () => {
  it(
    `[F11] ${KILLS} times on its way there is equal at the end, with nothing twice`,
    async () => {
      const seed = testSeed();
      const [from, place] = [await filled(seed), await databaseFor("copy")];
      const client = await connect(place);
      const startedMs = performance.now();
      const { kills, report } = await copyKilled([from, place], {
        random: createRandom(seed),
        amount: amountBy(client),
      });
      const seconds = (performance.now() - startedMs) / 1_000;
      await client.end();
      expect({ seed, kills }).toEqual({ seed, kills: KILLS });
      expect(report).toMatchObject({ ok: true, sessions: { total: SESSIONS } });
      expect(differenceOf(await everythingInFolder(from), await everythingInDatabase(place))).toBeUndefined();
      expect((await verifyDatabase({ place })).problems).toEqual([]);
      process.stderr.write(`copied ${SESSIONS} sessions, killed ${KILLS} times, in ${seconds.toFixed(0)} s\n`);
    },
    MINUTES_MAX,
  );

  it("[F11] goes on when the database was away, or after it ended for that", async () => {
    const server = await startPostgres();
    try {
      const place = await server.createDatabase("copy");
      const from = await filled(3, 150);
      const client = await connect(place);
      const amount = amountBy(client);
      const whole = await amount(from);
      const copying = copyStore({ place: from }, { place }).then(
        ({ ok }) => ok,
        () => false,
      );
      while ((await amount(place)) < whole / 4) await pause(POLL_MS);
      await client.end();
      await server.stopNow();
      await server.restart();
      const isWhole = await copying;
      const report = await copyStore({ place: from }, { place });
      expect(report).toMatchObject({ ok: true, problems: [], sessions: isWhole ? { equal: 150 } : {} });
      expect(differenceOf(await everythingInFolder(from), await everythingInDatabase(place))).toBeUndefined();
    } finally {
      await server.close();
    }
  }, 120_000);
});
