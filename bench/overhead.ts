import { type Contender, converse } from "./conversation.ts";
import { createFloor } from "./floor.ts";
import { openModelServer } from "./model-server.ts";
import { createProviderAlone } from "./provider-alone.ts";
import { median, publish } from "./report.ts";
import { createRkat } from "./rkat.ts";

const TURNS = 100;
const ROUNDS = 9;
const WARM_UP_ROUNDS = 2;

/** Growth is what a turn costs around a late one over what it costs around an early one. */
const EARLY_TURN = 100;
const LATE_TURN = 1_000;
const WINDOW_TURNS = 50;
const LATE_ROUNDS = 3;

interface Cost {
  /** Of a turn, over the first hundred. */
  readonly cpuMs: number;
  readonly requestBytes: number;
  readonly earlyMs: number;
  readonly lateMs: number;
}

const server = await openModelServer();
try {
  const floor = createFloor(server.baseUrl);
  const provider = createProviderAlone(server.baseUrl);
  const rkat = createRkat(server.baseUrl);
  const contenders = [floor, provider, rkat];
  const cost = await measure(contenders);
  await publish({
    name: "overhead",
    tables: [costTable(contenders, cost), growthTable(contenders, cost)],
    targets: [
      { what: "CPU per turn, rkat over the floor", value: cost(rkat).cpuMs / cost(floor).cpuMs, max: 2 },
      { what: "growth of it, rkat's over the floor's", value: growthOf(cost(rkat)) / growthOf(cost(floor)), max: 1 },
    ],
    measured: contenders.map((contender) => ({ name: contender.name, ...cost(contender) })),
  });
} finally {
  server.close();
}

type CostOf = (contender: Contender) => Cost;

async function measure(contenders: readonly Contender[]): Promise<CostOf> {
  const readings = new Map<Contender, Readings>(contenders.map((contender) => [contender, new Map()]));
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round += 1) {
    for (const contender of rotated(contenders, round)) {
      const atTurn = await watch(contender, EARLY_TURN + WINDOW_TURNS / 2);
      if (round < WARM_UP_ROUNDS) continue;
      keep(readings.get(contender), "cpuMs", between(atTurn, 0, TURNS));
      keep(readings.get(contender), "earlyMs", around(atTurn, EARLY_TURN));
    }
  }
  for (let round = 0; round < LATE_ROUNDS; round += 1) {
    for (const contender of rotated(contenders, round)) {
      const atTurn = await watch(contender, LATE_TURN + WINDOW_TURNS / 2);
      keep(readings.get(contender), "lateMs", around(atTurn, LATE_TURN));
    }
  }
  for (const contender of contenders) {
    await converse(contender, TURNS);
    keep(readings.get(contender), "requestBytes", await server.requestBytes());
  }
  return (contender) => {
    const middle = (what: keyof Cost): number => median(readings.get(contender)?.get(what) ?? []);
    return {
      cpuMs: middle("cpuMs"),
      requestBytes: middle("requestBytes"),
      earlyMs: middle("earlyMs"),
      lateMs: middle("lateMs"),
    };
  };
}

type Readings = Map<keyof Cost, number[]>;

function keep(readings: Readings | undefined, what: keyof Cost, value: number): void {
  readings?.set(what, [...(readings.get(what) ?? []), value]);
}

/** Holds a conversation; answers with the CPU it had taken at the end of each turn, and none at turn 0. */
async function watch(contender: Contender, turns: number): Promise<readonly number[]> {
  const cpuMs = startCpuWatch();
  const atTurn = [0];
  await converse(contender, turns, () => atTurn.push(cpuMs()));
  return atTurn;
}

function around(atTurn: readonly number[], turn: number): number {
  return between(atTurn, turn - WINDOW_TURNS / 2, turn + WINDOW_TURNS / 2);
}

function between(atTurn: readonly number[], from: number, to: number): number {
  return ((atTurn[to] ?? Number.NaN) - (atTurn[from] ?? Number.NaN)) / (to - from);
}

function growthOf({ earlyMs, lateMs }: Cost): number {
  return lateMs / earlyMs;
}

/** Whoever comes first meets a cold cache, so everyone does in turn. */
function rotated<T>(items: readonly T[], by: number): readonly T[] {
  const start = by % items.length;
  return [...items.slice(start), ...items.slice(0, start)];
}

/**
 * CPU of this process since the call, all threads. Garbage is not collected first: a forced collection also throws away
 * what the compiler has learnt, and made whoever has more code up to 1.5 times as expensive as it is.
 */
function startCpuWatch(): () => number {
  const start = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(start);
    return (user + system) / 1_000;
  };
}

function costTable(contenders: readonly Contender[], cost: CostOf): readonly (readonly string[])[] {
  const [floor] = contenders;
  const floorMs = floor === undefined ? Number.NaN : cost(floor).cpuMs;
  const rows = contenders.map((contender) => {
    const { cpuMs, requestBytes } = cost(contender);
    return [contender.name, cpuMs.toFixed(2), (cpuMs / floorMs).toFixed(2), String(requestBytes)];
  });
  return [[`${TURNS} turns`, "CPU ms/turn", "× floor", "bytes of the last request"], ...rows];
}

function growthTable(contenders: readonly Contender[], cost: CostOf): readonly (readonly string[])[] {
  const rows = contenders.map((contender) => {
    const { earlyMs, lateMs } = cost(contender);
    return [contender.name, earlyMs.toFixed(2), lateMs.toFixed(2), growthOf(cost(contender)).toFixed(2)];
  });
  return [["CPU ms/turn around", `turn ${EARLY_TURN}`, `turn ${LATE_TURN}`, "growth"], ...rows];
}
