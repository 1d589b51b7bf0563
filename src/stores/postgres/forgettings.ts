import { hash } from "node:crypto";
import { RuntimeError } from "../../contract/error.ts";
import type { Forgettings, SignedReceipt } from "../../ports/forgettings.ts";
import { makeKey, signReceipt } from "../receipts.ts";
import { createFinder } from "../scan.ts";
import { createTally } from "../scan-tally.ts";
import type { Connection } from "./connection.ts";
import { scanTables } from "./scan.ts";

const JOBS = "forgetting_jobs";

/** Jobs, receipts and the key of each realm; texts are kept as JSON, since one of a database may not hold every character. */
export const FORGETTING_SCHEMA: readonly string[] = [
  `create table rkat.${JOBS} (
    realm text collate "C" not null,
    id text collate "C" not null,
    number bigint not null,
    job text not null,
    primary key (realm, id)
  )`,
  `create table rkat.forgetting_receipts (
    realm text collate "C" not null,
    sum text collate "C" not null,
    number bigint not null,
    receipt text not null,
    signature text not null,
    public_key text not null,
    primary key (realm, sum)
  )`,
  `create table rkat.forgetting_keys (realm text collate "C" primary key, key text not null)`,
];

export const FORGETTING_TABLES = [JOBS, "forgetting_receipts", "forgetting_keys"] as const;

/** Forgettings of a realm in a database; `folder` is what a process keeps beside it, and is looked at as well. */
export function createForgettings(
  connection: Connection,
  { realm, folder }: { readonly realm: string; readonly folder: string | undefined },
): Forgettings {
  return {
    begin: async (id, job) => {
      await connection.query`
        insert into rkat.forgetting_jobs (realm, id, number, job)
        select ${realm}, ${JSON.stringify(id)}, coalesce(max(number), 0) + 1, ${JSON.stringify(job)}
          from rkat.forgetting_jobs where realm = ${realm}
        on conflict (realm, id) do update set job = excluded.job`;
    },
    unfinished: async () => {
      const rows = await connection.query<{ id: string; job: string }>`
        select id, job from rkat.forgetting_jobs where realm = ${realm} order by number, id`;
      return rows.map(({ id, job }) => ({ id: JSON.parse(id), job: JSON.parse(job) }));
    },
    end: async (id) => {
      await connection.query`delete from rkat.forgetting_jobs where realm = ${realm} and id = ${JSON.stringify(id)}`;
      // The row would lie in the table's file until somebody cleans it up; who does not own the table is only warned.
      await connection.query`vacuum full rkat.forgetting_jobs`;
    },
    scan: async (texts, onProgress) => {
      const tally = createTally(onProgress);
      // The job of a forgetting names what it forgets, and ends with it.
      await scanTables({ connection, realm, finder: createFinder(texts), tally }, [JOBS]);
      const found = tally.end();
      if (folder === undefined) return found;
      const { scanFolder } = await import("../embedded/scan-folder.ts");
      const beside = await scanFolder({ folder, texts }, ({ places, bytes }) =>
        onProgress?.({ places: found.places + places, bytes: found.bytes + bytes }),
      );
      return {
        places: found.places + beside.places,
        bytes: found.bytes + beside.bytes,
        matches: [...found.matches, ...beside.matches],
        more: found.more + beside.more,
      };
    },
    keep: (receipt) =>
      connection.transaction(async (query) => {
        await query`
          insert into rkat.forgetting_keys (realm, key) values (${realm}, ${makeKey()}) on conflict do nothing`;
        // Its lock makes others wait, so that receipts are counted one after the other.
        const [row] = await query<{ key: string }>`
          select key from rkat.forgetting_keys where realm = ${realm} for update`;
        const signed = signWith(row?.key ?? "", receipt, realm);
        await query`
          insert into rkat.forgetting_receipts (realm, sum, number, receipt, signature, public_key)
          select ${realm}, ${hash("sha256", receipt)}, coalesce(max(number), 0) + 1,
              ${JSON.stringify(receipt)}, ${signed.signature}, ${signed.public_key}
            from rkat.forgetting_receipts where realm = ${realm}
          on conflict do nothing`;
        return signed;
      }),
    receipts: async () => {
      const rows = await connection.query<SignedReceipt>`
        select receipt, signature, public_key from rkat.forgetting_receipts where realm = ${realm} order by number`;
      return rows.map(({ receipt, signature, public_key }) => ({
        receipt: JSON.parse(receipt),
        signature,
        public_key,
      }));
    },
  };
}

function signWith(key: string, receipt: string, realm: string): SignedReceipt {
  try {
    return signReceipt(receipt, key);
  } catch (cause) {
    const message = `the row of realm ${realm} in rkat.forgetting_keys holds no key to sign with; put it back, or delete it`;
    throw new RuntimeError("SESSION_STORE_ERROR", message, { cause });
  }
}
