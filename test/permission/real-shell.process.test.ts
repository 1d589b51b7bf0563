import { readShellLine } from "@rkat/core/permission/shell";
import { programOf, type ShellLine } from "@rkat/core/permission/shell-command";
import { afterAll, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { testSeed } from "../support/seed.ts";
import { damagedLine, randomLine } from "./random-lines.ts";
import { openRealShell } from "./real-shell.ts";

const real = openRealShell();
afterAll(() => real.close());

/** Every program that is said to run, and whether more may. */
function reported(line: ShellLine): { readonly programs: ReadonlySet<string>; readonly isUnknown: boolean } {
  const inner = line.commands.flatMap(({ runs }) => (runs === undefined ? [] : [reported(runs.line)]));
  const own = line.commands.flatMap((command) => programOf(command) ?? []);
  return {
    programs: new Set([...own, ...inner.flatMap(({ programs }) => [...programs])]),
    isUnknown: line.unknown !== undefined || inner.some(({ isUnknown }) => isUnknown),
  };
}

const LINES = byEffort({ usual: 150, full: 20_000 });
const seed = testSeed();

it.each(["bash", "dash"] as const)(
  "[I1] a real %s runs nothing but what the parser has said",
  { timeout: 3_600_000 },
  (shell) => {
    const random = createRandom(seed);
    let read = 0;
    for (let index = 0; index < LINES; index += 1) {
      const whole = randomLine(random);
      const line = index % 2 === 0 ? whole : damagedLine(whole, random);
      const { programs, isUnknown } = reported(readShellLine(line));
      if (isUnknown) continue;
      read += 1;
      const hidden = real.run(line, shell).programs.filter((program) => !programs.has(program));
      expect(hidden, `seed ${seed}, line ${index}:\n${line}`).toEqual([]);
    }
    // A parser that knows nothing would hide nothing.
    expect(read).toBeGreaterThan(LINES / 8);
  },
);
