import { execFile, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { testSeed } from "../support/seed.ts";
import { describeOutcomes } from "./cases.ts";
import type { Damage, DamageOutcome } from "./flip-process.ts";

const DAMAGES = byEffort({ usual: 24, full: 500 });
const KINDS: readonly Damage["kind"][] = ["bit", "bit", "torn page", "zeroed page", "cut off"];
/** What is not derived from anything: where it is damaged, it is told. */
const TRUTH = /^(?:agents\/)?log\/|^blobs\/|^config\.toml$/;

const root = mkdtempSync(join(tmpdir(), "rkat-flips-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Files of a folder that have bytes, one kind of them after another, so that few damages reach every kind. */
function filesOf(folder: string): readonly string[] {
  const all = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .filter((file) => statSync(join(folder, file)).size > 0);
  const kinds = Map.groupBy(all, (file) => file.replace(/[0-9a-f-]{8,}|\d+/g, "#"));
  return [...kinds.values()].flatMap((files) => files[0] ?? []).concat(all);
}

/** What must not be, of what became of a damage. */
function faultsOf({ damage, wrong, refused, warnings }: DamageOutcome): readonly string[] {
  if (!TRUTH.test(damage.file)) return wrong;
  const isReported = refused.length > 0 || warnings.some((sentence) => !sentence.startsWith("[Memory]"));
  // A text of the configuration that can be read is one that a person may have written.
  if (isReported || damage.file === "config.toml")
    return wrong.filter((one) => /INTERNAL|no Runtime|unhandled/.test(one));
  return wrong;
}

describe("a damaged state folder", () => {
  it(`[F7] [F4] [D1] of ${DAMAGES} bits, pages and ends, none kills a process or changes an answer; what is derived heals`, async () => {
    const whole = join(root, "whole");
    const life = await promisify(execFile)(process.execPath, [join(import.meta.dirname, "whole-process.ts"), whole]);
    const { kept, wrong } = JSON.parse(life.stdout);
    expect(wrong).toEqual([]);
    const seed = testSeed();
    const random = createRandom(seed);
    const files = filesOf(whole);
    const damages = Array.from({ length: DAMAGES }, (_, at): Damage => {
      const kind = KINDS[Math.floor(random() * KINDS.length)] ?? "bit";
      return { file: files[at % files.length] ?? "", kind, place: random(), bits: Math.floor(random() * 1_000_000) };
    });
    const program = join(import.meta.dirname, "flip-process.ts");
    const run = (lane: string, some: readonly Damage[]) =>
      describeOutcomes<Damage, DamageOutcome>(some, (left) =>
        spawn(process.execPath, [program, join(root, lane), whole, JSON.stringify(left), JSON.stringify(kept)]),
      );
    const half = Math.ceil(damages.length / 2);
    const lanes = await Promise.all([run("one", damages.slice(0, half)), run("other", damages.slice(half))]);
    expect({ seed, deaths: lanes.flatMap((lane) => lane.deaths) }).toEqual({ seed, deaths: [] });
    const faults = lanes
      .flatMap((lane) => lane.outcomes)
      .map((outcome) => ({ damage: outcome.damage, faults: faultsOf(outcome) }))
      .filter((one) => one.faults.length > 0);
    expect({ seed, faults }).toEqual({ seed, faults: [] });
  }, 3_600_000);
});

describe("a model that does not stop", () => {
  it("[H5] [A4] ends its turn with the cause, in little memory, and what it said up to the bound is kept", async () => {
    const program = join(import.meta.dirname, "long-answer.ts");
    const few = ["--max-old-space-size=128", program, join(root, "long")];
    const { stdout } = await promisify(execFile)(process.execPath, few);
    expect(JSON.parse(stdout)).toEqual({
      message: "the model's answer is longer than 4194304 characters",
      kept: 4_096,
      text: "Here again.",
    });
  }, 120_000);
});
