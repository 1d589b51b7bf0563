import { appendFileSync, closeSync, mkdirSync, openSync, readdirSync, readSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Spending } from "../../contract/caller.ts";
import { RuntimeError } from "../../contract/error.ts";

/** What tokens have cost, a file a day: a line each time, which several processes can write at once. */
export interface SpendingBook {
  of(token: { readonly name: string; readonly max_cost_per_day: number }): Spending;
}

const FOLDER = "token-spending";

export function openSpendingBook(stateFolder: string, now: () => number): SpendingBook {
  const folder = join(stateFolder, FOLDER);
  let day = "";
  let tidied = "";
  let read = 0;
  let totals = new Map<string, number>();
  const today = (): string => new Date(now()).toISOString().slice(0, 10);
  const fileOf = (date: string): string => join(folder, `${date}.jsonl`);

  const refresh = (): void => {
    if (day !== today()) {
      [day, read, totals] = [today(), 0, new Map()];
    }
    const bytes = readFrom(fileOf(day), read);
    // What is being written is read next time.
    const end = bytes.lastIndexOf("\n") + 1;
    for (const line of bytes.toString("utf8", 0, end).split("\n")) {
      const row = rowOf(line);
      if (row !== undefined) totals.set(row.name, (totals.get(row.name) ?? 0) + row.cost);
    }
    read += end;
  };
  const forgetOld = (): void => {
    if (tidied === today()) return;
    tidied = today();
    for (const file of readdirSync(folder))
      if (file !== `${today()}.jsonl`) rmSync(join(folder, file), { force: true });
  };
  return {
    of: ({ name, max_cost_per_day: limit }) => ({
      requireLeft: () => {
        refresh();
        if ((totals.get(name) ?? 0) < limit) return;
        const message = `token ${name} has spent the ${limit} it may cost a day; it can run turns again after midnight, UTC`;
        throw new RuntimeError("BUDGET_EXHAUSTED", message);
      },
      spent: (cost) => {
        if (!Number.isFinite(cost) || cost <= 0) return;
        mkdirSync(folder, { recursive: true, mode: 0o700 });
        forgetOld();
        appendFileSync(fileOf(today()), `${JSON.stringify({ name, cost })}\n`, { mode: 0o600 });
      },
    }),
  };
}

/** What a file holds from a place on; nothing where there is none. */
function readFrom(path: string, place: number): Buffer {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  const bytes = Buffer.alloc(Math.max(0, size - place));
  if (bytes.length === 0) return bytes;
  const file = openSync(path, "r");
  try {
    return bytes.subarray(0, readSync(file, bytes, 0, bytes.length, place));
  } finally {
    closeSync(file);
  }
}

/** Undefined for what a process that died has cut off. */
function rowOf(line: string): { readonly name: string; readonly cost: number } | undefined {
  try {
    const row: unknown = JSON.parse(line);
    if (typeof row !== "object" || row === null || !("name" in row) || !("cost" in row)) return undefined;
    const { name, cost } = row;
    return typeof name === "string" && typeof cost === "number" && cost > 0 ? { name, cost } : undefined;
  } catch {
    return undefined;
  }
}
