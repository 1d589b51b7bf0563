import { lstat, readdir, readFile } from "node:fs/promises";
import { type FileCalls, nodeFileCalls } from "../file-calls.ts";

/** What the vault needs of the file system, so that a test can make any call fail. */
export interface VaultCalls extends Pick<FileCalls, "isLink" | "makeFolder" | "write" | "rename" | "remove"> {
  /** Names of what is in a folder, in no order; none when there is no such folder. */
  list(path: string): Promise<readonly string[]>;
  /** How large a file is; undefined when there is none, and for a link, a folder or a pipe. */
  size(path: string): Promise<number | undefined>;
  read(path: string): Promise<Uint8Array>;
}

export const nodeVaultCalls: VaultCalls = {
  ...nodeFileCalls,
  list: (path) => readdir(path).catch(whenAbsent([])),
  size: async (path) => {
    const found = await lstat(path).catch(whenAbsent(undefined));
    return found?.isFile() ? found.size : undefined;
  },
  read: (path) => readFile(path),
};

/** Nobody reads half a file. It is not synced: what a power cut takes is derived, and the log still has it. */
export async function replace(io: VaultCalls, path: string, text: string): Promise<void> {
  await io.write(`${path}.tmp`, text);
  try {
    await io.rename(`${path}.tmp`, path);
  } catch (error) {
    // Another process that catches up with the same log has put the same text in place.
    if (!isAbsence(error) || (await io.size(path)) === undefined) throw error;
  }
}

function whenAbsent<T>(otherwise: T): (error: unknown) => T {
  return (error) => {
    if (isAbsence(error)) return otherwise;
    throw error;
  };
}

function isAbsence(error: unknown): boolean {
  return isOfDisk(error) && error.code === "ENOENT";
}

export function isOfDisk(error: unknown): error is Error & { readonly code: unknown } {
  return error instanceof Error && "code" in error;
}
