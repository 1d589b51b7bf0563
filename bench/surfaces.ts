// CPU of a turn in the process that runs it: asked for in that process, over JSON-RPC, and over REST.
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { openEventReader } from "../test/support/event-reader.ts";
import { ANSWER, MODEL, openModelServer } from "./model-server.ts";
import { median, publish } from "./report.ts";
import { createAsker, startRest, startServer } from "./server-process.ts";

const TURNS = Number(process.env.RKAT_SURFACES_TURNS ?? 100);
const ROUNDS = Number(process.env.RKAT_SURFACES_ROUNDS ?? 9);
const WARM_UP_ROUNDS = 2;
const RATIO_MAX = 1.5;

/** One way to have turns run; answers with the CPU a turn took in the process that ran it. */
interface Surface {
  readonly name: string;
  cpuMsPerTurn(turns: number): Promise<number>;
  close(): Promise<void>;
}

const folder = mkdtempSync(join(tmpdir(), "rkat-bench-surfaces-"));
const model = await openModelServer({ name: "task_list", pieces: ["{", "}"] });
const env = {
  OPENAI_BASE_URL: model.baseUrl,
  RKAT_MODEL: `openai/${MODEL}`,
  // What is embedded behind turns is measured elsewhere.
  RKAT_FEATURES: "session-store,session-compaction",
};
const surfaces = [
  await openInProcess("in process"),
  await openRpc("JSON-RPC, every event sent"),
  await openRest("REST", { isFollowed: false }),
  await openRest("REST, every event sent to a reader", { isFollowed: true }),
];
try {
  const loadAverage = loadavg()[0] ?? 0;
  const readings = new Map<Surface, number[]>(surfaces.map((surface) => [surface, []]));
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round += 1) {
    // Whoever comes first meets a cold cache, so everyone does in turn.
    const start = round % surfaces.length;
    for (const surface of [...surfaces.slice(start), ...surfaces.slice(0, start)]) {
      const cpuMs = await surface.cpuMsPerTurn(TURNS);
      if (round >= WARM_UP_ROUNDS) readings.get(surface)?.push(cpuMs);
    }
  }
  const cpuMs = surfaces.map((surface) => median(readings.get(surface) ?? []));
  const [floorMs = Number.NaN] = cpuMs;
  await publish({
    name: "surfaces",
    tables: [
      [
        [`${TURNS} turns, a tool and a text each`, "CPU ms/turn", "× in process"],
        ...surfaces.map(({ name }, index) => {
          const ms = cpuMs[index] ?? Number.NaN;
          return [name, ms.toFixed(2), (ms / floorMs).toFixed(2)];
        }),
      ],
      [
        ["the machine", ""],
        ["load average at the start", loadAverage.toFixed(2)],
      ],
    ],
    targets: surfaces.slice(1).map(({ name }, index) => ({
      what: `CPU per turn, ${name}, over in process`,
      value: (cpuMs[index + 1] ?? Number.NaN) / floorMs,
      max: RATIO_MAX,
    })),
    measured: {
      loadAverage,
      surfaces: surfaces.map((surface, index) => ({
        name: surface.name,
        cpuMs: cpuMs[index],
        rounds: readings.get(surface),
      })),
    },
  });
} finally {
  for (const surface of surfaces) await surface.close();
  model.close();
  rmSync(folder, { recursive: true, force: true });
}

function placeOf(name: string): { cwd: string; env: NodeJS.ProcessEnv } {
  const cwd = join(folder, name);
  mkdirSync(cwd);
  return { cwd, env };
}

async function openInProcess(name: string): Promise<Surface> {
  const { cwd } = placeOf("in-process");
  const child = fork(join(import.meta.dirname, "surfaces-in-process.ts"), [cwd], {
    env: { PATH: process.env.PATH, HOME: cwd, ...env },
    execArgv: [],
  });
  await once(child, "message");
  return {
    name,
    cpuMsPerTurn: async (turns) => {
      child.send({ turns });
      const [{ cpuMs }] = await once(child, "message");
      return cpuMs / turns;
    },
    close: async () => {
      child.kill();
      await once(child, "exit");
    },
  };
}

async function openRpc(name: string): Promise<Surface> {
  const place = placeOf("rpc");
  const server = startServer("rpc", ["--realm", "bench", "--state-root", place.cwd], place);
  const { stdin, stdout } = server.child;
  if (stdin === null || stdout === null) throw new Error("its streams are no pipes");
  let onAnswer = (_: { id?: number; result?: Record<string, string>; error?: unknown }): void => {};
  // As a client reads it: every frame is parsed.
  createInterface({ input: stdout }).on("line", (line) => onAnswer(JSON.parse(line)));
  let asked = 0;
  const ask = (method: string, params: object): Promise<Record<string, string>> =>
    new Promise((resolve, reject) => {
      asked += 1;
      onAnswer = (frame) => {
        if (frame.id !== asked) return;
        if (frame.result === undefined) reject(new Error(JSON.stringify(frame.error)));
        else resolve(frame.result);
      };
      stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: asked, method, params })}\n`);
    });
  return {
    name,
    cpuMsPerTurn: async (turns) => {
      const { session_id } = await ask("session/create", { prompt: "Begin.", tool_preset: "safe" });
      const before = await server.usage();
      for (let turn = 0; turn < turns; turn += 1) {
        requireAnswer(await ask("turn/start", { session_id, prompt: promptOf(turn) }));
      }
      return ((await server.usage()).cpuMs - before.cpuMs) / turns;
    },
    close: server.close,
  };
}

async function openRest(name: string, { isFollowed }: { isFollowed: boolean }): Promise<Surface> {
  const server = await startRest(placeOf(isFollowed ? "rest-followed" : "rest"));
  const { ask, close } = createAsker(server.url, 1);
  return {
    name,
    cpuMsPerTurn: async (turns) => {
      const { session_id } = await ask("POST /sessions", { prompt: "Begin.", tool_preset: "safe" });
      const reader = isFollowed ? await openEventReader(server.url, session_id) : undefined;
      const before = await server.usage();
      for (let turn = 0; turn < turns; turn += 1) {
        requireAnswer(await ask(`POST /sessions/${session_id}/messages`, { prompt: promptOf(turn) }));
      }
      const after = await server.usage();
      reader?.close();
      return (after.cpuMs - before.cpuMs) / turns;
    },
    close: async () => {
      close();
      await server.close();
    },
  };
}

function promptOf(turn: number): string {
  return `What does row ${turn} say?`;
}

function requireAnswer({ text }: { readonly text?: string }): void {
  if (text !== ANSWER) throw new Error(`a turn answered ${JSON.stringify(text)}`);
}
