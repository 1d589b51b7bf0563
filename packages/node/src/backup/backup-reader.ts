import { createHash, type Hash, hash } from "node:crypto";
import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, readSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { AgentEntryBody } from "@rkat/core/contract/agent";
import { invalid, messageOf, RuntimeError } from "@rkat/core/contract/error";
import type { BackedFile, BackupManifest } from "@rkat/core/contract/portable";
import type { ScheduleEntryBody } from "@rkat/core/contract/wire/schedule";
import type { FoldRow, LogRow } from "@rkat/core/ports/store";
import { isSealed } from "@rkat/core/stores/sealing";
import { recordBytes } from "../log/packed-segment.ts";
import { HEADER_BYTES, recordHead, scanFaults, scanSegment } from "../log/record.ts";
import type { SegmentBytes } from "../log/segment-bytes.ts";
import type { Segments } from "../log/segments.ts";
import { surveyLogs } from "../log/tail.ts";
import { entriesIn, explained, isAbsent, lockAt } from "../log/whole-file.ts";
import { FILES, MANIFEST, parseManifest, SEGMENT, storedPath } from "./backup-manifest.ts";
import { readTar } from "./tar.ts";

/** Bytes of a file of a back-up. */
interface Stretch {
  readonly fd: number;
  readonly offset: number;
  readonly bytes: number;
  close(): void;
}

/** A back-up to read from: a folder or a tar. */
export interface BackupReader {
  readonly manifest: BackupManifest;
  /** Copies that the manifest does not name, left by an interrupted back-up. */
  readonly leftovers: readonly string[];
  open(file: BackedFile): Stretch | undefined;
  close(): void;
}

export const LOCK = "backup.lock";
const { O_RDONLY, O_NOFOLLOW } = constants;

/** Opens a back-up; throws INVALID_PARAMS if there is none, SESSION_STORE_ERROR if it is unreadable. */
export function openBackup(place: string): BackupReader {
  try {
    const stat = lstatSync(place, { throwIfNoEntry: false });
    if (stat?.isDirectory() === true) return openFolder(place);
    if (stat?.isFile() === true) return openTar(place);
    const what = stat === undefined ? "is not there" : "is neither a folder nor a file";
    throw invalid(`${place} ${what}; name a folder or tar that rkat backup has made`);
  } catch (error) {
    throw explained(error, place, "check that it can be read, or use another back-up");
  }
}

/** Reads the manifest without a lock, also while a back-up is made. Throws like `openBackup`. */
export function manifestOf(place: string): BackupManifest {
  if (lstatSync(place, { throwIfNoEntry: false })?.isDirectory() === true) return readManifest(place) ?? refuse(place);
  const backup = openBackup(place);
  backup.close();
  return backup.manifest;
}

function openFolder(place: string): BackupReader {
  const lock = lockIfAny(place);
  const close = (): void => {
    if (lock !== undefined) closeSync(lock);
  };
  try {
    const manifest = readManifest(place) ?? refuse(place);
    const there = new Set(filesBelow(join(place, FILES)).map(({ path }) => `${FILES}/${path}`));
    const named = new Set(manifest.files.map(storedPath));
    return {
      manifest,
      leftovers: [...there].filter((path) => !named.has(path)),
      open: (file) => {
        if (!there.has(storedPath(file))) return undefined;
        const fd = openSync(join(place, storedPath(file)), O_RDONLY | O_NOFOLLOW);
        return { fd, offset: 0, bytes: fstatSync(fd).size, close: () => closeSync(fd) };
      },
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

function refuse(place: string): never {
  throw invalid(`${place} is no finished back-up: it has no ${MANIFEST}; name one that rkat backup has made`);
}

/** Undefined if no lock can be taken, so that no process can write either: a read-only medium or an unpacked tar. */
function lockIfAny(place: string): number | undefined {
  if (lstatSync(join(place, LOCK), { throwIfNoEntry: false }) === undefined) return undefined;
  try {
    return lockAt(join(place, LOCK), `a back-up to ${place} is being made; wait for it`);
  } catch (error) {
    if (error instanceof Error && "code" in error && /^(?:EROFS|EACCES|EPERM)$/.test(String(error.code)))
      return undefined;
    throw error;
  }
}

/** The files below a folder with their sizes; throws SESSION_STORE_ERROR for a link, which could lead anywhere. */
export function filesBelow(folder: string): readonly { readonly path: string; readonly bytes: number }[] {
  const stat = lstatSync(folder, { throwIfNoEntry: false });
  if (stat === undefined) return [];
  const refuseLink = (path: string, what: string): RuntimeError =>
    new RuntimeError("SESSION_STORE_ERROR", `${path} is no ${what}: no back-up has links; remove it`);
  if (!stat.isDirectory()) throw refuseLink(folder, "folder");
  const visit = (below: string): { path: string; bytes: number }[] =>
    entriesIn(join(folder, below)).flatMap((entry) => {
      const path = join(below, entry.name);
      if (entry.isDirectory()) return visit(path);
      if (entry.isFile()) return { path, bytes: lstatSync(join(folder, path)).size };
      throw refuseLink(join(folder, path), "file");
    });
  return visit("");
}

/** The largest manifest; a larger one must not exhaust memory. */
const MANIFEST_BYTES_MAX = 256 * 1_024 * 1_024;

export function readManifest(place: string): BackupManifest | undefined {
  try {
    const fd = openSync(join(place, MANIFEST), O_RDONLY | O_NOFOLLOW);
    try {
      if (fstatSync(fd).size <= MANIFEST_BYTES_MAX) return parseManifest(readFileSync(fd, "utf8"), place);
      const message = `the manifest of ${place} is too large to be one; use another back-up`;
      throw new RuntimeError("SESSION_STORE_ERROR", message);
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

function openTar(place: string): BackupReader {
  const fd = openSync(place, O_RDONLY | O_NOFOLLOW);
  try {
    const read = (from: number, bytes: number): Buffer => {
      const chunks: Buffer[] = [];
      for (const chunk of chunksOf(fd, { from, to: from + bytes })) chunks.push(Buffer.from(chunk));
      return Buffer.concat(chunks);
    };
    const entries = new Map(readTar({ size: fstatSync(fd).size, read }, place).map((entry) => [entry.path, entry]));
    const found = entries.get(MANIFEST);
    if (found === undefined || found.bytes > MANIFEST_BYTES_MAX) refuse(place);
    return {
      manifest: parseManifest(read(found.offset, found.bytes).toString(), place),
      leftovers: [],
      open: (file) => {
        const entry = entries.get(storedPath(file));
        return entry === undefined ? undefined : { fd, offset: entry.offset, bytes: entry.bytes, close: () => {} };
      },
      close: () => closeSync(fd),
    };
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

const CHUNK_BYTES = 1_024 * 1_024;

/** The bytes of part of a file, hashed while read. The next chunk overwrites the last. Ends early with the file. */
export function* chunksOf(
  fd: number,
  { from, to }: { readonly from: number; readonly to: number },
  hashed?: Hash,
): Generator<Buffer> {
  const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, Math.max(1, to - from)));
  for (let at = from; at < to; ) {
    const read = readSync(fd, buffer, 0, Math.min(buffer.length, to - at), at);
    if (read === 0) return;
    const chunk = buffer.subarray(0, read);
    hashed?.update(chunk);
    yield chunk;
    at += read;
  }
}

export function hashOf(fd: number, stretch: { readonly from: number; readonly to: number }): Hash {
  const hashed = createHash("sha256");
  for (const _chunk of chunksOf(fd, stretch, hashed));
  return hashed;
}

export interface BackupVerification {
  readonly at_ms: number;
  readonly files: number;
  readonly bytes: number;
  readonly records: number;
  readonly sessions: number;
  readonly agents: number;
  readonly blobs: number;
  /** Files left by an interrupted back-up; the next one removes them. */
  readonly leftovers: number;
  readonly problems: readonly string[];
}

interface VerifyOptions<R extends LogRow, S extends LogRow> {
  readonly folds: {
    readonly session: FoldRow;
    readonly agent: FoldRow<AgentEntryBody, R>;
    readonly schedule: FoldRow<ScheduleEntryBody, S>;
  };
  readonly signal: AbortSignal;
  progress(done: number): void;
}

/** Reads a whole back-up and checks it against the manifest, including logs and blobs; changes nothing. */
export async function verifyBackup<R extends LogRow, S extends LogRow>(
  place: string,
  options: VerifyOptions<R, S>,
): Promise<BackupVerification> {
  const reader = openBackup(place);
  try {
    return await verify(reader, options);
  } finally {
    reader.close();
  }
}

async function verify<R extends LogRow, S extends LogRow>(
  reader: BackupReader,
  { folds, signal, progress }: VerifyOptions<R, S>,
): Promise<BackupVerification> {
  const { manifest } = reader;
  const problems: string[] = [];
  let bytes = 0;
  for (const file of manifest.files) {
    signal.throwIfAborted();
    const problem = problemOf(reader, file);
    if (problem !== undefined) problems.push(problem);
    bytes += file.bytes;
    progress(bytes);
    await setImmediate();
  }
  const [sessions, agents] = [surveyOf(reader, "log", folds.session), surveyOf(reader, "agents/log", folds.agent)];
  const schedules = surveyOf(reader, "schedules/log", folds.schedule);
  return {
    at_ms: manifest.at_ms,
    files: manifest.files.length,
    bytes,
    records: sessions.records + agents.records + schedules.records,
    sessions: sessions.rows,
    agents: agents.rows,
    blobs: manifest.files.filter(({ path }) => BLOB.test(path)).length,
    leftovers: reader.leftovers.length,
    problems: [...problems, ...sessions.problems, ...agents.problems, ...schedules.problems],
  };
}

const BLOB = /^(?:agents\/)?blobs\/[0-9a-f]{2}\/([0-9a-f]{64})$/;
const LINE_END = 10;

function problemOf(reader: BackupReader, file: BackedFile): string | undefined {
  const damaged = (why: string): string => `${storedPath(file)} ${why}; delete it and back up again`;
  const copy = reader.open(file);
  if (copy === undefined) return `${storedPath(file)} is missing; back up again`;
  try {
    if (copy.bytes < file.bytes) return damaged(`has ${copy.bytes} of ${file.bytes} bytes`);
    const named = BLOB.exec(file.path)?.[1];
    const hashed = createHash("sha256");
    const read: Buffer[] = [];
    for (const chunk of chunksOf(copy.fd, { from: copy.offset, to: copy.offset + file.bytes }, hashed))
      if (named !== undefined) read.push(Buffer.from(chunk));
    if (hashed.digest("hex") !== file.sha256) return damaged("is not what was backed up");
    const blob = Buffer.concat(read);
    // An encrypted blob is named by its plain content, which needs the realm's key.
    if (named !== undefined && !isSealed(blob) && hash("sha256", blob.subarray(blob.indexOf(LINE_END) + 1)) !== named)
      return `${file.path} was damaged before it was backed up`;
    return undefined;
  } catch (error) {
    return damaged(`cannot be read (${messageOf(error)})`);
  } finally {
    copy.close();
  }
}

const NO_BYTES: SegmentBytes = { size: () => 0, read: () => 0 };

/** Reads the logs of a back-up like those of a folder. */
function surveyOf<B, R extends LogRow>(reader: BackupReader, folder: string, foldRow: FoldRow<B, R>) {
  const logs = new Map<number, { readonly path: string; readonly bytes: SegmentBytes; close(): void }>();
  const close = (): void => {
    for (const log of logs.values()) log.close();
  };
  const segments: Segments = {
    list: () => [...logs.keys()].sort((a, b) => a - b),
    path: (segment) => logs.get(segment)?.path ?? "",
    reader: (segment) => logs.get(segment)?.bytes ?? NO_BYTES,
    refresh: () => {},
    create: () => {
      throw new Error("a back-up is only read");
    },
    seal: undefined,
    close,
  };
  try {
    for (const file of reader.manifest.files) {
      const copy = dirname(file.path) === folder && SEGMENT.test(file.path) ? reader.open(file) : undefined;
      if (copy === undefined) continue;
      const size = Math.min(copy.bytes, file.bytes);
      const read = (buffer: Buffer, position: number): number =>
        readSync(copy.fd, buffer, 0, Math.max(0, Math.min(buffer.length, size - position)), copy.offset + position);
      const bytes = recordBytes({ size: () => size, read });
      logs.set(Number(basename(file.path, ".log")), { path: file.path, bytes, close: copy.close });
    }
    const sealed = surveySealed(segments);
    if (sealed !== undefined) return sealed;
    const { places, rows, problems } = surveyLogs({ segments, foldRow }, new Set());
    return { records: places.length, rows: rows.length, problems };
  } catch (error) {
    return { records: 0, rows: 0, problems: [`the logs in ${folder} cannot be read (${messageOf(error)})`] };
  } finally {
    close();
  }
}

/** Checks encrypted logs without keys: every record is whole. Undefined if none is encrypted. */
function surveySealed(segments: Segments) {
  const ids = new Set<string>();
  const problems: string[] = [];
  let [records, hasSealed] = [0, false];
  for (const segment of segments.list()) {
    const scan = scanSegment(segments.reader(segment), 0, (buffer, at) => {
      records += 1;
      ids.add(recordHead(buffer, at).sessionId);
      hasSealed ||= isSealed(buffer.subarray(at + HEADER_BYTES));
    });
    problems.push(...scanFaults(segments.path(segment), scan));
  }
  return hasSealed ? { records, rows: ids.size, problems } : undefined;
}
