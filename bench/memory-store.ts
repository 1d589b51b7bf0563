// A memory on disk as it grows: adding, opening, searching, and how near its scans come to what the memory can deliver.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { MemoryStore } from "../src/ports/memory.ts";
import { openMemoryStore } from "../src/stores/memory/embedded/open.ts";
import { measureBandwidth } from "./memory-store-bandwidth.ts";
import { cpuMsOf, createMemoryData, EMBEDDER, fillMemory } from "./memory-store-data.ts";
import { median, publish } from "./report.ts";

const SIZES = (process.env.RKAT_MEMORY_SIZES ?? "10000,100000,1000000").split(",").map(Number);
const QUERIES = 200;
const TRUE_QUERIES = 40;
const NEIGHBOURS = 10;
const OPENS = 31;
const FIRST_SEARCHES = 3;
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
  const readings = [];
  let from = 0;
  for (const size of SIZES) {
    readings.push({
      size,
      ...(await measureFill({ from, to: size })),
      ...(await measureOpen()),
      ...(await measureSearch(size)),
    });
    if (process.stdout.isTTY) process.stdout.write(`\r${size} entries`);
    from = size;
  }
  await report(readings);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function measureFill({ from, to }: { from: number; to: number }) {
  const store = openMemoryStore({ folder });
  const { addCpuMs, putCpuMs } = await fillMemory(store, data, { from, to, onVector: noteTruth });
  const { bytes, entries } = await store.status(EMBEDDER);
  await store.close();
  return {
    addsPerSecond: ((to - from) * 1_000) / addCpuMs,
    putsPerSecond: ((to - from) * 1_000) / putCpuMs,
    bytesPerEntry: bytes / entries,
  };
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

async function measureOpen() {
  const opens: number[] = [];
  const firstSearches: number[] = [];
  for (let run = 0; run < OPENS + FIRST_SEARCHES; run += 1) {
    let store: MemoryStore | undefined;
    const openMs = await cpuMsOf(async () => {
      store = openMemoryStore({ folder });
      await store.cursor(data.sessionOf(0));
    });
    if (run < OPENS) opens.push(openMs);
    else firstSearches.push(await cpuMsOf(() => searchBothWays(store, run)));
    await store?.close();
  }
  return { openMs: median(opens), firstSearchMs: median(firstSearches) };
}

async function searchBothWays(store: MemoryStore | undefined, run: number): Promise<void> {
  await store?.match([data.word(5_000)], PROJECT);
  await store?.nearest(EMBEDDER, queries[run] ?? new Float32Array(), { scope: PROJECT, max: NEIGHBOURS });
}

async function measureSearch(size: number) {
  const store = openMemoryStore({ folder });
  const words = (ranks: readonly number[], run: number): readonly string[] =>
    ranks.map((rank) => data.word(rank + (run % 7)));
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

interface Spread {
  readonly p50: number;
  readonly p99: number;
}

async function spread(search: (run: number) => Promise<unknown>): Promise<Spread> {
  for (let run = 0; run < 20; run += 1) await search(run);
  const times: number[] = [];
  for (let run = 0; run < QUERIES; run += 1) times.push(await cpuMsOf(() => search(run)));
  times.sort((a, b) => a - b);
  return { p50: median(times), p99: times[Math.floor(times.length * 0.99)] ?? Number.NaN };
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
  Awaited<ReturnType<typeof measureOpen>> &
  Awaited<ReturnType<typeof measureSearch>>;

async function report(readings: readonly Reading[]): Promise<void> {
  const bandwidth = measureBandwidth();
  const show = ({ p50, p99 }: Spread): string => `${p50.toFixed(2)} / ${p99.toFixed(2)}`;
  const gigabytes = (bytes: number): string => (bytes / 1e9).toFixed(1);
  const first = readings[0]?.openMs ?? Number.NaN;
  await publish({
    name: "memory-store",
    tables: [
      [
        [
          "entries",
          "chunks added/CPU s",
          "vectors/CPU s",
          "bytes each",
          "open, CPU ms",
          "first search, CPU ms",
          "recall@10",
        ],
        ...readings.map((row) => [
          String(row.size),
          row.addsPerSecond.toFixed(0),
          row.putsPerSecond.toFixed(0),
          row.bytesPerEntry.toFixed(0),
          row.openMs.toFixed(2),
          row.firstSearchMs.toFixed(0),
          row.recall.toFixed(3),
        ]),
      ],
      [
        ["CPU ms p50 / p99", ...readings.map(({ size }) => String(size))],
        ...Object.keys(readings[0]?.searches ?? {}).map((name) => [
          name,
          // The names are those of the same table.
          ...readings.map(({ searches }) => show(searches[name as keyof typeof searches])),
        ]),
      ],
      [
        ["GB/s", "memory", "1-bit scan", "8-bit scan", "1-bit without SIMD", "8-bit without SIMD"],
        [
          "one thread",
          ...[bandwidth.memory, bandwidth.bits, bandwidth.bytes, bandwidth.plainBits, bandwidth.plainBytes].map(
            gigabytes,
          ),
        ],
      ],
    ],
    targets: [
      ...readings.slice(1).map(({ size, openMs }) => ({
        what: `open at ${size} over open at ${SIZES[0]}`,
        value: openMs / first,
        max: 2,
      })),
      ...readings.map(({ size, recall }) => ({ what: `neighbours missed at ${size}`, value: 1 - recall, max: 0.05 })),
      { what: "memory's bandwidth over the 1-bit scan's", value: bandwidth.memory / bandwidth.bits, max: 2 },
    ],
    measured: { readings, bandwidth },
  });
}
