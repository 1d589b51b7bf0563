import { isLost } from "./client.ts";
import { MEMORY_TABLES } from "./memory-schema.ts";
import { raw, type Sql, type Value } from "./sql.ts";

/** Runs the statement that it tags; rejects with the database's own error, or with one for which `isLost` holds. */
export type Query = <R extends object = Readonly<Record<string, unknown>>>(
  strings: TemplateStringsArray,
  ...values: readonly (Value | Sql)[]
) => Promise<readonly R[]>;

/** Statements on one connection: concurrent ones are sent at once and run in order. */
export type Work<T> = (query: Query) => Promise<T>;

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
/** A large table takes longer than the limit of other statements. */
const VACUUM_MS_MAX = 3_600_000;

/** Removes changed and deleted rows from the files of the tables; the database warns a user who does not own them. */
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
