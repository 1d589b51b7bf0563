import { randomUUID } from "node:crypto";
import { createWriteStream } from "node:fs";
import { type FileHandle, lstat, mkdir, open, realpath, rename, rm, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { setTimeout as wait } from "node:timers/promises";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import { isErrno } from "@rkat/node/config/realm";
import type { Io } from "../io.ts";

type Pieces = AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>;

interface Shown {
  readonly shown: string;
  readonly isForced: boolean;
  /** What to do where a file is already; without it, the flag that overwrites it. */
  readonly instead?: string;
}

/** Throws INVALID_PARAMS where a file is that must not be replaced. */
export async function refuseExisting(
  path: string,
  { shown, isForced, instead = "--force overwrites it" }: Shown,
): Promise<void> {
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined || (found.isFile() && isForced)) return;
  // A link may lead to something else, and a device cannot be replaced.
  const why = found.isFile() ? `already; ${instead}` : "and is not a regular file; name another";
  throw invalid(`${shown} is there ${why}`);
}

/** Writes a file as it is made; resolves with its length. */
export function writeFileWhole(path: string, pieces: Pieces, how: Shown): Promise<number> {
  return writeWhole(path, how, async (file) => {
    await pipeline(pieces, createWriteStream(path, { fd: file.fd, autoClose: false, highWaterMark: WRITE_BYTES }));
    return (await file.stat()).size;
  });
}

const WRITE_BYTES = 1_024 * 1_024;

/**
 * Has a file written. It takes its name once it is whole and on the disk: the file that is there stays until then, and one
 * that failed is removed. Throws INVALID_PARAMS for a place that cannot be written.
 */
export async function writeWhole(
  path: string,
  how: Shown,
  write: (file: FileHandle) => Promise<number>,
): Promise<number> {
  const { shown } = how;
  await refuseExisting(path, how);
  const written = `${path}.${randomUUID()}`;
  const file = await open(written, "wx", 0o600).catch((cause: unknown) => {
    throw unwritable(shown, cause);
  });
  try {
    const bytes = await write(file);
    await file.sync();
    await file.close();
    await rename(written, path);
    return bytes;
  } catch (thrown) {
    await file.close().catch(() => {}); // It may be closed; what failed is thrown below.
    await rm(written, { force: true });
    throw thrown instanceof Error && "syscall" in thrown ? unwritable(shown, thrown) : thrown;
  }
}

function unwritable(shown: string, cause: unknown): RuntimeError {
  const code = isErrno(cause) ? cause.code : undefined;
  const message = `${shown} cannot be written: ${code ?? "it failed"}; check that its folder is there and yours, and has room`;
  return invalid(message, cause);
}

async function isFolder(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found?.isDirectory() === true;
}

export async function makeOutputFolder({ cwd }: Io, shown: string): Promise<string> {
  const path = resolve(cwd, shown);
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
    return path;
  } catch (cause) {
    throw unwritable(shown, cause);
  }
}

/** The path of a file that is to be written: of the name that is given, or of its own in the folder that is given. */
export async function outputPath({ cwd }: Io, shown: string, name: string): Promise<string> {
  const path = resolve(cwd, shown);
  return (await isFolder(path)) ? join(path, name) : path;
}

/** Changes a file under a lock, so that two commands do not overwrite each other. */
export async function alone<T>(path: string, work: () => Promise<T>): Promise<T> {
  const lock = `${path}${LOCK_ENDING}`;
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    for (let tries = 1; !(await isTaken(lock)); tries += 1) {
      if (tries > LOCK_TRIES_MAX) {
        throw invalid(`${path} is being changed by another command; if none is, remove ${lock}`);
      }
      await wait(LOCK_WAIT_MS);
    }
  } catch (cause) {
    throw cause instanceof RuntimeError ? cause : unwritable(path, cause);
  }
  try {
    return await work();
  } finally {
    await rm(lock, { force: true });
  }
}

/** How the file is called that says that another one is being changed. */
export const LOCK_ENDING = ".lock";
const LOCK_TRIES_MAX = 100;
const LOCK_WAIT_MS = 50;

async function isTaken(lock: string): Promise<boolean> {
  try {
    await (await open(lock, "wx", 0o600)).close();
    return true;
  } catch (thrown) {
    if (isErrno(thrown) && thrown.code === "EEXIST") return false;
    throw thrown;
  }
}

/** Writes a file whole or not at all: through a link to the file it stands for, and as closed to others as it was. */
export async function replaceFile(path: string, text: string, newMode = 0o600): Promise<void> {
  const target = await realpath(path).catch(() => path);
  const { mode } = await stat(target).catch(() => ({ mode: newMode }));
  await writeWhole(target, { shown: path, isForced: true }, async (file) => {
    await file.chmod(mode & 0o777);
    await file.writeFile(text);
    return text.length;
  });
}
