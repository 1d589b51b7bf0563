import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Found, Job, Spent, Told } from "./host.ts";
import { installHost } from "./install.ts";

/** A project in one of its ways: with sessions in memory, or kept in a folder. */
export interface Contender {
  readonly name: string;
  readonly title: string;
  readonly peer: string;
  readonly driver: string;
  readonly keeps: boolean;
  /** What continues a turn whose process ended. */
  readonly survives?: string;
  /** Only turns of it are killed, with a database. */
  readonly isDatabase?: boolean;
  /** What finds again what was said. */
  readonly recalls?: string;
  /** What keeps contexts below a window, or why that could not be measured. */
  readonly compacts?: string;
  readonly compactsNot?: string;
}

export interface Ran {
  readonly session: string;
  /** CPU of the process at the end of each turn of the first session that was acknowledged; none at turn 0. */
  readonly atTurnMs: readonly number[];
  /** What the process had handed to the disk by then. */
  readonly writtenBytes: number;
  readonly kept: string;
  readonly problem?: string;
  readonly found?: readonly Found[];
  /** Absent if the process was ended before. */
  readonly spent?: Spent;
}

interface Running {
  /** Called when a turn of the first session was acknowledged, with its number. */
  readonly onTurn?: (turn: number, kill: () => void) => void;
  readonly env?: NodeJS.ProcessEnv;
  /** A process that takes longer is ended, and has not failed. */
  readonly limitMs?: number;
  /** Kills the process. */
  readonly signal?: AbortSignal;
}

const JOB_MS_MAX = 1_200_000;

const host = installHost();

/** Runs a job in a process of its own. Rejects with what the process printed if it fails; one that was killed has not failed. */
export async function runJob(
  { driver }: Contender,
  job: Job,
  { onTurn, env, limitMs = JOB_MS_MAX, signal }: Running = {},
): Promise<Ran> {
  const home = mkdtempSync(join(tmpdir(), "bench-peers-home-"));
  const child = fork(host, [driver, JSON.stringify(job)], {
    execArgv: [],
    stdio: ["ignore", "pipe", "pipe", "ipc"],
    // Without the settings, keys and telemetry of who runs the bench.
    env: { PATH: process.env.PATH, HOME: home, MASTRA_TELEMETRY_DISABLED: "1", ...env },
  });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (data) => (printed += data));
  let ran: Ran = { session: "", atTurnMs: [0], writtenBytes: 0, kept: "" };
  let isKilled = false;
  const kill = (): void => {
    isKilled = true;
    child.kill("SIGKILL");
  };
  child.on("message", (message) => {
    const told = message as Told; // The host tells nothing else.
    if ("begun" in told) ran = { ...ran, session: told.begun };
    else if ("kept" in told || "found" in told) ran = { ...ran, ...told };
    else if ("spent" in told) ran = { ...ran, spent: told.spent };
    else {
      ran = { ...ran, atTurnMs: [...ran.atTurnMs, told.atMs], writtenBytes: told.writtenBytes };
      onTurn?.(told.acknowledged, kill);
    }
  });
  signal?.addEventListener("abort", kill);
  const timer = setTimeout(kill, limitMs);
  const [code] = await once(child, "close");
  clearTimeout(timer);
  rmSync(home, { recursive: true, force: true });
  if (code !== 0 && !isKilled) throw new Error(reasonIn(printed));
  return ran;
}

function reasonIn(printed: string): string {
  const lines = printed.split("\n").filter((line) => line.trim() !== "");
  const named =
    lines.find((line) => /^\w*Error|Assertion failed/.test(line)) ?? lines.find((line) => /Error/.test(line));
  return (named ?? lines.at(-1) ?? "the process failed").trim();
}
