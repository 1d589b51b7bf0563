import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { openPrivateDb } from "@rkat/node/tables/private-db";

/** What a memory takes on the disk, by what it is for. */
export interface StoredBytes {
  readonly texts: number;
  readonly postings: number;
  readonly vectors: number;
  readonly signatures: number;
  /** Sessions, cursors, which vectors are there. */
  readonly rest: number;
  /** What merging has left behind, until the file is written anew; and where everything lies. */
  readonly free: number;
}

/** Of a folder that no store has open. */
export async function measureBytes(folder: string): Promise<StoredBytes> {
  const path = join(folder, "memory.db");
  const db = openPrivateDb<Buffer, string>(path, {}, () => {});
  const sum = (names: readonly string[]): number =>
    names
      .flatMap((name) => db.openDB<Buffer, string>(name, "binary").getRange())
      .reduce((bytes, { value }) => bytes + value.length, 0);
  const texts = sum(["rows"]);
  const postings = sum(["pages", "fences", "columns"]);
  const rest = sum(["manifest", "sessions", "names", "marks", "embedders", "presence"]);
  await db.close();
  const free = statSync(path).size - texts - postings - rest;
  return { texts, postings, rest, free, vectors: fileBytes(folder, ".rows"), signatures: fileBytes(folder, ".bits") };
}

function fileBytes(folder: string, ending: string): number {
  const files = readdirSync(folder).filter((name) => name.endsWith(ending));
  // Blocks, not lengths: where there is no vector the files are hollow.
  return files.reduce((sum, name) => sum + statSync(join(folder, name)).blocks * 512, 0);
}
