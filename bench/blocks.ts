// The longest block of the event loop, CPU of the main thread, by what is done: each case in a process of its own that has done
// the same with little, so that modules are loaded. With names:
// only those. With `--case`: only that, as JSON. `--minutes` is how long the crowds talk.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { AssistantBlock, Message } from "@rkat/core/contract/message";
import { foldRow } from "@rkat/core/state/session-row";
import { createStoreInMemory } from "@rkat/core/stores/in-memory";
import { createRuntime, openEmbeddedStore, type Runtime, type Session } from "@rkat/node";
import { AT_REST_MS } from "@rkat/node/log/at-rest";
import { openStore } from "@rkat/node/log/open";
import { PACKED_BYTES_MIN } from "@rkat/node/log/pack-at-rest";
import { openEventReader } from "../test/support/event-reader.ts";
import { blocksOf } from "./growth-loop.ts";
import { createTalker, type Features, idOf, inFolder, open, passage, writeSession } from "./growth-stage.ts";
import { MODEL, openModelServer } from "./model-server.ts";
import { publish } from "./report.ts";
import { createAsker, startRest } from "./server-process.ts";

const BLOCK_MS_MAX = 50;
/** Beside a heap of at most `HEAP_MB`; what grows outside of it is not seen by a limit of the heap. */
const RSS_MB_MAX = 384;
const HEAP_MB = 128;
const ALL: Features = ["session-store", "session-compaction", "memory-store"];
const SMALL_WINDOW_TOKENS = 100_000;
const DIGITS_CHARS = 90_000;
const TURNS_KEPT = 6;
const WARM_UP_SHARE = 0.02;
const LOOK_MS = 10;

interface BlockReading {
  readonly blockMs: number;
  /** How often a second a block is longer than allowed, and memory at the middle and the end, where a server runs. */
  readonly perSecond?: number;
  readonly turns?: number;
  readonly rssMb?: readonly number[];
}

const { values, positionals } = parseArgs({
  strict: false,
  allowPositionals: true,
  options: { case: { type: "string" }, minutes: { type: "string", default: "0.5" } },
});

const CASES: Readonly<Record<string, (share: number) => Promise<BlockReading>>> = {
  "a turn that compacts 20,000 messages": (share) =>
    stored(20_000 * share, (session) => session.turn("And now?"), SMALL_WINDOW_TOKENS * share),
  "create with a history of 10,000 messages": (share) =>
    inFolder(async (folder) => {
      const runtime = await open(folder, ALL, SMALL_WINDOW_TOKENS * share);
      const history = Array.from({ length: 10_000 * share }, (_, at) => messageAt(at));
      return block(runtime, () => runtime.createSession("And now?", { history }));
    }),
  "a compaction of 90,000 characters of 1,": (share) =>
    inFolder(async (folder) => {
      const runtime = await open(folder, ALL, SMALL_WINDOW_TOKENS);
      const session = await runtime.createSession("1,".repeat((DIGITS_CHARS / 2) * share));
      for (let turn = 0; turn < TURNS_KEPT; turn += 1) await session.turn(passage(turn));
      return block(runtime, () => session.compact());
    }),
  "context of 20,000 messages": (share) => stored(20_000 * share, (session) => session.context()),
  "first fold of 40,000 messages": (share) => stored(40_000 * share, (session) => session.history({ limit: 1 })),
  "fork of 40,000 messages, and a search": (share) =>
    stored(40_000 * share, async (session, runtime) => {
      await session.fork(40_000 * share);
      await runtime.searchMemory("anything");
    }),
  "fork of 40,000 messages in memory": async (share) => {
    const store = createStoreInMemory({ foldRow });
    await writeSession(store, idOf(1), 40_000 * share, (at) => ({ kind: "imported", message: messageAt(at) }));
    const runtime = createRuntime({ store, model: createTalker(100_000_000), env: {} });
    return block(runtime, () => runtime.session(idOf(1)).fork(40_000 * share));
  },
  "packing a log of 40,000 messages": (share) =>
    inFolder(async (folder) => {
      const store = await openEmbeddedStore(folder);
      await writeSession(store, idOf(1), 40_000 * share, (at) => ({ kind: "imported", message: messageAt(at) }));
      await store.close();
      const log = join(folder, "log", "00000001.log");
      const { size } = statSync(log);
      const later = () => Date.now() + AT_REST_MS;
      const host = { pid: process.pid, isRunning: () => true };
      const { cpuMs: blockMs } = await blocksOf(async () => {
        const rested = openStore({ folder, foldRow, host, now: later });
        while (size > PACKED_BYTES_MIN && statSync(log).size === size) await setTimeout(LOOK_MS);
        await rested.log.read(idOf(1), 1, 1);
        await rested.close();
      });
      return { blockMs };
    }),
  "200 sessions with 500 readers": (share) => crowd(200, 500, share),
  "50 sessions with 100 readers": (share) => crowd(50, 100, share),
};

if (typeof values.case === "string") {
  await CASES[values.case]?.(WARM_UP_SHARE);
  console.log(JSON.stringify(await CASES[values.case]?.(1)));
} else await measureAll(positionals.length === 0 ? Object.keys(CASES) : positionals.map(String));

/** Work of a process that has just opened a folder with one session of so many messages. */
function stored(
  messages: number,
  work: (session: Session, runtime: Runtime) => Promise<unknown>,
  contextWindow?: number,
): Promise<BlockReading> {
  return inFolder(async (folder) => {
    const store = await openEmbeddedStore(folder);
    await writeSession(store, idOf(1), messages, (at) => ({ kind: "imported", message: messageAt(at) }));
    await store.close();
    const runtime = await open(folder, ALL, contextWindow);
    return block(runtime, () => work(runtime.session(idOf(1)), runtime));
  });
}

/** Questions, calls of a tool, what it printed, and answers. */
function messageAt(number: number): Message {
  const created_at = "2026-01-05T10:30:00.000Z";
  // Some outputs are long, and a compaction shows references to them.
  const said = number % 40 === 2 ? passage(number).repeat(50) : passage(number);
  const answer = (block: AssistantBlock, stop_reason: "tool_use" | "end_turn"): Message => ({
    role: "block_assistant",
    blocks: [block],
    stop_reason,
    created_at,
  });
  const id = `call_${number - (number % 4)}`;
  switch (number % 4) {
    case 0:
      return { role: "user", content: said, created_at };
    case 1:
      return answer({ block_type: "tool_use", data: { id, name: "look_up", args: { said, row: number } } }, "tool_use");
    case 2:
      return { role: "tool_results", results: [{ tool_use_id: id, content: said, is_error: false }], created_at };
    default:
      return answer({ block_type: "text", data: { text: said } }, "end_turn");
  }
}

async function block(runtime: Runtime, work: () => Promise<unknown>): Promise<BlockReading> {
  const { cpuMs: blockMs } = await blocksOf(work);
  await runtime.close();
  return { blockMs };
}

/** A server with little memory whose sessions all talk at once, each followed by its share of the readers. */
async function crowd(sessions: number, readers: number, share: number): Promise<BlockReading> {
  if (share < 1) return { blockMs: 0 };
  const model = await openModelServer({ name: "task_list", pieces: ["{", "}"] });
  const place = mkdtempSync(join(tmpdir(), "rkat-bench-blocks-"));
  const env = { OPENAI_BASE_URL: model.baseUrl, RKAT_MODEL: `openai/${MODEL}`, RKAT_BENCH_BLOCKS: "1" };
  const server = await startRest({ cwd: place, env, flags: [`--max-old-space-size=${HEAP_MB}`] });
  const { ask, close } = createAsker(server.url, sessions);
  try {
    const create = async () => (await ask("POST /sessions", { prompt: "Begin.", tool_preset: "safe" })).session_id;
    const ids: string[] = [];
    while (ids.length < sessions) ids.push(await create());
    for (let at = 0; at < readers; at += 1) await openEventReader(server.url, ids[at % sessions] ?? "");
    await server.usage();
    const rssMb: number[] = [];
    const readings = [];
    let turns = 0;
    for (const half of [1, 2]) {
      const endMs = performance.now() + (Number(values.minutes) / 2) * 60_000;
      await Promise.all(
        ids.map(async (id) => {
          for (; performance.now() < endMs; turns += 1)
            await ask(`POST /sessions/${id}/messages`, { prompt: `What does row ${turns} of half ${half} say?` });
        }),
      );
      const usage = await server.usage();
      readings.push(usage);
      rssMb.push(usage.rssBytes / 1e6);
    }
    const blockMs = Math.max(...readings.map(({ longestMs }) => longestMs));
    const long = readings.reduce((sum, { longBlocks }) => sum + longBlocks, 0);
    return { blockMs, turns, rssMb, perSecond: long / (Number(values.minutes) * 60) };
  } finally {
    close();
    await server.close();
    model.close();
    rmSync(place, { recursive: true, force: true });
  }
}

async function measureAll(names: readonly string[]): Promise<void> {
  const readings: (BlockReading & { readonly name: string })[] = [];
  for (const name of names) readings.push({ name, ...(await inProcess(name)) });
  const rss = readings.flatMap(({ rssMb = [] }) => rssMb);
  await publish({
    name: "blocks",
    tables: [
      [
        ["longest block of the event loop", "CPU ms", `over ${BLOCK_MS_MAX} a second`, "turns", "RSS, MB"],
        ...readings.map(({ name, blockMs, perSecond, turns, rssMb = [] }) => [
          name,
          blockMs.toFixed(0),
          perSecond?.toFixed(2) ?? "",
          turns?.toString() ?? "",
          rssMb.map((mb) => mb.toFixed(0)).join(", "),
        ]),
      ],
    ],
    targets: [
      ...readings.map(({ name, blockMs }) => ({ what: name, value: blockMs, max: BLOCK_MS_MAX })),
      ...(rss.length === 0
        ? []
        : [{ what: `RSS beside a heap of ${HEAP_MB} MB, MB`, value: Math.max(...rss), max: RSS_MB_MAX }]),
    ],
    measured: readings,
  });
}

async function inProcess(name: string): Promise<BlockReading> {
  let text = "";
  const args = [import.meta.filename, "--case", name, "--minutes", String(values.minutes)];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  for await (const chunk of child.stdout) text += chunk;
  return JSON.parse(text);
}
