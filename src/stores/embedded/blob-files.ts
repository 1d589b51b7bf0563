import { createHash } from "node:crypto";
import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { RuntimeError } from "../../contract/error.ts";
import type { BlobStore } from "../../ports/store.ts";

const BLOB_ID = /^sha256:([0-9a-f]{64})$/;

/** Blobs as files named by their content; the first line of a file is its media type. */
export function createBlobFiles(folder: string, newId: () => string): BlobStore {
  const fileOf = (hash: string): string => join(folder, hash.slice(0, 2), hash);
  return {
    put: async ({ mediaType, data }) => {
      const hash = createHash("sha256").update(data).digest("hex");
      const path = fileOf(hash);
      const temporary = join(folder, hash.slice(0, 2), `${newId()}.tmp`);
      try {
        await mkdir(join(folder, hash.slice(0, 2)), { recursive: true, mode: 0o700 });
        const file = await open(temporary, "wx", 0o600);
        try {
          await file.writev([Buffer.from(`${mediaType}\n`), data]);
          await file.sync();
        } finally {
          await file.close();
        }
        await rename(temporary, path);
      } catch (cause) {
        await rm(temporary, { force: true });
        const why = cause instanceof Error ? cause.message : String(cause);
        throw new RuntimeError("SESSION_STORE_ERROR", `cannot keep a blob: ${why}`, { cause });
      }
      return `sha256:${hash}`;
    },
    get: async (blobId) => {
      const hash = BLOB_ID.exec(blobId)?.[1];
      if (hash === undefined) return undefined;
      const bytes = await readFile(fileOf(hash)).catch((error: NodeJS.ErrnoException) => {
        if (error.code === "ENOENT") return undefined;
        throw error;
      });
      if (bytes === undefined) return undefined;
      const line = bytes.indexOf(10);
      return { mediaType: bytes.toString("utf8", 0, line), data: bytes.subarray(line + 1) };
    },
  };
}
