import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RuntimeError } from "../../contract/error.ts";
import type { Io } from "./io.ts";

/** Lets a text be changed in the program that VISUAL or EDITOR names, in a file that only its owner can read. */
export async function editElsewhere({ env, cwd }: Io, text: string): Promise<string> {
  const program = env.VISUAL || env.EDITOR || "vi";
  const folder = await mkdtemp(join(tmpdir(), "rkat-"));
  const path = join(folder, "prompt.md");
  try {
    await writeFile(path, text, { mode: 0o600 });
    await new Promise<void>((resolve, reject) => {
      const failed = (reason: string): void =>
        reject(new RuntimeError("INVALID_PARAMS", `${program} ${reason}; EDITOR names the program to edit with`));
      // By a shell, since the variable may hold a program with its options.
      const child = spawn("/bin/sh", ["-c", `${program} "$1"`, "sh", path], { stdio: "inherit", cwd });
      child.on("error", ({ message }) => failed(`cannot be started: ${message}`));
      child.on("exit", (code) => (code === 0 ? resolve() : failed(`ended with ${code ?? "a signal"}`)));
    });
    return await readFile(path, "utf8");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
