// What the log and the numbers of whoever runs a server cost for each turn, over the CPU of the turn.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { ANSWER, MODEL, openModelServer } from "./model-server.ts";
import { median, publish } from "./report.ts";
import { createAsker } from "./server-process.ts";

const ROUNDS = Number(process.env.RKAT_OPERATOR_ROUNDS ?? 15);
const WARM_UP_ROUNDS = 3;
const TURNS = 30;
/** A turn is many times as long as what is added to it, so that is measured by itself, and more often. */
const REQUESTS = 1_000;
const RATIO_MAX = 0.03;

const folder = mkdtempSync(join(tmpdir(), "rkat-bench-operator-"));
const model = await openModelServer({ name: "task_list", pieces: ["{", "}"] });
const script = join(import.meta.dirname, "operator-servers.ts");
const server = spawn(process.execPath, [script, folder, `openai/${MODEL}`], {
  env: { PATH: process.env.PATH, HOME: folder, OPENAI_BASE_URL: model.baseUrl },
  stdio: ["ignore", "inherit", "pipe", "ipc"],
});
let lines = 0;
server.stderr?.on("data", (data: Buffer) => {
  for (const byte of data) if (byte === 10) lines += 1;
});
try {
  const [urls] = await once(server, "message");
  const sessions = createAsker(urls.sessions, 1);
  const without = createAsker(urls.without, 1);
  const watched = createAsker(urls.watched, 1);
  const post = (asker: typeof without) => async (times: number) => {
    for (let asked = 0; asked < times; asked += 1) await asker.ask("POST /sessions/x/messages");
  };
  const loadAverage = loadavg()[0] ?? 0;
  const readings: { turn: number; without: number; watched: number }[] = [];
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round += 1) {
    const { session_id } = await sessions.ask("POST /sessions", { prompt: "Begin.", tool_preset: "safe" });
    const reading = {
      turn: await cpuMsOf(TURNS, (turns) => runTurns(sessions, session_id, turns)),
      without: await cpuMsOf(REQUESTS, post(without)),
      watched: await cpuMsOf(REQUESTS, post(watched)),
    };
    if (round >= WARM_UP_ROUNDS) readings.push(reading);
  }
  const turnMs = median(readings.map(({ turn }) => turn));
  const addedMs = median(readings.map((reading) => reading.watched - reading.without));
  await publish({
    name: "operator",
    tables: [
      [
        [`${ROUNDS} rounds`, "CPU ms"],
        ["a turn over REST, a tool and a text", turnMs.toFixed(3)],
        ["its line and its numbers", addedMs.toFixed(3)],
      ],
      [
        ["the machine", ""],
        ["load average at the start", loadAverage.toFixed(2)],
        ["lines that were read", String(lines)],
      ],
    ],
    targets: [{ what: "CPU of log and numbers over CPU of a turn", value: addedMs / turnMs, max: RATIO_MAX }],
    measured: { loadAverage, lines, readings },
  });
  for (const asker of [sessions, without, watched]) asker.close();
} finally {
  server.kill();
  model.close();
  rmSync(folder, { recursive: true, force: true });
}

/** CPU of the servers' process for each of so many times. */
async function cpuMsOf(times: number, work: (times: number) => Promise<void>): Promise<number> {
  const before = await usedMs();
  await work(times);
  return ((await usedMs()) - before) / times;
}

async function usedMs(): Promise<number> {
  server.send("usage");
  const [{ cpuMs }] = await once(server, "message");
  return cpuMs;
}

async function runTurns({ ask }: ReturnType<typeof createAsker>, session_id: string, turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) {
    const { text } = await ask(`POST /sessions/${session_id}/messages`, { prompt: `What does row ${turn} say?` });
    if (text !== ANSWER) throw new Error(`a turn answered ${JSON.stringify(text)}`);
  }
}
