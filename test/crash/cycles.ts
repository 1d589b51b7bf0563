import { spawn } from "node:child_process";
import { join } from "node:path";
import type { EntryBody } from "@rkat/core/contract/entry";
import { bodiesOf, sessionIds } from "./expected.ts";
import { openPlace } from "./open-place.ts";

export interface CycleCounts {
  readonly cycles: number;
  /** Appends a process was told are durable. */
  readonly acknowledged: number;
  /** Acknowledged events that were not there afterwards. */
  readonly lost: number;
  /** Sessions that did not open, or whose entries were not those that were appended, in order, once. */
  readonly broken: number;
  /** Ends of logs that were cut off because a kill had hit in the middle of a write. */
  readonly repaired: number;
}

export interface CycleOptions {
  readonly cycles: number;
  readonly random: () => number;
  /** A folder for compiled code, kept for all cycles: most of a cycle would otherwise be the start of its process. */
  readonly compiled: string;
}

/**
 * Runs a process that appends, kills it at a random moment, opens what it left, and counts what is wrong. The place is a
 * folder, or the URL of a database.
 */
export async function runCrashCycles(place: string, options: CycleOptions): Promise<CycleCounts> {
  const { cycles } = options;
  const acks = new Map<string, number>();
  const checked = new Map<string, number>();
  let acknowledged = 0;
  let lost = 0;
  let broken = 0;
  let repaired = 0;
  for (let cycle = 0; cycle < cycles; cycle += 1) {
    const child = await appendAndDie(place, options);
    acknowledged += child.acks.length;
    repaired += child.warnings;
    for (const [sessionId, seq] of child.acks) acks.set(sessionId, Math.max(seq, acks.get(sessionId) ?? 0));
    const store = await openPlace(place, () => {});
    for (const sessionId of sessionIds) {
      // What an earlier cycle checked is checked again in the last one, when all of it is read.
      const from = cycle === cycles - 1 ? 0 : (checked.get(sessionId) ?? 0);
      const entries = await store.log.read(sessionId, from + 1, Number.MAX_SAFE_INTEGER).catch(() => undefined);
      const last = entries?.at(-1);
      const end = last === undefined ? from : last.seq + last.span - 1;
      lost += Math.max(0, (acks.get(sessionId) ?? 0) - end);
      const found = entries?.map(({ body }) => body);
      const row = await store.sessions.get(sessionId);
      const isSound =
        found !== undefined && isExpected(sessionId, found, { from, end }) && (row?.last_seq ?? 0) === end;
      broken += isSound ? 0 : 1;
      checked.set(sessionId, end);
    }
    await store.close();
  }
  return { cycles, acknowledged, lost, broken, repaired };
}

/** Every append has one event for each of its entries, so a seq says where the next append began. */
export function isExpected(
  sessionId: string,
  found: readonly EntryBody[],
  { from, end }: { from: number; end: number },
): boolean {
  const expected: EntryBody[] = [];
  for (let seq = from; seq < end; ) {
    const bodies = bodiesOf(sessionId, seq);
    expected.push(...bodies);
    seq += bodies.length;
  }
  return JSON.stringify(found) === JSON.stringify(expected);
}

const ACKS_MAX = 60;

async function appendAndDie(place: string, { random, compiled }: CycleOptions) {
  const script = join(import.meta.dirname, "appender.ts");
  const env = { ...process.env, NODE_COMPILE_CACHE: compiled };
  const child = spawn(process.execPath, [script, place], { stdio: ["ignore", "pipe", "pipe"], env });
  const killAfter = Math.floor(random() * ACKS_MAX);
  const spins = Math.floor(random() * 200_000);
  let output = "";
  let errors = "";
  child.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  child.stdout.on("data", (chunk) => {
    output += chunk;
    if (output.split("\n").length <= killAfter) return;
    // A moment more or less, so that the kill hits anywhere in a write.
    for (let spin = 0; spin < spins; spin += 1);
    child.kill("SIGKILL");
  });
  const signal = await new Promise((resolve) => child.on("close", (_code, by) => resolve(by)));
  if (signal !== "SIGKILL") throw new Error(`the appending process ended by itself: ${errors}`);
  // A line that the kill cut off was not heard whole, so it was not acknowledged.
  const acks = output
    .split("\n")
    .slice(0, -1)
    .map((line): [string, number] => {
      const [sessionId = "", seq] = line.split(" ");
      return [sessionId, Number(seq)];
    });
  return { acks, warnings: errors.split("\n").filter((line) => line.includes("cut off")).length };
}
