import { bestByTerms } from "@rkat/core/recall/rank";
import { readEvents } from "@rkat/core/sessions/subscriptions";
import { termsOf } from "@rkat/core/text/terms";
import { openEmbeddedStore } from "@rkat/node";
import { openMemoryStore } from "@rkat/node/recall-index/open";
import { blocksOf, type LoopBlocks } from "./growth-loop.ts";
import { FLAT, type GrowthRow, LINEAR, rowsOf } from "./growth-rows.ts";
import { cpuOf, type Features, idOf, inFolder, open, passage, writeSession } from "./growth-stage.ts";
import { createMemoryData, fillMemory, type MemoryData } from "./memory-store-data.ts";
import { timeOf } from "./memory-store-stopwatch.ts";
import { median } from "./report.ts";

const BLOCK_MS_MAX = 50;
/** Turns of a window, and windows: the median of the windows is what a turn costs there. */
const WINDOW = 10;
const WINDOWS = 5;
const SMALL_WINDOW_TOKENS = 32_000;

/** A turn of one session when it has had so many, with everything in the context and with compactions. */
export async function measureTurns(sizes: readonly number[]): Promise<readonly GrowthRow[]> {
  const whole = await turnsOf(sizes, ["session-store"]);
  const compacting = await turnsOf(sizes, ["session-store", "session-compaction"], SMALL_WINDOW_TOKENS);
  const remembering = await turnsOf(
    sizes,
    ["session-store", "session-compaction", "memory-store"],
    SMALL_WINDOW_TOKENS,
  );
  return [
    { what: "nothing compacted, all of it sent", unit: "CPU ms", at: whole, slopeMax: LINEAR },
    { what: "compacting at 32k tokens", unit: "CPU ms", at: compacting, slopeMax: FLAT },
    { what: "compacting, with memory", unit: "CPU ms", at: remembering, slopeMax: FLAT },
  ];
}

async function turnsOf(sizes: readonly number[], features: Features, contextWindow?: number) {
  return inFolder(async (folder) => {
    const runtime = await open(folder, features, contextWindow);
    const session = await runtime.createSession(passage(0));
    let turns = 1;
    const turn = async (): Promise<void> => {
      await session.turn(passage(turns * 2));
      turns += 1;
    };
    const at = [];
    for (const size of sizes) {
      while (turns < size) await turn();
      const value = await cpuOf(WINDOWS, async () => {
        for (let one = 0; one < WINDOW; one += 1) await turn();
      });
      at.push({ size, value: value / WINDOW });
    }
    await runtime.close();
    return at;
  });
}

const PAGE = 256;

/** Reading a log from its beginning, and its end alone. */
export function measureEvents(sizes: readonly number[]): Promise<readonly GrowthRow[]> {
  return rowsOf(sizes, (size) => inFolder((folder) => readLog(folder, size)), {
    replay: { what: "replay of all, by the page", slopeMax: LINEAR },
    last: { what: "the last 100", slopeMax: FLAT },
  });
}

async function readLog(folder: string, size: number) {
  await writeAlone(folder, size);
  const store = await openEmbeddedStore(folder);
  const pages = async (from: number): Promise<void> => {
    for (let after = from; ; ) {
      const page = await readEvents(store.log, idOf(1), { after, max: PAGE });
      after = page.at(-1)?.seq ?? after;
      if (page.length < PAGE) return;
    }
  };
  const replay = await cpuOf(3, () => pages(0));
  const last = await cpuOf(9, () => pages(size - 99));
  await store.close();
  return { replay, last };
}

async function writeAlone(folder: string, messages: number): Promise<void> {
  const store = await openEmbeddedStore(folder);
  await writeSession(store, idOf(1), messages);
  await store.close();
}

const FORKS = 3;

/** A fork of all of a session that is at hand, and what follows it: memory and files. */
export function measureForks(sizes: readonly number[]): Promise<readonly GrowthRow[]> {
  return rowsOf(sizes, (size) => inFolder((folder) => readForks(folder, size)), {
    fork: { what: "the fork", slopeMax: LINEAR },
    block: { what: "its longest block, CPU", unit: "ms", max: BLOCK_MS_MAX },
    blockWall: { what: "its longest block, wall", unit: "ms" },
    followed: { what: "fork, memory and files", slopeMax: LINEAR },
    followedBlock: { what: "their longest block, CPU", unit: "ms", max: BLOCK_MS_MAX },
    cold: { what: "first look at the session, block", unit: "ms" },
  });
}

async function readForks(folder: string, size: number) {
  await writeAlone(folder, size);
  const runtime = await open(folder, ["session-store"]);
  const { cpuMs: cold } = await blocksOf(() => runtime.session(idOf(1)).history({ limit: 1 }));
  const forked = (): Promise<unknown> => runtime.session(idOf(1)).fork(size);
  await forked();
  const fork = await cpuOf(FORKS, forked);
  const blocks: LoopBlocks[] = [];
  for (let one = 0; one < FORKS; one += 1) blocks.push(await blocksOf(forked));
  await runtime.close();
  const block = median(blocks.map(({ cpuMs }) => cpuMs));
  const blockWall = median(blocks.map(({ wallMs }) => wallMs));
  return { fork, block, blockWall, cold, ...(await follow(folder, size)) };
}

/** With memory and files: a fork, until closing has waited for both. */
async function follow(folder: string, size: number) {
  const runtime = await open(folder, ["session-store", "memory-store"]);
  await runtime.session(idOf(1)).history({ limit: 1 });
  await runtime.searchMemory("anything");
  const { cpuMs: followedBlock } = await blocksOf(async () => {
    await runtime.session(idOf(1)).fork(size);
    await runtime.searchMemory("anything");
  });
  const { cpuMs: followed } = await timeOf(async () => {
    await runtime.session(idOf(1)).fork(size);
    await runtime.searchMemory("anything");
    await runtime.close();
  });
  return { followed, followedBlock };
}

const EMBEDDER = "bench/384";
const QUERIES = 40;
const NEIGHBOURS = 10;
/** Ranks of words: some of all kinds. */
const WORDS = [60, 300, 1_500, 9_000];

/** Searches in a memory of synthetic texts and vectors, which grows from size to size. */
export function measureChunks(sizes: readonly number[]): Promise<readonly GrowthRow[]> {
  const data = createMemoryData();
  let from = 0;
  return inFolder((folder) =>
    rowsOf(
      sizes,
      async (size) => {
        const reading = await readMemory(folder, data, { from, to: size });
        from = size;
        return reading;
      },
      {
        words: { what: "a search by words", slopeMax: LINEAR },
        meaning: { what: "a search by meaning", slopeMax: LINEAR },
        firstBlock: { what: "longest block of the first search", unit: "ms", max: BLOCK_MS_MAX },
        block: { what: "longest block of a search for a passage", unit: "ms", max: BLOCK_MS_MAX },
        adding: { what: "adding one, with its vector", slopeMax: FLAT },
      },
    ),
  );
}

async function readMemory(folder: string, data: MemoryData, { from, to }: { from: number; to: number }) {
  const filling = openMemoryStore({ folder });
  const { addCpuMs, putCpuMs } = await fillMemory(filling, data, { from, to, embedderId: EMBEDDER });
  await filling.close();
  const store = openMemoryStore({ folder });
  const scope = { discardedOnly: false };
  const terms = (time: number) =>
    bestByTerms(termsOf(WORDS.map((rank) => data.text.word(rank + (time % 7))).join(" ")));
  /** Beyond every size: questions that are no entry themselves. */
  const near = (time: number) =>
    store.nearest(EMBEDDER, data.vector(100_000_000 + time * 13), { scope, max: NEIGHBOURS });
  const { cpuMs: firstBlock } = await blocksOf(async () => {
    await store.match(terms(0), scope);
    await near(0);
  });
  const words = await cpuOf(QUERIES, (time) => store.match(terms(time), scope));
  const meaning = await cpuOf(QUERIES, near);
  const { cpuMs: block } = await blocksOf(async () => {
    await store.match(bestByTerms(termsOf(data.text.passage(100_000_000))), scope);
    await near(QUERIES);
  });
  await store.close();
  return { words, meaning, firstBlock, block, adding: (addCpuMs + putCpuMs) / (to - from) };
}
