import { createSecretKey, type KeyObject, randomUUID } from "node:crypto";
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
} from "node:fs";
import { crc32 } from "node:zlib";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import { type Seal, SHARED_OWNERS } from "@rkat/core/ports/store";
import { createSeal, idOfKey, type KeyRing, unwrapKey, wrapKey } from "@rkat/core/stores/sealing";
import { waitForLock, writeWhole } from "../tables/table-file.ts";
import { unlock } from "./file-locks.ts";
import { replaceFile } from "./whole-file.ts";

/** How encryption began, as recorded in a key file. */
export interface Beginning {
  /** Earlier data exists and stays plain. */
  readonly plain_before?: boolean;
  /** The user encrypted a realm with data. Earlier versions began to encrypt one whenever it was opened. */
  readonly enabled?: boolean;
}

/**
 * Opens the keys of a realm; without any, `begin` prepares the folder and they are made. Throws SESSION_STORE_ERROR for
 * a wrong realm key and for a changed file, without a change.
 */
export function openKeyFile(path: string, realmKey: Uint8Array, begin?: () => Beginning): Seal {
  const key = createSecretKey(realmKey);
  const file = createFile(path);
  const { head } = file.alone(() => {
    if (begin !== undefined && !existsSync(path)) writeAnew(path, [lineOf({ ...headOf(key), ...begin() })]);
    return file.read(idOfKey(key));
  });
  return createSeal(key, { hasPlain: head.plain_before === true, ...ringOf(path, file, idOfKey(key)) });
}

/**
 * Removes the keys of a realm that an earlier version began to encrypt on opening; after `clear` nothing is encrypted
 * with them. Keys that `keepFor` opens stay. False if the keys stay or protect data that cannot be rebuilt.
 */
export function dropUnusedKeys(path: string, keepFor: Uint8Array | undefined, clear: () => void): boolean {
  return createFile(path).alone(() => {
    if (!existsSync(path)) return true;
    const { keyId, isUnused } = inspectKeyFile(path);
    if (!isUnused || (keepFor !== undefined && idOfKey(createSecretKey(keepFor)) === keyId)) return false;
    clear();
    rmSync(path);
    return true;
  });
}

/**
 * Wraps every key of a realm with another realm key, in one rename of the file: after a crash the realm has one key or
 * the other. False if it has the other already.
 */
export function rotateKeyFile(path: string, from: Uint8Array, to: Uint8Array): boolean {
  const [old, next] = [createSecretKey(from), createSecretKey(to)];
  const file = createFile(path);
  return file.alone(() => {
    if (!existsSync(path)) throw failure(`${path} is not there: nothing of this realm is sealed`);
    if (file.read(undefined).head.key_id === idOfKey(next)) return false;
    const { lines, damaged, head } = file.read(idOfKey(old));
    if (damaged.length > 0) throw failure(`${path} is damaged at line ${damaged[0]}; restore it from a backup first`);
    const keys = lines.map(({ owner, key }) => lineOf({ owner, key: wrapAnew({ old, next }, owner, key) }));
    replace(path, [lineOf({ ...head, ...headOf(next) }), ...keys]);
    return true;
  });
}

/** The facts about the keys that need no realm key. */
export function inspectKeyFile(path: string): KeyFileReport {
  const { lines, damaged, head } = createFile(path).read(undefined);
  const problems = damaged.map((line) => `${path} is damaged at line ${line}; restore it from a backup`);
  const isUnused = head.plain_before === true && head.enabled !== true && damaged.length === 0;
  const isDerived = lines.every(({ owner }) => DERIVED_OWNERS.includes(owner));
  const isPlainBefore = head.plain_before === true;
  return { keyId: head.key_id, keys: lines.length, isPlainBefore, isUnused: isUnused && isDerived, problems };
}

/** Owners of data that can be rebuilt from the logs. */
const DERIVED_OWNERS: readonly string[] = [SHARED_OWNERS.index, SHARED_OWNERS.memory];

export interface KeyFileReport {
  /** Identifies the realm's key without revealing it. */
  readonly keyId: string;
  readonly keys: number;
  /** Data from before encryption exists and is plain. */
  readonly isPlainBefore: boolean;
  /** Encryption was not requested, and only derived data was encrypted. */
  readonly isUnused: boolean;
  readonly problems: readonly string[];
}

function wrapAnew({ old, next }: { readonly old: KeyObject; readonly next: KeyObject }, owner: string, key: string) {
  return wrapKey(next, owner, unwrapKey(old, owner, key));
}

function ringOf(path: string, file: KeyFile, keyId: string): Omit<KeyRing, "hasPlain"> {
  const owners = new Map<string, string>();
  let seen: Seen | undefined;
  /** Of two lines of one owner the first counts. */
  const refresh = (): void => {
    const { lines, edition, size, isWhole } = file.read(keyId, seen);
    if (isWhole) owners.clear();
    for (const { owner, key } of lines) if (!owners.has(owner)) owners.set(owner, key);
    seen = { edition, size };
  };
  return {
    find: (owner) => {
      if (!owners.has(owner)) file.alone(refresh);
      return owners.get(owner);
    },
    add: (owner, wrapped) =>
      file.alone(() => {
        refresh();
        const there = owners.get(owner);
        if (there !== undefined) return there;
        append(path, seen?.size ?? 0, lineOf({ owner, key: wrapped }));
        refresh();
        return wrapped;
      }),
    remove: (owner) =>
      file.alone(() => {
        const isOwners = (line: string): boolean => line.includes(`"owner":${JSON.stringify(owner)}`);
        const { head } = file.read(keyId);
        const lines = wholeLines(readFileSync(path, "utf8")).slice(1);
        if (!lines.some(isOwners)) return;
        replace(path, [lineOf({ ...head, edition: randomUUID() }), ...lines.filter((line) => !isOwners(line))]);
        refresh();
      }),
  };
}

interface KeyLine {
  readonly owner: string;
  readonly key: string;
}

/** The part of the file that was read; a rewritten file has another identity. */
interface Seen {
  readonly edition: string;
  /** The end of the last whole line: bytes after it were never completed and never used. */
  readonly size: number;
}

interface Read extends Seen {
  readonly head: Head;
  readonly lines: readonly KeyLine[];
  /** The numbers of changed lines. */
  readonly damaged: readonly number[];
  /** Whether this is the whole file, not only new lines. */
  readonly isWhole: boolean;
}

interface KeyFile {
  /** Runs work while no other process reads or writes the file. */
  alone<T>(work: () => T): T;
  /** Reads the file, or only its new lines; throws for another realm's key. */
  read(keyId: string | undefined, seen?: Seen): Read;
}

function createFile(path: string): KeyFile {
  return {
    alone: (work) => {
      const lock = withPathInErrors(path, () => openSync(`${path}-lock`, "a", 0o600));
      try {
        waitForLock(lock, path);
        try {
          return work();
        } finally {
          unlock(lock);
        }
      } finally {
        closeSync(lock);
      }
    },
    read: (keyId, seen) => {
      const fd = withPathInErrors(path, () => openSync(path, "r"));
      try {
        const bytes = fstatSync(fd).size;
        const head = headIn(path, readText(fd, 0, Math.min(bytes, HEAD_BYTES_MAX)), keyId);
        const isWhole = seen?.edition !== head.edition || seen.size > bytes;
        const from = isWhole ? 0 : seen.size;
        const lines = wholeLines(readText(fd, from, bytes));
        const size = from + lines.reduce((sum, line) => sum + Buffer.byteLength(line) + 1, 0);
        const parsed = lines.map(parseLine);
        const damaged = parsed.flatMap((line, at) => (line === undefined ? [at + 1] : []));
        const keys = parsed.flatMap((line) => (line !== undefined && "owner" in line ? [line] : []));
        return { head, edition: head.edition, lines: keys, damaged, size, isWhole };
      } finally {
        closeSync(fd);
      }
    },
  };
}

/** The first line; throws for one that is not what was written, and for one of another key. */
function headIn(path: string, text: string, keyId: string | undefined): Head {
  const head = parseLine(wholeLines(text)[0] ?? "");
  if (head === undefined || !("key_id" in head))
    throw failure(`${path} is damaged at its beginning; restore it from a backup, nothing was changed`);
  if (head.version !== VERSION)
    throw failure(`${path} is of version ${head.version}, and this program knows ${VERSION}; use a newer one`);
  if (keyId !== undefined && head.key_id !== keyId) throw wrongKey(path, head.key_id, keyId);
  return head;
}

const HEAD_BYTES_MAX = 1_024;
const VERSION = 1;

interface Head extends Beginning {
  readonly key_id: string;
  readonly version: number;
  /** Another one whenever the file is written anew. */
  readonly edition: string;
}

function headOf(key: KeyObject): Head {
  return { key_id: idOfKey(key), version: VERSION, edition: randomUUID() };
}

function lineOf(value: KeyLine | Head): string {
  const text = JSON.stringify(value);
  return `${sumOf(text)} ${text}`;
}

const SUM_CHARS = 8;

function sumOf(text: string): string {
  return crc32(text).toString(16).padStart(SUM_CHARS, "0");
}

/** Undefined for what is not a line of ours. */
function parseLine(line: string): KeyLine | Head | undefined {
  const text = line.slice(SUM_CHARS + 1);
  // Its checksum is right, so it is what `lineOf` made.
  return line === `${sumOf(text)} ${text}` && text !== "" ? (JSON.parse(text) as KeyLine | Head) : undefined;
}

/** Those that end: what follows the last of them was cut off while it was written. */
function wholeLines(text: string): readonly string[] {
  return text.split("\n").slice(0, -1);
}

function readText(fd: number, from: number, to: number): string {
  const bytes = Buffer.alloc(Math.max(0, to - from));
  let at = 0;
  for (let read = -1; at < bytes.length && read !== 0; at += read)
    read = readSync(fd, bytes, at, bytes.length - at, from + at);
  return bytes.toString("utf8", 0, at);
}

/** Behind the last whole line; durable when this returns. */
function append(path: string, end: number, line: string): void {
  withPathInErrors(path, () => {
    const fd = openSync(path, "r+");
    try {
      ftruncateSync(fd, end);
      writeWhole(fd, Buffer.from(`${line}\n`), end);
      fdatasyncSync(fd);
    } finally {
      closeSync(fd);
    }
  });
}

/** Puts other lines in the place of the file, and writes over what it was: a key that was taken out must not be found there. */
function replace(path: string, lines: readonly string[]): void {
  withPathInErrors(path, () => {
    const old = openSync(path, "r+");
    try {
      writeAnew(path, lines);
      const { size, nlink } = fstatSync(old);
      if (nlink > 0) return; // Another hard link keeps it on purpose.
      writeWhole(old, Buffer.alloc(size), 0);
      fdatasyncSync(old);
    } finally {
      closeSync(old);
    }
  });
}

/** All of it or nothing, and durable when this returns. */
function writeAnew(path: string, lines: readonly string[]): void {
  withPathInErrors(path, () => replaceFile(path, lines.map((line) => `${line}\n`).join("")));
}

function wrongKey(path: string, realms: string, given: string): RuntimeError {
  const message = `[encryption] names another key than this realm's: ${path} was made with ${realms}, and this is ${given}`;
  const advice = "name the right one, or copy the realm by rkat store copy with --from-key-file";
  return failure(`${message}; ${advice}; nothing was changed`);
}

function failure(message: string): RuntimeError {
  return new RuntimeError("SESSION_STORE_ERROR", message);
}

function withPathInErrors<T>(path: string, call: () => T): T {
  try {
    return call();
  } catch (cause) {
    if (cause instanceof RuntimeError) throw cause;
    throw new RuntimeError("SESSION_STORE_ERROR", `cannot use the keys in ${path}: ${messageOf(cause)}`, { cause });
  }
}
