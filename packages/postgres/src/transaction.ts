import { isLost } from "./client.ts";
import { MEMORY_TABLES } from "./memory-schema.ts";
import { raw, type Sql, type Value } from "./sql.ts";

/** Runs the statement that it tags; rejects with the database's own error, or with one for which `isLost` holds. */
export type Query = <R extends object = Readonly<Record<string, unknown>>>(
  strings: TemplateStringsArray,
  ...values: readonly (Value | Sql)[]
) => Promise<readonly R[]>;

/** Statements on one connection: those given at once are sent at once, and done one after the other. */
export type Work<T> = (query: Query) => Promise<T>;

/** Does work in one transaction, whole or not at all. */
export async function inTransaction<T>(query: Query, work: Work<T>, mode = ""): Promise<T> {
  await query`begin ${raw(mode)}`;
  let result: T;
  try {
    result = await work(query);
  } catch (error) {
    if (!isLost(error)) await query`rollback`;
    throw error;
  }
  await query`commit`;
  return result;
}

const TABLES = ["entries", "sessions", "blobs", "checkpoints", ...MEMORY_TABLES] as const;
/** A large table takes longer than other statements may. */
const VACUUM_MS_MAX = 3_600_000;

/** Leaves nothing in the tables of rows that were changed or deleted; who does not own them is not let, and told so by the database. */
export async function vacuum(run: (work: Work<void>, answerMs: number) => Promise<void>): Promise<void> {
  await run(async (query) => {
    await query`set statement_timeout = 0`;
    try {
      for (const table of TABLES) await query`vacuum rkat.${raw(table)}`;
    } finally {
      await query`reset statement_timeout`;
    }
  }, VACUUM_MS_MAX);
}
