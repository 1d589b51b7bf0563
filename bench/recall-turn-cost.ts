import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { defaultConfig } from "../src/config/load-config.ts";
import { createScriptedModel, openRuntime, type Runtime, type Session } from "../src/index.ts";
import type { Clock } from "../src/ports/clock.ts";
import { createSystemClock } from "../src/service/system-clock.ts";
import { timeOf } from "./memory-store-stopwatch.ts";
import { createPassageText } from "./memory-store-text.ts";
import { createFreeEmbedder } from "./recall-free-embedder.ts";
import { median } from "./report.ts";

const GATHERING_MS_MAX = 2_000;
/** Growth: the same windows again in a session of so many turns. */
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
  pauseMs: 20,
  settleMs: 200,
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
}

/** CPU of a turn with a memory over that of one without, on disk. What the model of embeddings takes is left out. */
export async function measureTurns(folder: string): Promise<readonly TurnCost[]> {
  return [...(await measurePace(folder, APART)), ...(await measurePace(folder, IN_A_ROW))];
}

async function measurePace(folder: string, pace: Pace): Promise<readonly TurnCost[]> {
  const on = await openTalk(join(folder, `${pace.name} on`), pace, ["session-store", "memory-store"]);
  const off = await openTalk(join(folder, `${pace.name} off`), pace, ["session-store"]);
  try {
    await compare(on, off, { ...pace, windows: pace.warmUpWindows });
    const early = await compare(on, off, pace);
    if (pace !== APART) return [early];
    for (const talk of [on, off]) while (talk.turns() < LATE_TURN) await talk.turn();
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
  const onMs: number[] = [];
  const offMs: number[] = [];
  for (let window = 0; window < pace.windows; window += 1) {
    const isOnFirst = window % 2 === 0;
    if (isOnFirst) onMs.push(await windowMs(on, pace));
    offMs.push(await windowMs(off, pace));
    if (!isOnFirst) onMs.push(await windowMs(on, pace));
  }
  const ratios = onMs.map((ms, at) => ms / (offMs[at] ?? Number.NaN));
  return { pace: pace.name, atTurn, onMs: median(onMs), offMs: median(offMs), ratio: median(ratios) };
}

async function windowMs(talk: Talk, { turns, pauseMs, settleMs }: Pace): Promise<number> {
  const { cpuMs } = await timeOf(async () => {
    for (let turn = 0; turn < turns; turn += 1) {
      await talk.turn();
      if (pauseMs > 0) await pause(pauseMs);
    }
    // What is still being taken in belongs to this window.
    await pause(settleMs);
  });
  return cpuMs / turns;
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

/**
 * The waits by which quick turns are taken in together are cut short: turns of people and models are seconds apart, so that
 * each costs its own commit of text and of vectors. Limits of time are longer, and stay.
 */
function createHastyClock(): Clock {
  const clock = createSystemClock();
  return { ...clock, sleep: (ms, signal) => clock.sleep(ms <= GATHERING_MS_MAX ? 1 : ms, signal) };
}
