import { constants, mkdir, open, readFile, rename, rm, writeFile } from "node:fs/promises";

/** What a projection needs of the file system, so that a test can make any call fail. */
export interface FileCalls {
  /** Makes the folder and those above it, for their owner only. */
  makeFolder(path: string): Promise<void>;
  /** Undefined when there is no such file. */
  read(path: string): Promise<string | undefined>;
  write(path: string, text: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** A file that is not there is no failure. */
  remove(path: string): Promise<void>;
  /** Opens a file for its owner only, to read and write at any position; made when it is not there. */
  open(path: string): Promise<OpenFile>;
}

export interface OpenFile {
  size(): Promise<number>;
  /** Fills the buffer from a position and resolves with how many bytes there were. */
  read(buffer: Uint8Array, position: number): Promise<number>;
  /** Resolves with how many bytes were taken; those after them are to be written again. */
  write(bytes: Uint8Array, position: number): Promise<number>;
  truncate(bytes: number): Promise<void>;
  close(): Promise<void>;
}

const OWNER_ONLY = { folder: 0o700, file: 0o600 } as const;

export const nodeFileCalls: FileCalls = {
  makeFolder: async (path) => {
    await mkdir(path, { recursive: true, mode: OWNER_ONLY.folder });
  },
  read: (path) =>
    readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw error;
    }),
  write: (path, text) => writeFile(path, text, { mode: OWNER_ONLY.file }),
  rename,
  remove: (path) => rm(path, { force: true }),
  open: async (path) => {
    const file = await open(path, constants.O_RDWR | constants.O_CREAT, OWNER_ONLY.file);
    return {
      size: async () => (await file.stat()).size,
      read: async (buffer, position) => (await file.read(buffer, 0, buffer.length, position)).bytesRead,
      write: async (bytes, position) => (await file.write(bytes, 0, bytes.length, position)).bytesWritten,
      truncate: (bytes) => file.truncate(bytes),
      close: () => file.close(),
    };
  },
};
