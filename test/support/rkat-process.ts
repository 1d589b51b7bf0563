import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";

const DOOR = join(import.meta.dirname, "../../packages/rkat/dist/cli.js");

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Started {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
  /** Resolves when stdout holds the text. */
  saw(text: string): Promise<void>;
  /** What it has written to stdout so far. */
  said(): string;
}

/** The real command in a folder with an empty environment; without input its stdin is `/dev/null`. `staysOpen` leaves its end to the caller. */
export function startRkat(
  folder: string,
  args: readonly string[],
  given: { input?: string; staysOpen?: boolean; env?: Record<string, string> } = {},
): Started {
  const child = spawn(process.execPath, [DOOR, ...args], {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: folder, ...given.env },
    stdio: [given.input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
  });
  child.stdin?.on("error", () => {}); // A command that refuses its input closes it early.
  child.stdin?.write(given.input ?? "");
  if (given.staysOpen !== true) child.stdin?.end();
  let stdout = "";
  let stderr = "";
  child.stdout?.on("data", (data) => {
    stdout += data;
  });
  child.stderr?.on("data", (data) => {
    stderr += data;
  });
  const ended = new Promise<Ended>((resolve) => child.on("close", (code) => resolve({ code, stdout, stderr })));
  const saw = async (text: string): Promise<void> => {
    while (!stdout.includes(text)) {
      if (child.exitCode !== null) throw new Error(`it ended without saying "${text}": ${stderr}`);
      await Promise.race([ended, new Promise((resolve) => child.stdout?.once("data", resolve))]);
    }
  };
  return { child, ended, saw, said: () => stdout };
}
