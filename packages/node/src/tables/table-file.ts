import { randomBytes, randomUUID } from "node:crypto";
import {
  closeSync,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { crc32 } from "node:zlib";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import { tryLock, unlock } from "../log/file-locks.ts";
import { checkTree, type Place, packTree, placeOf, rangeOf, type TreeReader } from "./tree.ts";

/** What stands in a file is not what was written there. */
export class DamagedDb extends Error {
  constructor(path: string, why: string) {
    super(`${path} is damaged: ${why}`);
  }
}

/** One state of all tables. The file only grows: a state stays readable until the file is written anew. */
export interface State {
  readonly generation: number;
  /** How long the file was when it was written anew. */
  readonly base: number;
  /** What lies before is known to be on the disk. */
  readonly synced: number;
  readonly tables: Readonly<Record<string, { readonly root?: Place | undefined; readonly count: number }>>;
}

/** A file of tables, and what is known of it. */
export interface OpenFile extends TreeReader {
  readonly fd: number;
  /** What ends a state; another one in each file, so that no value can pass for it. */
  readonly mark: Buffer;
  /** How long it was when its newest state was looked for. */
  length: number;
  state: State;
}

/** Another writer is done in a moment; a process that was stopped in the middle is not waited for. */
const BUSY_MS_MAX = 10_000;
const BUSY_PAUSE_MS = 1;
const COPY_BYTES = 4 * 1_024 * 1_024;

/** Whether everything in a file is what was written there; nothing is changed. */
export function isSoundDb(path: string): boolean {
  let file: OpenFile | undefined;
  try {
    file = openAt(path);
    for (const { root } of Object.values(file?.state.tables ?? {})) if (file) checkTree(root, 0, file);
    return true;
  } catch {
    return false;
  } finally {
    if (file !== undefined) closeSync(file.fd);
  }
}

const HEAD = Buffer.from("rkat tables 1\n");
const MARK_BYTES = 16;
const HEAD_BYTES = HEAD.length + MARK_BYTES;
/** The size of a state, its checksum, the mark. */
const TAIL_BYTES = 8 + MARK_BYTES;
const SEARCH_BYTES = 64 * 1_024;

export function openAt(path: string): OpenFile | undefined {
  let fd: number;
  try {
    fd = openSync(path, "r+");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined; // what open throws
    throw error;
  }
  try {
    const head = readWhole(path, fd, { offset: 0, bytes: HEAD_BYTES });
    if (!head.subarray(0, HEAD.length).equals(HEAD)) throw new DamagedDb(path, "it is none of ours");
    const length = fstatSync(fd).size;
    const bare = { fd, mark: head.subarray(HEAD.length), ...readerOf(path, fd) };
    return { ...bare, length, state: newestState(path, bare, { size: length, from: HEAD_BYTES, isWhole: true }) };
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** The file of another process that was here first: then it is the one. */
export function othersFile(path: string, damaged: number | undefined): OpenFile | undefined {
  try {
    const file = openAt(path);
    if (file === undefined || fstatSync(file.fd).ino !== damaged) return file;
    closeSync(file.fd);
  } catch (error) {
    if (!(error instanceof DamagedDb)) throw error;
  }
  return undefined;
}

function readerOf(path: string, fd: number): TreeReader {
  return {
    known: new Map(),
    bytes: (place) => {
      const bytes = readWhole(path, fd, place);
      if (crc32(bytes) !== place.sum) throw new DamagedDb(path, "a checksum is wrong");
      return bytes;
    },
  };
}

interface Search {
  readonly size: number;
  /** Nothing before is looked at: a state that is known ends there. */
  readonly from: number;
  /** Whether what a state names behind what was synced is looked at, too: a power cut keeps of a file what it likes. */
  readonly isWhole?: boolean;
}

/** The newest state that is whole: behind it may lie what a process that died has left. */
export function newestState(
  path: string,
  file: Pick<OpenFile, "fd" | "mark" | keyof TreeReader> & { readonly state?: State },
  { size, from, isWhole = false }: Search,
): State {
  let end = size;
  for (;;) {
    const found = lastMark(path, file, { end, from });
    if (found === undefined) break;
    const state = stateAt(path, file, found);
    if (state !== undefined && (!isWhole || isSoundBehind(state, file))) return state;
    end = found - 1;
  }
  if (file.state !== undefined) return file.state;
  throw new DamagedDb(path, "no state of it is whole");
}

/** The end of the last mark before `end`. */
function lastMark(
  path: string,
  { fd, mark }: Pick<OpenFile, "fd" | "mark">,
  { end, from }: { readonly end: number; readonly from: number },
): number | undefined {
  for (let to = end; to > from; ) {
    const first = Math.max(from, to - SEARCH_BYTES);
    const window = readWhole(path, fd, { offset: first, bytes: to - first });
    const at = window.lastIndexOf(mark);
    if (at >= 0) return first + at + MARK_BYTES;
    if (first === from) return undefined;
    to = first + MARK_BYTES - 1;
  }
  return undefined;
}

function stateAt(path: string, { fd }: Pick<OpenFile, "fd">, end: number): State | undefined {
  const tail = readWhole(path, fd, { offset: end - TAIL_BYTES, bytes: TAIL_BYTES });
  const bytes = tail.readUInt32LE(0);
  const offset = end - TAIL_BYTES - bytes;
  if (offset < HEAD_BYTES) return undefined;
  const text = readWhole(path, fd, { offset, bytes });
  if (sumOf(text, offset) !== tail.readUInt32LE(4)) return undefined;
  return JSON.parse(text.toString()) as State; // Its checksum is right, so it is what `encodeState` made.
}

function isSoundBehind(state: State, reader: TreeReader): boolean {
  try {
    for (const { root } of Object.values(state.tables)) checkTree(root, state.synced, reader);
    return true;
  } catch (error) {
    if (error instanceof DamagedDb) return false;
    throw error;
  }
}

export function encodeState(state: State, offset: number, mark: Buffer): Buffer {
  const text = Buffer.from(JSON.stringify(state));
  const tail = Buffer.alloc(TAIL_BYTES);
  tail.writeUInt32LE(text.length, 0);
  tail.writeUInt32LE(sumOf(text, offset), 4);
  mark.copy(tail, 8);
  return Buffer.concat([text, tail]);
}

/** With where it lies: a copy of it elsewhere is none. */
function sumOf(text: Buffer, offset: number): number {
  return crc32(text, offset % 2 ** 32);
}

interface NewFile {
  readonly generation: number;
  readonly noSync: boolean;
  /** Its tables are those of this one; undefined: none. */
  readonly from?: OpenFile;
}

/** Makes a file in the place of the one that is there. Only while no other process writes. */
export function makeFile(path: string, of: NewFile): OpenFile {
  const steps = makingFile(path, of);
  let step = steps.next();
  while (!step.done) step = steps.next();
  return step.value;
}

/** Likewise in pieces: it yields after each value, and gives its descriptor before it takes the other's place. */
export function* makingFile(path: string, of: NewFile): Generator<number | undefined, OpenFile> {
  const { generation, noSync, from } = of;
  if (from !== undefined) removeUnfinished(path);
  const made = `${path}.${randomUUID()}${UNFINISHED}`;
  const fd = openSync(made, "wx+", 0o600);
  let isMade = false;
  try {
    const mark = randomBytes(MARK_BYTES);
    let pieces: Buffer[] = [HEAD, mark];
    let written = 0;
    let end = HEAD_BYTES;
    const flush = (): void => {
      writeWhole(fd, Buffer.concat(pieces), written);
      written = end;
      pieces = [];
    };
    const put = (bytes: Buffer): Place => {
      const place = placeOf(end, bytes);
      pieces.push(bytes);
      end += bytes.length;
      if (end - written > COPY_BYTES) flush();
      return place;
    };
    const tables: Record<string, State["tables"][string]> = {};
    for (const [name, { root, count }] of Object.entries(from?.state.tables ?? {}))
      tables[name] = { root: from && (yield* packTree(rangeOf(root, {}, from), put)), count };
    const state: State = { generation, base: end, synced: noSync ? 0 : end, tables };
    const last = encodeState(state, end, mark);
    pieces.push(last);
    end += last.length;
    flush();
    yield fd;
    if (!noSync) fdatasyncSync(fd);
    renameSync(made, path);
    isMade = true;
    return { fd, mark, length: end, state, ...readerOf(path, fd) };
  } finally {
    if (!isMade) {
      closeSync(fd);
      rmSync(made, { force: true });
    }
  }
}

const UNFINISHED = ".new";

/** Copies of this file that a killed process left. A folder without the file is left as it is: it may be a person's. */
function removeUnfinished(path: string): void {
  const isOne = (name: string): boolean => name.startsWith(`${basename(path)}.`) && name.endsWith(UNFINISHED);
  for (const name of readdirSync(dirname(path)).filter(isOne)) rmSync(join(dirname(path), name), { force: true });
}

/** What was half written is taken away; where that fails, too, it is passed over. */
export function cutBack({ fd, length }: OpenFile): void {
  try {
    ftruncateSync(fd, length);
  } catch {}
}

export async function syncFile(path: string): Promise<void> {
  const file = await open(path, "r+");
  try {
    await file.datasync();
  } finally {
    await file.close();
  }
}

/** The lock of a file that one process at a time may write. */
export function createFileLock(path: string) {
  let fd: number | undefined;
  let isHeld = false;
  const opened = (): number => {
    fd ??= openSync(`${path}-lock`, "a", 0o600);
    return fd;
  };
  const release = (): void => {
    isHeld = false;
    unlock(opened());
  };
  return {
    alone: <T>(work: () => T): T => {
      if (isHeld) return work();
      waitForLock(opened(), path);
      isHeld = true;
      try {
        return work();
      } finally {
        release();
      }
    },
    /** Takes it without blocking the event loop; returns how it is given back. */
    take: async (): Promise<() => void> => {
      for (let waitedMs = 0; isHeld || !tryLock(opened()); waitedMs += BUSY_PAUSE_MS) {
        if (waitedMs >= BUSY_MS_MAX) throw busy(path);
        await sleep(BUSY_PAUSE_MS);
      }
      isHeld = true;
      return release;
    },
    close: (): void => {
      if (fd !== undefined) closeSync(fd);
    },
  };
}

export function waitForLock(fd: number, path: string): void {
  const pause = new Int32Array(new SharedArrayBuffer(4));
  for (let waitedMs = 0; !tryLock(fd); waitedMs += BUSY_PAUSE_MS) {
    if (waitedMs >= BUSY_MS_MAX) throw busy(path);
    Atomics.wait(pause, 0, 0, BUSY_PAUSE_MS);
  }
}

function busy(path: string): RuntimeError {
  return new RuntimeError("SESSION_STORE_ERROR", `another process does not let go of ${path}`);
}

export function writeWhole(fd: number, bytes: Uint8Array, offset: number): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at, bytes.length - at, offset + at);
}

function readWhole(path: string, fd: number, { offset, bytes }: Pick<Place, "offset" | "bytes">): Buffer {
  const buffer = Buffer.allocUnsafeSlow(bytes);
  for (let at = 0; at < bytes; ) {
    const read = readSync(fd, buffer, at, bytes - at, offset + at);
    if (read === 0) throw new DamagedDb(path, "its end is missing");
    at += read;
  }
  return buffer;
}

/** Calls, and says what fails in a sentence. */
export function withPathInErrors<T>(path: string, call: () => T): T {
  try {
    return call();
  } catch (cause) {
    // An error that is not the file's is the caller's.
    if (!(cause instanceof Error) || !("syscall" in cause)) throw cause;
    const why = "code" in cause && cause.code === "ENOSPC" ? "the disk is full" : messageOf(cause);
    throw new RuntimeError("SESSION_STORE_ERROR", `cannot use ${path}: ${why}`, { cause });
  }
}
