import {
  closeSync,
  constants,
  fdatasync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  truncateSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { messageOf, RuntimeError } from "../../contract/error.ts";
import {
  type BackedFile,
  FILES,
  formatManifest,
  MANIFEST,
  type Manifest,
  parseManifest,
  storedPath,
} from "./backup-manifest.ts";
import { isAbsent } from "./backup-source.ts";
import { tryLock } from "./file-locks.ts";
import { syncFolder } from "./segments.ts";
import { TAR_END, tarHeader, tarPadding } from "./tar.ts";

/** A place that a back-up is written to. What was there before counts until `finish`. */
export interface BackupTarget {
  readonly before: Manifest | undefined;
  /** Whether a copy is there and as long as it was made. */
  holds(file: BackedFile): boolean;
  /** Writes a copy, or what follows its first `from` bytes. */
  write(copy: Copy, chunks: Iterable<Buffer>): Promise<void>;
  /** Forgets what was written since it was opened. */
  restart(): void;
  /** Makes the manifest count, and removes what it does not name; returns how many files that were. */
  finish(manifest: Manifest): Promise<number>;
  close(): Promise<void>;
}

interface Copy {
  readonly path: string;
  readonly serial: number;
  readonly bytes: number;
  readonly from: number;
}

/** A name that is written as one file rather than as a folder. */
export function isTar(place: string): boolean {
  return /\.tar$/i.test(place);
}

export const LOCK = "backup.lock";
const { O_RDWR, O_CREAT, O_NOFOLLOW, O_WRONLY, O_TRUNC } = constants;

/** Opens a folder to back up to, for this process alone; throws INVALID_PARAMS for one that holds other things. */
export function openFolderTarget(place: string): BackupTarget {
  mkdirSync(place, { recursive: true, mode: 0o700 });
  const others = readdirSync(place).filter((name) => ![LOCK, FILES, MANIFEST, `${MANIFEST}.new`].includes(name));
  if (others.length > 0)
    throw new RuntimeError(
      "INVALID_PARAMS",
      `${place} holds other things (${others[0]}); name a folder that is new, empty or a back-up`,
    );
  const lock = lockAt(
    join(place, LOCK),
    `another back-up to ${place} is being made; wait for it, or name another folder`,
  );
  const syncs = createSyncs();
  const folders = new Set<string>();
  try {
    const there = new Map(filesBelow(join(place, FILES)).map(({ path, bytes }) => [`${FILES}/${path}`, bytes]));
    const before = readManifest(place);
    return {
      before,
      holds: (file) => (there.get(storedPath(file)) ?? -1) >= file.bytes,
      write: async ({ from, ...copy }, chunks) => {
        const path = join(place, storedPath(copy));
        makeFolders(place, dirname(path), folders);
        const fd = openSync(path, O_WRONLY | O_CREAT | O_NOFOLLOW | (from === 0 ? O_TRUNC : 0), 0o600);
        try {
          ftruncateSync(fd, from);
          writeAll(fd, chunks, from);
        } catch (error) {
          closeSync(fd);
          throw error;
        }
        await syncs.add(fd);
      },
      restart: () => {},
      finish: async (manifest) => {
        await syncs.done();
        for (const folder of folders) syncFolder(folder);
        writeManifest(place, manifest);
        return sweep(place, manifest);
      },
      close: async () => {
        await syncs.done().finally(() => closeSync(lock));
      },
    };
  } catch (error) {
    closeSync(lock);
    throw error;
  }
}

/** Takes a file for this process alone; the system lets go of it when the process ends, however that comes. */
export function lockAt(path: string, refusal: string): number {
  const fd = openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600);
  // Where a finished file was renamed in the meantime, what we hold is not what has the name.
  const isNamed = (): boolean => lstatSync(path, { throwIfNoEntry: false })?.ino === fstatSync(fd).ino;
  try {
    if (tryLock(fd) && isNamed()) return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
  closeSync(fd);
  throw new RuntimeError("INVALID_PARAMS", refusal);
}

/** What a call of the disk throws, as a sentence. */
export function explained(error: unknown, place: string, advice: string): unknown {
  if (error instanceof RuntimeError || !(error instanceof Error && "code" in error && "syscall" in error)) return error;
  if (error.code === "ENAMETOOLONG")
    return new RuntimeError("INVALID_PARAMS", "the name of the back-up is too long; choose a shorter one", {
      cause: error,
    });
  const why = error.code === "ENOSPC" ? "the disk is full" : messageOf(error);
  return new RuntimeError("SESSION_STORE_ERROR", `${place}: ${why}; ${advice}`, { cause: error });
}

/** What a folder holds, with its sizes; throws SESSION_STORE_ERROR for a link: whoever put it there is written or read for. */
export function filesBelow(folder: string): readonly { readonly path: string; readonly bytes: number }[] {
  const found: { path: string; bytes: number }[] = [];
  const visit = (below: string): void => {
    for (const entry of readdirSync(join(folder, below), { withFileTypes: true })) {
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      if (entry.isDirectory()) visit(path);
      else if (entry.isFile()) found.push({ path, bytes: lstatSync(join(folder, path)).size });
      else
        throw new RuntimeError(
          "SESSION_STORE_ERROR",
          `${join(folder, path)} is no file: no back-up has links; remove it`,
        );
    }
  };
  const stat = lstatSync(folder, { throwIfNoEntry: false });
  if (stat === undefined) return found;
  if (!stat.isDirectory())
    throw new RuntimeError("SESSION_STORE_ERROR", `${folder} is no folder: no back-up has links; remove it`);
  visit("");
  return found;
}

/** More than this no manifest of ours has; whoever made it larger must not take the memory of who reads it. */
export const MANIFEST_BYTES_MAX = 256 * 1_024 * 1_024;

export function readManifest(place: string): Manifest | undefined {
  try {
    const fd = openSync(join(place, MANIFEST), constants.O_RDONLY | O_NOFOLLOW);
    try {
      if (fstatSync(fd).size > MANIFEST_BYTES_MAX)
        throw new RuntimeError(
          "SESSION_STORE_ERROR",
          `the manifest of ${place} is too large to be one; use another back-up`,
        );
      return parseManifest(readFileSync(fd, "utf8"), place);
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

function makeFolders(place: string, folder: string, made: Set<string>): void {
  for (let at = folder; at !== place && !made.has(at); at = dirname(at)) made.add(at);
  made.add(place);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
}

function writeAll(fd: number, chunks: Iterable<Buffer>, from: number): void {
  let position = from;
  for (const chunk of chunks) {
    for (let written = 0; written < chunk.length; ) {
      written += writeSync(fd, chunk, written, chunk.length - written, position + written);
    }
    position += chunk.length;
  }
}

const SYNCS_MAX = 8;

/** Brings files to the disk behind the copying of the next ones, and closes them. */
export function createSyncs() {
  const running = new Set<Promise<void>>();
  let failure: { readonly error: unknown } | undefined;
  const one = (fd: number): Promise<void> =>
    new Promise<void>((resolve, reject) => fdatasync(fd, (error) => (error === null ? resolve() : reject(error))))
      .catch((error: unknown) => {
        failure ??= { error };
      })
      .finally(() => closeSync(fd));
  const told = (): void => {
    if (failure !== undefined) throw failure.error;
  };
  return {
    add: async (fd: number): Promise<void> => {
      const sync = one(fd).finally(() => running.delete(sync));
      running.add(sync);
      if (running.size >= SYNCS_MAX) await Promise.race(running);
      told();
    },
    done: async (): Promise<void> => {
      await Promise.all(running);
      told();
    },
  };
}

/** Whole or not at all. */
function writeManifest(place: string, manifest: Manifest): void {
  const path = join(place, MANIFEST);
  const fd = openSync(`${path}.new`, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0o600);
  try {
    writeAll(fd, [Buffer.from(formatManifest(manifest))], 0);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  renameSync(`${path}.new`, path);
  syncFolder(place);
}

/** What was forgotten in the realm, or was replaced, must not go on lying here. */
function sweep(place: string, { files }: Manifest): number {
  const named = new Map(files.map((file) => [storedPath(file), file.bytes]));
  let dropped = 0;
  for (const { path, bytes } of filesBelow(join(place, FILES))) {
    const kept = named.get(`${FILES}/${path}`);
    if (kept === undefined) {
      rmSync(join(place, FILES, path));
      dropped += 1;
    } else if (bytes > kept) truncateSync(join(place, FILES, path), kept);
  }
  removeEmpty(join(place, FILES));
  return dropped;
}

function removeEmpty(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (!entry.isDirectory()) continue;
    const path = join(folder, entry.name);
    removeEmpty(path);
    if (readdirSync(path).length === 0) rmdirSync(path);
  }
}

/** Opens one file to back up to: it holds everything each time, and takes its name when it is whole. */
export function openTarTarget(place: string): BackupTarget {
  const made = `${place}.new`;
  mkdirSync(dirname(place), { recursive: true, mode: 0o700 });
  const fd = lockAt(made, `another back-up to ${place} is being made; wait for it, or name another file`);
  let position = 0;
  let isOpen = true;
  const restart = (): void => {
    ftruncateSync(fd, 0);
    position = 0;
  };
  const add = (path: string, bytes: number, chunks: Iterable<Buffer>): void => {
    const header = tarHeader(path, bytes);
    writeAll(fd, [header], position);
    writeAll(fd, chunks, position + header.length);
    const end = position + header.length + bytes;
    writeAll(fd, [Buffer.alloc(tarPadding(bytes))], end);
    position = end + tarPadding(bytes);
  };
  restart();
  return {
    before: undefined,
    holds: () => false,
    write: async (copy, chunks) => add(storedPath(copy), copy.bytes, chunks),
    restart,
    finish: async (manifest) => {
      const text = Buffer.from(formatManifest(manifest));
      add(MANIFEST, text.length, [text]);
      writeAll(fd, [TAR_END], position);
      // What a write that failed and was tried again left behind.
      ftruncateSync(fd, position + TAR_END.length);
      await new Promise<void>((resolve, reject) =>
        fdatasync(fd, (error) => (error === null ? resolve() : reject(error))),
      );
      renameSync(made, place);
      syncFolder(dirname(place));
      isOpen = false;
      return 0;
    },
    close: async () => {
      // While it is still ours: what is not whole is of no use to anybody.
      if (isOpen) rmSync(made, { force: true });
      closeSync(fd);
    },
  };
}
