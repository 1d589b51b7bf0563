import { createHash } from "node:crypto";
import { closeSync, fstatSync, lstatSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import type { BackedFile, BackupAt } from "@rkat/core/contract/portable";
import { scanFaults, scanSegment } from "../log/record.ts";
import { nodeSegmentIo } from "../log/segments.ts";
import { explained } from "../log/whole-file.ts";
import { SEGMENT } from "./backup-manifest.ts";
import { chunksOf, hashOf } from "./backup-reader.ts";
import { cutLogs, type LogCut, listTruth, openLogs, openSource, Replaced, stampOf } from "./backup-source.ts";
import { type BackupTarget, isTar, openFolderTarget, openTarTarget } from "./backup-target.ts";
import { noteBegun, noteFinished, readNotes, storeId } from "./known-backups.ts";

export interface BackupOptions {
  readonly now: () => number;
  readonly signal: AbortSignal;
  /** Receives the bytes done, and the total. */
  progress(done: number, total: number): void;
}

/** The result of a back-up. */
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
    throw explained(error, place, "what was there before still counts, so mend that and run it again");
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
    const scan = scanSegment({ ...nodeSegmentIo, size: () => limit }, fd, from, () => {});
    damaged.push(...scanFaults(path, { ...scan, torn: undefined }));
    for (const sentence of scanFaults(path, { ...scan, holes: [] }))
      torn.push({ path, size: limit, sentence: `${sentence}, and were left out` });
    return scan.end;
  };

  /** Copies a file by path; undefined if it is gone. */
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
