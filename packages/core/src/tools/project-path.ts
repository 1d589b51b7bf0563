import { lstatSync, readlinkSync } from "node:fs";
import { lstat, realpath } from "node:fs/promises";
import { dirname, isAbsolute, join, normalize, relative, resolve, sep, win32 } from "node:path";
import { invalid, type RuntimeError } from "../contract/error.ts";

const PATH_CHARS_MAX = 4_096;
/** Where the realms of a project are kept by default. */
const STORED = `${join(".rkat", "realms")}${sep}`;

/** The real path of a project-relative path, which need not exist. Rejects paths outside `root` and stored sessions, also by links. */
export async function resolveInProject(root: string, path: string): Promise<string> {
  const named = normalize(path);
  if (path.trim() === "" || path.includes("\0") || path.length > PATH_CHARS_MAX) {
    throw invalid(`${JSON.stringify(path.slice(0, 80))} is not a path`);
  }
  if (isAbsolute(path) || win32.isAbsolute(path)) {
    throw invalid(`${path} is absolute; paths are relative to the project`);
  }
  if (isOutside(named)) throw outsideProject(path);

  const realRoot = await realpath(root);
  const full = resolve(realRoot, named);
  const existing = await nearestExisting(full, realRoot);
  const real = await realpath(existing).catch((cause: unknown) => {
    throw invalid(`${path} leads through a broken symbolic link`, cause);
  });
  if (isOutside(relative(realRoot, real))) throw outsideProject(path);
  const found = join(real, relative(existing, full));
  if (isStored(realRoot, found)) throw invalid(`${path} has stored sessions, which are not files of the project`);
  return found;
}

/** Whether a real path below the real root is, or is in, the folder of stored sessions. */
export function isStored(realRoot: string, path: string): boolean {
  return `${relative(realRoot, path)}${sep}`.startsWith(STORED);
}

/** The target of a symbolic link, "" if it is no link, undefined if it does not exist. Throws if that is unknown. */
export function readLink(path: string): string | undefined {
  const found = lstatSync(path, { throwIfNoEntry: false });
  return found?.isSymbolicLink() === true ? readlinkSync(path) : found && "";
}

function isOutside(relativePath: string): boolean {
  return relativePath === ".." || relativePath.startsWith(`..${sep}`) || isAbsolute(relativePath);
}

function outsideProject(path: string): RuntimeError {
  return invalid(`${path} lies outside the project`);
}

/** The path or its closest existing parent; a broken link counts as existing, so that it is not skipped. */
async function nearestExisting(path: string, realRoot: string): Promise<string> {
  if (path === realRoot) return path;
  try {
    await lstat(path);
    return path;
  } catch (error) {
    if (!(error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR"))) {
      throw error;
    }
    return nearestExisting(dirname(path), realRoot);
  }
}
