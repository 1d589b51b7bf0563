import { readdirSync } from "node:fs";
import { join } from "node:path";
import { openEmbeddedStore } from "@rkat/node";
import { blocksOf } from "./growth-loop.ts";
import { FLAT, type GrowthRow, LINEAR, rowsOf } from "./growth-rows.ts";
import { cpuOf, created, type Features, idOf, imported, inFolder, open, passage } from "./growth-stage.ts";
import { timeOf } from "./memory-store-stopwatch.ts";

const BLOCK_MS_MAX = 50;
const AT_ONCE = 1_000;
const MONTH_MS = 30 * 86_400_000;
const ROUNDS = 15;
const PAGE = 20;
const EVERYTHING: Features = ["session-store", "session-compaction", "memory-store"];

/** A folder of so many sessions of two messages each: what one more costs, and what everything that looks at all of them does. */
export function measureSessions(sizes: readonly number[]): Promise<readonly GrowthRow[]> {
  return rowsOf(sizes, (size) => inFolder((folder) => readSessions(folder, size)), {
    opening: { what: "opening the folder", slopeMax: FLAT },
    list: { what: "list of 20", slopeMax: FLAT },
    one: { what: "new session", slopeMax: FLAT },
    firstSearch: { what: "a search, the first of a process", slopeMax: LINEAR },
    search: { what: "a search after that", slopeMax: LINEAR },
    closing: { what: "closing", slopeMax: FLAT },
    block: { what: "longest block of all of these", unit: "ms", max: BLOCK_MS_MAX },
    takenIn: { what: "taking all in, each", slopeMax: FLAT },
    missing: { what: "quick sessions without files, at close", unit: "count" },
    left: { what: "the same after the next opens", unit: "count", max: 0 },
  });
}

async function readSessions(folder: string, size: number) {
  const filling = await openEmbeddedStore(folder);
  const start = Date.now() - MONTH_MS;
  for (let first = 0; first < size; first += AT_ONCE) {
    const batch = Array.from({ length: Math.min(AT_ONCE, size - first) }, (_, at) => {
      const bodies = [created(), imported((first + at) * 2), imported((first + at) * 2 + 1)];
      const entries = bodies.map((body) => ({ span: 1, body }));
      // Spread over the month in another order than that of the ids.
      const atMs = start + (((first + at) * 7_919) % size) * Math.floor(MONTH_MS / size);
      return filling.log.append(idOf(first + at), 0, entries, atMs);
    });
    await Promise.all(batch);
  }
  await filling.close();
  // Memory takes everything in once; that is a row of its own.
  const taking = await open(folder, EVERYTHING);
  const { cpuMs: takenIn } = await timeOf(() => taking.searchMemory(passage(7)));
  await taking.close();
  const opening = await cpuOf(3, async () => (await open(folder, EVERYTHING)).close());
  const runtime = await open(folder, EVERYTHING);
  const { cpuMs: firstSearch } = await timeOf(() => runtime.searchMemory(passage(11)));
  const search = await cpuOf(ROUNDS, (time) => runtime.searchMemory(passage(13 + time)));
  await runtime.listSessions({ limit: PAGE });
  const list = await cpuOf(ROUNDS, () => runtime.listSessions({ limit: PAGE }));
  const one = await cpuOf(ROUNDS, (time) => runtime.createSession(passage(17 + time)));
  await new Promise((resolve) => setTimeout(resolve, 500));
  const { cpuMs: closing } = await timeOf(() => runtime.close());
  const { cpuMs: block } = await blocksOf(async () => {
    const looked = await open(folder, EVERYTHING);
    await looked.searchMemory(passage(19));
    await looked.listSessions({ limit: PAGE });
    await looked.createSession(passage(23));
    await looked.close();
  });
  const { missing, left } = await readFiles(join(folder, "files"), Math.min(size, FILES_MAX));
  return { opening, list, one, firstSearch, search, closing, block, takenIn: takenIn / size, missing, left };
}

const FILES_MAX = 10_000;

/** Quick sessions one after the other and a clean close; then what the next process finds and makes up for. */
async function readFiles(folder: string, sessions: number) {
  const quick = await open(folder, ["session-store"]);
  for (let first = 0; first < sessions; first += AT_ONCE) {
    const count = Math.min(AT_ONCE, sessions - first);
    await Promise.all(Array.from({ length: count }, (_, at) => quick.createSession(passage(first + at))));
  }
  await quick.close();
  const missing = sessions - filesIn(folder);
  for (let life = 0; life < LIVES_MAX && filesIn(folder) < sessions; life += 1) {
    const next = await open(folder, ["session-store"]);
    await new Promise((resolve) => setTimeout(resolve, LIFE_MS));
    await next.close();
  }
  return { missing, left: sessions - filesIn(folder) };
}

const LIVES_MAX = 60;
const LIFE_MS = 2_000;

function filesIn(folder: string): number {
  const sessions = join(folder, ".rkat", "sessions");
  return readdirSync(sessions).filter((id) => readdirSync(join(sessions, id)).includes("checkpoint")).length;
}

const CONTEXT_ROUNDS = 25;

/** A folder of so many agents with two memories each. */
export function measureAgents(sizes: readonly number[]): Promise<readonly GrowthRow[]> {
  return rowsOf(sizes, (size) => inFolder((folder) => readAgents(folder, size)), {
    list: { what: "list of all", slopeMax: LINEAR },
    remember: { what: "remember", slopeMax: FLAT },
    context: { what: "context", slopeMax: FLAT },
  });
}

async function readAgents(folder: string, size: number) {
  const runtime = await open(folder, ["session-store", "memory-store"]);
  for (let number = 0; number < size; number += 1) {
    await runtime.agent(`agent-${number}`).remember(passage(number));
    await runtime.agent(`agent-${number}`).remember(passage(number + size));
  }
  const nth = (time: number): string => `agent-${(time * 7) % size}`;
  const list = await cpuOf(ROUNDS, () => runtime.listAgents());
  const remember = await cpuOf(CONTEXT_ROUNDS, (time) => runtime.agent(nth(time)).remember(passage(time)));
  const context = await cpuOf(CONTEXT_ROUNDS, (time) => runtime.agent(nth(time)).context());
  await runtime.close();
  return { list, remember, context };
}
