import { randomUUID } from "node:crypto";
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import type { Seal } from "@rkat/core/ports/seal";
import type { CheckpointStore, FoldRow, LogRow, Store } from "@rkat/core/ports/store";
import { isUnreadable, sealOn } from "@rkat/core/stores/sealing";
import { bootId } from "@rkat/core/tools/process-identity";
import { isSoundDb } from "../tables/table-file.ts";
import { createBlobFiles } from "./blob-files.ts";
import { createForgettingFiles, deleteSessionFiles } from "./forgetting-files.ts";
import { createSessionLocks, describeSelf, openLeases } from "./leases.ts";
import { createLog, LOG_SIZES, type LogSizes } from "./log.ts";
import { openLogIndex } from "./log-index.ts";
import { finishRewrites } from "./rewrite-records.ts";
import { nodeSegmentIo, openSegments, type SegmentIo } from "./segments.ts";
import { createFolderSignals } from "./signals.ts";
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
  const { folder, foldRow, now = Date.now, warn = () => {}, io = nodeSegmentIo, sizes = LOG_SIZES, seal } = options;
  const logFolder = join(folder, "log");
  makeFolders(folder, logFolder);
  const segments = openSegments(logFolder, io, seal);
  const survey = () => surveyLogs({ segments, io, foldRow }, new Set());
  const index = openLogIndex<R>({ path: join(folder, INDEX), warn, survey, seal });
  const leases = openLeases({
    path: leaseFile(folder),
    self: describeSelf(options.host.pid, randomUUID()),
    steadyNow: () => performance.now(),
    signal: options.host.isRunning,
    silenceMsMax: options.silenceMsMax,
    warn,
  });
  finishRewrites({ folder: logFolder, segments, io, leases });
  const lost = mendIndex(index, { segments, io, foldRow }, warn);
  if (lost.length > 0)
    appendFileSync(join(folder, LOSSES), lost.map((sentence) => `${sentence}\n`).join(""), { mode: 0o600 });
  const own = new Set<number>();
  const { grown, ...signals } = createFolderSignals({
    folder: logFolder,
    catchUp: () => tail.catchUp(),
    endOf: (sessionId) => tail.row(sessionId)?.last_seq ?? 0,
    warn,
  });
  const tail = createTail({ index, segments, io, foldRow, warn, isOwn: (segment) => own.has(segment), grown });
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
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    closeLocks();
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

/** The result of verifying all checksums. */
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
  const segments = openSegments(join(folder, "log"), nodeSegmentIo, seal);
  const noted = readNotes(join(folder, LOSSES));
  const path = join(folder, INDEX);
  const isThere = readdirSync(folder).some((name) => name.startsWith(INDEX));
  const isDamaged = isThere && !isSoundDb(path);
  const look = () => surveyLogs({ segments, io: nodeSegmentIo, foldRow }, new Set());
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
