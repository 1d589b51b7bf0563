// Lives once for every fault it is given, on a disk that fails on command, and tells what became of each.
import { closeSync, mkdirSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { emptyKept, emptyReport, live, type Reported, reopen, verify } from "./life.ts";

/** The calls of a life that fail: `many` from the `first` on (-1: until the disk is mended), with an error or cut short. */
export interface Fault {
  readonly first: number;
  readonly many: number;
  readonly errno: number;
}

export interface Outcome extends Reported {
  readonly fault: Fault;
  readonly calls: number;
  readonly failed: number;
}

const [root = "", commandPath = "", given = "[]"] = process.argv.slice(2);
const faults = JSON.parse(given) as Fault[]; // What the test wrote.

let reported = emptyReport();
process.on("unhandledRejection", (reason) =>
  reported.wrong.push(`unhandled rejection: ${reason instanceof Error ? reason.stack : reason}`),
);
process.on("uncaughtException", (error) => reported.wrong.push(`uncaught: ${error.stack}`));

const command = openSync(commandPath, "r+");
const order = (...numbers: readonly number[]): unknown => writeSync(command, Int32Array.from(numbers), 0, null, 0);
const counted = (): { calls: number; failed: number } => {
  const numbers = new Int32Array(5);
  readSync(command, numbers, 0, numbers.byteLength, 0);
  return { calls: numbers[0] ?? 0, failed: numbers[4] ?? 0 };
};

for (const fault of faults) {
  reported = emptyReport();
  const kept = emptyKept();
  const folder = join(root, "state");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(root, { recursive: true });
  order(0, fault.first, fault.many, fault.errno, 0);
  let count = counted();
  await live(folder, {
    kept,
    reported,
    mend: () => {
      count = counted();
      order(0, 0, 0, 0, 0);
    },
  });
  order(0, 0, 0, 0, 0);
  await reopen(folder, kept, reported);
  await verify(folder, reported);
  // What is rejected and awaited by nobody is told after the tick.
  await new Promise(setImmediate);
  process.stdout.write(`${JSON.stringify({ fault, ...count, ...reported } satisfies Outcome)}\n`);
}
closeSync(command);
