import { createHash } from "node:crypto";
import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  truncateSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import type { BackedFile, BackupAt, BackupManifest } from "@rkat/core/contract/portable";
import { isPackedHead, recordBytes } from "../log/packed-segment.ts";
import { HEADER_BYTES, recordHead, scanFaults, scanSegment } from "../log/record.ts";
import { readBytes, type SegmentBytes } from "../log/segment-bytes.ts";
import { nodeSegmentIo, storedBytes, syncFolder } from "../log/segments.ts";
import { createFileWriter, entriesIn, explained, isAbsent, lockAt, replaceFile } from "../log/whole-file.ts";
import { FILES, formatManifest, isTruth, LOG_FOLDERS, MANIFEST, SEGMENT, storedPath } from "./backup-manifest.ts";
import { chunksOf, filesBelow, hashOf, LOCK, manifestOf, readManifest } from "./backup-reader.ts";
import { noteBegun, noteFinished, readNotes, storeId } from "./known-backups.ts";
import { createTarWriter } from "./tar.ts";

export interface BackupOptions {
  readonly now: () => number;
  readonly signal: AbortSignal;
  progress(done: number, total: number): void;
}

export interface BackupReport extends BackupAt {
  /** Whether the realm was copied completely and is undamaged. */
  readonly ok: boolean;
  readonly files: number;
  readonly bytes: number;
  /** The data added since the previous back-up. */
  readonly copied: { readonly files: number; readonly bytes: number };
  /** Removed copies of data that the realm no longer has. */
  readonly dropped: number;
  /** Data that was left out or is damaged in the realm, one sentence each. */
  readonly problems: readonly string[];
}

/** Erasing takes a moment: after this many rounds of replaced files the back-up gives up. */
const ROUNDS_MAX = 5;

/**
 * Backs up a state folder to a folder or a tar while processes write to it. It contains everything acknowledged before
 * it began, and no later entry without its predecessors. The previous back-up stays valid until this one is whole.
 */
export async function backUpFolder(folder: string, place: string, options: BackupOptions): Promise<BackupReport> {
  try {
    const store = storeId(folder);
    for (let round = 1; ; round += 1) {
      try {
        return await backUpOnce({ folder, place, store, ...options });
      } catch (error) {
        if (!(error instanceof Replaced)) throw error;
        if (round < ROUNDS_MAX) continue;
        const message = `${join(folder, error.message)} is replaced again and again; back up when that is over`;
        throw new RuntimeError("SESSION_STORE_ERROR", message, { cause: error });
      }
    }
  } catch (error) {
    throw explained(error, place, "what was there before still counts, so fix that and run it again");
  }
}

interface Work extends BackupOptions {
  readonly folder: string;
  readonly place: string;
  readonly store: string;
}

/** Throws Replaced if a file was replaced while it was read. */
async function backUpOnce(work: Work): Promise<BackupReport> {
  const { folder, place, store, signal, now } = work;
  const target = isTar(place) ? openTarTarget(place) : openFolderTarget(place);
  const logs = openLogs(folder);
  try {
    if (target.before !== undefined && target.before.store !== store)
      throw invalid(`${place} holds a back-up of another realm; name another place`);
    const at_ms = now();
    noteBegun(folder, place, at_ms);
    // Logs before blobs: a blob is stored before the entry that names it.
    const cuts = cutLogs(logs.look);
    const { paths, leftOut } = listTruth(folder);
    const taking = createTaking(target, work);
    const sizes = paths.map((path) => lstatSync(join(folder, path), { throwIfNoEntry: false })?.size ?? 0);
    const total = [...cuts.map(({ limit }) => limit), ...sizes].reduce((sum, size) => sum + size, 0);
    const files: BackedFile[] = [];
    let done = 0;
    const add = async (file: BackedFile | undefined, size: number): Promise<void> => {
      if (file !== undefined) files.push(file);
      done += size;
      work.progress(done, total);
      await setImmediate();
      signal.throwIfAborted();
    };
    for (const cut of cuts) await add(await taking.take(cut), cut.limit);
    for (const [at, path] of paths.entries()) await add(await taking.takeAt(path), sizes[at] ?? 0);
    if (!logs.areStill()) throw new Replaced("log");
    const problems = [...leftOut, ...taking.problems()];
    const known = readNotes(folder).map((note) => ({ place: note.place, at_ms: note.at_ms }));
    const dropped = await target.finish({ store, serial: taking.serial, at_ms, known, files });
    noteFinished(folder, { place, at_ms });
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    const counts = { files: files.length, bytes, copied: taking.copied, dropped };
    return { place, at_ms, ok: problems.length === 0, ...counts, problems };
  } finally {
    logs.close();
    await target.close();
  }
}

/** Copies files one by one; bytes that the target has are not written again. */
function createTaking(target: BackupTarget, { folder, now }: Pick<Work, "folder" | "now">) {
  const before = new Map(target.before?.files.map((file) => [file.path, file]));
  const serial = (target.before?.serial ?? 0) + 1;
  const copied = { files: 0, bytes: 0 };
  const damaged: string[] = [];
  const torn: { readonly path: string; readonly size: number; readonly sentence: string }[] = [];

  const copy = async (
    fd: number,
    file: Omit<BackedFile, "sha256">,
    { from, hashed } = { from: 0, hashed: createHash("sha256") },
  ): Promise<BackedFile> => {
    let read = from;
    const counting = function* () {
      for (const chunk of chunksOf(fd, { from, to: file.bytes }, hashed)) {
        read += chunk.length;
        yield chunk;
      }
    };
    await target.write({ ...file, from }, counting());
    if (read !== file.bytes) throw new Replaced(file.path);
    copied.files += 1;
    copied.bytes += file.bytes - from;
    return { ...file, sha256: hashed.digest("hex") };
  };

  /** An incomplete record may just be written; one that stays incomplete is damage. */
  const problems = (): readonly string[] => [
    ...damaged,
    ...torn.flatMap(({ path, size, sentence }) =>
      lstatSync(join(folder, path), { throwIfNoEntry: false })?.size === size ? sentence : [],
    ),
  ];

  /** Copies an open file up to the limit; the target's prefix is kept if its hash matches. */
  const take = async ({ path, fd, limit }: LogCut): Promise<BackedFile> => {
    const stat = fstatSync(fd, { bigint: true });
    const stamp = stampOf(stat, now());
    const had = heldOf(path);
    if (had !== undefined && stamp !== "" && had.stamp === stamp) return had;
    const start = had !== undefined && had.bytes <= limit ? hashOf(fd, { from: 0, to: had.bytes }) : undefined;
    const grown = start?.copy().digest("hex") === had?.sha256 ? had : undefined;
    const from = grown?.bytes ?? 0;
    const bytes = SEGMENT.test(path) ? endOfRecords({ path, fd, limit }, from) : limit;
    const fault = problems().find((sentence) => sentence.startsWith(`${path}: `));
    if (had !== undefined && grown === undefined && fault !== undefined) throw worse(path, fault);
    const file = { path, serial, bytes, stamp: bytes === Number(stat.size) ? stamp : "" };
    if (grown === undefined || start === undefined) return await copy(fd, file);
    if (bytes === from) return { ...grown, stamp: file.stamp };
    return await copy(fd, { ...file, serial: grown.serial }, { from, hashed: start });
  };

  /** The end of the last whole record; other bytes before it are damage. */
  const endOfRecords = ({ path, fd, limit }: LogCut, from: number): number => {
    const bytes = recordBytes(fileBytes(fd, limit));
    const isPacked = bytes.packedAt !== undefined;
    const scan = scanSegment(bytes, isPacked ? 0 : from, () => {});
    damaged.push(...scanFaults(path, { ...scan, torn: undefined }));
    for (const sentence of scanFaults(path, { ...scan, holes: [] }))
      torn.push({ path, size: limit, sentence: `${sentence}, and were left out` });
    // A packed one has an end of its own, and is not appended to.
    return isPacked ? limit : scan.end;
  };

  const takeAt = async (path: string): Promise<BackedFile | undefined> => {
    for (let attempt = 1; ; attempt += 1) {
      let fd: number | undefined;
      try {
        const source = openSource(folder, path);
        fd = source.fd;
        return await take({ path, fd, limit: Number(source.stat.size) });
      } catch (error) {
        if (!(error instanceof Replaced)) throw error;
        if (lstatSync(join(folder, path), { throwIfNoEntry: false }) === undefined) return undefined;
        if (attempt === ATTEMPTS_MAX) throw error;
      } finally {
        if (fd !== undefined) closeSync(fd);
      }
    }
  };

  const heldOf = (path: string): BackedFile | undefined => {
    const had = before.get(path);
    return had !== undefined && target.holds(had) ? had : undefined;
  };

  return { serial, take, takeAt, copied, problems };
}

const ATTEMPTS_MAX = 3;

/** A damaged log must not replace its only undamaged copy. */
function worse(path: string, sentence: string): RuntimeError {
  const message = `${sentence}; the back-up has a copy of ${path} that is sound, and was left as it is: back up to another place`;
  return new RuntimeError("SESSION_STORE_ERROR", message);
}

/** The part of a log to copy: every record before the limit whose predecessors are copied, too. */
interface LogCut {
  readonly path: string;
  readonly fd: number;
  readonly limit: number;
}

/** A file was replaced while it was read, as erasing does; the folder is then read again. */
class Replaced extends Error {}

/**
 * Where to cut the logs of a folder in use, so that no record is copied without its predecessor, which may be in
 * another process's segment. The ends are read three times: a record within the second reading was written before the
 * third began, and so were its predecessors; those the second missed are found in the third.
 */
export function cutLogs(look: () => Ends): readonly LogCut[] {
  const [first, second, third] = [look(), look(), look()];
  const growing = [...third].filter(([path, { size }]) => size !== first.get(path)?.size);
  const written = growing.flatMap(([path, { size, fd }]) =>
    recordsIn(path, { fd, from: first.get(path)?.size ?? 0, to: size }),
  );
  const ends = new Map([...third].map(([path, { size }]) => [path, size]));
  // A reading may end within a record; bytes after the last whole one are not copied.
  for (const [path, { size }] of growing) ends.set(path, Math.min(size, first.get(path)?.size ?? 0));
  for (const { path, end } of written)
    if (end <= (second.get(path)?.size ?? 0)) ends.set(path, Math.max(end, ends.get(path) ?? 0));
  const isTaken = ({ path, end }: Written): boolean => end <= (ends.get(path) ?? 0);
  for (let isOpen = true; isOpen; ) {
    isOpen = false;
    const last = new Map<string, number>();
    for (const record of written.filter(isTaken))
      last.set(record.session, Math.max(record.seq, last.get(record.session) ?? 0));
    for (const record of written) {
      if (isTaken(record) || record.seq >= (last.get(record.session) ?? 0)) continue;
      ends.set(record.path, record.end);
      isOpen = true;
    }
  }
  return [...third].map(([path, { fd }]) => ({ path, fd, limit: ends.get(path) ?? 0 }));
}

/** The length of each log by path. */
type Ends = ReadonlyMap<string, { readonly fd: number; readonly size: number }>;

/** The logs of a folder, each kept open from its first reading, so that its inode is not reused. */
interface OpenLogs {
  look(): Ends;
  /** Whether the files that were opened still have their names, or were packed: their records are the same. */
  areStill(): boolean;
  close(): void;
}

function openLogs(folder: string): OpenLogs {
  const opened = new Map<string, { readonly fd: number; readonly ino: bigint }>();
  const paths = (): readonly string[] =>
    LOG_FOLDERS.flatMap((logs) =>
      entriesIn(join(folder, logs))
        .filter((entry) => entry.isFile())
        .map(({ name }) => `${logs}/${name}`)
        .filter((path) => SEGMENT.test(path)),
    );
  return {
    look: () => {
      for (const path of paths()) {
        if (opened.has(path)) continue;
        const { fd, stat } = openSource(folder, path);
        opened.set(path, { fd, ino: stat.ino });
      }
      return new Map([...opened].map(([path, { fd }]) => [path, { fd, size: fstatSync(fd).size }]));
    },
    areStill: () =>
      [...opened].every(([path, { ino }]) => {
        const isSame = lstatSync(join(folder, path), { bigint: true, throwIfNoEntry: false })?.ino === ino;
        return isSame || isPackedFile(folder, path);
      }),
    close: () => {
      for (const { fd } of opened.values()) closeSync(fd);
      opened.clear();
    },
  };
}

function isPackedFile(folder: string, path: string): boolean {
  const { fd } = openSource(folder, path);
  try {
    return isPackedHead(readBytes(storedBytes(nodeSegmentIo, fd), 0, HEADER_BYTES));
  } finally {
    closeSync(fd);
  }
}

interface Written {
  readonly path: string;
  readonly session: string;
  readonly seq: number;
  readonly end: number;
}

/** A file as far as it is copied. */
function fileBytes(fd: number, size: number): SegmentBytes {
  return { ...storedBytes(nodeSegmentIo, fd), size: () => size };
}

/** The records that end in a stretch of a log. */
function recordsIn(
  path: string,
  { fd, from, to }: { readonly fd: number; readonly from: number; readonly to: number },
): readonly Written[] {
  const written: Written[] = [];
  scanSegment(recordBytes(fileBytes(fd, to)), 0, (buffer, at, { offset, bytes }) => {
    const { sessionId, seq } = recordHead(buffer, at);
    const end = offset + bytes;
    if (end > from) written.push({ path, session: `${dirname(path)} ${sessionId}`, seq, end });
  });
  return written;
}

/** Opens a file of the state folder, never through a link; throws Replaced if it is gone. */
function openSource(folder: string, path: string): { readonly fd: number; readonly stat: BigIntStats } {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  try {
    const fd = openSync(join(folder, path), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const stat = fstatSync(fd, { bigint: true });
    if (stat.isFile()) return { fd, stat };
    closeSync(fd);
  } catch (error) {
    if (!isAbsent(error)) throw error;
  }
  throw new Replaced(path);
}

/** A younger file may change again without a new modification time. */
const SETTLED_MS = 3_000;

/** A stamp that changes with the content of a file; empty while it is too young. */
function stampOf({ ino, size, mtimeNs, ctimeNs, ctimeMs }: BigIntStats, nowMs: number): string {
  return nowMs - Number(ctimeMs) > SETTLED_MS ? `${ino} ${size} ${mtimeNs} ${ctimeNs}` : "";
}

/** The original data besides the logs, and one sentence for each file that cannot be copied. */
function listTruth(folder: string): { readonly paths: readonly string[]; readonly leftOut: readonly string[] } {
  const paths: string[] = [];
  const leftOut: string[] = [];
  const visit = (below: string): void => {
    for (const entry of entriesIn(join(folder, below))) {
      const path = below === "" ? entry.name : `${below}/${entry.name}`;
      if (!isTruth(path) || (SEGMENT.test(path) && entry.isFile())) continue;
      if (entry.name.includes("\ufffd")) leftOut.push(`${path} has a name that is no UTF-8; rename it`);
      else if (entry.isDirectory()) visit(path);
      else if (entry.isFile()) paths.push(path);
      else
        leftOut.push(
          entry.isSymbolicLink()
            ? `${path} is a link, which a back-up does not follow; put what it names in its place`
            : `${path} is neither a file nor a folder; remove it`,
        );
    }
  };
  visit("");
  return { paths, leftOut };
}

/** The target of a back-up. The previous back-up stays valid until `finish`. */
interface BackupTarget {
  readonly before: BackupManifest | undefined;
  /** Whether a copy exists with at least the length in the manifest. */
  holds(file: BackedFile): boolean;
  /** Writes a copy, or the bytes after its first `from`. */
  write(copy: Copy, chunks: Iterable<Buffer>): Promise<void>;
  /** Publishes the manifest and removes files it does not name; resolves with their number. */
  finish(manifest: BackupManifest): Promise<number>;
  close(): Promise<void>;
}

interface Copy extends Pick<BackedFile, "path" | "serial" | "bytes"> {
  readonly from: number;
}

/** Whether a back-up of this name is one file rather than a folder. */
function isTar(place: string): boolean {
  return /\.tar$/i.test(place);
}

/** Opens a target folder for this process alone; throws INVALID_PARAMS if it holds other files. */
export function openFolderTarget(place: string): BackupTarget {
  mkdirSync(place, { recursive: true, mode: 0o700 });
  const other = readdirSync(place).find((name) => ![LOCK, FILES, MANIFEST, `${MANIFEST}.new`].includes(name));
  if (other !== undefined) {
    throw invalid(`${place} holds other things (${other}); name a folder that is new, empty or a back-up`);
  }
  const lock = lockAt(
    join(place, LOCK),
    `another back-up to ${place} is being made; wait for it, or name another folder`,
  );
  try {
    const there = new Map(filesBelow(join(place, FILES)).map(({ path, bytes }) => [`${FILES}/${path}`, bytes]));
    const files = createFileWriter(place);
    return {
      before: readManifest(place),
      holds: (file) => (there.get(storedPath(file)) ?? -1) >= file.bytes,
      write: (copy, chunks) => files.write(storedPath(copy), chunks, copy.from),
      finish: async (manifest) => {
        await files.done();
        replaceFile(join(place, MANIFEST), formatManifest(manifest));
        return sweep(place, manifest);
      },
      close: () => files.settled().finally(() => closeSync(lock)),
    };
  } catch (error) {
    closeSync(lock);
    throw error;
  }
}

/** Removes copies that the manifest does not name: they hold erased or replaced data. */
function sweep(place: string, { files }: BackupManifest): number {
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

/** Opens a target file. It is written completely each time and renamed when whole. */
function openTarTarget(place: string): BackupTarget {
  const made = `${place}.new`;
  mkdirSync(dirname(place), { recursive: true, mode: 0o700 });
  const before = lstatSync(place, { throwIfNoEntry: false }) === undefined ? undefined : beforeAt(place);
  const fd = lockAt(made, `another back-up to ${place} is being made; wait for it, or name another file`);
  ftruncateSync(fd, 0);
  const tar = createTarWriter(fd);
  let isFinished = false;
  return {
    before,
    holds: () => false,
    write: (copy, chunks) => tar.add({ name: storedPath(copy), chunks, bytes: copy.bytes }),
    finish: async (manifest) => {
      await tar.add({ name: MANIFEST, chunks: [formatManifest(manifest)] });
      await tar.finish();
      await nodeSegmentIo.sync(fd);
      renameSync(made, place);
      syncFolder(dirname(place));
      isFinished = true;
      return 0;
    },
    close: async () => {
      // While the lock is held: an unfinished file is useless.
      if (!isFinished) rmSync(made, { force: true });
      closeSync(fd);
    },
  };
}

/** The manifest of the file to replace: only a back-up may be replaced. */
function beforeAt(place: string): BackupManifest {
  try {
    return manifestOf(place);
  } catch (cause) {
    throw invalid(`${place} is there and is no back-up that can be read; delete it, or name another file`, cause);
  }
}
