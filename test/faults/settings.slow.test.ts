import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { callsCounted, compileFailingDisk, failingEnv, orderFailure, WHY_NOT } from "./failing-disk.ts";

const root = mkdtempSync(join(tmpdir(), "rkat-settings-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const library = compileFailingDisk(root);
const [BEFORE, AFTER] = ['[agent]\nmodle = "offline"\n', '[agent]\nmodel = "offline"\n'];
/** So many of the calls are tried, when not all are. */
const POSITIONS = 5;

describe(library === undefined ? `settings on a full disk (left out: ${WHY_NOT})` : "settings on a full disk", () => {
  const disk = join(root, "disk");
  const command = join(root, "command");
  /** Mends the file of settings while every call from this one on fails. */
  const mend = (first: number) => {
    rmSync(disk, { recursive: true, force: true });
    mkdirSync(disk);
    writeFileSync(join(disk, "rkat.toml"), BEFORE);
    orderFailure(command, first, constants.errno.ENOSPC);
    const cli = join(import.meta.dirname, "../../packages/rkat/src/cli.ts");
    const env = { PATH: process.env.PATH, HOME: root, ...failingEnv(library ?? "", disk, command) };
    const { status, stderr } = spawnSync(process.execPath, [cli, "doctor", "--fix", "--yes"], { cwd: disk, env });
    return { status, stderr: stderr.toString(), text: readFileSync(join(disk, "rkat.toml"), "utf8") };
  };

  it.skipIf(library === undefined)(
    "[G5] a file of settings is what it was or what it is to be, whichever call fails",
    { timeout: 300_000 },
    () => {
      expect(mend(0)).toEqual({ status: 0, stderr: "", text: AFTER });
      expect(readdirSync(disk)).toEqual(["rkat.toml"]);
      const calls = callsCounted(command);
      const step = byEffort({ usual: Math.ceil(calls / POSITIONS), full: 1 });
      const texts = new Set<string>();
      for (let first = 1; first <= calls; first += step) {
        const { status, text, stderr } = mend(first);
        expect([0, 1]).toContain(status);
        expect(stderr).not.toMatch(/^\s+at /m);
        texts.add(text);
      }
      expect([BEFORE, AFTER]).toEqual(expect.arrayContaining([...texts]));
    },
  );
});
