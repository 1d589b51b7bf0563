import { mkdir, open, realpath, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { RuntimeError } from "../../../contract/error.ts";
import { isErrno } from "../../wire/realm.ts";
import { unwritable, writeWhole } from "./output-file.ts";

/** Works on a file while nobody else does: two commands at once must not undo each other. */
export async function alone<T>(path: string, work: () => Promise<T>): Promise<T> {
  const lock = `${path}${LOCK_ENDING}`;
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    for (let tries = 1; !(await isTaken(lock)); tries += 1) {
      if (tries > LOCK_TRIES_MAX) {
        throw new RuntimeError(
          "INVALID_PARAMS",
          `${path} is being changed by another command; if none is, remove ${lock}`,
        );
      }
      await wait(LOCK_WAIT_MS);
    }
  } catch (cause) {
    throw cause instanceof RuntimeError ? cause : unwritable(path, cause);
  }
  try {
    return await work();
  } finally {
    await rm(lock, { force: true });
  }
}

/** How the file is called that says that another one is being changed. */
export const LOCK_ENDING = ".lock";
const LOCK_TRIES_MAX = 100;
const LOCK_WAIT_MS = 50;

async function isTaken(lock: string): Promise<boolean> {
  try {
    await (await open(lock, "wx", 0o600)).close();
    return true;
  } catch (thrown) {
    if (isErrno(thrown) && thrown.code === "EEXIST") return false;
    throw thrown;
  }
}

/** Writes a file whole or not at all: through a link to the file it stands for, and as closed to others as it was. */
export async function replaceFile(path: string, text: string, newMode = 0o600): Promise<void> {
  const target = await realpath(path).catch(() => path);
  const { mode } = await stat(target).catch(() => ({ mode: newMode }));
  await writeWhole(target, { shown: path, isForced: true }, async (file) => {
    await file.chmod(mode & 0o777);
    await file.writeFile(text);
    return text.length;
  });
}
