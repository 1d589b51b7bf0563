import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { defaultConfig } from "@rkat/core/config/settings";
import type { Clock } from "@rkat/core/ports/clock";
import { createSystemClock } from "@rkat/core/runtime/system-clock";
import { createScriptedModel, openRuntime, type Runtime, type Session } from "@rkat/node";
import { timeOf } from "./memory-store-stopwatch.ts";
import { createPassageText } from "./memory-store-text.ts";
import { bytesWritten } from "./process-spending.ts";
import { createFreeEmbedder } from "./recall-free-embedder.ts";
import { type LongRun, measureLongRuns } from "./recall-long-run.ts";
import { median, publish, type Report } from "./report.ts";

/** Turns of people and models are about half a minute apart; here they are as many milliseconds. */
const HASTE = 1_000;
const GATHERING_MS_MAX = 300_000;
/** Growth: the same windows again in a session of so many turns, unless told otherwise. */
const LATE_TURN = 1_000;

interface Pace {
  readonly name: string;
  /** Of a window. */
  readonly turns: number;
  readonly windows: number;
  readonly warmUpWindows: number;
  readonly pauseMs: number;
  /** How long after a window all of it is taken in, vectors too. */
  readonly settleMs: number;
  readonly clock: Clock;
}

/** As people and models talk: each turn is taken in before the next begins. */
const APART: Pace = {
  name: "apart",
  turns: 20,
  windows: 9,
  warmUpWindows: 4,
  pauseMs: 30,
  settleMs: 500,
  clock: createHastyClock(),
};
/** As a program talks to a model that takes no time: many turns are taken in together. */
const IN_A_ROW: Pace = {
  name: "in a row",
  turns: 60,
  windows: 5,
  // The other pace has warmed up what both need.
  warmUpWindows: 1,
  pauseMs: 0,
  settleMs: 2_500,
  clock: createSystemClock(),
};

export interface TurnCost {
  readonly pace: string;
  /** Turns the sessions had when the windows began. */
  readonly atTurn: number;
  /** CPU of a turn, medians of the windows. */
  readonly onMs: number;
  readonly offMs: number;
  /** Median of what each pair of windows says. */
  readonly ratio: number;
  /** Handed to the device, means of the windows: what is written anew now and then belongs to every turn. */
  readonly onBytes: number;
  readonly offBytes: number;
}

/** CPU of a turn with a memory over that of one without, on disk. What the model of embeddings takes is left out. */
export async function measureTurns(folder: string, lateTurn = LATE_TURN): Promise<readonly TurnCost[]> {
  return [...(await measurePace(folder, APART, lateTurn)), ...(await measurePace(folder, IN_A_ROW, lateTurn))];
}

async function measurePace(folder: string, pace: Pace, lateTurn: number): Promise<readonly TurnCost[]> {
  const on = await openTalk(join(folder, `${pace.name} on`), pace, ["session-store", "memory-store"]);
  const off = await openTalk(join(folder, `${pace.name} off`), pace, ["session-store"]);
  try {
    await compare(on, off, { ...pace, windows: pace.warmUpWindows });
    const early = await compare(on, off, pace);
    if (pace !== APART) return [early];
    for (const talk of [on, off]) while (talk.turns() < lateTurn) await talk.turn();
    await pause(pace.settleMs);
    return [early, await compare(on, off, pace)];
  } finally {
    await on.runtime.close();
    await off.runtime.close();
  }
}

/** Windows of the two in turns: what else the machine does meets both. */
async function compare(on: Talk, off: Talk, pace: Pace): Promise<TurnCost> {
  const atTurn = on.turns();
  const ons: Window[] = [];
  const offs: Window[] = [];
  for (let window = 0; window < pace.windows; window += 1) {
    const isOnFirst = window % 2 === 0;
    if (isOnFirst) ons.push(await windowOf(on, pace));
    offs.push(await windowOf(off, pace));
    if (!isOnFirst) ons.push(await windowOf(on, pace));
  }
  const ratios = ons.map(({ cpuMs }, at) => cpuMs / (offs[at]?.cpuMs ?? Number.NaN));
  const cpuOf = (windows: readonly Window[]): number => median(windows.map(({ cpuMs }) => cpuMs));
  const bytesOf = (windows: readonly Window[]): number =>
    windows.reduce((sum, { bytes }) => sum + bytes, 0) / windows.length;
  return {
    pace: pace.name,
    atTurn,
    onMs: cpuOf(ons),
    offMs: cpuOf(offs),
    ratio: median(ratios),
    onBytes: bytesOf(ons),
    offBytes: bytesOf(offs),
  };
}

/** What a turn took, over a window of them. */
interface Window {
  readonly cpuMs: number;
  readonly bytes: number;
}

async function windowOf(talk: Talk, { turns, pauseMs, settleMs }: Pace): Promise<Window> {
  const before = bytesWritten();
  const { cpuMs } = await timeOf(async () => {
    for (let turn = 0; turn < turns; turn += 1) {
      await talk.turn();
      if (pauseMs > 0) await pause(pauseMs);
    }
    // What is still being taken in belongs to this window.
    await pause(settleMs);
  });
  return { cpuMs: cpuMs / turns, bytes: (bytesWritten() - before) / turns };
}

interface Talk {
  readonly runtime: Runtime;
  turns(): number;
  turn(): Promise<void>;
}

type Features = ReturnType<typeof defaultConfig>["features"];

/** A session whose turns are a question, a look with a tool, and an answer. */
async function openTalk(stateFolder: string, { clock }: Pace, features: Features): Promise<Talk> {
  const text = createPassageText();
  let said = 0;
  const passages = (count: number): string => Array.from({ length: count }, () => text.passage(said++)).join(" ");
  const model = createScriptedModel((_, index) =>
    index % 2 === 0
      ? { text: "Let me look.", calls: [{ name: "look", args: { at: `src/part-${index}.ts` } }] }
      : { text: passages(3) },
  );
  const look = { name: "look", description: "Looks.", inputSchema: {}, execute: () => passages(6) };
  const runtime = await openRuntime({
    stateFolder,
    model,
    tools: [look],
    env: {},
    clock,
    config: { ...defaultConfig(), features },
    ...(features.includes("memory-store") ? { memory: { embedder: createFreeEmbedder() } } : {}),
  });
  const session: Session = await runtime.createSession(passages(1));
  let turns = 1;
  return {
    runtime,
    turns: () => turns,
    turn: async () => {
      await session.turn(passages(1));
      turns += 1;
    },
  };
}

/** The waits by which turns are taken in together pass as quickly as the turns do. Limits of time are longer, and stay. */
function createHastyClock(): Clock {
  const clock = createSystemClock();
  return { ...clock, sleep: (ms, signal, how) => clock.sleep(ms <= GATHERING_MS_MAX ? ms / HASTE : ms, signal, how) };
}

/** What memory adds to a turn; what the model of embeddings takes is left out. */
export function turnTable(turns: readonly TurnCost[]): readonly (readonly string[])[] {
  const kilobytes = (bytes: number): string => (bytes / 1_024).toFixed(0);
  const rows = turns.map(({ pace, atTurn, onMs, offMs, ratio, onBytes, offBytes }) => [
    `turns ${pace}, from turn ${atTurn}`,
    offMs.toFixed(2),
    onMs.toFixed(2),
    ratio.toFixed(2),
    kilobytes(offBytes),
    kilobytes(onBytes),
  ]);
  const heading = ["CPU ms without memory", "with", "ratio", "KB written without", "with"];
  return [["a turn, embedding left out", ...heading], ...rows];
}

/** Some four minutes in all. */
const LONG_TURNS = 300;

if (process.argv[1] === import.meta.filename) {
  const folder = mkdtempSync(join(tmpdir(), "rkat-bench-turns-"));
  const { values } = parseArgs({
    options: {
      /** Of the long run, by each who holds it. */
      turns: { type: "string", default: String(LONG_TURNS) },
      /** The turn from which on the windows are looked at again. */
      late: { type: "string", default: String(LATE_TURN) },
      output: { type: "string" },
      "no-assert": { type: "boolean" },
    },
  });
  try {
    const output = values.output === "prose" ? "prose" : "log";
    const runs = await measureLongRuns(join(folder, "long"), { turns: Number(values.turns), output });
    await publish(reportOf(runs, await measureTurns(join(folder, "paces"), Number(values.late))));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function reportOf(runs: readonly LongRun[], turns: readonly TurnCost[]): Report {
  const [floor, alone, byWords, defaults, nothing] = runs;
  const cpuOver = (run?: LongRun, other?: LongRun): number => allMs(run) / allMs(other);
  const rows = runs.map((run) => [
    run.holder,
    run.cpuMs.toFixed(1),
    run.modelMs.toFixed(1),
    cpuOver(run, floor).toFixed(2),
    (run.bytesWritten / 1_024).toFixed(0),
    String(run.embedded),
    String(run.byWords),
  ]);
  const heading = ["CPU ms", "embedder's", "× floor", "KB written", "vectors", "by words alone"];
  const bytesOver = (byWords?.bytesWritten ?? Number.NaN) / (alone?.bytesWritten ?? Number.NaN);
  const ratios = [
    ["defaults, vectors included, over the floor", cpuOver(defaults, floor).toFixed(2)],
    ["defaults, vectors included, over the runtime with nothing on", cpuOver(defaults, nothing).toFixed(2)],
    ["the runtime alone over the floor", cpuOver(alone, floor).toFixed(2)],
    ["memory without vectors over no memory", cpuOver(byWords, alone).toFixed(2)],
    ["the same in bytes written", bytesOver.toFixed(2)],
  ];
  return {
    name: "recall-turns",
    tables: [
      [[`a turn of ${floor?.turns}, in the end`, ...heading], ...rows],
      [["of a long run", "ratio"], ...ratios],
      turnTable(turns),
    ],
    targets: [
      { what: "CPU of a turn on defaults, vectors included, over the floor", value: cpuOver(defaults, floor), max: 3 },
      { what: "the same over a turn with nothing on", value: cpuOver(defaults, nothing), max: 3 },
      ...turns.slice(0, 1).flatMap(({ ratio, onBytes, offBytes }) => [
        { what: "CPU of a turn with memory over one without, apart", value: ratio, max: 1.3 },
        { what: "bytes written a turn with memory over without, apart", value: onBytes / offBytes, max: 2 },
      ]),
    ],
    measured: { runs, turns },
  };
}

/** With what the embedder takes in its own process. */
function allMs(run?: LongRun): number {
  return run === undefined ? Number.NaN : run.cpuMs + run.modelMs;
}
