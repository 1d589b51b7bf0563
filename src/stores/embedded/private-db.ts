import { chmodSync, existsSync } from "node:fs";
import { open, type RootDatabase, type RootDatabaseOptions } from "lmdb";

/** Opens an LMDB file that only its owner may read. */
export function openPrivateDb<Value, Key extends string>(
  path: string,
  options: RootDatabaseOptions,
): RootDatabase<Value, Key> {
  const database = open<Value, Key>({ ...options, path, noSubdir: true });
  for (const file of [path, `${path}-lock`]) if (existsSync(file)) chmodSync(file, 0o600);
  return database;
}
