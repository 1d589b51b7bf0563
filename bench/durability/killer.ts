import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Entry, EntryBody } from "@rkat/core/contract/entry";
import type { Store } from "@rkat/core/ports/store";
import { type FarSide, type Moment, openFarSide } from "./far-side.ts";

/** How a product is driven by the killer. A driver of another product implements the same. */
export interface Driver {
  /** Starts a process that resumes turns; `begin` starts a turn with this name and yields what is durable so far. */
  start(farSide: string): Promise<AgentProcess>;
  /** Waits until the turn has ended, and returns its log. */
  ended(session: string): Promise<readonly Entry<EntryBody>[]>;
  close(): Promise<void>;
}

interface AgentProcess {
  readonly process: ChildProcess;
  begin(turn: string): Promise<string>;
  /** Resolves at the durable event with this number, counted from the beginning of the turn. */
  durable(count: number): Promise<void>;
  kill(): Promise<void>;
}

/** The agent of `agent.ts` at a place, and its store to read the logs. */
export function createDriver(place: string, leaseMs: number, store: Store): Driver {
  const processes = new Set<AgentProcess>();
  return {
    start: async (farSide) => {
      const args = [join(import.meta.dirname, "agent.ts"), place, farSide, String(leaseMs)];
      const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
      const lines: Record<string, unknown>[] = [];
      let wake = Promise.withResolvers<void>();
      createInterface({ input: child.stdout }).on("line", (line) => {
        lines.push(line === "ready" ? { ready: true } : JSON.parse(line));
        wake.resolve();
        wake = Promise.withResolvers();
      });
      const exited = once(child, "exit");
      const until = async <T>(find: () => T | undefined): Promise<T> => {
        for (let found = find(); ; found = find()) {
          if (found !== undefined) return found;
          await Promise.race([wake.promise, exited]);
          if (child.exitCode !== null || child.signalCode !== null) throw new Error("the process ended");
        }
      };
      const one: AgentProcess = {
        process: child,
        begin: async (turn) => {
          child.stdin.write(`${turn}\n`);
          return until(() => lines.find(({ session }) => session !== undefined)?.session as string | undefined);
        },
        durable: async (count) => {
          await until(() => (lines.filter(({ durable }) => durable !== undefined).length >= count ? true : undefined));
        },
        kill: async () => {
          child.kill("SIGKILL");
          if (child.exitCode === null && child.signalCode === null) await exited;
          processes.delete(one);
        },
      };
      processes.add(one);
      await until(() => lines.find(({ ready }) => ready === true));
      return one;
    },
    ended: async (session) => {
      for (;;) {
        const row = await store.sessions.get(session);
        if (row !== undefined && !row.has_open_turn && row.message_count > 0)
          return store.log.read(session, 1, Number.MAX_SAFE_INTEGER);
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      }
    },
    close: async () => {
      await Promise.all([...processes].map((one) => one.kill()));
      await store.close();
    },
  };
}

const LOOK_MS = 20;

/** Where a process is killed: at the n-th durable event, or at a moment of the outside. */
export type Strike = { readonly durable: number } | { readonly moment: Moment };

export const STRIKES: readonly Strike[] = [
  ...Array.from({ length: 12 }, (_, at) => ({ durable: at + 1 })),
  ...["model:1:begin", "model:1:half", "look:begin", "model:2:half", "pay:begin", "pay:done", "model:3:half"].map(
    (moment) => ({ moment }),
  ),
];

export interface Killed {
  readonly strike: Strike;
  readonly isCompleted: boolean;
  /** Model calls whose answer was in the log, and that were made again. */
  readonly paidTwice: number;
  readonly effectsTwice: number;
  readonly effectsLost: number;
  /** Milliseconds from the kill to the entry that continues the turn; undefined if it had ended before. */
  readonly continuedMs: number | undefined;
}

/** Kills a process in each turn, in the order of the strikes; others continue the turns. */
export async function runKiller(
  driver: Driver,
  { turns, others }: { readonly turns: number; readonly others: number },
): Promise<readonly Killed[]> {
  const victims = new Map<string, { readonly moment: Moment; strike(): Promise<void> }>();
  const farSide: FarSide = await openFarSide(async (turn, moment) => {
    const victim = victims.get(turn);
    if (victim?.moment !== moment) return;
    victims.delete(turn);
    await victim.strike();
  });
  const killed: Killed[] = [];
  try {
    await Promise.all(Array.from({ length: others }, () => driver.start(farSide.url)));
    for (let at = 0; at < turns; at += 1) {
      // Spread over all strikes, also in a short run.
      const strike = STRIKES[(at * 7) % STRIKES.length] ?? { durable: 1 };
      killed.push(await killOne(driver, farSide, { name: `turn ${at}`, strike, victims }));
    }
  } finally {
    await driver.close();
    await farSide.close();
  }
  return killed;
}

async function killOne(
  driver: Driver,
  farSide: FarSide,
  {
    name,
    strike,
    victims,
  }: {
    readonly name: string;
    readonly strike: Strike;
    readonly victims: Map<string, { readonly moment: Moment; strike(): Promise<void> }>;
  },
): Promise<Killed> {
  const victim = await driver.start(farSide.url);
  let killedAtMs = 0;
  const kill = async (): Promise<void> => {
    killedAtMs = Date.now();
    await victim.kill();
  };
  if ("moment" in strike) victims.set(name, { moment: strike.moment, strike: kill });
  const session = await victim.begin(name);
  if ("durable" in strike) {
    await victim.durable(strike.durable).catch(() => {});
    await kill();
  }
  const entries = await driver.ended(session);
  victims.delete(name);
  await victim.kill();
  const bodies = entries.map(({ body }) => body);
  const adopted = entries.find(({ body }) => body.kind === "turn_adopted");
  const answers = bodies.filter(({ kind }) => kind === "assistant").length;
  const lost = bodies.filter((body) => body.kind === "turn_adopted" && body.superseded).length;
  const { calls, payments } = farSide.outside(name);
  const made = [...calls.values()].reduce((sum, count) => sum + count, 0);
  const paid = [...payments.values()].reduce((sum, count) => sum + count, 0);
  const end = bodies.findLast((body) => body.kind === "turn_closed");
  return {
    strike,
    isCompleted: end?.kind === "turn_closed" && end.end.status === "completed",
    paidTwice: Math.max(0, made - answers - lost),
    effectsTwice: Math.max(0, paid - 1),
    effectsLost: paid === 0 ? 1 : 0,
    continuedMs: adopted === undefined ? undefined : adopted.timestamp_ms - killedAtMs,
  };
}
