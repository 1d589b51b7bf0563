import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ModelServer } from "../model-server.ts";
import { type Contender, runJob } from "./contenders.ts";
import { promptOf } from "./host.ts";
import type { Figures } from "./result.ts";

const KILLS = 5;
/** A process is killed after one of these turns was acknowledged, each as often as the others. */
const TURNS = [1, 2, 3, 5, 8];
const MORE_TURNS = 4;
const ANSWER_END = /nothing else in the book was touched by it/g;

interface Lost {
  acknowledged: number;
  killed: number;
  power: number;
}

/** Kills processes that keep sessions, and looks for the turns that they had acknowledged: in the folder, and in what was synced of it. */
export async function measureLostTurns(contenders: readonly Contender[], server: ModelServer): Promise<Figures> {
  const rows: (readonly string[])[] = [];
  const missing: Figures["missing"][number][] = [];
  const folder = mkdtempSync(join(tmpdir(), "bench-peers-"));
  const library = join(folder, "synced.so");
  let isBuilt = true;
  try {
    execFileSync("cc", ["-shared", "-fPIC", "-O1", "-o", library, join(import.meta.dirname, "synced.c"), "-ldl"]);
  } catch (error) {
    isBuilt = false;
    missing.push(["power loss", `it needs a C compiler: ${error}`]);
  }
  for (const contender of contenders.filter(({ keeps }) => keeps)) {
    const lost: Lost = { acknowledged: 0, killed: 0, power: 0 };
    try {
      for (let time = 0; time < KILLS; time += 1) await killOnce(contender, server, { time, folder, library, lost });
      const cell = (count: number): string => `${count} of ${lost.acknowledged}`;
      rows.push([contender.name, cell(lost.killed), isBuilt ? cell(lost.power) : "–"]);
    } catch (error) {
      missing.push([contender.name, String(error)]);
    }
  }
  rmSync(folder, { recursive: true, force: true });
  return {
    name: "lost-turns",
    title: "Turns that were acknowledged, and lost",
    text:
      `${KILLS} processes are ended by \`kill -9\` right after a turn was acknowledged: the call that runs it had returned. Another process ` +
      "reads what is kept. Power loss: the same processes, read from a copy of the folder in which each file is as it was when the process " +
      "last synced it, which is what a disk promises to have. A kernel writes the rest by itself within about 30 seconds, so of a longer " +
      "session the newest turns are at stake.",
    columns: ["", "lost by kill -9", "lost by power loss"],
    rows,
    missing,
  };
}

async function killOnce(
  contender: Contender,
  { baseUrl }: ModelServer,
  at: { readonly time: number; readonly folder: string; readonly library: string; readonly lost: Lost },
): Promise<void> {
  const [kept, synced] = ["kept", "synced"].map((name) => join(at.folder, `${contender.peer}-${at.time}-${name}`));
  if (kept === undefined || synced === undefined) return;
  mkdirSync(kept);
  mkdirSync(synced);
  const last = TURNS[at.time % TURNS.length] ?? 1;
  const job = { baseUrl, sessions: 1, warmUps: 0, turns: last + MORE_TURNS };
  const env = { LD_PRELOAD: at.library, SYNCED_OF: kept, SYNCED_TO: synced };
  const onTurn = (turn: number, kill: () => void): void => {
    if (turn === last) kill();
  };
  const { session } = await runJob(contender, { ...job, folder: kept }, { env, onTurn });
  at.lost.acknowledged += last;
  for (const [folder, what] of [
    [kept, "killed"],
    [synced, "power"],
  ] as const) {
    // A folder that cannot be read has lost all turns.
    const read = await runJob(contender, { ...job, folder, session, reads: true }).catch(() => ({ kept: "" }));
    const prompts = Array.from({ length: last }, (_, turn) => promptOf(turn + 1));
    const unasked = prompts.filter((prompt) => !read.kept.includes(prompt)).length;
    const answers = read.kept.match(ANSWER_END)?.length ?? 0;
    at.lost[what] += Math.max(unasked, last - Math.min(last, answers));
  }
}
