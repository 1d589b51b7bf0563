import { hash } from "node:crypto";
import { messageOf, RuntimeError } from "@rkat/core/contract/error";
import { isJsonTable } from "@rkat/core/contract/json";
import { type BackedFile, BackupManifest } from "@rkat/core/contract/portable";

export const MANIFEST = "manifest.jsonl";
export const FILES = "files";

export function storedPath({ serial, path }: Pick<BackedFile, "serial" | "path">): string {
  return `${FILES}/${serial}/${path}`;
}

export const LOG_FOLDERS: readonly string[] = ["log", "agents/log", "schedules/log"];
/** The path of a log in a state folder. */
export const SEGMENT = /^(?:(?:agents|schedules)\/)?log\/\d{8}\.log$/;

/** Files that are derived, matter only to a running process, or are unfinished. */
const DERIVED: readonly RegExp[] = [
  /^(?:(?:agents|schedules)\/)?(?:index\.db|leases-)/,
  /^(?:(?:agents|schedules)\/)?(?:checkpoints|memory)(?:\/|$)/,
  /^config-lock\.db/,
  /^jobs(?:\/|$)/,
  // A login is easily repeated, and a copy of it is one more secret.
  /^mcp-logins(?:\/|$)/,
  /^\.ready-/,
  /^\.rkat\/(?!agents(?:\/|$))/,
  /^backups\/[^/]*\.json$/,
  /^database-[^/]*\/(?!\.rkat$|\.rkat\/agents(?:\/|$))/,
  /\.tmp$/,
  /^(?!\.rkat\/).*\.new$/,
];

/** Whether a file or folder of a state folder is original data, not derived. */
export function isTruth(path: string): boolean {
  return !DERIVED.some((pattern) => pattern.test(path));
}

const FORMAT = "rkat-backup";
const VERSION = 1;

export function formatManifest(manifest: BackupManifest): string {
  const body = JSON.stringify({ format: FORMAT, version: VERSION, ...manifest });
  return `${JSON.stringify({ sha256: hash("sha256", body) })}\n${body}\n`;
}

/** Reads a manifest; throws SESSION_STORE_ERROR with the place if it is foreign or changed. */
export function parseManifest(text: string, place: string): BackupManifest {
  const refuse = (why: string, cause?: unknown): RuntimeError =>
    new RuntimeError("SESSION_STORE_ERROR", `the manifest of ${place} ${why}; use another back-up`, { cause });
  const [head = "", body = "", rest] = text.split("\n");
  const [top, manifest] = [head, body].map((line) => {
    try {
      const value: unknown = JSON.parse(line);
      return isJsonTable(value) ? value : undefined;
    } catch (cause) {
      throw refuse(`cannot be read (${messageOf(cause)})`, cause);
    }
  });
  if (rest !== "" || top?.sha256 !== hash("sha256", body)) throw refuse("was changed after it was written");
  if (manifest?.format !== FORMAT) throw refuse("is not that of a back-up");
  if (manifest.version !== VERSION)
    throw refuse(`has version ${String(manifest.version)}, and ${VERSION} is read here`);
  const read = BackupManifest.safeParse(manifest);
  if (!read.success) {
    const isFile = read.error.issues[0]?.path[0] === "files";
    throw refuse(isFile ? "names a file that no state folder has" : "lacks fields of one");
  }
  const paths = new Set<string>();
  for (const { path, serial } of read.data.files) {
    if (paths.has(path) || serial > read.data.serial || !isInside(path))
      throw refuse(`names a file that no state folder has: ${JSON.stringify(path)}`);
    paths.add(path);
  }
  return read.data;
}

/** A manifest must not name files outside of the restored folder. */
function isInside(path: string): boolean {
  const isPlain = path.split("/").every((name) => name !== "" && name !== "." && name !== ".." && !name.includes("\0"));
  return isPlain && isTruth(path);
}
