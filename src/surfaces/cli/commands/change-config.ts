import { lstat } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { LoadedConfig } from "../../../config/load-config.ts";
import { RuntimeError } from "../../../contract/error.ts";
import { readIfThere } from "../../wire/realm.ts";
import { loadHere } from "../open-runtime.ts";
import type { Invocation, Place } from "../parts.ts";
import { alone, replaceFile } from "./changed-file.ts";
import type { ConfigText } from "./config-text.ts";

/** The user's own file of settings. */
export function userFileOf({ userRoot }: Place): string {
  return join(userRoot, ".rkat", "config.toml");
}

/** The project's file of settings, where it has one: of its folder, or of the nearest above it. */
export function projectFileOf({ sources }: LoadedConfig, place: Place): string | undefined {
  return sources.find((path) => isProjectFile(path, place));
}

/** Whether a file of settings is a project's: neither the user's own nor that of a realm, which is no place for hands. */
export function isProjectFile(path: string, place: Place): boolean {
  const isNamed = basename(path) === "rkat.toml" || path.endsWith(join(".rkat", "config.toml"));
  return isNamed && path !== userFileOf(place);
}

/** A path as a person in this folder would write it. */
export function shownPath({ io }: Invocation, path: string): string {
  const near = relative(io.cwd, path);
  if (!near.startsWith("..")) return near;
  const fromHome = relative(io.home, path);
  return fromHome.startsWith("..") ? path : join("~", fromHome);
}

/**
 * Changes a file of settings, which is written whole or not at all. Throws INVALID_PARAMS, and leaves it, where the text would
 * then say something else than was meant. A file that was trusted as it was is trusted as it is then.
 */
export async function changeConfigFile(
  invocation: Invocation,
  path: string,
  change: (before: ConfigText) => ConfigText | undefined,
): Promise<void> {
  const { parts, place } = invocation;
  const shown = shownPath(invocation, path);
  const isProjects = isProjectFile(path, place());
  if (isProjects) await refuseLinks(path, shown);
  const { parse } = await parts.toml();
  await alone(path, async () => {
    const text = (await readIfThere(path)) ?? "";
    const wanted = change({ text, table: parse(text, shown) });
    const isMeant = wanted !== undefined && isDeepStrictEqual(plain(parsedOr(wanted.text)), plain(wanted.table));
    if (!isMeant) throw new RuntimeError("INVALID_PARAMS", `${shown} was not changed: its text must be edited by hand`);
    // A configuration that cannot be read cannot be asked what was trusted of it; it is asked about again then.
    const loaded = await loadHere(invocation).catch(() => undefined);
    const before = loaded?.brought.find((file) => file.path === path);
    await replaceFile(path, wanted.text, isProjects ? 0o644 : 0o600);
    if (before?.state === "trusted" && before.text === text) loaded?.trust.remember({ path, text: wanted.text });
  });

  function parsedOr(text: string): unknown {
    try {
      return parse(text, shown);
    } catch {
      return undefined;
    }
  }
}

function plain(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}

/** What a clone has put in our place may lead to a file of the user's that is overwritten then. */
async function refuseLinks(path: string, shown: string): Promise<void> {
  const inside = dirname(path);
  for (const one of basename(inside) === ".rkat" ? [inside, path] : [path]) {
    const found = await lstat(one).catch(() => undefined);
    if (found?.isSymbolicLink() !== true) continue;
    throw new RuntimeError(
      "INVALID_PARAMS",
      `${one === path ? shown : dirname(shown)} is a link, and is not written through; edit the file it leads to`,
    );
  }
}
