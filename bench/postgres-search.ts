// A memory that machines share, searched both ways beside one of this machine alone. `--sizes 10k,100k,1m`.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { MemoryStore } from "@rkat/core/ports/memory";
import { bestByTerms } from "@rkat/core/recall/rank";
import { termsOf } from "@rkat/core/text/terms";
import { openMemoryStore } from "@rkat/node/recall-index/open";
import { createPostgresMemory } from "@rkat/postgres/memory";
import { openDatabase } from "@rkat/postgres/open";
import { startPostgres } from "../test/support/postgres-server.ts";
import { createMemoryData, fillMemory } from "./memory-store-data.ts";
import { formatSize, sizesAsked } from "./memory-store-sizes.ts";
import { timeOf } from "./memory-store-stopwatch.ts";
import { median, publish } from "./report.ts";
import { formatTable } from "./table.ts";

const EMBEDDER = "bench/384";
const REALM = "bench";
const QUERIES = 30;
const WARM_UP_QUERIES = 3;
const NEIGHBOURS = 200;
const PROJECT = { discardedOnly: false };
/** Ranks of words that a few in a thousand chunks hold, of some of all kinds, and of words that most hold. */
const RARE = [3_000, 7_000, 15_000, 40_000];
const MIXED = [60, 300, 1_500, 9_000];
const COMMON = [2, 5, 11, 25];
/** A jiffy, which CPU time of another process is counted in. */
const TICK_MS = 10;

const folder = mkdtempSync(join(tmpdir(), "rkat-bench-postgres-search-"));
// Workers of one statement would not be seen in the CPU time of its process.
const server = await startPostgres({
  shared_buffers: "512MB",
  max_parallel_workers_per_gather: "0",
  max_wal_size: "4GB",
});
const url = await server.createDatabase("bench");
const data = createMemoryData();

try {
  const readings: Reading[] = [];
  let from = 0;
  for (const size of sizesAsked()) {
    const filled = await fill(from, size);
    console.log(`${size} chunks are in after ${(filled.wallMs / 1_000).toFixed(0)} s`);
    const reading = { size, filled, ways: await measureWays(size) };
    console.log(formatTable(tableOf(reading)));
    readings.push(reading);
    from = size;
  }
  await report(readings);
} finally {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
}

/** Both memories get the same, in the same order. */
async function fill(from: number, to: number) {
  const database = await openDatabase({ url, realm: REALM });
  const shared = await shareIn(database, "filling", "local");
  const own = openMemoryStore({ folder: join(folder, "own") });
  let sharedMs = 0;
  const both: MemoryStore = {
    ...own,
    add: async (batch) => {
      await own.add(batch);
      sharedMs += (await timeOf(() => shared.add(batch))).wallMs;
    },
    vectors: {
      ...own.vectors,
      put: async (embedderId, vectors) => {
        await own.vectors.put(embedderId, vectors);
        sharedMs += (await timeOf(() => shared.vectors.put(embedderId, vectors))).wallMs;
      },
    },
  };
  const { wallMs } = await fillMemory(both, data, { from, to, embedderId: EMBEDDER });
  await Promise.all([own.close(), shared.close()]);
  await database.connection.query`vacuum analyze`;
  await database.close();
  return { wallMs, sharedMs };
}

type Way = "local" | "database";
type Opened = Awaited<ReturnType<typeof openDatabase>>;

function shareIn({ connection }: Opened, name: string, way: Way): Promise<MemoryStore> {
  return createPostgresMemory({ connection, realm: REALM, folder: join(folder, name), version: 1, way });
}

interface Cost {
  readonly wallMs: number;
  /** Of this process, and of the one that serves it in the database. */
  readonly cpuMs: number;
  readonly databaseMs: number;
}

type Costs = Readonly<Record<string, Cost>>;

async function measureWays(size: number): Promise<Readonly<Record<string, Costs>>> {
  const own = openMemoryStore({ folder: join(folder, "own") });
  const embedded = await measure(own, size, () => 0);
  await own.close();
  const ways: Record<string, Costs> = { embedded };
  for (const way of ["local", "database"] as const) {
    // One connection: the process that serves it is the one whose time is read.
    const database = await openDatabase({ url, realm: REALM, poolMax: 1 });
    const [row] = await database.connection.query`select pg_backend_pid() as pid`;
    const spent = (): number => cpuMsOf(Number(row?.pid));
    const costs: Record<string, Cost> = {};
    // Of a machine that has nothing: it reads everything. In the database, what nobody has brought into the table yet is.
    const store = await shareIn(database, `${way}-${size}`, way);
    costs["first search, nothing there"] = await cost(() => search(store, size, 0, COMMON), spent);
    await store.close();
    if (way === "database") await database.connection.query`vacuum analyze rkat.memory_terms`;
    const again = await shareIn(database, `${way}-${size}`, way);
    costs["first search of a process"] = await cost(() => search(again, size, 0, COMMON), spent);
    Object.assign(costs, await measure(again, size, spent));
    ways[way] = costs;
    await again.close();
    await database.close();
  }
  return ways;
}

/** CPU time of a process of this machine. */
function cpuMsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

function search(store: MemoryStore, size: number, run: number, ranks: readonly number[], isOfSession = false) {
  const scope = isOfSession ? { sessionId: data.sessionOf((run * 7_919) % size), discardedOnly: false } : PROJECT;
  const words = ranks.map((rank) => data.text.word(rank + (run % 7))).join(" ");
  return store.match(bestByTerms(termsOf(words)), scope);
}

async function measure(store: MemoryStore, size: number, spent: () => number): Promise<Costs> {
  const near = (run: number, isOfSession: boolean) => {
    const scope = isOfSession ? { sessionId: data.sessionOf((run * 7_919) % size), discardedOnly: false } : PROJECT;
    return store.nearest(EMBEDDER, data.vector(100_000_000 + run * 13), { scope, max: NEIGHBOURS });
  };
  const readAll = async (run: number) => {
    const { best } = await search(store, size, run, MIXED);
    return store.read(best.map(({ id }) => id));
  };
  return {
    "rare words": await repeated((run) => search(store, size, run, RARE), spent),
    "mixed words": await repeated((run) => search(store, size, run, MIXED), spent),
    "common words": await repeated((run) => search(store, size, run, COMMON), spent),
    "mixed words, one session": await repeated((run) => search(store, size, run, MIXED, true), spent),
    "mixed words, and read": await repeated(readAll, spent),
    "nearest vectors": await repeated((run) => near(run, false), spent),
    "nearest vectors, one session": await repeated((run) => near(run, true), spent),
  };
}

async function repeated(work: (run: number) => Promise<unknown>, spent: () => number): Promise<Cost> {
  for (let run = 0; run < WARM_UP_QUERIES; run += 1) await work(run);
  const costs: Cost[] = [];
  const before = spent();
  for (let run = 0; run < QUERIES; run += 1)
    costs.push(
      await cost(
        () => work(run),
        () => 0,
      ),
    );
  return {
    wallMs: median(costs.map(({ wallMs }) => wallMs)),
    cpuMs: median(costs.map(({ cpuMs }) => cpuMs)),
    databaseMs: (spent() - before) / QUERIES,
  };
}

async function cost(work: () => Promise<unknown>, spent: () => number): Promise<Cost> {
  const before = spent();
  const time = await timeOf(work);
  return { ...time, databaseMs: spent() - before };
}

interface Reading {
  readonly size: number;
  readonly filled: { readonly wallMs: number; readonly sharedMs: number };
  readonly ways: Readonly<Record<string, Costs>>;
}

function format(ms: number): string {
  return ms.toFixed(ms < 10 ? 2 : 0);
}

function allOf({ cpuMs, databaseMs }: Cost): number {
  return cpuMs + databaseMs;
}

function tableOf({ size, ways }: Reading): readonly (readonly string[])[] {
  const { embedded = {}, local = {}, database = {} } = ways;
  const rows = Object.keys(local).map((name) => {
    const own = embedded[name];
    const reported = [local[name], database[name]].flatMap((found) =>
      found === undefined
        ? []
        : [
            `${format(found.wallMs)} / ${format(found.cpuMs)} / ${format(found.databaseMs)}`,
            own === undefined ? "" : `${(allOf(found) / allOf(own)).toFixed(1)}×`,
          ],
    );
    return [name, own === undefined ? "" : `${format(own.wallMs)} / ${format(own.cpuMs)}`, ...reported];
  });
  return [
    [`${formatSize(size)}: wall / CPU / database ms`, "embedded", "in a copy", "CPU", "in the database", "CPU"],
    ...rows,
  ];
}

async function report(readings: readonly Reading[]): Promise<void> {
  const targets = readings.map(({ size, ways }) => ({
    what: `CPU of a search in a copy at ${formatSize(size)}, of the embedded one's`,
    value: ratioOf(ways.local, ways.embedded),
    max: 2,
  }));
  await publish({ name: "postgres-search", tables: readings.map(tableOf), targets, measured: readings });
}

function ratioOf(one: Costs | undefined, other: Costs | undefined): number {
  const name = "common words";
  return (one?.[name]?.cpuMs ?? Number.NaN) / (other?.[name]?.cpuMs ?? Number.NaN);
}
