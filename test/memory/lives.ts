import { spawn } from "node:child_process";
import { join } from "node:path";
import { below, pick } from "../compaction/chances.ts";

interface ProcessRun {
  readonly folder: string;
  readonly life: number;
  /** Sessions are those of an era. */
  readonly era: string;
  readonly compiled: string;
}

const MOMENTS = [
  { what: "said", countMax: 6 },
  { what: "compacted", countMax: 2 },
  { what: "embedding", countMax: 4 },
  { what: "searched", countMax: 4 },
];
const SPINS_MAX = 60_000_000;

export function rememberAndDie(
  { folder, life, era, compiled }: ProcessRun,
  random: () => number,
): Promise<readonly string[]> {
  const script = join(import.meta.dirname, "remembering-process.ts");
  return runAndKill({ script, args: [folder, String(life), era], moments: MOMENTS, compiled }, random);
}

interface Killed {
  readonly script: string;
  readonly args: readonly string[];
  /** What it says, and how often before the kill at most. */
  readonly moments: readonly { readonly what: string; readonly countMax: number }[];
  readonly compiled: string;
}

/** Runs a process until it has told often enough that it did something; what it told until it was killed. */
export async function runAndKill(
  { script, args, moments, compiled }: Killed,
  random: () => number,
): Promise<readonly string[]> {
  // Compiled once for all kills: most of their time would otherwise be the start of a process.
  const env = { ...process.env, NODE_COMPILE_CACHE: compiled };
  const child = spawn(process.execPath, [script, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env,
  });
  const { what, countMax } = pick(random, moments) ?? { what: "said", countMax: 1 };
  const killAfter = 1 + below(random, countMax);
  const spins = Math.floor(SPINS_MAX * random() ** 2);
  let output = "";
  let errors = "";
  child.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  child.stdout.on("data", (chunk) => {
    output += chunk;
    if (output.split("\n").filter((line) => line.startsWith(what)).length < killAfter) return;
    // A moment more or less, so that the kill hits anywhere in what follows.
    for (let spin = 0; spin < spins; spin += 1);
    child.kill("SIGKILL");
  });
  const signal = await new Promise((resolve) => child.on("close", (_code, by) => resolve(by)));
  if (signal !== "SIGKILL") throw new Error(`the remembering process ended by itself: ${errors}`);
  // A line that the kill cut off was not heard whole.
  return output.split("\n").slice(0, -1);
}
