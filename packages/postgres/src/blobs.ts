import { createHash } from "node:crypto";
import { RuntimeError } from "@rkat/core/contract/error";
import type { BlobStore } from "@rkat/core/ports/store";
import type { Connection } from "./connection.ts";
import { ROWS_MAX } from "./rows.ts";

/** Blobs as rows named by their content. */
export function createBlobs(connection: Connection, realm: string): BlobStore {
  return {
    put: async ({ mediaType, data }) => {
      const id = idOf(data);
      await connection.query`
        insert into rkat.blobs (realm, id, media_type, data)
        values (${realm}, ${id}, ${JSON.stringify(mediaType)}, ${Buffer.from(data)})
        on conflict do nothing`;
      return id;
    },
    get: async (blobId) => {
      const [found] = await connection.query<{ media_type: string; data: Buffer }>`
        select media_type, data from rkat.blobs where realm = ${realm} and id = ${JSON.stringify(blobId).slice(1, -1)}`;
      if (found === undefined) return undefined;
      if (idOf(found.data) !== blobId)
        throw new RuntimeError(
          "SESSION_STORE_ERROR",
          `the row of ${blobId} is damaged: its content does not match its id`,
        );
      return { mediaType: JSON.parse(found.media_type), data: found.data };
    },
    ids: async (after, max) => {
      const found = await connection.query<{ id: string }>`
        select id from rkat.blobs where realm = ${realm} and id > ${JSON.stringify(after).slice(1, -1)}
        order by id limit ${Math.min(max, ROWS_MAX)}`;
      return found.map(({ id }) => id);
    },
    remove: async (blobId) => {
      await connection.query`delete from rkat.blobs where realm = ${realm} and id = ${JSON.stringify(blobId).slice(1, -1)}`;
    },
  };
}

function idOf(data: Uint8Array): string {
  return `sha256:${createHash("sha256").update(data).digest("hex")}`;
}
