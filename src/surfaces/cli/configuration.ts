import { readFile } from "node:fs/promises";
import type { LoadedConfig } from "../../config/load-config.ts";
import type { Invocation } from "./parts.ts";

/** The configuration that holds where the command works; what of the project's files does not is told once. */
export async function readConfiguration(invocation: Invocation): Promise<LoadedConfig> {
  const loaded = await loadHere(invocation);
  if (loaded.leftOut !== undefined) invocation.warnOnce(loaded.leftOut);
  return loaded;
}

/** The same for commands that tell it in their own way. */
export async function loadHere({ io, parts, place }: Invocation): Promise<LoadedConfig> {
  const { projectRoot, userRoot, stateFolder, isTrusted } = place();
  const where = { cwd: projectRoot, home: userRoot, stateFolder, isTrusted };
  return parts.loadConfig({ ...where, env: io.env, readFile: readIfThere });
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
