import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { openTables, type Tables } from "../src/stores/memory/embedded/tables.ts";

/** What a memory takes on the disk, by what it is for. */
export interface StoredBytes {
  readonly texts: number;
  readonly postings: number;
  readonly vectors: number;
  readonly signatures: number;
  /** Sessions, cursors, which vectors are there. */
  readonly rest: number;
  /** Pages of the database that merging has left and the next batch takes. */
  readonly free: number;
}

/** Of a folder that no store has open. */
export async function measureBytes(folder: string): Promise<StoredBytes> {
  const path = join(folder, "memory.mdb");
  const tables = openTables(path, () => {});
  const sum = (names: readonly Exclude<keyof Tables, "root">[]): number =>
    names.reduce((bytes, name) => bytes + pageBytes(tables[name]), 0);
  const texts = sum(["rows"]);
  const postings = sum(["pages", "fences", "columns"]);
  const rest = sum(["manifest", "sessions", "names", "marks", "embedders", "presence"]);
  await tables.root.close();
  const free = statSync(path).size - texts - postings - rest;
  return { texts, postings, rest, free, vectors: fileBytes(folder, ".rows"), signatures: fileBytes(folder, ".bits") };
}

function pageBytes(table: { getStats(): object }): number {
  // What LMDB tells of a table; its declaration leaves the fields out.
  const { pageSize, treeBranchPageCount, treeLeafPageCount, overflowPages } = table.getStats() as TableStats;
  return pageSize * (treeBranchPageCount + treeLeafPageCount + overflowPages);
}

interface TableStats {
  readonly pageSize: number;
  readonly treeBranchPageCount: number;
  readonly treeLeafPageCount: number;
  readonly overflowPages: number;
}

function fileBytes(folder: string, ending: string): number {
  const files = readdirSync(folder).filter((name) => name.endsWith(ending));
  // Blocks, not lengths: where there is no vector the files are hollow.
  return files.reduce((sum, name) => sum + statSync(join(folder, name)).blocks * 512, 0);
}
