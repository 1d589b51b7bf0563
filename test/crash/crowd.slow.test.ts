import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { withPostgres } from "../support/postgres.ts";
import { startPostgres } from "../support/postgres-server.ts";
import { testSeed } from "../support/seed.ts";
import { runCrowd } from "./crowd.ts";
import { createRandom } from "./random.ts";

const PROCESSES = 3;
const { sessions, kills, stops } = byEffort({
  usual: { sessions: 10, kills: 8, stops: 1 },
  full: { sessions: 200, kills: 200, stops: 20 },
});

const compiled = mkdtempSync(join(tmpdir(), "rkat-crowd-"));
afterAll(() => rmSync(compiled, { recursive: true, force: true }));

withPostgres("several servers on one database", () => {
  it(
    `[F11] [F7] lose and double nothing, and no subscriber misses anything, through ${kills} kills and ${stops} crashes of it`,
    async () => {
      const seed = testSeed();
      const server = await startPostgres();
      try {
        const { lost, broken, behind, wrong, acknowledged, ...done } = await runCrowd(server, {
          processes: PROCESSES,
          sessions,
          contested: sessions / 10,
          kills,
          stops,
          leaseMs: 1_000,
          random: createRandom(seed),
          compiled,
        });
        expect({ seed, lost, broken, behind, wrong }).toEqual({ seed, lost: 0, broken: 0, behind: 0, wrong: [] });
        expect(done).toMatchObject({ kills, stops });
        expect(acknowledged).toBeGreaterThan(kills);
      } finally {
        await server.close();
      }
    },
    byEffort({ usual: 180_000, full: 2 * 3_600_000 }),
  );
});
