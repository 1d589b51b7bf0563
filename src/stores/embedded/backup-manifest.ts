import { hash } from "node:crypto";
import { messageOf, RuntimeError } from "../../contract/error.ts";

/** One file of a back-up: where it lay, how far it was taken, and what it then was. */
export interface BackedFile {
  /** Its path in the state folder, with slashes. */
  readonly path: string;
  /** The back-up that first took this copy; the copy lies under its number. */
  readonly serial: number;
  readonly bytes: number;
  readonly sha256: string;
  /** Tells whether the source is still the file that was read; empty where nobody could tell. */
  readonly stamp: string;
}

/** Where a back-up of a realm is, and of when. */
export interface BackupAt {
  readonly place: string;
  readonly at_ms: number;
}

/** What a back-up holds. Only what it names counts, so it is written last. */
export interface Manifest {
  /** Tells the realm from others, wherever its folder is. */
  readonly store: string;
  /** Counts the back-ups made to one place. */
  readonly serial: number;
  /** When the reading of the state folder began: all that was acknowledged before is here. */
  readonly at_ms: number;
  /** Other back-ups of the realm, so that who restores this one knows of them. */
  readonly known: readonly BackupAt[];
  readonly files: readonly BackedFile[];
}

export const MANIFEST = "manifest.jsonl";
export const FILES = "files";

/** Where the copy of a file lies in a back-up. */
export function storedPath({ serial, path }: Pick<BackedFile, "serial" | "path">): string {
  return `${FILES}/${serial}/${path}`;
}

/** The folders of a state folder that hold logs. */
export const LOG_FOLDERS: readonly string[] = ["log", "agents/log"];

/** What is derived from the rest, holds only while a process runs, or is not finished yet. */
const DERIVED: readonly RegExp[] = [
  /^(?:agents\/)?(?:index\.db|leases-)/,
  /^(?:agents\/)?(?:checkpoints|memory)(?:\/|$)/,
  /^config-lock\.db/,
  /^\.ready-/,
  /^\.rkat\/(?!agents(?:\/|$))/,
  /^backups\/[^/]*\.json$/,
  /^database-[^/]*\/(?!\.rkat$|\.rkat\/agents(?:\/|$))/,
  /\.tmp$/,
  /^(?!\.rkat\/).*\.new$/,
];

/** Whether a file or folder of a state folder is truth, and not made anew from what is. */
export function isTruth(path: string): boolean {
  return !DERIVED.some((pattern) => pattern.test(path));
}

const FORMAT = "rkat-backup";
const VERSION = 1;

export function formatManifest(manifest: Manifest): string {
  const body = JSON.stringify({ format: FORMAT, version: VERSION, ...manifest });
  return `${JSON.stringify({ sha256: hash("sha256", body) })}\n${body}\n`;
}

/** Throws SESSION_STORE_ERROR, naming the place, for what is no manifest of ours or was changed since. */
export function parseManifest(text: string, place: string): Manifest {
  const refuse = (why: string, cause?: unknown): RuntimeError =>
    new RuntimeError("SESSION_STORE_ERROR", `the manifest of ${place} ${why}; use another back-up`, { cause });
  const [head = "", body = "", rest] = text.split("\n");
  const [top, manifest] = [head, body].map((line) => {
    try {
      return asTable(JSON.parse(line));
    } catch (cause) {
      throw refuse(`cannot be read (${messageOf(cause)})`, cause);
    }
  });
  if (rest !== "" || top?.sha256 !== hash("sha256", body)) throw refuse("was changed after it was written");
  if (manifest?.format !== FORMAT) throw refuse("is not that of a back-up");
  if (manifest.version !== VERSION)
    throw refuse(`has version ${String(manifest.version)}, and ${VERSION} is read here`);
  const { store, serial, at_ms, known, files } = manifest;
  if (
    typeof store !== "string" ||
    !isCount(serial) ||
    !isCount(at_ms) ||
    !Array.isArray(known) ||
    !Array.isArray(files)
  )
    throw refuse("lacks fields of one");
  const paths = new Set<string>();
  const checked = files.map((given: unknown) => {
    const file = backedFile(asTable(given), serial);
    if (file === undefined || paths.has(file.path))
      throw refuse(`names a file that no state folder has: ${JSON.stringify(asTable(given).path)}`);
    paths.add(file.path);
    return file;
  });
  return { store, serial, at_ms, known: known.flatMap((one: unknown) => backupAt(asTable(one)) ?? []), files: checked };
}

type Table = Readonly<Record<string, unknown>>;

function asTable(value: unknown): Table {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

const SHA256 = /^[0-9a-f]{64}$/;

function backedFile({ path, serial, bytes, sha256, stamp }: Table, last: number): BackedFile | undefined {
  if (typeof path !== "string" || typeof sha256 !== "string" || typeof stamp !== "string") return undefined;
  if (!isCount(serial) || serial > last || !isCount(bytes) || !SHA256.test(sha256) || !isInside(path)) return undefined;
  return { path, serial, bytes, sha256, stamp };
}

/** Whoever writes a manifest must not choose what is written outside of the folder that is restored. */
function isInside(path: string): boolean {
  const isPlain = path.split("/").every((name) => name !== "" && name !== "." && name !== ".." && !name.includes("\0"));
  return isPlain && isTruth(path);
}

export function backupAt({ place, at_ms }: Table): BackupAt | undefined {
  return typeof place === "string" && isCount(at_ms) ? { place, at_ms } : undefined;
}
