import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { below } from "../compaction/chances.ts";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { testSeed } from "../support/seed.ts";
import { emptyRealm, entriesOf, exported, plant } from "./carried.ts";

const KILLS = byEffort({ usual: 4, full: 60 });
const TIMEOUT_MS = 600_000;
const TURNS = 20;
const STARTED_MS = Date.UTC(2026, 0, 1);
const root = mkdtempSync(join(tmpdir(), "rkat-import-kill-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe("kill -9 of a process that imports", () => {
  it(
    `[K2] at ${KILLS} moments leaves nothing or a beginning, and the same import makes it whole, under its id or another`,
    async () => {
      const seed = testSeed();
      const random = createRandom(seed);
      const { store, runtime } = emptyRealm();
      const { id } = await runtime.createSession("The server is called heron.");
      for (let turn = 1; turn < TURNS; turn += 1) await runtime.session(id).turn(`Turn ${turn}.`);
      // Each at a time of its own, so that each is an append of its own.
      const wanted = (await entriesOf(store, id)).map((entry, at) => ({ ...entry, timestamp_ms: STARTED_MS + at }));
      const planted = emptyRealm();
      await plant(planted.store, id, wanted);
      const path = join(root, "heron.jsonl");
      writeFileSync(path, await exported(planted.runtime, id));
      const folder = join(root, "state");
      const ids = new Set<string>();
      let begun = 0;
      // A first round into nothing, and a second beside what it made.
      for (const round of [1, 2]) {
        for (let kill = 0; kill < KILLS / 2; kill += 1) {
          await importUntil([folder, path], 1 + below(random, wanted.length / 4));
          const there = await logsIn(folder);
          for (const [found, entries] of there) {
            expect({ seed, kill, found, entries }).toEqual({
              seed,
              kill,
              found,
              entries: wanted.slice(0, entries.length),
            });
          }
          expect({ seed, kill, sessions: there.size <= round }).toEqual({ seed, kill, sessions: true });
          begun += there.size === round ? 1 : 0;
        }
        const imported = (await importUntil([folder, path])).find((line) => line.startsWith("imported "));
        ids.add(imported?.split(" ")[1] ?? "");
        const there = await logsIn(folder);
        expect({ seed, ids: [...there.keys()].sort() }).toEqual({ seed, ids: [...ids].sort() });
        expect([...there.values()]).toEqual(Array.from({ length: round }, () => wanted));
      }
      expect(ids.has(id)).toBe(true);
      // Otherwise the kills have hit nothing that matters.
      expect(begun).toBeGreaterThan(0);
    },
    TIMEOUT_MS,
  );
});

/** Lets a process import, and kills it once it has begun so many appends; without a number, lets it end. */
async function importUntil(args: readonly string[], appends = Number.POSITIVE_INFINITY): Promise<readonly string[]> {
  const script = join(import.meta.dirname, "importing-process.ts");
  const child = spawn(process.execPath, [script, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  const lines: string[] = [];
  const ended = new Promise((resolve) => child.once("exit", resolve));
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    if (lines.length >= appends) child.kill("SIGKILL");
  }
  await ended;
  return lines;
}

async function logsIn(folder: string) {
  const store = await openEmbeddedStore(folder);
  try {
    const rows = await store.sessions.page({ max: 10 });
    const logs = rows.map(async ({ session_id }) => [session_id, await entriesOf(store, session_id)] as const);
    return new Map(await Promise.all(logs));
  } finally {
    await store.close();
  }
}
