import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const isHere = process.platform === "linux";

/** Why there may be no library that makes calls fail. */
export const WHY_NOT = isHere ? "there is no C compiler (cc)" : "calls are made to fail by a library for Linux";

/** Makes the library that lets calls fail, in a folder; undefined where that cannot be. */
export function compileFailingDisk(folder: string): string | undefined {
  if (!isHere) return undefined;
  const library = join(folder, "failing-disk.so");
  try {
    const source = join(import.meta.dirname, "failing-disk.c");
    execFileSync("cc", ["-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], { stdio: "pipe" });
    return library;
  } catch (error) {
    if (process.env.CI === "true") throw error;
    return undefined;
  }
}

/** The environment of a process whose calls below `disk` fail as the file `command` says. */
export function failingEnv(library: string, disk: string, command: string): Record<string, string> {
  return {
    LD_PRELOAD: library,
    RKAT_FAULT_ROOT: disk,
    RKAT_FAULT_COMMAND: command,
    // Writes that go past the C library would go past the faults.
    UV_USE_IO_URING: "0",
  };
}

/** Says from which call on everything fails with an error; 0: nothing does. */
export function orderFailure(command: string, first: number, errno: number): void {
  writeFileSync(command, Buffer.alloc(4_096));
  const numbers = Int32Array.from([0, first, first === 0 ? 0 : -1, errno, 0]);
  writeFileSync(command, Buffer.from(numbers.buffer), { flag: "r+" });
}

/** How many calls there were. */
export function callsCounted(command: string): number {
  return readFileSync(command).readInt32LE(0);
}
