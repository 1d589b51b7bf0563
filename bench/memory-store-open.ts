import { spawn } from "node:child_process";
import { join } from "node:path";
import { DIMENSIONS, type MemoryData } from "./memory-store-data.ts";
import type { Opened } from "./memory-store-open-once.ts";
import { medianTime } from "./memory-store-stopwatch.ts";

const ROUNDS = 15;
const WORD_RANK = 5_000;

/** Medians of opening memories, each time in a fresh process; the folders take turns, so that others' work meets all alike. */
export async function measureOpens(
  folders: readonly string[],
  data: MemoryData,
  embedderId: string,
): Promise<readonly Opened[]> {
  const runs: Opened[][] = folders.map(() => []);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [at, folder] of folders.entries()) {
      const args = [folder, data.sessionOf(0), embedderId, data.text.word(WORD_RANK), String(DIMENSIONS)];
      runs[at]?.push(await openOnce(args));
    }
  }
  return runs.map((own) => ({
    open: medianTime(own.map(({ open }) => open)),
    firstSearch: medianTime(own.map(({ firstSearch }) => firstSearch)),
  }));
}

async function openOnce(args: readonly string[]): Promise<Opened> {
  const program = join(import.meta.dirname, "memory-store-open-once.ts");
  const child = spawn(process.execPath, [program, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  for await (const chunk of child.stdout) text += chunk;
  return JSON.parse(text);
}
