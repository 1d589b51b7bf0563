import { constants, lstat, mkdir, open, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";
import { RuntimeError } from "@rkat/core/contract/error";

/** The file system calls of projections, so that tests can make them fail. */
export interface FileCalls {
  /** Creates the folder and its parents, for their owner only. */
  makeFolder(path: string): Promise<void>;
  /** Names in a folder, unordered; none if there is no such folder. */
  list(path: string): Promise<readonly string[]>;
  read(path: string): Promise<string | undefined>;
  write(path: string, text: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** False also if it does not exist. */
  isLink(path: string): Promise<boolean>;
  /** A missing file is no failure. */
  remove(path: string): Promise<void>;
  /** Opens or creates a file for its owner only, for random access. */
  open(path: string): Promise<OpenFile>;
  /** Writes a file compressed, or a compressed one as it was, to another path; false if there is no such file. */
  convert(how: "gzip" | "gunzip", from: string, to: string): Promise<boolean>;
}

export interface OpenFile {
  size(): Promise<number>;
  /** Fills the buffer from a position; returns how many bytes were read. */
  read(buffer: Uint8Array, position: number): Promise<number>;
  /** Returns how many bytes were written; the rest has to be written again. */
  write(bytes: Uint8Array, position: number): Promise<number>;
  truncate(bytes: number): Promise<void>;
  close(): Promise<void>;
}

/** Throws SESSION_STORE_ERROR if the path, or a folder between it and the state folder, is a link. */
export async function refuseLinks(io: Pick<FileCalls, "isLink">, root: string, path: string): Promise<void> {
  let at = root;
  for (const name of relative(root, path).split(sep)) {
    at = join(at, name);
    if (await io.isLink(at)) throw linkRefusal(at);
  }
}

function linkRefusal(path: string, cause?: unknown): RuntimeError {
  const message = `${path} is a link, and nothing is kept behind one; remove it`;
  return new RuntimeError("SESSION_STORE_ERROR", message, { cause });
}

/** A user without write access to a file could have placed a link to it here. */
const { O_CREAT, O_NOFOLLOW = 0, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY } = constants;

const OWNER_ONLY = { folder: 0o700, file: 0o600 } as const;

export const nodeFileCalls: FileCalls = {
  makeFolder: async (path) => {
    await mkdir(path, { recursive: true, mode: OWNER_ONLY.folder });
  },
  list: (path) => readdir(path).catch(whenAbsent([])),
  read: (path) =>
    readFile(path, { encoding: "utf8", flag: O_RDONLY | O_NOFOLLOW }).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw explained(path, error);
    }),
  write: (path, text) =>
    writeFile(path, text, { mode: OWNER_ONLY.file, flag: O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW }).catch((error) => {
      throw explained(path, error);
    }),
  isLink: async (path) => {
    const found = await lstat(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
      throw error;
    });
    return found?.isSymbolicLink() === true;
  },
  rename,
  remove: (path) => rm(path, { force: true }),
  convert: async (how, from, to) => {
    const source = await open(from, O_RDONLY | O_NOFOLLOW).catch(whenAbsent(undefined));
    if (source === undefined) return false;
    try {
      const target = await open(to, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, OWNER_ONLY.file);
      const change = how === "gzip" ? createGzip() : createGunzip();
      await pipeline(source.createReadStream({ autoClose: false }), change, target.createWriteStream());
    } finally {
      await source.close();
    }
    return true;
  },
  open: async (path) => {
    const file = await open(path, O_RDWR | O_CREAT | O_NOFOLLOW, OWNER_ONLY.file).catch((error) => {
      throw explained(path, error);
    });
    return {
      size: async () => (await file.stat()).size,
      read: async (buffer, position) => (await file.read(buffer, 0, buffer.length, position)).bytesRead,
      write: async (bytes, position) => (await file.write(bytes, 0, bytes.length, position)).bytesWritten,
      truncate: (bytes) => file.truncate(bytes),
      close: () => file.close(),
    };
  },
};

/** An error handler: returns a default if the file does not exist. */
export function whenAbsent<T>(otherwise: T): (error: unknown) => T {
  return (error) => {
    if (isAbsence(error)) return otherwise;
    throw error;
  };
}

export function isAbsence(error: unknown): boolean {
  return isOfDisk(error) && error.code === "ENOENT";
}

export function isOfDisk(error: unknown): error is Error & { readonly code: unknown } {
  return error instanceof Error && "code" in error;
}

function explained(path: string, error: NodeJS.ErrnoException): Error {
  return error.code === "ELOOP" ? linkRefusal(path, error) : error;
}
