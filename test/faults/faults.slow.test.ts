import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { testSeed } from "../support/seed.ts";
import { describeOutcomes } from "./cases.ts";
import type { Fault, Outcome } from "./disk-process.ts";
import { compileFailingDisk, failingEnv, WHY_NOT } from "./failing-disk.ts";

const { ENOSPC, EIO, EROFS, EACCES, EMFILE } = constants.errno;
const SHORT_WRITE = -1;
const KINDS = Object.entries({ ENOSPC, EIO, EROFS, EACCES, EMFILE, "a short write": SHORT_WRITE });
const IS_FULL = byEffort({ usual: false, full: true });
/** Of each kind and length, when not all positions are tried. */
const POSITIONS = 2;
const ONCE = 1;
const UNTIL_MENDED = -1;

const root = mkdtempSync(join(tmpdir(), "rkat-faults-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const library = compileFailingDisk(root);

describe(
  library === undefined ? `a disk that fails on command (left out: ${WHY_NOT})` : "a disk that fails on command",
  () => {
    const run = (faults: readonly Fault[]) => {
      const lane = mkdtempSync(join(root, "lane-"));
      const [disk, command] = [join(lane, "disk"), join(lane, "command")];
      writeFileSync(command, Buffer.alloc(4_096));
      const env = { ...process.env, ...failingEnv(library ?? "", disk, command) };
      const program = join(import.meta.dirname, "disk-process.ts");
      return describeOutcomes<Fault, Outcome>(faults, (left) =>
        spawn(process.execPath, [program, disk, command, JSON.stringify(left)], { env }),
      );
    };

    it.skipIf(library === undefined)(
      "[F7] [F4] [D1] kills no process and loses nothing acknowledged, whichever call fails, and works again when it does",
      async () => {
        const [whole] = (await run([{ first: 0, many: 0, errno: 0 }])).outcomes;
        const calls = whole?.calls ?? 0;
        expect(calls).toBeGreaterThan(100);
        const seed = testSeed();
        const random = createRandom(seed);
        const positions = (): readonly number[] => {
          if (IS_FULL) return Array.from({ length: calls }, (_, at) => at + 1);
          // One of each stretch, so that together they are spread evenly.
          return Array.from({ length: POSITIONS }, (_, at) => 1 + Math.floor(((at + random()) * calls) / POSITIONS));
        };
        const faults = KINDS.flatMap(([, errno]) =>
          [ONCE, UNTIL_MENDED].flatMap((many) => positions().map((first) => ({ first, many, errno }))),
        );
        const half = Math.ceil(faults.length / 2);
        const lanes = await Promise.all([run(faults.slice(0, half)), run(faults.slice(half))]);
        const outcomes = lanes.flatMap((lane) => lane.outcomes);
        expect({ seed, deaths: lanes.flatMap((lane) => lane.deaths) }).toEqual({ seed, deaths: [] });
        expect({ seed, wrong: outcomes.filter(({ wrong }) => wrong.length > 0) }).toEqual({ seed, wrong: [] });
        expect(outcomes.filter(({ failed }) => failed > 0).length).toBeGreaterThan(faults.length / 2);
      },
      IS_FULL ? 6 * 3_600_000 : 600_000,
    );
  },
);
