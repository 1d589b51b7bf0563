import { lstat, mkdir, open, readFile, rename, rm, rmdir, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { invalid, RuntimeError } from "../contract/error.ts";
import { z } from "../contract/schema.ts";
import type { Clock } from "../ports/clock.ts";
import type { Tool } from "../ports/tool.ts";
import { defineTool } from "./define-tool.ts";
import { applyHunks, type FilePatch, parsePatch } from "./patch-text.ts";
import { resolveInProject } from "./project-path.ts";

const PATCH_CHARS_MAX = 1_000_000;
const FILE_BYTES_MAX = 10_000_000;

const DESCRIPTION = `Add, change, move and delete text files of the project in one step: either all of the patch is applied or nothing.
*** Begin Patch
*** Add File: path/new.txt
+every line of the new file
*** Update File: path/old.txt
*** Move to: path/renamed.txt
@@ a line above the place, such as a function's head
 a line that stays
-a line that goes
+a line that comes
*** Delete File: path/gone.txt
*** End Patch
"*** Move to:" and the text after "@@" are optional; "*** End of File" after a hunk ties it to the file's end. Give about three unchanged lines around each change. Paths are relative to the project.`;

const ApplyPatch = z.strictObject({
  patch: z.string().min(1).max(PATCH_CHARS_MAX).describe('The patch, from "*** Begin Patch" to "*** End Patch"'),
});

interface ApplyPatchOptions {
  /** The project's folder; no file outside is read or written. */
  readonly root: string;
  readonly clock: Clock;
  readonly lock?: FileLock;
}

/** Runs one change of files at a time: two that read the same file before either wrote would lose a change. */
export type FileLock = <T>(change: () => Promise<T>) => Promise<T>;

export function createFileLock(): FileLock {
  let previous: Promise<unknown> = Promise.resolve();
  return (change) => {
    const done = previous.then(change);
    previous = done.catch(() => undefined);
    return done;
  };
}

export function createApplyPatchTool({ root, clock, lock = createFileLock() }: ApplyPatchOptions): Tool {
  return defineTool({
    name: "apply_patch",
    description: DESCRIPTION,
    input: ApplyPatch,
    run: ({ patch }, { signal }) =>
      lock(async () => {
        const plans = await planChanges(root, parsePatch(patch));
        const changes = plans.map(({ change }) => change);
        await makeChanges(changes, { signal, newId: () => clock.newId() });
        return plans.map(({ report }) => report).join("\n");
      }),
  });
}

interface Making {
  readonly signal: AbortSignal;
  readonly newId: () => string;
}

/** Makes all changes or none; the start is the last moment at which they can be interrupted. */
export async function makeChanges(changes: readonly FileChange[], { signal, newId }: Making): Promise<void> {
  if (signal.aborted) throw new RuntimeError("REQUEST_CANCELLED", "the patch was interrupted; no file was changed");
  await commitChanges(changes, newId);
}

interface PlannedChange {
  readonly change: FileChange;
  /** "A path", "M path" or "D path". */
  readonly report: string;
}

async function planChanges(root: string, files: readonly FilePatch[]): Promise<readonly PlannedChange[]> {
  const plans: PlannedChange[] = [];
  for (const file of files) plans.push(...(await planFile(root, file)));
  const seen = new Set<string>();
  for (const { change, report } of plans) {
    if (seen.has(change.path)) throw invalid(`${report.slice(2)} appears twice in the patch; give it one section`);
    seen.add(change.path);
  }
  return plans;
}

async function planFile(root: string, file: FilePatch): Promise<readonly PlannedChange[]> {
  const path = await resolveInProject(root, file.path);
  switch (file.kind) {
    case "add": {
      const bytes = Buffer.from(file.lines.map((line) => `${line}\n`).join(""));
      return [await planCreation(path, file.path, { bytes, mode: undefined })];
    }
    case "delete":
      return [await planDeletion(root, path, file.path)];
    case "update": {
      const before = await readExisting(path, file.path);
      const text = applyHunks(file.path, decodeText(before.bytes, file.path), file.hunks);
      const after = { bytes: Buffer.from(text), mode: before.mode };
      if (file.moveTo === undefined) return [{ change: { path, before, after }, report: `M ${file.path}` }];
      const target = await resolveInProject(root, file.moveTo);
      return [await planCreation(target, file.moveTo, after), await planDeletion(root, path, file.path)];
    }
  }
}

async function planCreation(path: string, name: string, after: FileState): Promise<PlannedChange> {
  if ((await statOf(path)) !== undefined) throw invalid(`${name} exists already`);
  return { change: { path, before: undefined, after }, report: `A ${name}` };
}

async function planDeletion(root: string, path: string, name: string): Promise<PlannedChange> {
  // The path is resolved through the link: deleting it would remove the linked file and leave the link.
  if ((await statOf(join(root, name)))?.isSymbolicLink()) {
    throw invalid(`${name} is a symbolic link and cannot be moved or deleted`);
  }
  return { change: { path, before: await readExisting(path, name), after: undefined }, report: `D ${name}` };
}

export async function readExisting(path: string, name: string): Promise<FileState> {
  const stat = await statOf(path);
  if (stat === undefined) throw invalid(`${name} does not exist`);
  if (!stat.isFile()) throw invalid(`${name} is not a regular file`);
  if (stat.size > FILE_BYTES_MAX) throw invalid(`${name} is larger than ${FILE_BYTES_MAX} bytes`);
  return { bytes: await readFile(path), mode: stat.mode & 0o7777 };
}

async function statOf(path: string) {
  try {
    return await lstat(path);
  } catch (error) {
    const isAbsent = error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR");
    if (isAbsent) return undefined;
    throw error;
  }
}

export function decodeText(bytes: Uint8Array, name: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw invalid(`${name} is not UTF-8 text`, cause);
  }
}

interface FileState {
  readonly bytes: Uint8Array;
  readonly mode: number | undefined;
}

/** One file before and after; undefined means that it does not exist. */
export interface FileChange {
  readonly path: string;
  readonly before: FileState | undefined;
  readonly after: FileState | undefined;
}

/** Makes all changes or, if one fails, none; readers see each file old or new, never half written. */
export async function commitChanges(changes: readonly FileChange[], newId: () => string): Promise<void> {
  const staged: Staged[] = [];
  const done: FileChange[] = [];
  try {
    // Everything that can run out of space happens before the first file changes.
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
  /** Absent for a deletion. */
  readonly temporary: string | undefined;
  /** Folders created for the file, deepest first. */
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

/** Removes a folder we created, unless it is no longer empty. */
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

/** A rename is durable only after its folder is synced. */
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
