import { readFile } from "node:fs/promises";
import type { LoadedConfig } from "../../config/load-config.ts";
import type { Invocation } from "./parts.ts";

/** The configuration that holds where the command works. */
export async function readConfiguration({ io, parts, place }: Invocation): Promise<LoadedConfig> {
  const { projectRoot, userRoot, stateFolder } = place();
  return parts.loadConfig({ cwd: projectRoot, home: userRoot, env: io.env, readFile: readIfThere, stateFolder });
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
