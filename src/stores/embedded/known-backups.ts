import { hash, randomUUID } from "node:crypto";
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { messageOf, RuntimeError } from "../../contract/error.ts";
import { type BackupAt, backupAt } from "./backup-manifest.ts";
import { manifestOf } from "./backup-reader.ts";
import { isAbsent } from "./backup-source.ts";
import { syncFolder } from "./segments.ts";

/** A back-up that was made of a realm, as it is found now. */
export interface KnownBackup extends BackupAt {
  /** All that it holds is of this time or later; what was forgotten afterwards is perhaps still in it. */
  readonly at_ms: number;
  /** `unfinished`: a back-up there was stopped; `missing`, `unreadable`: nobody can say what is there, and `why` says so. */
  readonly state: "there" | "unfinished" | "missing" | "unreadable";
  readonly why?: string;
}

/** What is noted of a place. */
interface Note extends BackupAt {
  /** There while a back-up is made, and after one was stopped. */
  readonly begun_ms?: number | undefined;
}

const FOLDER = "backups";

/** The back-ups that were ever made of a state folder, the newest first; each place is looked at. */
export async function knownBackups(folder: string): Promise<readonly KnownBackup[]> {
  const store = readStoreId(folder);
  return readNotes(folder)
    .map((note) => lookAt(note, store))
    .sort((a, b) => b.at_ms - a.at_ms);
}

function lookAt({ place, at_ms, begun_ms }: Note, store: string | undefined): KnownBackup {
  const isStopped = begun_ms !== undefined && [place, `${place}.new`].some((path) => existsSync(path));
  try {
    const manifest = manifestOf(place);
    if (manifest.store !== store)
      return { place, at_ms, state: "unreadable", why: `${place} now holds a back-up of another realm` };
    // The older of the two, since it may have been put back from elsewhere.
    return { place, at_ms: Math.min(at_ms, manifest.at_ms), state: isStopped ? "unfinished" : "there" };
  } catch (error) {
    if (!(error instanceof RuntimeError && error.code === "INVALID_PARAMS") && !isAbsent(error))
      return { place, at_ms, state: "unreadable", why: messageOf(error) };
    return isStopped
      ? { place, at_ms, state: "unfinished" }
      : { place, at_ms, state: "missing", why: messageOf(error) };
  }
}

/** Notes that a back-up is begun, before anything is read: what is forgotten meanwhile may be in it. */
export function noteBegun(folder: string, place: string, nowMs: number): void {
  const known = readNotes(folder).find((note) => note.place === place);
  writeNote(folder, { place, at_ms: known?.at_ms ?? nowMs, begun_ms: nowMs });
}

/** Notes of when a back-up is that was finished. */
export function noteFinished(folder: string, { place, at_ms }: BackupAt): void {
  writeNote(folder, { place, at_ms });
}

/** What is noted of back-ups, without looking at them. */
export function readNotes(folder: string): readonly Note[] {
  return namesIn(join(folder, FOLDER))
    .filter((name) => name.endsWith(".json"))
    .flatMap((name) => {
      const path = join(folder, FOLDER, name);
      const note = parseNote(readFileSync(path, "utf8"));
      if (note === undefined)
        throw new RuntimeError(
          "SESSION_STORE_ERROR",
          `${path} is no note of a back-up; delete it if you know the place`,
        );
      return note;
    });
}

function parseNote(text: string): Note | undefined {
  try {
    const note: unknown = JSON.parse(text);
    if (typeof note !== "object" || note === null) return undefined;
    const known = backupAt({ ...note });
    const begun = "begun_ms" in note && typeof note.begun_ms === "number" ? note.begun_ms : undefined;
    return known === undefined ? undefined : { ...known, begun_ms: begun };
  } catch {
    return undefined;
  }
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).sort();
  } catch (error) {
    if (isAbsent(error)) return [];
    throw error;
  }
}

const NAME_DIGITS = 16;

/** A file a place: whoever writes one has the place for itself. */
function writeNote(folder: string, note: Note): void {
  const path = join(folder, FOLDER, `${hash("sha256", note.place).slice(0, NAME_DIGITS)}.json`);
  writeWhole(path, `${JSON.stringify(note)}\n`, (made) => renameSync(made, path));
}

function writeWhole(path: string, text: string, put: (made: string) => void): void {
  const made = `${path}.${randomUUID()}.new`;
  mkdirSync(join(path, ".."), { recursive: true, mode: 0o700 });
  try {
    const fd = openSync(made, "wx", 0o600);
    try {
      writeFileSync(fd, text);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    put(made);
    syncFolder(join(path, ".."));
  } finally {
    rmSync(made, { force: true });
  }
}

/** What tells a realm from others; it goes with its back-ups. Undefined before the first. */
function readStoreId(folder: string): string | undefined {
  try {
    return readFileSync(join(folder, FOLDER, "id"), "utf8").trim();
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

/** The same, made where there is none; of two that make it at once one wins. */
export function storeId(folder: string): string {
  const known = readStoreId(folder);
  if (known !== undefined) return known;
  const path = join(folder, FOLDER, "id");
  writeWhole(path, `${randomUUID()}\n`, (made) => {
    try {
      linkSync(made, path);
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    }
  });
  return storeId(folder);
}
