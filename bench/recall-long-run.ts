import { fork } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { defaultConfig } from "../src/config/load-config.ts";
import { openRuntime, type Runtime } from "../src/index.ts";
import { SYSTEM_PROMPT, TOOL } from "./conversation.ts";
import { createFloor } from "./floor.ts";
import { MODEL, openModelServer, TOOL_NAME } from "./model-server.ts";
import { createFreeEmbedder } from "./recall-free-embedder.ts";

/** Who holds the conversation. Each has a process of its own: what one leaves in memory costs the next. */
const HOLDERS = ["floor", "without memory", "memory without vectors", "defaults"] as const;
type Holder = (typeof HOLDERS)[number];

/** What a turn of a long run took. */
export interface LongRun {
  readonly holder: Holder;
  readonly turns: number;
  /** CPU of the process that holds the conversation, while it goes on and with what is done behind it until nothing is left. */
  readonly cpuMs: number;
  /** Of that, and of the embedder's own process, in the end. */
  readonly modelMs: number;
  readonly embedded: number;
  readonly pending: number;
  /** Handed to the device: pages, whole, each time one is made dirty. */
  readonly bytesWritten: number;
}

interface RunOptions {
  readonly turns: number;
  /** Between two turns; in that time the process has nothing to do. */
  readonly pauseMs: number;
  /** Of what a tool says. */
  readonly output: "log" | "prose";
  readonly only?: readonly string[] | undefined;
}

const OUTPUT_CHARS = 4_096;

/** The same conversation by each: a question, a look with a tool that says 4 KB, an answer. */
export async function measureLongRuns(folder: string, options: RunOptions): Promise<readonly LongRun[]> {
  const runs: LongRun[] = [];
  for (const holder of HOLDERS.filter((name) => options.only === undefined || options.only.includes(name))) {
    const asked = JSON.stringify({ ...options, holder, folder: join(folder, holder) });
    const child = fork(import.meta.filename, [asked], { execArgv: [] });
    const [run] = await once(child, "message");
    runs.push(run);
  }
  return runs;
}

async function hold({ holder, folder, ...options }: RunOptions & { holder: Holder; folder: string }): Promise<LongRun> {
  const tool = { name: TOOL_NAME, pieces: ['{"account":"savings",', '"row":7}'], isVaried: true };
  const server = await openModelServer(tool);
  const sayings = createSayings(options.output);
  const open = holder === "floor" ? undefined : await openHolder(holder, { folder, baseUrl: server.baseUrl, sayings });
  const ask = open?.ask ?? createFloor(server.baseUrl, sayings.output).open();
  for (let turn = 0; turn < WARM_UP_TURNS; turn += 1) await ask(sayings.question());
  const before = spentNow();
  for (let turn = 0; turn < options.turns; turn += 1) {
    await ask(sayings.question());
    if (options.pauseMs > 0) await pause(options.pauseMs);
  }
  await open?.settle();
  const model = embedderProcess(process.pid, server.pid);
  const status = await open?.runtime.dispatch("readMemoryStatus", {}).catch(() => undefined);
  const modelMs = model === undefined ? 0 : cpuOf(model);
  await open?.runtime.close();
  const after = spentNow();
  server.close();
  rmSync(folder, { recursive: true, force: true });
  const { turns } = options;
  return {
    holder,
    turns,
    cpuMs: (after.cpuMs - before.cpuMs) / turns,
    modelMs: modelMs / turns,
    embedded: (status?.entries ?? 0) - (status?.pending ?? 0),
    pending: status?.pending ?? 0,
    bytesWritten: (after.bytes - before.bytes) / turns,
  };
}

const WARM_UP_TURNS = 20;

interface Opened {
  readonly runtime: Runtime;
  ask(prompt: string): Promise<unknown>;
  /** Until nothing is left to be done behind the turns. */
  settle(): Promise<void>;
}

async function openHolder(
  holder: Exclude<Holder, "floor">,
  { folder, baseUrl, sayings }: { folder: string; baseUrl: string; sayings: Sayings },
): Promise<Opened> {
  const config = defaultConfig();
  const features = config.features.filter((name) => holder !== "without memory" || name !== "memory-store");
  const runtime = await openRuntime({
    stateFolder: folder,
    model: `openai/${MODEL}`,
    env: { OPENAI_BASE_URL: baseUrl },
    systemPrompt: SYSTEM_PROMPT,
    tools: [{ ...TOOL, execute: sayings.output }],
    config: { ...config, features },
    ...(holder === "memory without vectors" ? { memory: { embedder: createFreeEmbedder() } } : {}),
  });
  const session = await runtime.createSession(sayings.question());
  return {
    runtime,
    ask: async (prompt) => {
      for await (const _ of session.stream(prompt));
    },
    settle: async () => {
      if (holder === "without memory") return;
      // A search about nothing takes in what is left, and has the rest of the vectors made.
      await runtime.dispatch("searchHistory", { query: "zzyzx", limit: 1 });
      let [last, same] = [-1, 0];
      while (same < STILL_LOOKS) {
        await pause(LOOK_MS);
        const { pending } = await runtime.dispatch("readMemoryStatus", {});
        same = pending === last ? same + 1 : 0;
        last = pending;
        if (pending === 0) return;
      }
    },
  };
}

const LOOK_MS = 1_000;
const STILL_LOOKS = 10;

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
    question: () => `What does row ${++asked} say, and who has changed it since the audit in March?`,
    output: () => {
      let text = "";
      while (text.length < OUTPUT_CHARS) text += line(++said);
      return text;
    },
  };
}

function spentNow(): { readonly cpuMs: number; readonly bytes: number } {
  const { user, system } = process.cpuUsage();
  const io = readFileSync("/proc/self/io", "utf8");
  return { cpuMs: (user + system) / 1_000, bytes: Number(/^write_bytes: (\d+)/m.exec(io)?.[1]) };
}

/** The child of a process that is not the model server. */
function embedderProcess(parent: number, server: number): number | undefined {
  const children = readdirSync(`/proc/${parent}/task`).flatMap((task) =>
    readFileSync(`/proc/${parent}/task/${task}/children`, "utf8").split(" ").filter(Boolean).map(Number),
  );
  return children.find((pid) => pid !== server);
}

/** User and system time of a process, in milliseconds: its 14th and 15th field, in hundredths of a second. */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /, "").split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

if (process.send !== undefined && process.argv[1] === import.meta.filename) {
  const run = await hold(JSON.parse(process.argv[2] ?? ""));
  process.send(run, () => process.exit());
} else if (process.argv[1] === import.meta.filename) {
  const { values } = parseArgs({
    options: { turns: { type: "string" }, pause: { type: "string" }, output: { type: "string" }, only: { type: "string" } },
  });
  const runs = await measureLongRuns(`/tmp/rkat-long-${process.pid}`, {
    turns: Number(values.turns ?? 500),
    pauseMs: Number(values.pause ?? 0),
    output: values.output === "prose" ? "prose" : "log",
    only: values.only?.split(","),
  });
  console.table(runs);
}
