import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { invalid, messageOf, RuntimeError } from "@rkat/core/contract/error";
import { writeWhole } from "../tables/table-file.ts";
import { tryLock } from "./file-locks.ts";
import { nodeSegmentIo, syncFolder } from "./segments.ts";

/** What a file is written of; a chunk is used up before the next one is asked for. */
export type Chunks = AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>;

const { O_RDWR, O_CREAT, O_NOFOLLOW, O_WRONLY, O_TRUNC } = constants;

/** Writes chunks one after the other from a position on; resolves with the number of bytes. */
export async function writeChunks(fd: number, chunks: Chunks, from: number): Promise<number> {
  let bytes = 0;
  for await (const piece of chunks) {
    const chunk = typeof piece === "string" ? Buffer.from(piece) : piece;
    writeWhole(fd, chunk, from + bytes);
    bytes += chunk.length;
  }
  return bytes;
}

/** Replaces a file, durably: a reader finds the old content or the new one. `put` gives the new file its name. */
export function replaceFile(path: string, content: string, made = `${path}.new`, put = renameSync): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  try {
    // A link that lies here must not be followed.
    rmSync(made, { force: true });
    writeFileSync(made, content, { mode: 0o600, flag: "wx", flush: true });
    put(made, path);
    syncFolder(dirname(path));
  } finally {
    rmSync(made, { force: true });
  }
}

const SYNCS_MAX = 8;

/** Writes files below a folder. A file is synced while the next ones are written. */
export function createFileWriter(root: string) {
  const running = new Set<Promise<void>>();
  const folders = new Set([root]);
  const failures: unknown[] = [];
  const throwFailure = (): void => {
    if (failures.length > 0) throw failures[0];
  };
  const settled = async (): Promise<void> => {
    await Promise.all(running);
  };
  /** The path of a file whose folders are there, and are synced with the others. */
  const pathOf = (path: string): string => {
    const whole = join(root, path);
    mkdirSync(dirname(whole), { recursive: true, mode: 0o700 });
    for (let at = dirname(whole); !folders.has(at); at = dirname(at)) folders.add(at);
    return whole;
  };
  return {
    pathOf,
    /** Writes a file, or what follows its first `from` bytes. */
    write: async (path: string, chunks: Chunks, from = 0): Promise<void> => {
      const whole = pathOf(path);
      const fd = openSync(whole, O_WRONLY | O_CREAT | O_NOFOLLOW | (from === 0 ? O_TRUNC : 0), 0o600);
      try {
        ftruncateSync(fd, from);
        await writeChunks(fd, chunks, from);
      } catch (error) {
        closeSync(fd);
        throw error;
      }
      const sync = nodeSegmentIo
        .sync(fd)
        .catch((error: unknown) => failures.push(error))
        .then(() => {
          closeSync(fd);
          running.delete(sync);
        });
      running.add(sync);
      if (running.size >= SYNCS_MAX) await Promise.race(running);
      throwFailure();
    },
    /** Resolves when no file is being synced, however that ended. */
    settled,
    /** Resolves when every file and its folders are on the disk; throws where one is not. */
    done: async (): Promise<void> => {
      await settled();
      throwFailure();
      for (const folder of folders) syncFolder(folder);
    },
  };
}

/** Takes a file for this process alone; the system releases it when the process ends. */
export function lockAt(path: string, refusal: string): number {
  const fd = openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600);
  // Where a finished file was renamed meanwhile, the locked file is not the one that has the name.
  const isNamed = (): boolean => lstatSync(path, { throwIfNoEntry: false })?.ino === fstatSync(fd).ino;
  try {
    if (tryLock(fd) && isNamed()) return fd;
    throw invalid(refusal);
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** Whether a call failed because the path it names does not exist. */
export function isAbsent(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR");
}

/** The entries of a folder in the order of their names; none where the folder does not exist. */
export function entriesIn(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  } catch (error) {
    if (isAbsent(error)) return [];
    throw error;
  }
}

/** An error of a file system call as a sentence with advice; other errors as they are. */
export function explained(error: unknown, place: string, advice: string): unknown {
  if (error instanceof RuntimeError || !(error instanceof Error && "code" in error && "syscall" in error)) return error;
  if (error.code === "ENAMETOOLONG") return invalid("the name of the back-up is too long; choose a shorter one", error);
  const why = error.code === "ENOSPC" ? "the disk is full" : messageOf(error);
  return new RuntimeError("SESSION_STORE_ERROR", `${place}: ${why}; ${advice}`, { cause: error });
}
