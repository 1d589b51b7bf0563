import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type PostgresServer, startPostgres } from "../../test/support/postgres-server.ts";
import { type Contender, runJob } from "./contenders.ts";
import { MOMENTS, type Orders, openOrders, PAID } from "./orders.ts";
import type { Figures } from "./result.ts";

const ROUNDS = 1;
const TURN_MS_MAX = 60_000;
/** Calls of the model, and payments, of a turn that nothing happens to. */
const CALLS = 3;

interface Killed {
  readonly isCompleted: boolean;
  readonly callsAgain: number;
  readonly paidTwice: boolean;
  /** Whether the payment service could not see that it was asked twice for the same. */
  readonly isUnrecognised: boolean;
  readonly isUnpaid: boolean;
  /** What the project said when it did not continue. */
  readonly problem?: string;
}

/** Kills a process at moments of a turn that pays an order; another process continues the turn, where the project can. */
export async function measureKiller(contenders: readonly Contender[]): Promise<Figures> {
  const orders = await openOrders();
  let postgres: PostgresServer | undefined;
  const rows: (readonly string[])[] = [];
  const missing: Figures["missing"][number][] = [];
  const survivors = contenders.filter(({ keeps, survives }) => keeps && survives !== undefined);
  for (const contender of survivors) {
    const killed: Killed[] = [];
    try {
      if (contender.isDatabase) postgres = await startPostgres();
      for (let round = 0; round < ROUNDS; round += 1)
        for (const moment of MOMENTS) {
          const database = contender.isDatabase && (await postgres?.createDatabase(`bench_${killed.length}`));
          killed.push(await killOnce(contender, orders, { moment, ...(database && { database }) }));
        }
    } catch (error) {
      missing.push([contender.name, String(error)]);
      continue;
    }
    const problem = killed.find((one) => one.problem !== undefined)?.problem;
    if (problem !== undefined) missing.push([contender.name, `turns that it did not continue; it said: ${problem}`]);
    const count = (is: (one: Killed) => boolean): string => String(killed.filter(is).length);
    rows.push([
      contender.name,
      contender.survives ?? "",
      String(killed.length),
      count(({ isCompleted }) => isCompleted),
      String(killed.reduce((sum, { callsAgain }) => sum + callsAgain, 0)),
      count(({ paidTwice }) => paidTwice),
      count(({ isUnrecognised }) => isUnrecognised),
      count(({ isUnpaid }) => isUnpaid),
    ]);
  }
  await orders.close();
  await postgres?.close();
  return {
    name: "killer",
    title: "A turn whose process is killed",
    text:
      "A turn looks an order up, pays it and reports; the process is ended by `kill -9` at a moment that the outside sees: when a model call " +
      "begins or is half sent, before or after a tool has its effect. Another process opens the same folder or database and continues. Model calls made " +
      "again include the one that was under way. A payment that was asked for twice is unrecognised if the second request had another key, " +
      "so that a payment service could not tell. Only projects that say that they continue turns are here.",
    columns: [
      "",
      "by",
      "kills",
      "turns completed",
      "model calls made again",
      "payments asked for twice",
      "of these unrecognised",
      "never paid",
    ],
    rows,
    missing,
  };
}

async function killOnce(
  contender: Contender,
  orders: Orders,
  { moment, database }: { readonly moment: string; readonly database?: string },
): Promise<Killed> {
  const folder = mkdtempSync(join(tmpdir(), "bench-peers-"));
  const stop = new AbortController();
  const outside = orders.begin((at) => {
    if (at === moment) stop.abort();
  });
  const kept = { folder, ...(database && { database }) };
  const job = { baseUrl: `${orders.url}/v1`, orders: orders.url, ...kept, sessions: 1, turns: 1, warmUps: 0 };
  try {
    const { session } = await runJob(contender, job, { limitMs: TURN_MS_MAX, signal: stop.signal });
    const { kept: told, problem } = await runJob(contender, { ...job, session }, { limitMs: TURN_MS_MAX });
    const made = [...outside.calls.values()].reduce((sum, count) => sum + count, 0);
    const payments = [...outside.payments.values()].reduce((sum, count) => sum + count, 0);
    // A call with which a model was asked what had happened is not one that was made again.
    const asked = [...outside.calls.keys()].filter((key) => key.includes("unknown") || key.includes("not paid")).length;
    return {
      isCompleted: told.includes(PAID),
      callsAgain: Math.max(0, made - CALLS - asked),
      paidTwice: payments > 1,
      isUnrecognised: outside.payments.size > 1,
      isUnpaid: payments === 0,
      ...(problem !== undefined && { problem }),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
