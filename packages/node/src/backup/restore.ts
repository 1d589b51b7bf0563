import { createHash, hash } from "node:crypto";
import {
  closeSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { invalid, RuntimeError } from "@rkat/core/contract/error";
import type { BackedFile, BackupAt } from "@rkat/core/contract/portable";
import { syncFolder } from "../log/segments.ts";
import { createFileWriter, entriesIn, explained, lockAt, replaceFile } from "../log/whole-file.ts";
import { formatManifest, LOG_FOLDERS, storedPath } from "./backup-manifest.ts";
import { type BackupReader, chunksOf, filesBelow, hashOf, openBackup } from "./backup-reader.ts";
import { noteFinished } from "./known-backups.ts";

export interface RestoreOptions<V> {
  readonly signal: AbortSignal;
  progress(done: number, total: number): void;
  /** Throws where the key file, which is there before the others, cannot be used. */
  admit(folder: string): Promise<unknown>;
  /** Checks the folder before it takes its name. */
  verify(folder: string): Promise<V>;
}

export interface RestoreReport<V> extends BackupAt {
  readonly to: string;
  readonly files: number;
  readonly bytes: number;
  /** Files that an earlier, stopped restore had brought already. */
  readonly resumed: number;
  /** What the check of the folder found; undefined where an earlier restore had finished. */
  readonly verified: V | undefined;
}

/**
 * Brings a back-up to a state folder that is new or empty. It is made beside it, checked, and takes its name when it is
 * whole; stopped at any point, it goes on where it was.
 */
export async function restoreFolder<V>(
  place: string,
  to: string,
  options: RestoreOptions<V>,
): Promise<RestoreReport<V>> {
  const backup = openBackup(place);
  try {
    return await restoreFrom(backup, { place, to }, options);
  } catch (error) {
    throw explained(error, to, "fix that and run it again to continue");
  } finally {
    backup.close();
  }
}

/** Ends the name of the folder that a restore is made in, beside the one it is for. */
export const RESTORING = ".restoring";
const MARKER = "restore.json";
const LOCK = "restore.lock";
const STATE = "state";

async function restoreFrom<V>(
  backup: BackupReader,
  { place, to }: { readonly place: string; readonly to: string },
  options: RestoreOptions<V>,
): Promise<RestoreReport<V>> {
  const { manifest } = backup;
  const beside = `${to}${RESTORING}`;
  const id = hash("sha256", formatManifest(manifest));
  const isFull = isFilled(to);
  if (isFull && markOf(beside) !== id) throw invalid(`${to} is not empty; name a folder that is new or empty`);
  if (isMountPoint(to))
    throw invalid(`${to} is a mount point, which nothing can take the place of; name a folder in it`);
  mkdirSync(beside, { recursive: true, mode: 0o700 });
  const lock = lockAt(join(beside, LOCK), `another restore to ${to} is being made; wait for it`);
  try {
    mark(beside, id);
    const state = join(beside, STATE);
    const bytes = manifest.files.reduce((sum, file) => sum + file.bytes, 0);
    const report = { place, at_ms: manifest.at_ms, to, files: manifest.files.length, bytes };
    if (isFull) {
      // It had taken its name, and was stopped before it cleared up.
      if (existsSync(state)) throw invalid(`${to} is not empty; name a folder that is new or empty`);
      rmSync(beside, { recursive: true });
      return { ...report, resumed: report.files, verified: undefined };
    }
    const resumed = await bringFiles(backup, { state, bytes }, options);
    for (const known of manifest.known) noteFinished(state, known);
    noteFinished(state, report);
    const verified = await options.verify(state);
    renameSync(state, to);
    syncFolder(dirname(to));
    rmSync(beside, { recursive: true });
    return { ...report, resumed, verified };
  } finally {
    closeSync(lock);
  }
}

function isMountPoint(folder: string): boolean {
  const stat = lstatSync(folder, { throwIfNoEntry: false });
  return stat !== undefined && stat.dev !== lstatSync(dirname(folder)).dev;
}

/** Whether a folder holds something; throws INVALID_PARAMS for a path that is no folder. */
function isFilled(folder: string): boolean {
  const stat = lstatSync(folder, { throwIfNoEntry: false });
  if (stat === undefined || stat.isDirectory()) return entriesIn(folder).length > 0;
  throw invalid(`${folder} is no folder; name one that is new or empty`);
}

function markOf(beside: string): string | undefined {
  const path = join(beside, MARKER);
  return existsSync(path) ? readFileSync(path, "utf8").trim() : undefined;
}

/** Marks the folder as that of one back-up; the unfinished restore of another back-up is not continued. */
function mark(beside: string, id: string): void {
  const found = markOf(beside);
  if (found === id) return;
  if (found !== undefined || existsSync(join(beside, STATE)))
    throw invalid(`${beside} is an unfinished restore of another back-up; delete it, or name another folder`);
  replaceFile(join(beside, MARKER), `${id}\n`);
}

async function bringFiles<V>(
  backup: BackupReader,
  { state, bytes }: { readonly state: string; readonly bytes: number },
  { signal, progress, admit }: RestoreOptions<V>,
): Promise<number> {
  // A realm that keeps nothing but its configuration has no logs, and is checked like others.
  const isHeld = (folder: string) => backup.manifest.files.some(({ path }) => path.startsWith(`${dirname(folder)}/`));
  for (const logs of LOG_FOLDERS.filter((folder) => folder === "log" || isHeld(folder)))
    mkdirSync(join(state, logs), { recursive: true, mode: 0o700 });
  const there = new Map(filesBelow(state).map((file) => [file.path, file.bytes]));
  const files = createFileWriter(state);
  let [resumed, done] = [0, 0];
  try {
    const isKeys = ({ path }: BackedFile): boolean => path === "keys";
    for (const file of backup.manifest.files.toSorted((a, b) => Number(isKeys(b)) - Number(isKeys(a)))) {
      signal.throwIfAborted();
      if (there.get(file.path) === file.bytes && isBrought(files.pathOf(file.path), file)) resumed += 1;
      else await files.write(file.path, copyOf(backup, file));
      if (isKeys(file)) await admit(state);
      done += file.bytes;
      progress(done, bytes);
      await setImmediate();
    }
    await files.done();
  } finally {
    await files.settled();
  }
  return resumed;
}

const { O_RDONLY, O_NOFOLLOW } = constants;

function isBrought(path: string, file: BackedFile): boolean {
  const fd = openSync(path, O_RDONLY | O_NOFOLLOW);
  try {
    return hashOf(fd, { from: 0, to: file.bytes }).digest("hex") === file.sha256;
  } finally {
    closeSync(fd);
  }
}

/** The bytes of a file of the back-up; throws SESSION_STORE_ERROR at the end where they are not those of the manifest. */
function* copyOf(backup: BackupReader, file: BackedFile): Generator<Buffer> {
  const copy = backup.open(file);
  try {
    const hashed = createHash("sha256");
    if (copy !== undefined) yield* chunksOf(copy.fd, { from: copy.offset, to: copy.offset + file.bytes }, hashed);
    if (copy !== undefined && hashed.digest("hex") === file.sha256) return;
    const what = `${storedPath(file)} of the back-up is missing or is not what was backed up`;
    throw new RuntimeError("SESSION_STORE_ERROR", `${what}; rkat backup verify says more`);
  } finally {
    copy?.close();
  }
}
