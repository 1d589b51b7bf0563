import {
  closeSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  truncateSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { invalid } from "@rkat/core/contract/error";
import type { BackedFile, BackupManifest } from "@rkat/core/contract/portable";
import { nodeSegmentIo, syncFolder } from "../log/segments.ts";
import { createFileWriter, lockAt, replaceFile } from "../log/whole-file.ts";
import { FILES, formatManifest, MANIFEST, storedPath } from "./backup-manifest.ts";
import { filesBelow, LOCK, manifestOf, readManifest } from "./backup-reader.ts";
import { createTarWriter } from "./tar.ts";

/** The target of a back-up. The previous back-up stays valid until `finish`. */
export interface BackupTarget {
  readonly before: BackupManifest | undefined;
  /** Whether a copy exists with at least the length in the manifest. */
  holds(file: BackedFile): boolean;
  /** Writes a copy, or the bytes after its first `from`. */
  write(copy: Copy, chunks: Iterable<Buffer>): Promise<void>;
  /** Publishes the manifest and removes files it does not name; resolves with their number. */
  finish(manifest: BackupManifest): Promise<number>;
  close(): Promise<void>;
}

interface Copy extends Pick<BackedFile, "path" | "serial" | "bytes"> {
  readonly from: number;
}

/** Whether a back-up of this name is one file rather than a folder. */
export function isTar(place: string): boolean {
  return /\.tar$/i.test(place);
}

/** Opens a target folder for this process alone; throws INVALID_PARAMS if it holds other files. */
export function openFolderTarget(place: string): BackupTarget {
  mkdirSync(place, { recursive: true, mode: 0o700 });
  const other = readdirSync(place).find((name) => ![LOCK, FILES, MANIFEST, `${MANIFEST}.new`].includes(name));
  if (other !== undefined) {
    throw invalid(`${place} holds other things (${other}); name a folder that is new, empty or a back-up`);
  }
  const lock = lockAt(
    join(place, LOCK),
    `another back-up to ${place} is being made; wait for it, or name another folder`,
  );
  try {
    const there = new Map(filesBelow(join(place, FILES)).map(({ path, bytes }) => [`${FILES}/${path}`, bytes]));
    const files = createFileWriter(place);
    return {
      before: readManifest(place),
      holds: (file) => (there.get(storedPath(file)) ?? -1) >= file.bytes,
      write: (copy, chunks) => files.write(storedPath(copy), chunks, copy.from),
      finish: async (manifest) => {
        await files.done();
        replaceFile(join(place, MANIFEST), formatManifest(manifest));
        return sweep(place, manifest);
      },
      close: () => files.settled().finally(() => closeSync(lock)),
    };
  } catch (error) {
    closeSync(lock);
    throw error;
  }
}

/** Removes copies that the manifest does not name: they hold erased or replaced data. */
function sweep(place: string, { files }: BackupManifest): number {
  const named = new Map(files.map((file) => [storedPath(file), file.bytes]));
  let dropped = 0;
  for (const { path, bytes } of filesBelow(join(place, FILES))) {
    const kept = named.get(`${FILES}/${path}`);
    if (kept === undefined) {
      rmSync(join(place, FILES, path));
      dropped += 1;
    } else if (bytes > kept) truncateSync(join(place, FILES, path), kept);
  }
  removeEmpty(join(place, FILES));
  return dropped;
}

function removeEmpty(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (!entry.isDirectory()) continue;
    const path = join(folder, entry.name);
    removeEmpty(path);
    if (readdirSync(path).length === 0) rmdirSync(path);
  }
}

/** Opens a target file. It is written completely each time and renamed when whole. */
export function openTarTarget(place: string): BackupTarget {
  const made = `${place}.new`;
  mkdirSync(dirname(place), { recursive: true, mode: 0o700 });
  const before = lstatSync(place, { throwIfNoEntry: false }) === undefined ? undefined : beforeAt(place);
  const fd = lockAt(made, `another back-up to ${place} is being made; wait for it, or name another file`);
  ftruncateSync(fd, 0);
  const tar = createTarWriter(fd);
  let isFinished = false;
  return {
    before,
    holds: () => false,
    write: (copy, chunks) => tar.add({ name: storedPath(copy), chunks, bytes: copy.bytes }),
    finish: async (manifest) => {
      await tar.add({ name: MANIFEST, chunks: [formatManifest(manifest)] });
      await tar.finish();
      await nodeSegmentIo.sync(fd);
      renameSync(made, place);
      syncFolder(dirname(place));
      isFinished = true;
      return 0;
    },
    close: async () => {
      // While the lock is held: an unfinished file is useless.
      if (!isFinished) rmSync(made, { force: true });
      closeSync(fd);
    },
  };
}

/** The manifest of the file to replace: only a back-up may be replaced. */
function beforeAt(place: string): BackupManifest {
  try {
    return manifestOf(place);
  } catch (cause) {
    throw invalid(`${place} is there and is no back-up that can be read; delete it, or name another file`, cause);
  }
}
