// Opens and uses a copy of a state folder for every damage it is given, and tells what became of each.
import { cpSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { emptyReport, type Kept, type Reported, reopen, verify } from "./life.ts";

/** What is done to one file of a state folder, at a place between 0 and 1 of its length. */
export interface Damage {
  readonly file: string;
  readonly kind: "bit" | "torn page" | "zeroed page" | "cut off";
  readonly place: number;
  /** Says which bit, and what a torn page is filled with. */
  readonly bits: number;
}

export interface DamageOutcome extends Reported {
  readonly damage: Damage;
}

const PAGE_BYTES = 4_096;
const [root = "", whole = "", given = "[]", known = "{}"] = process.argv.slice(2);
// What the test wrote.
const damages = JSON.parse(given) as Damage[];
const kept = JSON.parse(known) as Kept;

let reported = emptyReport();
process.on("unhandledRejection", (reason) =>
  reported.wrong.push(`unhandled rejection: ${reason instanceof Error ? reason.stack : reason}`),
);

function spoil(path: string, { kind, place, bits }: Damage): void {
  const bytes = readFileSync(path);
  const at = Math.floor(place * bytes.length);
  if (kind === "cut off") {
    truncateSync(path, at);
    return;
  }
  if (kind === "bit") bytes[at] = (bytes[at] ?? 0) ^ (1 << (bits % 8));
  else {
    const page = at - (at % PAGE_BYTES);
    // A torn page has its second half from before: here, of something else.
    const from = kind === "torn page" ? page + PAGE_BYTES / 2 : page;
    const [first, last] = [from, page + PAGE_BYTES].map((end) => Math.min(end, bytes.length));
    bytes.fill(kind === "torn page" ? bits % 256 : 0, first, last);
  }
  writeFileSync(path, bytes);
}

for (const damage of damages) {
  reported = emptyReport();
  const folder = join(root, "state");
  rmSync(folder, { recursive: true, force: true });
  cpSync(whole, folder, { recursive: true });
  spoil(join(folder, damage.file), damage);
  await reopen(folder, structuredClone(kept), reported);
  // What the first opening mended stays mended.
  const before = reported.wrong.length;
  if (before === 0) await reopen(folder, structuredClone(kept), reported);
  await verify(folder, reported);
  await new Promise(setImmediate);
  process.stdout.write(`${JSON.stringify({ damage, ...reported } satisfies DamageOutcome)}\n`);
}
