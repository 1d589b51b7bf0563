import { randomInt } from "node:crypto";
import { closeSync, fdatasync, fdatasyncSync, fstatSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { promisify } from "node:util";
import { RuntimeError } from "@rkat/core/contract/error";
import type { Seal } from "@rkat/core/ports/store";
import { isSealed, isUnreadable } from "@rkat/core/stores/sealing";
import {
  createFileLock,
  cutBack,
  DamagedDb,
  encodeState,
  makeFile,
  makingFile,
  newestState,
  type OpenFile,
  openAt,
  othersFile,
  type State,
  syncFile,
  withPathInErrors,
  writeWhole,
} from "./table-file.ts";
import {
  getFrom,
  hasIn,
  type Place,
  placeOf,
  putInto,
  type Range,
  rangeOf,
  removeFrom,
  type Tree,
  writeTree,
} from "./tree.ts";

/** The key of a value: a text, a whole number, bytes, or two whole numbers. A table has one kind of keys. */
type Key = string | number | Buffer | readonly [number, number];

/** Values by their keys, in the order of the keys. */
export interface Table<Value, K extends Key> {
  get(key: K): Value | undefined;
  doesExist(key: K): boolean;
  /** From `start` on and before `end`. */
  getRange(range?: { readonly start?: K; readonly end?: K }): { readonly key: K; readonly value: Value }[];
  /** Likewise, one by one. Reads in between belong to the snapshot. */
  visit(range: { readonly start?: K; readonly end?: K }, visit: (key: K, value: Value) => "enough" | undefined): void;
  getCount(): number;
  put(key: K, value: Value): void;
  remove(key: K): void;
  clear(): void;
}

/** A file of tables for several processes: a main table and others by name. */
export interface PrivateDb<Value, K extends Key> extends Table<Value, K> {
  openDB<V, Keys extends Key>(name: string, encoding: Encoding): Table<V, Keys>;
  /** Runs a transaction: all writes of `work`, or none if it throws. */
  transactionSync<T>(work: () => T): T;
  snapshot<T>(work: () => T): T;
  /** Changes whenever the file is started anew. */
  generation(): number;
  /** Unchanged until the next write, so that reads can be cached. */
  stamp(): object;
  /** Starts an empty file because this one is unreliable, unless another process has. */
  renew(): void;
  /** Rewrites the file with its current content, without a trace of earlier content. */
  compact(): void;
  /** The same in pieces, with other work in between. */
  compactInPieces(): Promise<void>;
  /** Does what needs no wait for other writers then; a file that has grown is rewritten in pieces before. */
  whenAlone<T>(work: () => T): Promise<T>;
  close(): Promise<void>;
}

export interface PrivateDbOptions {
  /** Its content is void after a power cut. */
  readonly noSync?: boolean;
  readonly encoding?: Encoding;
  /** The owner writes by `whenAlone`: no transaction rewrites the file at once. */
  readonly isInPieces?: boolean;
  /** Encrypts every value; keys stay plain, since values are found by them. */
  readonly sealed?: SealedValues | undefined;
}

/** A file is rewritten when it has grown this much since the last time: earlier when it closes and nothing waits. */
const GROWTH_MAX = 8;
const GROWTH_AT_CLOSE_MAX = 1.1;
const SMALL_BYTES = 256 * 1_024;
const SMALL_AT_CLOSE_BYTES = 16 * 1_024;
const SYNC_PAUSE_MS = 2_000;
/** Values that are copied between two looks at other work: two megabytes at most, and much less as a rule. */
const PIECE_PARTS = 256;
const GENERATION_MAX = 2 ** 47;

/**
 * Opens a file of tables that only its owner may read. Bytes are never changed: a transaction appends new data and a
 * state that refers to it, all with checksums. Damage throws `DamagedDb`. A file that is damaged on opening is started
 * anew: all of its content can be rebuilt.
 */
export function openPrivateDb<Value, K extends Key>(
  path: string,
  { noSync = false, encoding: ownEncoding = "json", isInPieces = false, sealed }: PrivateDbOptions,
  warn: (sentence: string) => void,
): PrivateDb<Value, K> {
  let file: OpenFile | undefined;
  let known: number | undefined;
  let isClosed = false;
  /** Of the running transaction or snapshot. */
  let held: { readonly tables: Map<string, { root: Tree; count: number }>; readonly isWriting: boolean } | undefined;
  let syncing: NodeJS.Timeout | undefined;
  let synced = 0;
  let rewriting: Promise<void> | undefined;

  const lock = createFileLock(path);
  const { alone } = lock;
  const letGo = (): void => {
    if (file !== undefined) closeSync(file.fd);
    file = undefined;
  };
  /** The file with its newest state, created if necessary. */
  const current = (): OpenFile => {
    if (isClosed) throw new RuntimeError("SESSION_STORE_ERROR", `${path} is closed`);
    if (file !== undefined) {
      const { size, nlink } = fstatSync(file.fd);
      if (nlink > 0 && size === file.length) return file;
      if (nlink > 0) {
        file.state = newestState(path, file, { size, from: file.length });
        file.length = size;
        return file;
      }
      letGo();
    }
    // A file that was deleted while in use is another when it exists again.
    const generation = known === undefined ? 0 : randomInt(1, GENERATION_MAX);
    file = openAt(path) ?? alone(() => openAt(path) ?? makeFile(path, { generation, noSync }));
    known = file.state.generation;
    synced = 0;
    return file;
  };
  const reading = <T>(work: (at: OpenFile, tables: ReadonlyMap<string, { root: Tree; count: number }>) => T): T =>
    withPathInErrors(path, () => {
      if (held !== undefined && file !== undefined) return work(file, held.tables);
      const at = current();
      return work(at, tablesOf(at.state));
    });
  const writing = <T>(work: (at: OpenFile, tables: Map<string, { root: Tree; count: number }>) => T): T =>
    held?.isWriting && file !== undefined ? work(file, held.tables) : transactionSync(() => writing(work));

  const transactionSync = <T>(work: () => T): T => {
    if (held?.isWriting) return work();
    return withPathInErrors(path, () =>
      alone(() => {
        const at = current();
        const tables = new Map(tablesOf(at.state));
        held = { tables, isWriting: true };
        try {
          const result = work();
          append(at, tables);
          return result;
        } finally {
          held = undefined;
        }
      }),
    );
  };
  const append = (at: OpenFile, tables: ReadonlyMap<string, { root: Tree; count: number }>): void => {
    const pieces: Buffer[] = [];
    let end = at.length;
    const put = (bytes: Buffer): Place => {
      const place = placeOf(end, bytes);
      pieces.push(bytes);
      end += bytes.length;
      return place;
    };
    const written = Object.fromEntries(
      [...tables].map(([name, { root, count }]) => [name, { root: writeTree(root, put, at), count }]),
    );
    if (pieces.length === 0 && JSON.stringify(written) === JSON.stringify(at.state.tables)) return;
    const state: State = { ...at.state, synced: Math.max(synced, at.state.synced), tables: written };
    pieces.push(encodeState(state, end, at.mark));
    try {
      writeWhole(at.fd, Buffer.concat(pieces), at.length);
    } catch (error) {
      at.known.clear();
      cutBack(at);
      throw error;
    }
    at.state = state;
    at.length = end + (pieces.at(-1)?.length ?? 0);
    if (!noSync) syncLater();
    if (!isInPieces && isGrown(at)) tryWriteAnew(at);
  };
  const isGrown = ({ length, state }: OpenFile): boolean => length > GROWTH_MAX * state.base + SMALL_BYTES;
  /** The write succeeded: rewriting without disk space is retried with the next change. */
  const tryWriteAnew = (at: OpenFile): void => {
    try {
      writeAnew(at);
    } catch (error) {
      passOverDisk(error);
    }
  };
  const passOverDisk = (error: unknown): void => {
    if (!(error instanceof Error) || !("syscall" in error)) throw error;
  };
  /** Copies the newest state to a new file, while no other process writes. */
  const writeAnew = (at: OpenFile): void => {
    take(makeFile(path, { generation: at.state.generation, noSync, from: at }));
  };
  const take = (made: OpenFile): void => {
    letGo();
    file = made;
    synced = noSync ? 0 : made.length;
  };
  /** No other process writes meanwhile; after a write of this one, which the copy lacks, the file is rewritten at once. */
  const writeAnewInPieces = async (): Promise<void> => {
    const release = await lock.take();
    try {
      const at = current();
      const { length } = at;
      const steps = makingFile(path, { generation: at.state.generation, noSync, from: at });
      let step = steps.next();
      for (let parts = 1; step.done !== true; parts += 1) {
        if (parts % PIECE_PARTS === 0) await setImmediate();
        if (step.value !== undefined && !noSync) await promisify(fdatasync)(step.value);
        const isCurrent = file === at && at.length === length;
        step = isCurrent ? steps.next() : steps.return(at);
      }
      if (step.value === at) writeAnew(current());
      else take(step.value);
    } finally {
      release();
    }
  };
  const compactInPieces = (): Promise<void> => {
    rewriting ??= writeAnewInPieces().finally(() => {
      rewriting = undefined;
    });
    return rewriting;
  };
  const whenAlone = async <T>(work: () => T): Promise<T> => {
    await rewriting?.catch(() => {});
    if (isGrown(current())) await compactInPieces().catch(passOverDisk);
    const release = await lock.take();
    try {
      return work();
    } finally {
      release();
    }
  };
  /** In the background: a power cut loses at most the last moments, and a state records how far it is safe. */
  const syncLater = (): void => {
    syncing ??= setTimeout(() => {
      syncing = undefined;
      const at = file;
      if (at === undefined) return;
      const { length } = at;
      syncFile(path).then(
        () => {
          if (file === at) synced = length;
        },
        // The disk fails; the next write reports it.
        () => {},
      );
    }, SYNC_PAUSE_MS).unref();
  };
  const openDB = <V, Keys extends Key>(name: string, encoding: Encoding): Table<V, Keys> =>
    openTable<V, Keys>(name, codecOf<V>(name, encoding, { path, sealed }), { reading, writing });
  const renew = (): void =>
    withPathInErrors(path, () =>
      alone(() => {
        const damaged = file && fstatSync(file.fd).ino;
        letGo();
        file = othersFile(path, damaged) ?? makeFile(path, { generation: randomInt(1, GENERATION_MAX), noSync });
      }),
    );
  try {
    withPathInErrors(path, current);
  } catch (error) {
    if (!(error instanceof DamagedDb)) throw error;
    warn(`${error.message}; it is made anew from the logs`);
    renew();
  }
  return {
    ...openDB<Value, K>("root", ownEncoding),
    openDB,
    transactionSync,
    snapshot: (work) => {
      if (held !== undefined) return work();
      return reading((at) => {
        held = { tables: new Map(tablesOf(at.state)), isWriting: false };
        try {
          return work();
        } finally {
          held = undefined;
        }
      });
    },
    generation: () => withPathInErrors(path, () => current().state.generation),
    stamp: () => withPathInErrors(path, () => current().state),
    renew,
    compact: () => withPathInErrors(path, () => alone(() => writeAnew(current()))),
    compactInPieces,
    whenAlone,
    close: async () => {
      if (isClosed) return;
      await rewriting?.catch(() => {});
      clearTimeout(syncing);
      try {
        const at = withPathInErrors(path, current);
        const isLarge = at.length > GROWTH_AT_CLOSE_MAX * at.state.base + SMALL_AT_CLOSE_BYTES;
        if (isLarge) await compactInPieces().catch(passOverDisk);
        else if (!noSync) withPathInErrors(path, () => fdatasyncSync(at.fd));
      } catch (error) {
        // Data that was not synced can be rebuilt from the logs.
        if (!(error instanceof DamagedDb) && !(error instanceof RuntimeError)) throw error;
      } finally {
        letGo();
        lock.close();
        isClosed = true;
      }
    },
  };
}

/** How a table gets at the file: the newest state or that of a transaction, and one that may be changed. */
interface Access {
  reading<T>(work: (at: OpenFile, tables: ReadonlyMap<string, { root: Tree; count: number }>) => T): T;
  writing<T>(work: (at: OpenFile, tables: Map<string, { root: Tree; count: number }>) => T): T;
}

function openTable<V, Keys extends Key>(
  name: string,
  { decode, encode }: ReturnType<typeof codecOf<V>>,
  { reading, writing }: Access,
): Table<V, Keys> {
  const visit: Table<V, Keys>["visit"] = (range, see) =>
    reading((at, tables) => {
      // A table has one kind of keys.
      for (const { key, value } of rangeOf(tables.get(name)?.root, rangeBytes(range), at))
        if (see(keyOf(key) as Keys, decode(value, key)) === "enough") return;
    });
  return {
    get: (key) =>
      reading((at, tables) => {
        const named = keyBytes(key);
        const bytes = getFrom(tables.get(name)?.root, named, at);
        return bytes && decode(bytes, named);
      }),
    doesExist: (key) => reading((at, tables) => hasIn(tables.get(name)?.root, keyBytes(key), at)),
    getRange: (range = {}) => {
      const found: { key: Keys; value: V }[] = [];
      visit(range, (key, value) => void found.push({ key, value }));
      return found;
    },
    visit,
    getCount: () => reading((_, tables) => tables.get(name)?.count ?? 0),
    put: (key, value) =>
      writing((at, tables) => {
        const table = tables.get(name) ?? { root: undefined, count: 0 };
        const bytes = keyBytes(key);
        const count = table.count + (hasIn(table.root, bytes, at) ? 0 : 1);
        tables.set(name, { root: putInto(table.root, bytes, encode(value, bytes), at), count });
      }),
    remove: (key) =>
      writing((at, tables) => {
        const table = tables.get(name);
        const bytes = keyBytes(key);
        if (table === undefined || !hasIn(table.root, bytes, at)) return;
        tables.set(name, { root: removeFrom(table.root, bytes, at), count: table.count - 1 });
      }),
    clear: () => writing((_, tables) => void tables.set(name, { root: undefined, count: 0 })),
  };
}

const knownTables = new WeakMap<State, ReadonlyMap<string, { root: Tree; count: number }>>();

/** Cached per state: most reads are of the same one. */
function tablesOf(state: State): ReadonlyMap<string, { root: Tree; count: number }> {
  const known = knownTables.get(state);
  if (known !== undefined) return known;
  const tables = new Map(Object.entries(state.tables).map(([name, { root, count }]) => [name, { root, count }]));
  knownTables.set(state, tables);
  return tables;
}

const TEXT = 1;
const NUMBER = 2;
const BYTES = 3;
const PAIR = 4;
const NUMBER_BYTES = 6;

/** In the order of the table's keys, which are of one kind. */
function keyBytes(key: Key): Buffer {
  if (typeof key === "string") return Buffer.concat([Buffer.of(TEXT), Buffer.from(key)]);
  if (key instanceof Uint8Array) return Buffer.concat([Buffer.of(BYTES), key]);
  const numbers = typeof key === "number" ? [key] : key;
  const bytes = Buffer.alloc(1 + NUMBER_BYTES * numbers.length, numbers.length === 1 ? NUMBER : PAIR);
  for (const [index, number] of numbers.entries()) bytes.writeUIntBE(number, 1 + index * NUMBER_BYTES, NUMBER_BYTES);
  return bytes;
}

function rangeBytes({ start, end }: { readonly start?: Key; readonly end?: Key }): Range {
  return {
    start: start === undefined ? undefined : keyBytes(start),
    end: end === undefined ? undefined : keyBytes(end),
  };
}

function keyOf(bytes: Buffer): Key {
  const rest = bytes.subarray(1);
  if (bytes[0] === TEXT) return rest.toString();
  if (bytes[0] === BYTES) return rest;
  const first = rest.readUIntBE(0, NUMBER_BYTES);
  return bytes[0] === NUMBER ? first : [first, rest.readUIntBE(NUMBER_BYTES, NUMBER_BYTES)];
}

type Encoding = "json" | "binary";

/** By what the values of tables are sealed, and whose they are. */
interface SealedValues {
  readonly by: Seal;
  readonly owner: string;
}

function codecOf<V>(
  table: string,
  encoding: Encoding,
  { path, sealed }: { readonly path: string; readonly sealed: SealedValues | undefined },
) {
  return {
    decode: (value: Buffer, key: Buffer): V => {
      const bytes = sealed === undefined ? value : opened(path, sealed, { value, place: placeIn(table, key) });
      if (sealed === undefined && encoding === "json" && isSealed(bytes)) throw keysAreGone(path);
      // What is read is what was put: every checksum on the way to it was right.
      return (encoding === "json" ? JSON.parse(bytes.toString()) : bytes) as V;
    },
    encode: (value: V, key: Buffer): Buffer => {
      const bytes = encodeValue(value);
      return sealed === undefined ? bytes : Buffer.from(sealed.by.seal(sealed.owner, bytes, placeIn(table, key)));
    },
  };
}

function keysAreGone(path: string): RuntimeError {
  const message = `${path} is sealed, and the keys of its realm are not there; restore the file keys from a backup`;
  return new RuntimeError("SESSION_STORE_ERROR", message);
}

/** A value opens only where it was put: none can be moved in place of another. */
function placeIn(table: string, key: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${table} `), key]);
}

/** What does not open was not put by this realm, or was put before it was sealed. */
function opened(
  path: string,
  { by, owner }: SealedValues,
  { value, place }: { readonly value: Buffer; readonly place: Buffer },
): Buffer {
  try {
    const plain = by.open(owner, value, place);
    return Buffer.from(plain.buffer, plain.byteOffset, plain.length);
  } catch (error) {
    if (isUnreadable(error)) throw new DamagedDb(path, "a value in it does not open with this realm's key");
    throw error;
  }
}

function encodeValue(value: unknown): Buffer {
  return Buffer.from(value instanceof Uint8Array ? value : JSON.stringify(value));
}
