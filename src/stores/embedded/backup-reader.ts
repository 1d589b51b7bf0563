import { createHash, type Hash } from "node:crypto";
import { closeSync, constants, fstatSync, lstatSync, openSync, readSync, type Stats } from "node:fs";
import { basename, join } from "node:path";
import type { AgentEntryBody } from "../../contract/agent.ts";
import { messageOf, RuntimeError } from "../../contract/error.ts";
import type { FoldRow, LogRow } from "../../ports/store.ts";
import { isSealed } from "../sealing.ts";
import { type BackedFile, FILES, MANIFEST, type Manifest, parseManifest, storedPath } from "./backup-manifest.ts";
import { explained, filesBelow, LOCK, lockAt, MANIFEST_BYTES_MAX, readManifest } from "./backup-target.ts";
import { HEADER_BYTES, recordHead, scanSegment } from "./record.ts";
import { nodeSegmentIo, type SegmentIo, type Segments } from "./segments.ts";
import { surveyLogs } from "./tail.ts";
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
  readonly manifest: Manifest;
  /** Copies that the manifest does not name: a back-up that was stopped left them. */
  readonly leftovers: readonly string[];
  /** The copy of a file; undefined where it is not there. */
  open(file: BackedFile): Stretch | undefined;
  close(): void;
}

const { O_RDONLY, O_NOFOLLOW } = constants;

/** Opens a back-up; throws INVALID_PARAMS where there is none, SESSION_STORE_ERROR for one that cannot be read. */
export function openBackup(place: string): BackupReader {
  let stat: Stats | undefined;
  try {
    stat = lstatSync(place, { throwIfNoEntry: false });
    if (stat?.isDirectory() === true) return openFolder(place);
    if (stat?.isFile() === true) return openTar(place);
  } catch (error) {
    throw explained(error, place, "check that it can be read, or use another back-up");
  }
  const what = stat === undefined ? "is not there" : "is neither a folder nor a file";
  throw new RuntimeError("INVALID_PARAMS", `${place} ${what}; name a folder or tar that rkat backup has made`);
}

/** What a place holds according to itself; it is not taken from who backs up to it. Throws as `openBackup` does. */
export function manifestOf(place: string): Manifest {
  if (lstatSync(place, { throwIfNoEntry: false })?.isDirectory() !== true) {
    const backup = openBackup(place);
    backup.close();
    return backup.manifest;
  }
  const manifest = readManifest(place);
  if (manifest === undefined) throw noBackup(place);
  return manifest;
}

function openFolder(place: string): BackupReader {
  const lock = lockIfAny(place);
  const close = (): void => {
    if (lock !== undefined) closeSync(lock);
  };
  try {
    const manifest = readManifest(place);
    if (manifest === undefined) throw noBackup(place);
    const found = filesBelow(join(place, FILES)).map(({ path }) => `${FILES}/${path}`);
    const there = new Set(found);
    const named = new Set(manifest.files.map(storedPath));
    return {
      manifest,
      leftovers: found.filter((path) => !named.has(path)),
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

function noBackup(place: string): RuntimeError {
  return new RuntimeError(
    "INVALID_PARAMS",
    `${place} is no finished back-up: it has no ${MANIFEST}; name one that rkat backup has made`,
  );
}

/** Where nobody can lock, nobody can write either: a medium that is only read, or a tar that was unpacked. */
function lockIfAny(place: string): number | undefined {
  if (lstatSync(join(place, LOCK), { throwIfNoEntry: false }) === undefined) return undefined;
  try {
    return lockAt(join(place, LOCK), `a back-up to ${place} is being made; wait for it`);
  } catch (error) {
    const isReadOnly =
      error instanceof Error && "code" in error && ["EROFS", "EACCES", "EPERM"].includes(String(error.code));
    if (isReadOnly) return undefined;
    throw error;
  }
}

function openTar(place: string): BackupReader {
  const fd = openSync(place, O_RDONLY | O_NOFOLLOW);
  try {
    const { size } = fstatSync(fd);
    const read = (offset: number, bytes: number): Buffer => readWhole(fd, offset, bytes);
    const entries = new Map(readTar({ size, read }, place).map((entry) => [entry.path, entry]));
    const found = entries.get(MANIFEST);
    if (found === undefined || found.bytes > MANIFEST_BYTES_MAX) throw noBackup(place);
    const manifest = parseManifest(read(found.offset, found.bytes).toString(), place);
    return {
      manifest,
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

function readWhole(fd: number, offset: number, bytes: number): Buffer {
  const buffer = Buffer.alloc(bytes);
  for (let read = 0; read < bytes; ) {
    const more = readSync(fd, buffer, read, bytes - read, offset + read);
    if (more === 0) return buffer.subarray(0, read);
    read += more;
  }
  return buffer;
}

const CHUNK_BYTES = 1_024 * 1_024;

/** The bytes of a stretch, which are also hashed; each chunk is gone with the next. Ends early where the file does. */
export function* chunksOf(
  fd: number,
  { from, to }: { readonly from: number; readonly to: number },
  hashed: Hash,
): Generator<Buffer> {
  const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, Math.max(1, to - from)));
  for (let at = from; at < to; ) {
    const read = readSync(fd, buffer, 0, Math.min(buffer.length, to - at), at);
    if (read === 0) return;
    const chunk = buffer.subarray(0, read);
    hashed.update(chunk);
    yield chunk;
    at += read;
  }
}

/** Hashes a stretch of a file. */
export function hashOf(fd: number, stretch: { readonly from: number; readonly to: number }): Hash {
  const hashed = createHash("sha256");
  for (const _chunk of chunksOf(fd, stretch, hashed));
  return hashed;
}

/** What a check of a back-up found. */
export interface BackupVerification {
  readonly at_ms: number;
  readonly files: number;
  readonly bytes: number;
  readonly records: number;
  readonly sessions: number;
  readonly agents: number;
  readonly blobs: number;
  /** Files that a stopped back-up left, and the next one removes. */
  readonly leftovers: number;
  readonly problems: readonly string[];
}

interface VerifyOptions<R extends LogRow> {
  readonly folds: { readonly session: FoldRow; readonly agent: FoldRow<AgentEntryBody, R> };
  readonly signal: AbortSignal;
  /** Told how many bytes were read. */
  progress(done: number): void;
}

/** Reads everything of a back-up and checks it against the manifest, and its logs and blobs besides; nothing is changed. */
export async function verifyBackup<R extends LogRow>(
  reader: BackupReader,
  { folds, signal, progress }: VerifyOptions<R>,
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
    await breathe();
  }
  const sessions = surveyOf(reader, "log", folds.session);
  const agents = surveyOf(reader, "agents/log", folds.agent);
  const surveys = [sessions, agents];
  return {
    at_ms: manifest.at_ms,
    files: manifest.files.length,
    bytes,
    records: surveys.reduce((sum, { records }) => sum + records, 0),
    sessions: sessions.rows,
    agents: agents.rows,
    blobs: manifest.files.filter(({ path }) => BLOB.test(path)).length,
    leftovers: reader.leftovers.length,
    problems: [...problems, ...surveys.flatMap((survey) => survey.problems)],
  };
}

/** One round of the event loop: an interrupt is heard between two files. */
export function breathe(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
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
    const whole = createHash("sha256");
    const blob = createHash("sha256");
    let [isInBlob, isOpaque, read] = [false, false, 0];
    for (const chunk of chunksOf(copy.fd, { from: copy.offset, to: copy.offset + file.bytes }, whole)) {
      // The name of a sealed blob is that of its plain content, which only the realm's key shows.
      isOpaque ||= read === 0 && isSealed(chunk);
      read += chunk.length;
      if (named === undefined || isOpaque) continue;
      const line: number = isInBlob ? -1 : chunk.indexOf(LINE_END);
      if (isInBlob || line >= 0) blob.update(chunk.subarray(line + 1));
      isInBlob ||= line >= 0;
    }
    if (whole.digest("hex") !== file.sha256) return damaged("is not what was backed up");
    if (named !== undefined && !isOpaque && blob.digest("hex") !== named)
      return `${file.path} was damaged before it was backed up`;
    return undefined;
  } catch (error) {
    return damaged(`cannot be read (${messageOf(error)})`);
  } finally {
    copy.close();
  }
}

/** Reads the logs of a back-up as those of a folder are. */
function surveyOf<B, R extends LogRow>(reader: BackupReader, folder: string, foldRow: FoldRow<B, R>) {
  const files = new Map(
    reader.manifest.files
      .filter(({ path }) => path.startsWith(`${folder}/`) && /^\d{8}\.log$/.test(basename(path)))
      .map((file) => [Number(basename(file.path, ".log")), file]),
  );
  const opened = new Map<number, { readonly copy: Stretch; readonly bytes: number }>();
  const close = (): void => {
    for (const { copy } of opened.values()) copy.close();
  };
  const segments: Segments = {
    list: () => [...files.keys()].sort((a, b) => a - b),
    path: (segment) => files.get(segment)?.path ?? "",
    // Segments are their own descriptors here: one of a tar lies behind the others in the same file.
    reader: (segment) => {
      const file = files.get(segment);
      const copy = opened.has(segment) || file === undefined ? undefined : reader.open(file);
      if (copy !== undefined) opened.set(segment, { copy, bytes: Math.min(copy.bytes, file?.bytes ?? 0) });
      return segment;
    },
    create: () => {
      throw new Error("a back-up is only read");
    },
    seal: undefined,
    close,
  };
  const io: SegmentIo = {
    ...nodeSegmentIo,
    size: (segment) => opened.get(segment)?.bytes ?? 0,
    read: (segment, buffer, position) => {
      const found = opened.get(segment);
      if (found === undefined) return 0;
      const length = Math.max(0, Math.min(buffer.length, found.bytes - position));
      return readSync(found.copy.fd, buffer, 0, length, found.copy.offset + position);
    },
  };
  try {
    const sealed = surveySealed(segments, io);
    if (sealed !== undefined) return sealed;
    const { places, rows, problems } = surveyLogs({ segments, io, foldRow }, new Set());
    return { records: places.length, rows: rows.length, problems };
  } catch (error) {
    return { records: 0, rows: 0, problems: [`the logs in ${folder} cannot be read (${messageOf(error)})`] };
  } finally {
    close();
  }
}

/** What can be said of sealed logs without their keys: that every record is whole. Undefined where none is sealed. */
function surveySealed(segments: Segments, io: SegmentIo) {
  const ids = new Set<string>();
  const problems: string[] = [];
  let [records, hasSealed] = [0, false];
  for (const segment of segments.list()) {
    const { holes, torn } = scanSegment(io, segments.reader(segment), 0, (buffer, at) => {
      records += 1;
      ids.add(recordHead(buffer, at).sessionId);
      hasSealed ||= isSealed(buffer.subarray(at + HEADER_BYTES));
    });
    for (const { offset, bytes, why } of [...holes, ...(torn === undefined ? [] : [{ offset: -1, ...torn }])])
      problems.push(
        `${segments.path(segment)}: ${bytes} bytes ${offset < 0 ? "at the end" : `at ${offset}`} are no record (${why})`,
      );
  }
  return hasSealed ? { records, rows: ids.size, problems } : undefined;
}
