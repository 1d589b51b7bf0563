import type { CheckpointStore } from "../../ports/store.ts";
import type { Connection } from "./connection.ts";

/** Checkpoints as rows, one a session. */
export function createCheckpoints(connection: Connection, realm: string): CheckpointStore {
  return {
    get: async (sessionId) => {
      const [found] = await connection.query<{ kept: string }>`
        select kept from rkat.checkpoints where realm = ${realm} and id = ${sessionId}`;
      return found?.kept;
    },
    put: async (sessionId, text) => {
      await connection.query`
        insert into rkat.checkpoints (realm, id, kept) values (${realm}, ${sessionId}, ${text})
        on conflict (realm, id) do update set kept = excluded.kept`;
    },
    remove: async (sessionId) => {
      await connection.query`delete from rkat.checkpoints where realm = ${realm} and id = ${sessionId}`;
    },
  };
}
