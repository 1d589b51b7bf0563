import { closeSync, existsSync, openSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname } from "node:path";
import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { crc32 } from "node:zlib";
import { messageOf, RuntimeError } from "../../contract/error.ts";

/** What names a value: a text, a whole number, bytes, or two whole numbers. A table has one kind of them. */
type Key = string | number | Buffer | readonly [number, number];

/** Values by their keys, in the order of the keys. */
export interface Table<Value, K extends Key> {
  get(key: K): Value | undefined;
  doesExist(key: K): boolean;
  /** From `start` on and before `end`. */
  getRange(range?: { readonly start?: K; readonly end?: K }): { readonly key: K; readonly value: Value }[];
  getCount(): number;
  put(key: K, value: Value): void;
  remove(key: K): void;
  clear(): void;
}

/** A file of tables for several processes at once: one of its own, and others by name. */
export interface PrivateDb<Value, K extends Key> extends Table<Value, K> {
  openDB<V, Keys extends Key>(name: string, encoding: Encoding): Table<V, Keys>;
  /** What `work` writes is there whole when this returns, and not at all when it throws. */
  transactionSync<T>(work: () => T): T;
  /** What `work` reads is of one moment, whoever writes meanwhile. */
  snapshot<T>(work: () => T): T;
  /** How often the file was begun anew. */
  generation(): number;
  /** Begins an empty file: what is in this one cannot be relied on. Who else uses it is told by `isReplaced`. */
  renew(): void;
  /** Whether another process has begun the file anew. */
  isReplaced(): boolean;
  close(): Promise<void>;
}

type Encoding = "json" | "binary";

export interface PrivateDbOptions {
  /** What it holds means nothing after a power cut. */
  readonly noSync?: boolean;
  /** Larger for larger values. */
  readonly pageBytes?: number;
  /** Of the table of its own. */
  readonly encoding?: Encoding;
}

/** What stands in a file is not what was written there. */
export class DamagedDb extends Error {
  constructor(path: string, why: string) {
    super(`${path} is damaged: ${why}`);
  }
}

/** Whoever else writes is done in a moment; a process that was stopped in the middle is not waited for. */
const BUSY_MS_MAX = 10_000;
const CACHE_KIB = 64 * 1_024;
const PAGE_BYTES = 4_096;

/**
 * Opens a file of tables that only its owner may read. Every value has a checksum; what is damaged is told as
 * `DamagedDb`, and never believed. A file that is damaged from the start is begun anew: everything kept this way can be
 * made again.
 */
export function openPrivateDb<Value, K extends Key>(
  path: string,
  options: PrivateDbOptions,
  warn: (sentence: string) => void,
): PrivateDb<Value, K> {
  const names = new Set<string>();
  let generation = newestGeneration(path);
  let db: DatabaseSync | undefined;
  let isClosed = false;
  const statements = new Map<string, StatementSync>();

  const fileOf = (number: number): string => (number === 0 ? path : `${path}.${number}`);
  const connection = (): DatabaseSync => {
    if (isClosed) throw new RuntimeError("SESSION_STORE_ERROR", `${path} is closed`);
    if (db !== undefined) return db;
    const opened = told(path, () => connect(fileOf(generation), options));
    try {
      for (const name of names) told(path, () => opened.exec(createTable(name)));
    } catch (error) {
      opened.close();
      throw error;
    }
    db = opened;
    return opened;
  };
  const disconnect = (): void => {
    statements.clear();
    const last = db;
    db = undefined;
    // What it could not bring into the file is still beside it, for whoever opens it next.
    if (last !== undefined) told(path, () => last.close());
  };
  const run = <T>(sql: string, call: (statement: StatementSync) => T): T =>
    told(path, () => {
      const known = statements.get(sql) ?? connection().prepare(sql);
      statements.set(sql, known);
      return call(known);
    });
  const within = <T>(begin: string, work: () => T): T => {
    const on = connection();
    if (on.isTransaction) return work();
    told(path, () => on.exec(begin));
    try {
      const result = work();
      told(path, () => on.exec("COMMIT"));
      return result;
    } catch (error) {
      // Some failures have ended it already.
      if (on.isOpen && on.isTransaction) told(path, () => on.exec("ROLLBACK"));
      throw error;
    }
  };
  const openDB = <V, Keys extends Key>(name: string, encoding: Encoding): Table<V, Keys> => {
    names.add(name);
    run(createTable(name), (sql) => sql.run());
    const decode = (key: Keys, bytes: SQLInputValue): V => decodeValue(path, { name, key, bytes, encoding }) as V; // Its checksum matches, so it is what was put.
    return {
      get: (key) => {
        const row = run(`SELECT v FROM "${name}" WHERE k = ?`, (sql) => sql.get(toColumn(key)));
        return row === undefined ? undefined : decode(key, row.v ?? null);
      },
      doesExist: (key) => run(`SELECT 1 FROM "${name}" WHERE k = ?`, (sql) => sql.get(toColumn(key))) !== undefined,
      getRange: ({ start, end } = {}) => {
        const bounds = [start, end].flatMap((key) => (key === undefined ? [] : [toColumn(key)]));
        const where = `${start === undefined ? "" : " AND k >= ?"}${end === undefined ? "" : " AND k < ?"}`;
        const rows = run(`SELECT k, v FROM "${name}" WHERE 1${where} ORDER BY k`, (sql) => sql.all(...bounds));
        return rows.map(({ k, v }) => {
          const key = fromColumn(k ?? null) as Keys; // A table has one kind of keys, and the checksum covers them.
          return { key, value: decode(key, v ?? null) };
        });
      },
      getCount: () => Number(run(`SELECT count(*) AS n FROM "${name}"`, (sql) => sql.get())?.n),
      put: (key, value) => {
        const bytes = encodeValue(name, key, value);
        run(`INSERT INTO "${name}" VALUES (?, ?) ON CONFLICT (k) DO UPDATE SET v = excluded.v`, (sql) =>
          sql.run(toColumn(key), bytes),
        );
      },
      remove: (key) => {
        run(`DELETE FROM "${name}" WHERE k = ?`, (sql) => sql.run(toColumn(key)));
      },
      clear: () => {
        run(`DELETE FROM "${name}"`, (sql) => sql.run());
      },
    };
  };
  const renew = (): void => {
    try {
      disconnect();
    } catch (error) {
      // Of what is damaged nothing has to be kept.
      if (!(error instanceof DamagedDb) && !(error instanceof RuntimeError)) throw error;
    }
    // Another process may have been here first: then its file is the one.
    const newest = newestGeneration(path);
    const old = Array.from({ length: Math.max(newest, generation + 1) }, (_, number) => fileOf(number));
    generation = Math.max(newest, generation + 1);
    connection();
    for (const file of old.flatMap((name) => [name, `${name}-wal`, `${name}-shm`])) rmSync(file, { force: true });
  };
  const open = (): Table<Value, K> => {
    try {
      return openDB<Value, K>("root", options.encoding ?? "json");
    } catch (error) {
      if (!(error instanceof DamagedDb)) throw error;
      warn(`${error.message}; it is made anew from the logs`);
      renew();
      return openDB<Value, K>("root", options.encoding ?? "json");
    }
  };
  return {
    ...open(),
    openDB,
    transactionSync: (work) => within("BEGIN IMMEDIATE", work),
    snapshot: (work) => within("BEGIN", work),
    generation: () => generation,
    renew,
    isReplaced: () => !existsSync(fileOf(generation)),
    close: async () => {
      if (isClosed) return;
      disconnect();
      isClosed = true;
    },
  };
}

/** The highest number after the path; 0 when there is none. */
function newestGeneration(path: string): number {
  const name = `${basename(path)}.`;
  const numbers = readdirSync(dirname(path)).flatMap((file) => {
    const digits = file.startsWith(name) ? file.slice(name.length) : "";
    return /^[1-9]\d{0,8}$/.test(digits) ? [Number(digits)] : [];
  });
  return Math.max(0, ...numbers);
}

/** Whether the tables of a file can be read from the first to the last; nothing is changed. */
export function isSoundDb(path: string): boolean {
  const file = newestGeneration(path) === 0 ? path : `${path}.${newestGeneration(path)}`;
  try {
    const db = new (sqlite().DatabaseSync)(file, { readOnly: true, timeout: BUSY_MS_MAX });
    try {
      return db.prepare("PRAGMA quick_check(1)").get()?.quick_check === "ok";
    } finally {
      db.close();
    }
  } catch {
    return false;
  }
}

function connect(file: string, { noSync = false, pageBytes = PAGE_BYTES }: PrivateDbOptions): DatabaseSync {
  const isNew = makePrivate(file);
  const db = new (sqlite().DatabaseSync)(file, { timeout: BUSY_MS_MAX });
  try {
    // What is written goes to a file beside it first, so that a process may die and a disk may fail at any moment.
    db.exec(`PRAGMA page_size = ${pageBytes}`);
    // Of a file that is begun nothing can be lost yet.
    if (isNew) db.exec("PRAGMA synchronous = OFF");
    db.exec("PRAGMA journal_mode = WAL");
    db.exec(`PRAGMA synchronous = ${noSync ? "OFF" : "NORMAL"}`);
    db.exec(`PRAGMA cache_size = -${CACHE_KIB}`);
    db.exec("PRAGMA cell_size_check = ON");
  } catch (error) {
    db.close();
    throw error;
  }
  return db;
}

/** Made before SQLite makes it, for its owner alone; the files it makes beside it are as private. Whether it is new. */
function makePrivate(file: string): boolean {
  try {
    closeSync(openSync(file, "wx", 0o600));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error; // what open throws
    return false;
  }
}

/** Loaded when the first file is opened: what keeps nothing does not need it. */
function sqlite(): typeof import("node:sqlite") {
  return createRequire(import.meta.url)("node:sqlite");
}

const SQLITE_CORRUPT = 11;
const SQLITE_FULL = 13;
const SQLITE_NOTADB = 26;

/** Calls, and says what fails in a sentence. */
function told<T>(path: string, call: () => T): T {
  try {
    return call();
  } catch (cause) {
    if (cause instanceof RuntimeError || cause instanceof DamagedDb) throw cause;
    // What SQLite threw: the low byte of its number is the kind of failure.
    const kind = ((cause as { errcode?: number }).errcode ?? 0) & 0xff;
    if (kind === SQLITE_CORRUPT || kind === SQLITE_NOTADB) throw new DamagedDb(path, messageOf(cause));
    const why = kind === SQLITE_FULL ? "the disk is full" : messageOf(cause);
    throw new RuntimeError("SESSION_STORE_ERROR", `cannot use ${path}: ${why}`, { cause });
  }
}

function createTable(name: string): string {
  return `CREATE TABLE IF NOT EXISTS "${name}" (k PRIMARY KEY NOT NULL, v BLOB NOT NULL)`;
}

const PAIR_BYTES = 12;

function toColumn(key: Key): string | number | Buffer {
  if (!Array.isArray(key)) return key as string | number | Buffer; // What is left when it is no pair.
  const bytes = Buffer.alloc(PAIR_BYTES);
  bytes.writeUIntBE(key[0], 0, 6);
  bytes.writeUIntBE(key[1], 6, 6);
  return bytes;
}

function fromColumn(column: unknown): unknown {
  if (!(column instanceof Uint8Array)) return column;
  const bytes = Buffer.from(column.buffer, column.byteOffset, column.byteLength);
  return bytes.length === PAIR_BYTES ? [bytes.readUIntBE(0, 6), bytes.readUIntBE(6, 6)] : bytes;
}

const CHECKSUM_BYTES = 4;

/** Of the value and of where it belongs: one that stands in another's place is none. */
function checksum(name: string, key: Key, value: Uint8Array): number {
  const column = toColumn(key);
  return crc32(value, crc32(typeof column === "object" ? column : `${column}`, crc32(name)));
}

function encodeValue(name: string, key: Key, value: unknown): Buffer {
  const bytes = value instanceof Uint8Array ? value : Buffer.from(JSON.stringify(value));
  const whole = Buffer.allocUnsafe(bytes.length + CHECKSUM_BYTES);
  whole.set(bytes);
  whole.writeUInt32LE(checksum(name, key, bytes), bytes.length);
  return whole;
}

interface Stored {
  readonly name: string;
  readonly key: Key;
  readonly bytes: unknown;
  readonly encoding: Encoding;
}

function decodeValue(path: string, { name, key, bytes, encoding }: Stored): unknown {
  if (!(bytes instanceof Uint8Array) || bytes.length < CHECKSUM_BYTES) throw new DamagedDb(path, "a value is none");
  const whole = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const value = whole.subarray(0, whole.length - CHECKSUM_BYTES);
  if (whole.readUInt32LE(value.length) !== checksum(name, key, value)) throw new DamagedDb(path, "a checksum is wrong");
  return encoding === "json" ? JSON.parse(value.toString()) : value;
}
