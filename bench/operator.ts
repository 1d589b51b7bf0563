// CPU of a turn over REST with the log and the numbers of whoever runs the server, over the same turn without them.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { ANSWER, MODEL, openModelServer } from "./model-server.ts";
import { median, publish } from "./report.ts";
import { createAsker } from "./server-process.ts";

const TURNS = Number(process.env.RKAT_OPERATOR_TURNS ?? 60);
const ROUNDS = Number(process.env.RKAT_OPERATOR_ROUNDS ?? 31);
const WARM_UP_ROUNDS = 4;
const RATIO_MAX = 1.03;

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
  const alone = openSide(urls.alone);
  const watched = openSide(urls.watched);
  const loadAverage = loadavg()[0] ?? 0;
  const readings: { alone: number; watched: number }[] = [];
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round += 1) {
    // Whatever else the machine does meets both: they alternate, and who is first does, too.
    const isFirst = round % 2 === 0;
    const first = await (isFirst ? alone : watched).cpuMsPerTurn();
    const second = await (isFirst ? watched : alone).cpuMsPerTurn();
    if (round < WARM_UP_ROUNDS) continue;
    readings.push(isFirst ? { alone: first, watched: second } : { alone: second, watched: first });
  }
  const ratio = median(readings.map((reading) => reading.watched / reading.alone));
  const aloneMs = median(readings.map((reading) => reading.alone));
  const watchedMs = median(readings.map((reading) => reading.watched));
  await publish({
    name: "operator",
    tables: [
      [
        [`${TURNS} turns over REST, a tool and a text each, ${ROUNDS} rounds`, "CPU ms/turn"],
        ["without log and numbers", aloneMs.toFixed(3)],
        ["with a line a request, and numbers", watchedMs.toFixed(3)],
      ],
      [
        ["the machine", ""],
        ["load average at the start", loadAverage.toFixed(2)],
        ["lines that were read", String(lines)],
      ],
    ],
    targets: [{ what: "CPU per turn, with over without, median of paired rounds", value: ratio, max: RATIO_MAX }],
    measured: { loadAverage, lines, readings },
  });
  alone.close();
  watched.close();
} finally {
  server.kill();
  model.close();
  rmSync(folder, { recursive: true, force: true });
}

function openSide(url: string) {
  const { ask, close } = createAsker(url, 1);
  const usedMs = async (): Promise<number> => {
    server.send("usage");
    const [{ cpuMs }] = await once(server, "message");
    return cpuMs;
  };
  return {
    cpuMsPerTurn: async (): Promise<number> => {
      const { session_id } = await ask("POST /sessions", { prompt: "Begin.", tool_preset: "safe" });
      const before = await usedMs();
      for (let turn = 0; turn < TURNS; turn += 1) {
        const { text } = await ask(`POST /sessions/${session_id}/messages`, { prompt: `What does row ${turn} say?` });
        if (text !== ANSWER) throw new Error(`a turn answered ${JSON.stringify(text)}`);
      }
      return ((await usedMs()) - before) / TURNS;
    },
    close,
  };
}
