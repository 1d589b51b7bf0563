import { chmodSync, closeSync, existsSync, fstatSync, openSync, readSync, renameSync, rmSync } from "node:fs";
import { open, type RootDatabase, type RootDatabaseOptions } from "lmdb";
import { RuntimeError } from "../../contract/error.ts";

/**
 * Opens an LMDB file that only its owner may read. A file that LMDB would crash the process over is set aside first:
 * everything kept this way can be made again.
 */
export function openPrivateDb<Value, Key extends string>(
  path: string,
  options: RootDatabaseOptions,
  warn: (sentence: string) => void,
): RootDatabase<Value, Key> {
  if (existsSync(path) && !isSoundDb(path)) {
    renameSync(path, `${path}.damaged`);
    rmSync(`${path}-lock`, { force: true });
    warn(`${path} is damaged; it was set aside as ${path}.damaged and is made anew from the logs`);
  }
  const database = open<Value, Key>({ ...options, path, noSubdir: true });
  for (const file of [path, `${path}-lock`]) if (existsSync(file)) chmodSync(file, 0o600);
  requireOwnPid(database, path);
  return database;
}

/**
 * LMDB tells its readers apart by process id. Two containers have the same ids; the second to read would be ended by the
 * library some time later. From its first read on an id is its process's own, so it is read at once.
 */
function requireOwnPid(database: RootDatabase<unknown, string>, path: string): void {
  try {
    database.useReadTransaction().done();
  } catch (cause) {
    try {
      database.resetReadTxn(); // Otherwise a timer of the library does, and what it throws ends the process.
    } catch {
      // It throws for want of the very transaction that could not be had.
    }
    const message =
      `${path} is in use by a process of another container that has the same process id there; ` +
      "let the containers share their process ids (docker run --pid), or give each a state folder of its own";
    throw new RuntimeError("SESSION_STORE_ERROR", message, { cause });
  }
}

// Of the two pages a file begins with: a mark, the size of a page, the number of the last page, and which is newer.
const MARK = 0xbeefc0de;
const MARK_AT = 24;
const PAGE_SIZE_AT = 48;
const LAST_PAGE_AT = 144;
const VERSION_AT = 152;
const HEAD_BYTES = 160;
const PAGE_SIZES = [256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536];

/** Whether the file is whole as far as its first two pages tell: LMDB trusts them, and maps what they speak of. */
export function isSoundDb(path: string): boolean {
  const fd = openSync(path, "r");
  try {
    const { size } = fstatSync(fd);
    // An empty file is one that was never written.
    if (size === 0) return true;
    const first = readHead(fd, 0);
    const pageSize = first.readUInt32LE(PAGE_SIZE_AT);
    if (first.readUInt32LE(MARK_AT) !== MARK || !PAGE_SIZES.includes(pageSize)) return false;
    const second = readHead(fd, pageSize);
    if (second.readUInt32LE(MARK_AT) !== MARK) return false;
    const newer = second.readBigUInt64LE(VERSION_AT) > first.readBigUInt64LE(VERSION_AT) ? second : first;
    return BigInt(size) >= (newer.readBigUInt64LE(LAST_PAGE_AT) + 1n) * BigInt(pageSize);
  } finally {
    closeSync(fd);
  }
}

function readHead(fd: number, position: number): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  readSync(fd, head, 0, HEAD_BYTES, position);
  return head;
}
