import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import type { Embedder } from "@rkat/core/ports/memory";
import { createLocalEmbedder } from "@rkat/node/embedders/local";
import { openMemoryStore } from "@rkat/node/recall-index/open";
import { measureBandwidth } from "./memory-store-bandwidth.ts";
import { measureBytes } from "./memory-store-bytes.ts";
import { createMemoryData, fillMemory, type MemoryData } from "./memory-store-data.ts";
import { measureOpens } from "./memory-store-open.ts";
import { sizesAsked } from "./memory-store-sizes.ts";
import { type Costs, queryTable, reportOf, type SizeCost } from "./recall-costs-report.ts";
import type { DataSet } from "./recall-data.ts";
import { measureIndexing } from "./recall-index-cost.ts";
import { measureQueries } from "./recall-query-cost.ts";
import { measureTurns } from "./recall-turn-cost.ts";
import type { Report } from "./report.ts";

/** What remembering costs: asking, taking in, room on the disk, opening, and what it adds to a turn. */
export async function measureCosts(received: DataSet): Promise<Report> {
  const folder = mkdtempSync(join(tmpdir(), "rkat-bench-recall-"));
  const embedder = createLocalEmbedder();
  const loadBefore = loadavg();
  try {
    const turns = await measureTurns(join(folder, "turns"));
    const indexing = await measureIndexing(join(folder, "indexing"), received, embedder);
    const bandwidth = measureBandwidth();
    const sizes = await measureSizes(folder, embedder);
    const costs: Costs = { sizes, bandwidth, indexing, turns, load: { before: loadBefore, after: loadavg() } };
    return reportOf(costs);
  } finally {
    await embedder.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What a question costs alone, in sessions of so many entries each. */
export async function measureQuestions(chunksPerSession: number | undefined): Promise<Report> {
  const root = mkdtempSync(join(tmpdir(), "rkat-bench-questions-"));
  const embedder = createLocalEmbedder();
  const data = createMemoryData(chunksPerSession);
  const store = openMemoryStore({ folder: root });
  try {
    const costs: Pick<SizeCost, "size" | "queries">[] = [];
    let from = 0;
    for (const size of sizesAsked()) {
      await fillMemory(store, data, { from, to: size, embedderId: embedder.id });
      costs.push({ size, queries: await measureQueries(store, embedder, (run) => data.text.question(run, size)) });
      from = size;
    }
    const sessions = costs.map(({ size }) => String(Math.ceil(size / data.chunksPerSession)));
    const tables = [[...queryTable(costs), ["sessions", ...sessions]]];
    return { name: "recall-questions", tables, targets: [], measured: costs };
  } finally {
    await store.close();
    await embedder.close();
    rmSync(root, { recursive: true, force: true });
  }
}

async function measureSizes(root: string, embedder: Embedder): Promise<readonly SizeCost[]> {
  const data = createMemoryData();
  const grown: Grown[] = [];
  const growing = join(root, "growing");
  let from = 0;
  for (const size of sizesAsked()) {
    grown.push(await measureGrown({ growing, kept: join(root, `kept-${size}`) }, { data, embedder, from, size }));
    from = size;
  }
  const opens = await measureOpens(
    grown.map(({ kept }) => kept),
    data,
    embedder.id,
  );
  return grown.flatMap(({ kept: _, ...cost }, at) => (opens[at] === undefined ? [] : [{ ...cost, opened: opens[at] }]));
}

type Grown = Omit<SizeCost, "opened"> & { readonly kept: string };

interface Growth {
  readonly data: MemoryData;
  readonly embedder: Embedder;
  readonly from: number;
  readonly size: number;
}

async function measureGrown(
  { growing, kept }: { readonly growing: string; readonly kept: string },
  { data, embedder, from, size }: Growth,
): Promise<Grown> {
  const store = openMemoryStore({ folder: growing });
  const { wallMs } = await fillMemory(store, data, { from, to: size, embedderId: embedder.id });
  const queries = await measureQueries(store, embedder, (run) => data.text.question(run, size));
  await store.close();
  const bytes = await measureBytes(growing);
  // Kept as it is now: sizes are opened in turns afterwards.
  cpSync(growing, kept, { recursive: true });
  return { size, buildMs: wallMs, queries, bytes, kept };
}
