// A memory on disk as it grows: adding to it, and each kind of search in it. `--sizes 10k,100k,1m`.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { MemoryStore } from "@rkat/core/ports/memory";
import { bestByTerms } from "@rkat/core/recall/rank";
import { termsOf } from "@rkat/core/text/terms";
import { openMemoryStore } from "@rkat/node/recall-index/open";
import { createMemoryData, fillMemory } from "./memory-store-data.ts";
import { formatSize, sizesAsked } from "./memory-store-sizes.ts";
import { formatSpread, type Spread, spreadOf, timeOf } from "./memory-store-stopwatch.ts";
import { publish } from "./report.ts";

const EMBEDDER = "bench/384";
const QUERIES = 200;
const WARM_UP_QUERIES = 20;
const TRUE_QUERIES = 40;
const NEIGHBOURS = 10;
const PROJECT = { discardedOnly: false };

/** Ranks of words that a few in a thousand chunks hold, of some of all kinds, and of words that most hold. */
const RARE = [3_000, 7_000, 15_000, 40_000];
const MIXED = [60, 300, 1_500, 9_000];
const COMMON = [2, 5, 11, 25];

const folder = mkdtempSync(join(tmpdir(), "rkat-bench-memory-"));
const data = createMemoryData();
/** Beyond every size: questions that are no entry themselves. */
const queries = Array.from({ length: QUERIES }, (_, index) => data.vector(100_000_000 + index * 13));
const truth = queries.slice(0, TRUE_QUERIES).map((query) => ({ query, best: [] as { id: number; dot: number }[] }));

try {
  const readings: Reading[] = [];
  let from = 0;
  for (const size of sizesAsked()) {
    readings.push({ size, ...(await measureFill({ from, to: size })), ...(await measureSearch(size)) });
    if (process.stdout.isTTY) process.stdout.write(`\r${size} entries`);
    from = size;
  }
  await report(readings);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function measureFill({ from, to }: { from: number; to: number }) {
  const store = openMemoryStore({ folder });
  const fill = { from, to, embedderId: EMBEDDER, onVector: noteTruth };
  const { addCpuMs, putCpuMs } = await fillMemory(store, data, fill);
  await store.close();
  return { addsPerSecond: ((to - from) * 1_000) / addCpuMs, putsPerSecond: ((to - from) * 1_000) / putCpuMs };
}

/** Keeps the nearest of all vectors there are, by a look at each. */
function noteTruth(id: number, vector: Float32Array): void {
  for (const { query, best } of truth) {
    let dot = 0;
    for (let index = 0; index < vector.length; index += 1) dot += (vector[index] ?? 0) * (query[index] ?? 0);
    if (best.length === NEIGHBOURS && dot <= (best.at(-1)?.dot ?? 0)) continue;
    best.push({ id, dot });
    best.sort((a, b) => b.dot - a.dot).splice(NEIGHBOURS);
  }
}

async function measureSearch(size: number) {
  const store = openMemoryStore({ folder });
  const words = (ranks: readonly number[], run: number) =>
    bestByTerms(termsOf(ranks.map((rank) => data.text.word(rank + (run % 7))).join(" ")));
  const session = (run: number) => ({ sessionId: data.sessionOf((run * 7_919) % size), discardedOnly: false });
  const near = (run: number, scope: typeof PROJECT) =>
    store.nearest(EMBEDDER, queries[run % QUERIES] ?? new Float32Array(), { scope, max: NEIGHBOURS });
  const searches = {
    rare: await spread((run) => store.match(words(RARE, run), PROJECT)),
    mixed: await spread((run) => store.match(words(MIXED, run), PROJECT)),
    common: await spread((run) => store.match(words(COMMON, run), PROJECT)),
    inSession: await spread((run) => store.match(words(MIXED, run), session(run))),
    nearest: await spread((run) => near(run, PROJECT)),
    nearestDiscarded: await spread((run) => near(run, { discardedOnly: true })),
    nearestInSession: await spread((run) => near(run, session(run))),
  };
  const recall = await measureRecall(store);
  await store.close();
  return { searches, recall };
}

async function spread(search: (run: number) => Promise<unknown>): Promise<Spread> {
  for (let run = 0; run < WARM_UP_QUERIES; run += 1) await search(run);
  const times: number[] = [];
  for (let run = 0; run < QUERIES; run += 1) times.push((await timeOf(() => search(run))).cpuMs);
  return spreadOf(times);
}

async function measureRecall(store: MemoryStore): Promise<number> {
  let found = 0;
  for (const { query, best } of truth) {
    const neighbours = await store.nearest(EMBEDDER, query, { scope: PROJECT, max: NEIGHBOURS });
    const ids = new Set(neighbours.map(({ id }) => id));
    found += best.filter(({ id }) => ids.has(id)).length;
  }
  return found / (TRUE_QUERIES * NEIGHBOURS);
}

type Reading = { readonly size: number } & Awaited<ReturnType<typeof measureFill>> &
  Awaited<ReturnType<typeof measureSearch>>;

async function report(readings: readonly Reading[]): Promise<void> {
  const sizes = readings.map(({ size }) => formatSize(size));
  await publish({
    name: "memory-store",
    tables: [
      [
        ["entries", "chunks added/CPU s", "vectors/CPU s", "recall@10"],
        ...readings.map(({ addsPerSecond, putsPerSecond, recall }, at) => [
          sizes[at] ?? "",
          addsPerSecond.toFixed(0),
          putsPerSecond.toFixed(0),
          recall.toFixed(3),
        ]),
      ],
      [
        ["CPU ms p50 / p99", ...sizes],
        ...Object.keys(readings[0]?.searches ?? {}).map((name) => [
          name,
          // The names are those of the same table.
          ...readings.map(({ searches }) => formatSpread(searches[name as keyof typeof searches])),
        ]),
      ],
    ],
    targets: readings.map(({ size, recall }) => ({
      what: `neighbours missed at ${formatSize(size)}`,
      value: 1 - recall,
      max: 0.05,
    })),
    measured: readings,
  });
}
