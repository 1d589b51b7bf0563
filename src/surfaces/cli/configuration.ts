import type { LoadedConfig } from "../../config/load-config.ts";
import { readIfThere } from "../wire/state-folder.ts";
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
