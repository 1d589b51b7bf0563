import { readFile } from "node:fs/promises";
import type { Config } from "../../config.ts";
import type { Io } from "./io.ts";
import type { Parts } from "./parts.ts";

/** The configuration that holds in the folder the command was called in. */
export async function readConfiguration(
  { cwd, home, env }: Io,
  parts: Parts,
): Promise<{ readonly config: Config; readonly sources: readonly string[] }> {
  return parts.loadConfig({ cwd, home, env, readFile: readIfThere });
}

/** The text of a file; undefined when there is none. */
export async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (thrown) {
    if (isErrno(thrown) && ["ENOENT", "ENOTDIR"].includes(thrown.code ?? "")) return undefined;
    throw thrown;
  }
}

/** Whether a thrown value is a failed system call, which carries a code such as `EACCES`. */
export function isErrno(thrown: unknown): thrown is NodeJS.ErrnoException {
  return thrown instanceof Error && "code" in thrown;
}
