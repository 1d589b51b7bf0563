import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Seal } from "../../ports/seal.ts";
import type { CheckpointStore } from "../../ports/store.ts";
import { isUnreadable, sealOn } from "../sealing.ts";

/** Ids are names of files here; their last digits, which are by chance, are those of the shelf. */
const SESSION_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{10}([0-9a-f]{2})$/;

/**
 * Checkpoints as files, one a session. Nothing is synced, and two processes may write one at once: what comes of that is
 * seen by whoever reads it, and costs a reading of the log.
 */
export function createCheckpointFiles(folder: string, seal?: Seal): CheckpointStore {
  const folderOf = (sessionId: string): string | undefined => {
    const subfolder = SESSION_ID.exec(sessionId)?.[1];
    return subfolder === undefined ? undefined : join(folder, subfolder);
  };
  /** What does not open is taken for none, as anything else that became of one. */
  const opened = (sessionId: string, bytes: Buffer): string | undefined => {
    try {
      const by = sealOn(bytes, seal, `the checkpoint of session ${sessionId}`);
      return (by === undefined ? bytes : Buffer.from(by.open(sessionId, bytes, PLACE))).toString();
    } catch (error) {
      if (isUnreadable(error)) return undefined;
      throw error;
    }
  };
  return {
    get: async (sessionId) => {
      const subfolder = folderOf(sessionId);
      if (subfolder === undefined) return undefined;
      const bytes = await readFile(join(subfolder, sessionId)).catch((error: NodeJS.ErrnoException) => {
        if (error.code === "ENOENT") return undefined;
        throw error;
      });
      return bytes === undefined ? undefined : opened(sessionId, bytes);
    },
    put: async (sessionId, text) => {
      const subfolder = folderOf(sessionId);
      if (subfolder === undefined) return;
      const path = join(subfolder, sessionId);
      await mkdir(subfolder, { recursive: true, mode: 0o700 });
      // The same name each time: what a process that died has left is written over.
      const kept = seal === undefined ? text : seal.seal(sessionId, Buffer.from(text), PLACE);
      await writeFile(`${path}.new`, kept, { mode: 0o600 });
      await rename(`${path}.new`, path);
    },
    remove: async (sessionId) => {
      const subfolder = folderOf(sessionId);
      if (subfolder === undefined) return;
      for (const name of [sessionId, `${sessionId}.new`]) await rm(join(subfolder, name), { force: true });
    },
  };
}

const PLACE = Buffer.from("checkpoint");
