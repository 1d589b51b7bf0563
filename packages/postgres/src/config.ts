import { RuntimeError } from "@rkat/core/contract/error";
import type { ConfigStore, KeptLayer } from "@rkat/core/ports/config-store";
import { isLost } from "./client.ts";
import { type Connection, createLook } from "./connection.ts";
import type { Channel } from "./signals.ts";
import { inTransaction } from "./transaction.ts";

/** A change that nobody told is seen this late at most. */
const LOOK_MS = 2_000;

interface Configuration extends ConfigStore {
  close(): void;
}

/** A realm's own layer of the configuration as a row; every process has it at hand and hears when it changes. */
export async function openConfiguration(
  connection: Connection,
  { realm, channel, name }: { readonly realm: string; readonly channel: Channel; readonly name: string },
): Promise<Configuration> {
  const load = async (): Promise<KeptLayer> => {
    const [row] = await connection.query<{ generation: number; layer: string }>`
      select generation, layer from rkat.configuration where realm = ${realm}`;
    return row === undefined ? NOTHING : { generation: row.generation, layer: JSON.parse(row.layer) };
  };
  let kept = await load();
  let seen = kept.generation;
  // What is at hand holds until the database is there again.
  const { request } = createLook(async () => {
    const now = await load();
    if (now.generation > kept.generation) kept = now;
  });
  const timer = setInterval(request, LOOK_MS).unref();
  const unsubscribe = channel.listen((kind) => {
    if (kind === "config") request();
  });
  return {
    name,
    read: () => {
      seen = kept.generation;
      return kept;
    },
    hasChanged: () => kept.generation !== seen,
    change: async (make) => {
      const change = connection.runOnce((run) =>
        inTransaction(run, async (query) => {
          // A row to lock, also before the first change.
          await query`
            insert into rkat.configuration (realm, generation, layer) values (${realm}, 0, '{}') on conflict do nothing`;
          const [row] = await query<{ generation: number; layer: string }>`
            select generation, layer from rkat.configuration where realm = ${realm} for update`;
          const { generation, layer } = row ?? { generation: 0, layer: "{}" };
          const next = { generation: generation + 1, layer: make({ generation, layer: () => JSON.parse(layer) }) };
          await query`
            update rkat.configuration set generation = ${next.generation}, layer = ${JSON.stringify(next.layer)}
            where realm = ${realm}`;
          return next;
        }),
      );
      const changed = await change.catch((cause: unknown) => {
        if (!isLost(cause)) throw cause;
        const message = `the database was lost while ${name} was changed: read it to see whether it was`;
        throw new RuntimeError("SESSION_STORE_ERROR", message, { cause });
      });
      kept = changed;
      seen = changed.generation;
      channel.say(`config ${changed.generation}`);
      return changed;
    },
    close: () => {
      clearInterval(timer);
      unsubscribe();
    },
  };
}

const NOTHING: KeptLayer = { generation: 0, layer: {} };
