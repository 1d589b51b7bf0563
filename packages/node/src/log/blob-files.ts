import { createHash } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { crc32 } from "node:zlib";
import { RuntimeError } from "@rkat/core/contract/error";
import { type Seal, SHARED_OWNERS } from "@rkat/core/ports/seal";
import type { BlobStore } from "@rkat/core/ports/store";
import { sealOn } from "@rkat/core/stores/sealing";

const BLOB_ID = /^sha256:([0-9a-f]{64})$/;

/** Blobs as files named by content hash; the first line has the media type and its checksum. */
export function createBlobFiles(folder: string, newId: () => string, seal?: Seal): BlobStore {
  const fileOf = (hash: string): string => join(folder, hash.slice(0, 2), hash);
  /** The parts of a file: first line and content, or both encrypted. */
  const partsOf = (hash: string, mediaType: string, data: Uint8Array): readonly (string | Uint8Array)[] => {
    if (seal === undefined) return [firstLine(mediaType), data];
    return [
      seal.seal(SHARED_OWNERS.blobs, Buffer.concat([Buffer.from(firstLine(mediaType)), data]), Buffer.from(hash)),
    ];
  };
  const plainOf = (hash: string, kept: Buffer): Buffer => {
    const by = sealOn(kept, seal, fileOf(hash));
    return by === undefined ? kept : Buffer.from(by.open(SHARED_OWNERS.blobs, kept, Buffer.from(hash)));
  };
  return {
    put: async ({ mediaType, data }) => {
      const hash = createHash("sha256").update(data).digest("hex");
      const path = fileOf(hash);
      const temporary = join(folder, hash.slice(0, 2), `${newId()}.tmp`);
      try {
        await mkdir(join(folder, hash.slice(0, 2)), { recursive: true, mode: 0o700 });
        const file = await open(temporary, "wx", 0o600);
        try {
          // A single call may write only a part.
          for (const part of partsOf(hash, mediaType, data)) await file.writeFile(part);
          await file.sync();
        } finally {
          await file.close();
        }
        await rename(temporary, path);
        // A file survives a power cut only if its parent folders were synced.
        for (const parent of [dirname(path), folder]) await syncFolder(parent);
      } catch (cause) {
        // A leftover that cannot be removed does no harm.
        await rm(temporary, { force: true }).catch(() => {});
        const why = cause instanceof Error ? cause.message : String(cause);
        throw new RuntimeError("SESSION_STORE_ERROR", `cannot keep a blob: ${why}`, { cause });
      }
      return `sha256:${hash}`;
    },
    get: async (blobId) => {
      const hash = BLOB_ID.exec(blobId)?.[1];
      if (hash === undefined) return undefined;
      const kept = await readFile(fileOf(hash)).catch((error: NodeJS.ErrnoException) => {
        if (error.code === "ENOENT") return undefined;
        throw error;
      });
      if (kept === undefined) return undefined;
      const bytes = plainOf(hash, kept);
      const line = bytes.indexOf(10);
      const mediaType = bytes.toString("utf8", 0, Math.max(0, line - CHECKSUM_CHARS));
      const data = bytes.subarray(line + 1);
      const isSound =
        bytes.toString("utf8", 0, line + 1) === firstLine(mediaType) &&
        createHash("sha256").update(data).digest("hex") === hash;
      if (!isSound) throw new RuntimeError("SESSION_STORE_ERROR", `${fileOf(hash)} is damaged: it is not ${blobId}`);
      return { mediaType, data };
    },
    ids: async (after, max) => {
      const ids: string[] = [];
      // Folders are named by the first two digits of their blobs.
      for (const name of (await namesIn(folder)).filter(
        (prefix) => `sha256:${prefix}` >= after.slice(0, PREFIX_CHARS),
      )) {
        if (ids.length >= max) break;
        const hashes = (await namesIn(join(folder, name))).map((hash) => `sha256:${hash}`);
        ids.push(...hashes.filter((id) => BLOB_ID.test(id) && id > after));
      }
      return ids.slice(0, max);
    },
    remove: async (blobId) => {
      const hash = BLOB_ID.exec(blobId)?.[1];
      if (hash !== undefined) await rm(fileOf(hash), { force: true });
    },
  };
}

const PREFIX_CHARS = "sha256:00".length;

/** The names in a folder, in order; none if it is missing. */
async function namesIn(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException): readonly string[] => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return [];
    throw error;
  });
  return [...names].sort();
}

/** A blank and eight digits. */
const CHECKSUM_CHARS = 9;

function firstLine(mediaType: string): string {
  return `${mediaType} ${crc32(mediaType)
    .toString(16)
    .padStart(CHECKSUM_CHARS - 1, "0")}\n`;
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
