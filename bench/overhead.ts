import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { type Contender, converse } from "./conversation.ts";
import { createFloor } from "./floor.ts";
import { openModelServer } from "./model-server.ts";
import { createProviderAlone } from "./provider-alone.ts";
import { median, publish } from "./report.ts";
import { createRkat } from "./rkat.ts";

const TURNS = 100;
const ROUNDS = 7;
const WARM_UP_ROUNDS = 2;

/** Growth is read off two windows of one long conversation. */
const EARLY_TURN = 100;
const LATE_TURN = 1_000;
const WINDOW_TURNS = 50;
const LONG_ROUNDS = 3;

interface Cost {
  readonly cpuMs: number;
  readonly requestBytes: number;
}

interface Growth {
  readonly earlyMs: number;
  readonly lateMs: number;
  readonly growth: number;
}

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

const server = await openModelServer();
try {
  const floor = createFloor(server.baseUrl);
  const provider = createProviderAlone(server.baseUrl);
  const rkat = createRkat(server.baseUrl);
  const contenders = [floor, provider, rkat];
  const cost = await measureCosts(contenders);
  const growth = await measureGrowths(contenders);
  await publish({
    name: "overhead",
    tables: [costTable(contenders, cost), growthTable(contenders, growth)],
    targets: [
      { what: "CPU per turn, rkat over the floor", value: cost(rkat).cpuMs / cost(floor).cpuMs, max: 2 },
      { what: "growth of it, rkat's over the floor's", value: growth(rkat).growth / growth(floor).growth, max: 1 },
    ],
    measured: contenders.map((contender) => ({ name: contender.name, ...cost(contender), ...growth(contender) })),
  });
} finally {
  server.close();
}

type Reading<T> = (contender: Contender) => T;

async function measureCosts(contenders: readonly Contender[]): Promise<Reading<Cost>> {
  const costs = new Map<Contender, Cost[]>(contenders.map((contender) => [contender, []]));
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round += 1) {
    for (const contender of rotated(contenders, round)) {
      const cpuMs = startCpuWatch();
      await converse(contender, TURNS);
      const cost = { cpuMs: cpuMs() / TURNS, requestBytes: await server.requestBytes() };
      if (round >= WARM_UP_ROUNDS) costs.get(contender)?.push(cost);
    }
  }
  return (contender) => {
    const readings = costs.get(contender) ?? [];
    return {
      cpuMs: median(readings.map(({ cpuMs }) => cpuMs)),
      requestBytes: median(readings.map(({ requestBytes }) => requestBytes)),
    };
  };
}

async function measureGrowths(contenders: readonly Contender[]): Promise<Reading<Growth>> {
  const growths = new Map<Contender, Growth[]>(contenders.map((contender) => [contender, []]));
  for (let round = 0; round < LONG_ROUNDS; round += 1) {
    for (const contender of rotated(contenders, round)) growths.get(contender)?.push(await measureGrowth(contender));
  }
  return (contender) => {
    const readings = growths.get(contender) ?? [];
    return {
      earlyMs: median(readings.map(({ earlyMs }) => earlyMs)),
      lateMs: median(readings.map(({ lateMs }) => lateMs)),
      growth: median(readings.map(({ growth }) => growth)),
    };
  };
}

async function measureGrowth(contender: Contender): Promise<Growth> {
  const half = WINDOW_TURNS / 2;
  const cpuMs = startCpuWatch();
  const atTurn = new Map<number, number>();
  await converse(contender, LATE_TURN + half, (turn) => atTurn.set(turn, cpuMs()));
  const around = (turn: number): number =>
    ((atTurn.get(turn + half) ?? Number.NaN) - (atTurn.get(turn - half) ?? Number.NaN)) / WINDOW_TURNS;
  const earlyMs = around(EARLY_TURN);
  const lateMs = around(LATE_TURN);
  return { earlyMs, lateMs, growth: lateMs / earlyMs };
}

/** Whoever comes first meets a cold cache, so everyone does in turn. */
function rotated<T>(items: readonly T[], by: number): readonly T[] {
  const start = by % items.length;
  return [...items.slice(start), ...items.slice(0, start)];
}

/** CPU of this process since the call, all threads; nobody pays for the garbage of whoever came before. */
function startCpuWatch(): () => number {
  collectGarbage();
  const start = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(start);
    return (user + system) / 1_000;
  };
}

function costTable(contenders: readonly Contender[], cost: Reading<Cost>): readonly (readonly string[])[] {
  const [floor] = contenders;
  const floorMs = floor === undefined ? Number.NaN : cost(floor).cpuMs;
  const rows = contenders.map((contender) => {
    const { cpuMs, requestBytes } = cost(contender);
    return [contender.name, cpuMs.toFixed(2), (cpuMs / floorMs).toFixed(2), String(requestBytes)];
  });
  return [[`${TURNS} turns`, "CPU ms/turn", "× floor", "bytes of the last request"], ...rows];
}

function growthTable(contenders: readonly Contender[], growth: Reading<Growth>): readonly (readonly string[])[] {
  const rows = contenders.map((contender) => {
    const { earlyMs, lateMs, growth: times } = growth(contender);
    return [contender.name, earlyMs.toFixed(2), lateMs.toFixed(2), times.toFixed(2)];
  });
  return [["CPU ms/turn around", `turn ${EARLY_TURN}`, `turn ${LATE_TURN}`, "growth"], ...rows];
}
