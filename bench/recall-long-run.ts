import { fork } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { defaultConfig } from "@rkat/core/config/settings";
import type { MemoryStatusReport } from "@rkat/core/contract/memory";
import { openRuntime, type Runtime } from "@rkat/node";
import { SYSTEM_PROMPT, TOOL } from "./conversation.ts";
import { createFloor } from "./floor.ts";
import { sentenceOf } from "./memory-store-text.ts";
import { MODEL, openModelServer, TOOL_NAME } from "./model-server.ts";
import { bytesWritten, cpuOfChildrenMs, cpuSpentMs } from "./process-spending.ts";
import { createFreeEmbedder } from "./recall-free-embedder.ts";

/** Who holds the conversation. Each has a process of its own: what one leaves in memory costs the next. */
const HOLDERS = ["floor", "without memory", "memory without vectors", "defaults", "nothing on"] as const;
type Holder = (typeof HOLDERS)[number];

/** What a turn of a long run took, with all that was done behind it until nothing was left to do. */
export interface LongRun {
  readonly holder: Holder;
  readonly turns: number;
  /** CPU of the process that holds the conversation. */
  readonly cpuMs: number;
  /** Of the processes that count for it: the model of embeddings. */
  readonly modelMs: number;
  /** Chunks that have a vector in the end, and that have none. */
  readonly embedded: number;
  readonly byWords: number;
  readonly bytesWritten: number;
}

interface RunOptions {
  readonly turns: number;
  /** Of what a tool says. */
  readonly output: "log" | "prose";
  readonly holders?: readonly Holder[];
}

const OUTPUT_CHARS = 4_096;
const WARM_UP_TURNS = 20;

/** The same conversation by each, each in turn: a question, a look with a tool that says 4 KB, an answer. */
export async function measureLongRuns(folder: string, options: RunOptions): Promise<readonly LongRun[]> {
  const runs: LongRun[] = [];
  for (const holder of options.holders ?? HOLDERS) {
    const asked = JSON.stringify({ ...options, holder, folder: join(folder, holder) });
    const child = fork(import.meta.filename, [asked], { execArgv: [] });
    const [run] = await once(child, "message");
    runs.push(run);
  }
  return runs;
}

async function hold({
  holder,
  folder,
  turns,
  output,
}: RunOptions & { holder: Holder; folder: string }): Promise<LongRun> {
  const tool = { name: TOOL_NAME, pieces: ['{"account":"savings",', '"row":7}'], isVaried: true };
  const server = await openModelServer(tool);
  const sayings = createSayings(output);
  const place = { folder, baseUrl: server.baseUrl, sayings };
  const runtime = holder === "floor" ? undefined : await openHolder(holder, place);
  const ask = await askingOf(runtime, place);
  for (let turn = 0; turn < WARM_UP_TURNS; turn += 1) await ask(sayings.question());
  const before = { cpuMs: cpuSpentMs(), bytes: bytesWritten() };
  for (let turn = 0; turn < turns; turn += 1) await ask(sayings.question());
  let modelMs = cpuOfChildrenMs(server.pid);
  await runtime?.close();
  let status: Pick<MemoryStatusReport, "entries" | "pending" | "by_words"> = { entries: 0, pending: 0 };
  if (holder === "defaults" || holder === "memory without vectors") {
    // Nobody uses the session any more: what its context still held is embedded, too.
    const next = await openHolder(holder, place);
    await settle(next);
    status = await next.dispatch("readMemoryStatus", {});
    modelMs += cpuOfChildrenMs(server.pid);
    await next.close();
  }
  const spent = { cpuMs: cpuSpentMs() - before.cpuMs, bytes: bytesWritten() - before.bytes };
  server.close();
  rmSync(folder, { recursive: true, force: true });
  return {
    holder,
    turns,
    cpuMs: spent.cpuMs / turns,
    modelMs: modelMs / turns,
    embedded: status.entries - status.pending - (status.by_words ?? 0),
    byWords: status.by_words ?? 0,
    bytesWritten: spent.bytes / turns,
  };
}

type Ask = (prompt: string) => Promise<unknown>;

async function askingOf(runtime: Runtime | undefined, { baseUrl, sayings }: Place): Promise<Ask> {
  if (runtime === undefined) return createFloor(baseUrl, sayings.output).open();
  const session = await runtime.createSession(sayings.question());
  return async (prompt) => {
    for await (const _ of session.stream(prompt));
  };
}

interface Place {
  readonly folder: string;
  readonly baseUrl: string;
  readonly sayings: Sayings;
}

function openHolder(holder: Exclude<Holder, "floor">, { folder, baseUrl, sayings }: Place): Promise<Runtime> {
  const config = defaultConfig();
  const off: readonly string[] = holder === "without memory" ? ["memory-store"] : [];
  const features = holder === "nothing on" ? [] : config.features.filter((name) => !off.includes(name));
  return openRuntime({
    stateFolder: folder,
    model: `openai/${MODEL}`,
    env: { OPENAI_BASE_URL: baseUrl },
    systemPrompt: SYSTEM_PROMPT,
    tools: [{ ...TOOL, execute: sayings.output }],
    config: { ...config, features },
    ...(holder === "memory without vectors" ? { memory: { embedder: createFreeEmbedder() } } : {}),
  });
}

/** A search about nothing takes in what is left, and has the rest of the vectors made. */
async function settle(runtime: Runtime): Promise<void> {
  await runtime.dispatch("searchHistory", { query: "zzyzx", limit: 1 });
  while ((await runtime.dispatch("readMemoryStatus", {})).pending > 0) await pause(LOOK_MS);
}

const QUESTION_WORDS = 12;
const LOOK_MS = 1_000;

interface Sayings {
  question(): string;
  output(): string;
}

function createSayings(kind: RunOptions["output"]): Sayings {
  let [asked, said] = [0, 0];
  const line = (at: number): string =>
    kind === "prose"
      ? `On day ${at} the clerk wrote that the sum of the month was right and that nobody had asked for it again. `
      : `2026-03-04T10:${at % 60}:31.120Z INFO ledger.store row=${at} amount=${at * 7}.50 took=${at % 9}ms trace=${at.toString(16)}\n`;
  return {
    question: () => `What of ${sentenceOf(++asked, QUESTION_WORDS)}`,
    output: () => {
      let text = "";
      while (text.length < OUTPUT_CHARS) text += line(++said);
      return text;
    },
  };
}

if (process.send !== undefined && process.argv[1] === import.meta.filename) {
  const run = await hold(JSON.parse(process.argv[2] ?? ""));
  process.send(run, () => process.exit());
}
