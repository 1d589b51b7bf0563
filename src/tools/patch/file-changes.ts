import { lstat, mkdir, open, rename, rm, rmdir, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { RuntimeError } from "../../contract/error.ts";

/** A file's bytes and, where it exists already, its permission bits. */
export interface FileState {
  readonly bytes: Uint8Array;
  readonly mode: number | undefined;
}

/** One file before and after; undefined is a file that is not there. */
export interface FileChange {
  readonly path: string;
  readonly before: FileState | undefined;
  readonly after: FileState | undefined;
}

/** Makes all changes or, when one fails, none; a reader sees each file old or new, never half written. */
export async function commitChanges(changes: readonly FileChange[], newId: () => string): Promise<void> {
  const staged: Staged[] = [];
  const done: FileChange[] = [];
  try {
    // Everything that can run out of room happens here, before the first file of the project changes.
    for (const change of changes) staged.push(await stage(change, newId()));
    for (const { change, temporary } of staged) {
      await (temporary === undefined ? unlink(change.path) : rename(temporary, change.path));
      done.push(change);
    }
    await syncFolders(changes.map(({ path }) => dirname(path)));
  } catch (cause) {
    try {
      await rollBack(done, newId);
    } finally {
      await discard(staged);
    }
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new RuntimeError("AGENT_ERROR", `no file was changed: ${reason}`, { cause });
  }
}

interface Staged {
  readonly change: FileChange;
  /** Absent where the change is a deletion. */
  readonly temporary: string | undefined;
  /** Folders made for the file, deepest first. */
  readonly folders: readonly string[];
}

async function stage(change: FileChange, id: string): Promise<Staged> {
  if (change.after === undefined) return { change, temporary: undefined, folders: [] };
  const folder = dirname(change.path);
  const first = await mkdir(folder, { recursive: true });
  const folders = first === undefined ? [] : foldersBetween(folder, first);
  const temporary = join(folder, `.rkat-${id}.tmp`);
  try {
    await writeDurably(temporary, change.after);
  } catch (error) {
    await discard([{ change, temporary, folders }]);
    throw error;
  }
  return { change, temporary, folders };
}

async function writeDurably(path: string, state: FileState): Promise<void> {
  const file = await open(path, "wx", 0o666);
  try {
    await file.writeFile(state.bytes);
    if (state.mode !== undefined) await file.chmod(state.mode);
    await file.sync();
  } finally {
    await file.close();
  }
}

function foldersBetween(deepest: string, first: string): readonly string[] {
  return deepest === first ? [first] : [deepest, ...foldersBetween(dirname(deepest), first)];
}

async function rollBack(done: readonly FileChange[], newId: () => string): Promise<void> {
  for (const { path, before } of done.toReversed()) {
    try {
      if (before === undefined) {
        await unlink(path);
        continue;
      }
      const temporary = join(dirname(path), `.rkat-${newId()}.tmp`);
      await writeDurably(temporary, before);
      await rename(temporary, path);
    } catch (cause) {
      throw new RuntimeError("AGENT_ERROR", `the patch failed half way and ${path} could not be restored`, { cause });
    }
  }
}

async function discard(staged: readonly Staged[]): Promise<void> {
  for (const { temporary, folders } of staged.toReversed()) {
    if (temporary !== undefined) await rm(temporary, { force: true });
    for (const folder of folders) await removeFolder(folder);
  }
}

/** Removes a folder we made, unless someone has put something there since. */
async function removeFolder(folder: string): Promise<void> {
  try {
    await rmdir(folder);
  } catch (error) {
    const isThere = await lstat(folder).then(
      () => true,
      () => false,
    );
    const isFilled = error instanceof Error && "code" in error && error.code === "ENOTEMPTY";
    if (isThere && !isFilled) throw error;
  }
}

/** A rename is on disk only once its folder is. */
async function syncFolders(folders: readonly string[]): Promise<void> {
  for (const folder of new Set(folders)) {
    const handle = await open(folder, "r");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }
}
