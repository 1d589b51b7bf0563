import { hash, randomUUID } from "node:crypto";
import { existsSync, linkSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { hasCode, messageOf, RuntimeError } from "@rkat/core/contract/error";
import { type BackupAt, BackupNote } from "@rkat/core/contract/portable";
import { entriesIn, isAbsent, replaceFile } from "../log/whole-file.ts";
import { manifestOf } from "./backup-reader.ts";

/** A back-up that was made of a realm, as it is found now. */
export interface KnownBackup extends BackupAt {
  /** All that it holds is of this time or later; what was forgotten afterwards is perhaps still in it. */
  readonly at_ms: number;
  /** `unfinished`: a back-up there was stopped; `missing`, `unreadable`: its content is unknown, and `why` is the reason. */
  readonly state: "there" | "unfinished" | "missing" | "unreadable";
  readonly why?: string;
}

const FOLDER = "backups";

/** The back-ups that were ever made of a state folder, the newest first; each place is looked at. */
export async function knownBackups(folder: string): Promise<readonly KnownBackup[]> {
  const store = readStoreId(folder);
  return readNotes(folder)
    .map((note) => lookAt(note, store))
    .sort((a, b) => b.at_ms - a.at_ms);
}

function lookAt({ place, at_ms, begun_ms }: BackupNote, store: string | undefined): KnownBackup {
  const isStopped = begun_ms !== undefined && [place, `${place}.new`].some((path) => existsSync(path));
  try {
    const manifest = manifestOf(place);
    if (manifest.store !== store)
      return { place, at_ms, state: "unreadable", why: `${place} now holds a back-up of another realm` };
    // The older of the two, since it may have been put back from elsewhere.
    return { place, at_ms: Math.min(at_ms, manifest.at_ms), state: isStopped ? "unfinished" : "there" };
  } catch (error) {
    if (!hasCode(error, "INVALID_PARAMS") && !isAbsent(error))
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

/** The notes of back-ups, without a look at the places. */
export function readNotes(folder: string): readonly BackupNote[] {
  const names = entriesIn(join(folder, FOLDER)).map(({ name }) => name);
  return names
    .filter((name) => name.endsWith(".json"))
    .map((name) => {
      const path = join(folder, FOLDER, name);
      try {
        return BackupNote.parse(JSON.parse(readFileSync(path, "utf8")));
      } catch (cause) {
        const message = `${path} is no note of a back-up; delete it if you know the place`;
        throw new RuntimeError("SESSION_STORE_ERROR", message, { cause });
      }
    });
}

const NAME_DIGITS = 16;

/** One file per place; the process that writes it holds the lock of the place. */
function writeNote(folder: string, note: BackupNote): void {
  const name = `${hash("sha256", note.place).slice(0, NAME_DIGITS)}.json`;
  replaceFile(join(folder, FOLDER, name), `${JSON.stringify(note)}\n`);
}

/** Identifies the realm; its back-ups carry it. Undefined before the first back-up. */
function readStoreId(folder: string): string | undefined {
  const path = join(folder, FOLDER, "id");
  return existsSync(path) ? readFileSync(path, "utf8").trim() : undefined;
}

/** The same, made where there is none; of two processes that make it at once the first one wins. */
export function storeId(folder: string): string {
  const known = readStoreId(folder);
  if (known !== undefined) return known;
  const path = join(folder, FOLDER, "id");
  replaceFile(path, `${randomUUID()}\n`, `${path}.${randomUUID()}.new`, (made) => {
    try {
      linkSync(made, path);
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    }
  });
  return storeId(folder);
}
