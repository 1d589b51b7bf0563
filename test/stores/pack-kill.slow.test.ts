import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { toNewEntries } from "@rkat/core/state/entry-events";
import { foldRow } from "@rkat/core/state/session-row";
import { openStore, verifyFolder } from "@rkat/node/log/open";
import { isPackedHead } from "@rkat/node/log/packed-segment";
import { afterAll, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { created, idOf, said } from "../support/entries.ts";
import { testSeed } from "../support/seed.ts";

const KILLS = byEffort({ usual: 10, full: 200 });
const SESSIONS = 20;
const TEXTS = 400;
/** Packing so much takes about as long. */
const KILL_MS_MAX = 250;
const host = { pid: process.pid, isRunning: (pid: number) => isAlive(pid) };

const folder = mkdtempSync(join(tmpdir(), "rkat-pack-kill-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function readAll() {
  const store = openStore({ folder, foldRow, host });
  const all = [];
  for (let at = 1; at <= SESSIONS; at += 1) all.push(await store.log.read(idOf(at), 1, Number.MAX_SAFE_INTEGER));
  await store.close();
  return all;
}

describe("a log at rest", () => {
  it(`[F7] keeps every entry when its packing is killed ${KILLS} times, and is packed at last`, async () => {
    const seed = testSeed();
    const random = createRandom(seed);
    const store = openStore({ folder, foldRow, host });
    for (let at = 1; at <= SESSIONS; at += 1) {
      const texts = Array.from({ length: TEXTS }, () => said(random().toString(36).repeat(100)));
      await store.log.append(idOf(at), 0, toNewEntries([created, ...texts]));
    }
    await store.close();
    const before = await readAll();
    const log = join(folder, "log", "00000001.log");
    const isPacked = (): boolean => isPackedHead(readFileSync(log));
    let kills = 0;
    for (; kills < KILLS && !isPacked(); kills += 1) {
      const child = spawn(process.execPath, [join(import.meta.dirname, "pack-process.ts"), folder]);
      await once(child.stdout, "data");
      await pause(random() * KILL_MS_MAX);
      child.kill("SIGKILL");
      await once(child, "exit");
      expect({ seed, all: await readAll() }).toEqual({ seed, all: before });
    }
    expect(kills).toBeGreaterThan(0);
    if (!isPacked()) {
      const child = spawn(process.execPath, [join(import.meta.dirname, "pack-process.ts"), folder]);
      while (!isPacked()) await pause(20);
      child.kill("SIGTERM");
      await once(child, "exit");
    }
    expect(await readAll()).toEqual(before);
    expect((await verifyFolder(folder, foldRow)).problems).toEqual([]);
    expect(readdirSync(join(folder, "log")).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  }, 120_000);
});
