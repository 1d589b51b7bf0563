import { randomUUID } from "node:crypto";
import { createWriteStream } from "node:fs";
import { type FileHandle, lstat, mkdir, open, rename, rm, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { RuntimeError } from "../../../contract/error.ts";
import { isErrno } from "../../wire/realm.ts";
import type { Io } from "../io.ts";

type Pieces = AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>;

interface Shown {
  /** The path as the user wrote it. */
  readonly shown: string;
  readonly isForced: boolean;
}

/** Throws INVALID_PARAMS where a file is that must not be replaced. */
export async function refuseExisting(path: string, { shown, isForced }: Shown): Promise<void> {
  const found = await lstat(path).catch(() => undefined);
  if (found === undefined || (found.isFile() && isForced)) return;
  // A link may lead to something else, and a device cannot be replaced.
  const why = found.isFile() ? "already; --force overwrites it" : "and is no plain file; name another";
  throw new RuntimeError("INVALID_PARAMS", `${shown} is there ${why}`);
}

/** Writes a file as it is made; resolves with its length. */
export function writeFileWhole(path: string, pieces: Pieces, how: Shown): Promise<number> {
  return writeWhole(path, how, async (file) => {
    await pipeline(pieces, createWriteStream(path, { fd: file.fd, autoClose: false, highWaterMark: WRITE_BYTES }));
    return (await file.stat()).size;
  });
}

/** So much is collected before it is written. */
const WRITE_BYTES = 1_024 * 1_024;

/**
 * Has a file written. It takes its name once it is whole and on the disk: the file that is there stays until then, and one
 * that failed is removed. Throws INVALID_PARAMS for a place that cannot be written.
 */
export async function writeWhole(
  path: string,
  { shown, isForced }: Shown,
  write: (file: FileHandle) => Promise<number>,
): Promise<number> {
  await refuseExisting(path, { shown, isForced });
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

/** Why a file is not there, in a sentence. */
export function unwritable(shown: string, cause: unknown): RuntimeError {
  const code = isErrno(cause) ? cause.code : undefined;
  const message = `${shown} cannot be written: ${code ?? "it failed"}; check that its folder is there and yours, and has room`;
  return new RuntimeError("INVALID_PARAMS", message, { cause });
}

/** Whether a path is a folder that is there. */
async function isFolder(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found?.isDirectory() === true;
}

/** Makes the folder that several files go to. */
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
