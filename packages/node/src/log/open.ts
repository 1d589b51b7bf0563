import { createHash, randomUUID } from "node:crypto";
import {
  appendFileSync,
  existsSync,
  type FSWatcher,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  watch,
  writeFileSync,
} from "node:fs";
import { mkdir, open, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { crc32 } from "node:zlib";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import {
  type BlobStore,
  type CheckpointStore,
  type FoldRow,
  type LogRow,
  type Seal,
  SHARED_OWNERS,
  type Signals,
  type Store,
} from "@rkat/core/ports/store";
import { isUnreadable, sealOn } from "@rkat/core/stores/sealing";
import { createSessionListeners } from "@rkat/core/stores/session-listeners";
import { bootId } from "@rkat/core/tools/process-identity";
import { isSoundDb, withPathInErrors } from "../tables/table-file.ts";
import { createForgettingFiles, deleteSessionFiles } from "./forgetting-files.ts";
import { createSessionLocks, describeSelf, openLeases } from "./leases.ts";
import { createLog, LOG_SIZES, type LogSizes } from "./log.ts";
import { openLogIndex } from "./log-index.ts";
import { packDaily } from "./pack-at-rest.ts";
import { finishRewrites } from "./rewrite-records.ts";
import { nodeSegmentIo, openSegments, type SegmentIo } from "./segments.ts";
import { createTail, lossesOf, mendIndex, surveyLogs } from "./tail.ts";

const INDEX = "index.db";
/** Detected losses, one sentence per line: a rebuilt index would hide them. */
const LOSSES = "losses.txt";

export interface EmbeddedOptions<B, R> {
  readonly folder: string;
  readonly foldRow: FoldRow<B, R>;
  readonly now?: () => number;
  /** Receives damage and how it was handled. */
  readonly warn?: (sentence: string) => void;
  /** This process, and how to check whether another runs. */
  readonly host: { readonly pid: number; isRunning(pid: number): boolean };
  readonly io?: SegmentIo;
  readonly sizes?: LogSizes;
  /** Encrypts stored data; undefined: data is plain. */
  readonly seal?: Seal | undefined;
  /** How long a holder that cannot be looked up may be silent before it counts as dead. */
  readonly silenceMsMax?: number;
}

/**
 * Sessions on disk. An append is acknowledged with the sync of its log; the index lags and is caught up from the logs,
 * so opening reads the index and a bounded end of the logs.
 */
export function openStore<B, R extends LogRow>(options: EmbeddedOptions<B, R>): Store<B, R> {
  return withPathInErrors(options.folder, () => openFolder(options));
}

function openFolder<B, R extends LogRow>(options: EmbeddedOptions<B, R>): Store<B, R> {
  const { folder, foldRow, now = Date.now, warn = () => {}, io = nodeSegmentIo, sizes = LOG_SIZES, seal } = options;
  const logFolder = join(folder, "log");
  makeFolders(folder, logFolder);
  if (requireFormat(folder) < FORMAT)
    writeFileSync(join(folder, FORMAT_FILE), `${FORMAT} ${FORMAT}\n`, { mode: 0o600 });
  const segments = openSegments(logFolder, io, seal);
  const survey = () => surveyLogs({ segments, foldRow }, new Set());
  const index = openLogIndex<R>({ path: join(folder, INDEX), warn, survey, seal });
  const leases = openLeases({
    path: leaseFile(folder),
    self: describeSelf(options.host.pid, randomUUID()),
    steadyNow: () => performance.now(),
    signal: options.host.isRunning,
    silenceMsMax: options.silenceMsMax,
    warn,
  });
  finishRewrites({ folder: logFolder, segments, io, leases, warn });
  const lost = mendIndex(index, { segments, foldRow }, warn);
  if (lost.length > 0)
    appendFileSync(join(folder, LOSSES), lost.map((sentence) => `${sentence}\n`).join(""), { mode: 0o600 });
  const own = new Set<number>();
  const { grown, ...signals } = createFolderSignals({
    folder: logFolder,
    catchUp: () => tail.catchUp(),
    endOf: (sessionId) => tail.row(sessionId)?.last_seq ?? 0,
    warn,
  });
  const tail = createTail({ index, segments, foldRow, warn, isOwn: (segment) => own.has(segment), grown });
  const { close: closeLocks, isLost, ...locks } = createSessionLocks(leases);
  const log = createLog({
    folder: logFolder,
    index,
    segments,
    tail,
    leases,
    io,
    foldRow,
    now,
    warn,
    own,
    sizes,
    isLost,
  });
  const packing = packDaily({ index, segments, leases, io, own, now, warn });
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    closeLocks();
    await packing.close();
    await signals.close();
    await log.close();
    segments.close();
    await index.close();
    await leases.close();
  };
  return {
    log: { append: log.append, read: log.read, rewrite: log.rewrite },
    sessions: {
      get: async (sessionId) => {
        tail.catchUp();
        return tail.row(sessionId);
      },
      page: async (query) => {
        tail.catchUp();
        return tail.page(query);
      },
    },
    locks,
    signals,
    blobs: createBlobFiles(join(folder, "blobs"), randomUUID, seal),
    checkpoints: createCheckpointFiles(join(folder, "checkpoints"), seal),
    purge: async (sessionIds) => {
      deleteSessionFiles(folder, sessionIds);
      index.compact();
    },
    shred: seal === undefined ? undefined : log.shred,
    forgettings: {
      ...createForgettingFiles({ folder, seal, warn }),
      backups: async () => (await import("../backup/known-backups.ts")).knownBackups(folder),
    },
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}

export interface Verification {
  readonly segments: number;
  readonly records: number;
  readonly sessions: number;
  readonly bytes: number;
  readonly blobs: number;
  readonly problems: readonly string[];
}

/** A verification with the data of another folder. */
export function addVerification(kept: Verification, more: Omit<Verification, "sessions">): Verification {
  return {
    segments: kept.segments + more.segments,
    records: kept.records + more.records,
    sessions: kept.sessions,
    bytes: kept.bytes + more.bytes,
    blobs: kept.blobs + more.blobs,
    problems: [...kept.problems, ...more.problems],
  };
}

/**
 * Reads and checks every record, that the logs hold what the index lists, and that blobs match their names; changes
 * nothing. Losses found by an earlier open are reported until their note is deleted.
 */
export async function verifyFolder<B, R extends LogRow>(
  folder: string,
  foldRow: FoldRow<B, R>,
  seal?: Seal,
): Promise<Verification> {
  requireFormat(folder);
  const segments = openSegments(join(folder, "log"), nodeSegmentIo, seal);
  const noted = readNotes(join(folder, LOSSES));
  const path = join(folder, INDEX);
  const isThere = readdirSync(folder).some((name) => name.startsWith(INDEX));
  const isDamaged = isThere && !isSoundDb(path);
  const look = () => surveyLogs({ segments, foldRow }, new Set());
  const index = isThere && !isDamaged ? openLogIndex<R>({ path, warn: () => {}, survey: look, seal }) : undefined;
  try {
    // Before the logs: a concurrent append must not look like a loss.
    const known = index?.rows() ?? [];
    const survey = look();
    const { places, rows, bytes } = survey;
    const lost = lossesOf(known, rows);
    const damaged = isDamaged ? [`${path} is damaged; the next command makes it anew from the logs`] : [];
    const earlier = noted.filter((sentence) => !lost.includes(sentence));
    const blobs = await verifyBlobs(join(folder, "blobs"), seal);
    const problems = [...survey.problems, ...damaged, ...lost, ...earlier, ...blobs.problems];
    const found = { segments: survey.segments.size, records: places.length, sessions: rows.length };
    return { ...found, bytes: bytes + blobs.bytes, blobs: blobs.count, problems };
  } finally {
    await index?.close();
    segments.close();
  }
}

const IDS_A_PAGE = 500;

async function verifyBlobs(
  folder: string,
  seal: Seal | undefined,
): Promise<{ count: number; bytes: number; problems: readonly string[] }> {
  const { ids, get } = createBlobFiles(folder, randomUUID, seal);
  const problems: string[] = [];
  let [count, bytes] = [0, 0];
  for (let page = await ids("", IDS_A_PAGE); page.length > 0; page = await ids(page.at(-1) ?? "", IDS_A_PAGE)) {
    for (const id of page) {
      count += 1;
      try {
        bytes += (await get(id))?.data.length ?? 0;
      } catch (error) {
        problems.push(messageOf(error));
      }
    }
  }
  return { count, bytes, problems };
}

function readNotes(path: string): readonly string[] {
  if (!existsSync(path)) return [];
  return readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => line !== "");
}

function makeFolders(...folders: readonly string[]): void {
  for (const folder of folders) {
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new RuntimeError("SESSION_STORE_ERROR", `cannot make the state folder ${folder}: ${why}`, { cause });
    }
  }
}

/** The version of what is stored: raised when an older program would misread it. Version 1 was not written down. */
const FORMAT = 3;
const FORMAT_FILE = "format";

/** The version of a folder; throws if this program does not know it. It stands there twice: a damaged one is ignored. */
function requireFormat(folder: string): number {
  const path = join(folder, FORMAT_FILE);
  const written = existsSync(path) ? /^(\d{1,6}) \1\n$/u.exec(readFileSync(path, "utf8"))?.[1] : undefined;
  const version = Number(written ?? 1);
  if (version <= FORMAT) return version;
  const message = `the state folder ${folder} is of version ${version} and this program knows ${FORMAT}; update rkat`;
  throw new RuntimeError("SESSION_STORE_ERROR", message);
}

/** Named for the boot: earlier leases are void, and leftovers of a power cut are not read. */
function leaseFile(folder: string): string {
  const name = `leases-${bootId()}.db`;
  for (const other of readdirSync(folder)) {
    if (other.startsWith("leases-") && !other.startsWith(name)) rmSync(join(folder, other), { force: true });
  }
  return join(folder, name);
}

/** Ids are file names; their last digits, which are random, name the subfolder. */
const SESSION_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{10}([0-9a-f]{2})$/;

/**
 * Checkpoints as files, one per session. Nothing is synced, and two processes may write one at once: the reader detects
 * damage and reads the log instead.
 */
function createCheckpointFiles(folder: string, seal?: Seal): CheckpointStore {
  const folderOf = (sessionId: string): string | undefined => {
    const subfolder = SESSION_ID.exec(sessionId)?.[1];
    return subfolder === undefined ? undefined : join(folder, subfolder);
  };
  /** An unreadable checkpoint counts as none, like a damaged one. */
  const opened = (sessionId: string, bytes: Buffer): string | undefined => {
    try {
      const by = sealOn(bytes, seal, `the checkpoint of session ${sessionId}`);
      return (by === undefined ? bytes : Buffer.from(by.open(sessionId, bytes, PLACE))).toString();
    } catch (error) {
      if (isUnreadable(error)) return undefined;
      throw error;
    }
  };
  return {
    get: async (sessionId) => {
      const subfolder = folderOf(sessionId);
      if (subfolder === undefined) return undefined;
      const bytes = await readFile(join(subfolder, sessionId)).catch((error: NodeJS.ErrnoException) => {
        if (error.code === "ENOENT") return undefined;
        throw error;
      });
      return bytes === undefined ? undefined : opened(sessionId, bytes);
    },
    put: async (sessionId, text) => {
      const subfolder = folderOf(sessionId);
      if (subfolder === undefined) return;
      const path = join(subfolder, sessionId);
      await mkdir(subfolder, { recursive: true, mode: 0o700 });
      // A fixed name, so that the leftover of a crashed process is overwritten.
      const kept = seal === undefined ? text : seal.seal(sessionId, Buffer.from(text), PLACE);
      await writeFile(`${path}.new`, kept, { mode: 0o600 });
      await rename(`${path}.new`, path);
    },
    remove: async (sessionId) => {
      const subfolder = folderOf(sessionId);
      if (subfolder === undefined) return;
      for (const name of [sessionId, `${sessionId}.new`]) await rm(join(subfolder, name), { force: true });
    },
  };
}

const PLACE = Buffer.from("checkpoint");

const BLOB_ID = /^sha256:([0-9a-f]{64})$/;

/** Blobs as files named by content hash; the first line has the media type and its checksum. */
function createBlobFiles(folder: string, newId: () => string, seal?: Seal): BlobStore {
  const fileOf = (hash: string): string => join(folder, hash.slice(0, 2), hash);
  /** The parts of a file: first line and content, or both encrypted. */
  const partsOf = (hash: string, mediaType: string, data: Uint8Array): readonly (string | Uint8Array)[] => {
    if (seal === undefined) return [firstLine(mediaType), data];
    return [
      seal.seal(SHARED_OWNERS.blobs, Buffer.concat([Buffer.from(firstLine(mediaType)), data]), Buffer.from(hash)),
    ];
  };
  const plainOf = (hash: string, kept: Buffer): Buffer => {
    const by = sealOn(kept, seal, fileOf(hash));
    return by === undefined ? kept : Buffer.from(by.open(SHARED_OWNERS.blobs, kept, Buffer.from(hash)));
  };
  return {
    put: async ({ mediaType, data }) => {
      const hash = createHash("sha256").update(data).digest("hex");
      const path = fileOf(hash);
      const temporary = join(folder, hash.slice(0, 2), `${newId()}.tmp`);
      try {
        await mkdir(join(folder, hash.slice(0, 2)), { recursive: true, mode: 0o700 });
        const file = await open(temporary, "wx", 0o600);
        try {
          // A single call may write only a part.
          for (const part of partsOf(hash, mediaType, data)) await file.writeFile(part);
          await file.sync();
        } finally {
          await file.close();
        }
        await rename(temporary, path);
        // A file survives a power cut only if its parent folders were synced.
        for (const parent of [dirname(path), folder]) await syncFolder(parent);
      } catch (cause) {
        // A leftover that cannot be removed does no harm.
        await rm(temporary, { force: true }).catch(() => {});
        const why = cause instanceof Error ? cause.message : String(cause);
        throw new RuntimeError("SESSION_STORE_ERROR", `cannot keep a blob: ${why}`, { cause });
      }
      return `sha256:${hash}`;
    },
    get: async (blobId) => {
      const hash = BLOB_ID.exec(blobId)?.[1];
      if (hash === undefined) return undefined;
      const kept = await readFile(fileOf(hash)).catch((error: NodeJS.ErrnoException) => {
        if (error.code === "ENOENT") return undefined;
        throw error;
      });
      if (kept === undefined) return undefined;
      const bytes = plainOf(hash, kept);
      const line = bytes.indexOf(10);
      const mediaType = bytes.toString("utf8", 0, Math.max(0, line - CHECKSUM_CHARS));
      const data = bytes.subarray(line + 1);
      const isSound =
        bytes.toString("utf8", 0, line + 1) === firstLine(mediaType) &&
        createHash("sha256").update(data).digest("hex") === hash;
      if (!isSound) throw new RuntimeError("SESSION_STORE_ERROR", `${fileOf(hash)} is damaged: it is not ${blobId}`);
      return { mediaType, data };
    },
    ids: async (after, max) => {
      const ids: string[] = [];
      // Folders are named by the first two digits of their blobs.
      for (const name of (await namesIn(folder)).filter(
        (prefix) => `sha256:${prefix}` >= after.slice(0, PREFIX_CHARS),
      )) {
        if (ids.length >= max) break;
        const hashes = (await namesIn(join(folder, name))).map((hash) => `sha256:${hash}`);
        ids.push(...hashes.filter((id) => BLOB_ID.test(id) && id > after));
      }
      return ids.slice(0, max);
    },
    remove: async (blobId) => {
      const hash = BLOB_ID.exec(blobId)?.[1];
      if (hash !== undefined) await rm(fileOf(hash), { force: true });
    },
  };
}

const PREFIX_CHARS = "sha256:00".length;

async function namesIn(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException): readonly string[] => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return [];
    throw error;
  });
  return [...names].sort();
}

/** A blank and eight digits. */
const CHECKSUM_CHARS = 9;

function firstLine(mediaType: string): string {
  return `${mediaType} ${crc32(mediaType)
    .toString(16)
    .padStart(CHECKSUM_CHARS - 1, "0")}\n`;
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

interface FolderSignalParts {
  readonly folder: string;
  /** Reads what other processes appended; `grown` is called for each session that they appended to. */
  catchUp(): void;
  /** Where a session's log ends, as far as it is read. */
  endOf(sessionId: string): number;
  readonly warn: (sentence: string) => void;
}

interface FolderSignals extends Signals {
  /** Takes in that another process appended to a session. */
  grown(sessionId: string): void;
}

/** Changes that follow each other quickly are looked at together. */
const GATHER_MS = 5;
/** Logs with subscribers are checked this often, and more often where the system sends no notifications. */
const LOOK_MS = 1_000;
const LOOK_MS_BLIND = 50;

/**
 * Other processes of the folder signal by appending: the system notifies us when a segment grows. Without subscribers
 * nothing is watched; while nothing grows, next to nothing is done.
 */
function createFolderSignals({ folder, catchUp, endOf, warn }: FolderSignalParts): FolderSignals {
  const listeners = createSessionListeners(() => attend());
  let watcher: FSWatcher | undefined;
  let timer: NodeJS.Timeout | undefined;
  let gathering: NodeJS.Timeout | undefined;
  let isBlind = false;
  let isUnreadable = false;
  let everyMs = 0;

  /** A timer has no caller: what it throws would end the process. */
  const attempt = (work: () => void): void => {
    try {
      work();
      isUnreadable = false;
    } catch (error) {
      // Readers of the log get the same error; the next check tries again.
      if (!isUnreadable) warn(`what other processes append cannot be read: ${messageOf(error)}`);
      isUnreadable = true;
    }
  };
  const read = (): void => {
    gathering = undefined;
    attempt(catchUp);
  };
  /** What is in a segment that was filled and closed since is found by where the logs end. */
  const look = (): void =>
    attempt(() => {
      catchUp();
      for (const id of listeners.received()) grown(id);
    });
  const grown = (sessionId: string): void => {
    if (listeners.hasListeners(sessionId)) listeners.emit(sessionId, endOf(sessionId));
  };
  const openWatcher = (): void => {
    try {
      watcher = watch(folder, { persistent: false }, () => {
        gathering ??= setTimeout(read, GATHER_MS).unref();
      });
      watcher.on("error", blind);
    } catch (error) {
      blind(error);
    }
  };
  /** The system has no more watches to give, or none for such a folder. */
  const blind = (error: unknown): void => {
    if (!isBlind) warn(`${folder} cannot be watched, and is looked at instead: ${messageOf(error)}`);
    isBlind = true;
    attend();
  };
  const rest = (): void => {
    watcher?.close();
    watcher = undefined;
    clearInterval(timer);
    timer = undefined;
    clearTimeout(gathering);
    gathering = undefined;
  };
  const attend = (): void => {
    const neededMs = listeners.received().length === 0 ? 0 : isBlind ? LOOK_MS_BLIND : LOOK_MS;
    // Where readers come and go all the time, looks that began anew with each of them would never come.
    if (neededMs === everyMs) return;
    rest();
    everyMs = neededMs;
    if (neededMs === 0) return;
    timer = setInterval(look, neededMs).unref();
    if (!isBlind) openWatcher();
  };
  return {
    emit: listeners.emit,
    subscribe: listeners.subscribe,
    grown,
    close: async () => rest(),
  };
}
