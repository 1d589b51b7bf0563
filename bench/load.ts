// Many sessions at once in front of a crowd that listens, and one reader that never reads.
import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { type EventReader, openEventReader } from "../test/support/event-reader.ts";
import { MODEL, openModelServer } from "./model-server.ts";
import { median, publish } from "./report.ts";
import { createAsker, startRest } from "./server-process.ts";

const IDLE_READERS = Number(process.env.RKAT_LOAD_READERS ?? 1_000);
const SESSIONS = Number(process.env.RKAT_LOAD_SESSIONS ?? 50);
const TURNS = Number(process.env.RKAT_LOAD_TURNS ?? 10);
/** Readers that follow each session that runs. */
const FOLLOWERS = 2;
/** Sessions the idle readers listen to. */
const QUIET_SESSIONS = 10;
/** More than the buffers of a connection hold: who is sent this and does not read is stuck. */
const STUCK_CHARS = 4 * 1_024 * 1_024;
const STUCK_ROUNDS = 6;
const STUCK_TURNS = 4;
/** Both are the same, within what a busy machine makes of it; a turn that waited for a reader would wait for minutes. */
const STUCK_MAX = 1.5;

const folder = mkdtempSync(join(tmpdir(), "rkat-bench-load-"));
const model = await openModelServer({ name: "task_list", pieces: ["{", "}"] });
const env = {
  OPENAI_BASE_URL: model.baseUrl,
  RKAT_MODEL: `openai/${MODEL}`,
  // What is embedded behind turns is measured elsewhere.
  RKAT_FEATURES: "session-store,session-compaction",
};
const server = await startRest({ cwd: folder, env });
const { ask, close } = createAsker(server.url, SESSIONS);
try {
  const loadAverage = loadavg()[0] ?? 0;
  // The first turns are run by code that nobody has run before.
  await runTurns("warm-up", 0);
  const alone = await runTurns("nobody else listens", 0);
  const quiet = await follow(QUIET_SESSIONS, IDLE_READERS);
  const crowded = await runTurns("before the crowd", IDLE_READERS);
  // Those that heard nothing for so long still hear what comes.
  await Promise.all(quiet.ids.map((id) => turn(id, "And now?")));
  const late = await countWrong(quiet);
  for (const reader of quiet.readers) reader.close();
  const stuck = await measureStuck();
  const reported = [alone, crowded, late];
  const wrong = reported.reduce((sum, one) => sum + one.wrong, 0);
  await publish({
    name: "load",
    tables: [
      [
        [
          `${SESSIONS} sessions, ${TURNS} turns each`,
          "idle readers",
          "turn p50, ms",
          "p99",
          "event p50, ms",
          "p99",
          "CPU ms/turn",
          "RSS, MB",
        ],
        ...[alone, crowded].map((one) => [
          one.name,
          String(one.idleReaders),
          one.turnMs.p50.toFixed(0),
          one.turnMs.p99.toFixed(0),
          one.delayMs.p50.toFixed(0),
          one.delayMs.p99.toFixed(0),
          one.cpuMs.toFixed(2),
          (one.rssBytes / 1e6).toFixed(0),
        ]),
      ],
      [
        ["a turn of one session", "p50, ms"],
        ["while nobody listens", stuck.withoutMs.toFixed(1)],
        ["with a reader that never reads", stuck.stuckMs.toFixed(1)],
      ],
      [
        ["durable events", "delivered", "readers that lack one, or have one twice"],
        ["all", String(reported.reduce((sum, one) => sum + one.delivered, 0)), String(wrong)],
      ],
      [
        ["the machine", ""],
        ["load average at the start", loadAverage.toFixed(2)],
      ],
    ],
    targets: [
      { what: "readers that lack a durable event, or have one twice", value: wrong, max: 0 },
      { what: "a turn with a stuck reader over one without", value: stuck.stuckMs / stuck.withoutMs, max: STUCK_MAX },
    ],
    measured: { alone, crowded, late, stuck, loadAverage },
  });
} finally {
  close();
  await server.close();
  model.close();
  rmSync(folder, { recursive: true, force: true });
}

/** Runs every session's turns side by side, each followed by readers of its own. */
async function runTurns(name: string, idleReaders: number) {
  const followed = await follow(SESSIONS, SESSIONS * FOLLOWERS);
  const before = await server.usage();
  const turnMs: number[] = [];
  await Promise.all(
    followed.ids.map(async (id) => {
      for (let done = 0; done < TURNS; done += 1) turnMs.push(await turn(id, `What does row ${done} say?`));
    }),
  );
  const after = await server.usage();
  const wrong = await countWrong(followed);
  for (const reader of followed.readers) reader.close();
  return {
    name,
    idleReaders,
    ...wrong,
    turnMs: percentiles(turnMs),
    delayMs: percentiles(followed.readers.flatMap(({ delaysMs }) => delaysMs)),
    cpuMs: (after.cpuMs - before.cpuMs) / (SESSIONS * TURNS),
    rssBytes: after.rssBytes,
  };
}

interface Followed {
  readonly ids: readonly string[];
  /** Where each session's events ended before anybody listened. */
  readonly starts: readonly number[];
  /** Reader `i` is of session `i % ids.length`. */
  readonly readers: readonly EventReader[];
}

async function follow(sessions: number, readers: number): Promise<Followed> {
  const ids = await inTurn(sessions, () => create("Begin."));
  const starts = await Promise.all(ids.map(endOf));
  return {
    ids,
    starts,
    readers: await inTurn(readers, (index) => openEventReader(server.url, ids[index % sessions] ?? "")),
  };
}

/** How many durable events came, and how many readers lack one, have one twice, or have them in another order. */
async function countWrong({ ids, starts, readers }: Followed): Promise<{ delivered: number; wrong: number }> {
  const ends = await Promise.all(ids.map(endOf));
  let [delivered, wrong] = [0, 0];
  for (const [index, reader] of readers.entries()) {
    const start = starts[index % ids.length] ?? 0;
    const end = ends[index % ids.length] ?? 0;
    await reader.reached(end);
    delivered += reader.seqs.length;
    if (reader.seqs.length !== end - start || !reader.seqs.every((seq, at) => seq === start + 1 + at)) wrong += 1;
  }
  return { delivered, wrong };
}

async function endOf(id: string): Promise<number> {
  return (await ask(`GET /sessions/${id}/events/cursor`)).cursor.sequence;
}

/** A session that tells a reader more than its connection holds: its turns while nobody reads, and while one is stuck. */
async function measureStuck() {
  const id = await create("x".repeat(STUCK_CHARS));
  const times = { without: [] as number[], stuck: [] as number[] };
  for (let round = 0; round < STUCK_ROUNDS; round += 1) {
    for (const name of round % 2 === 0 ? (["without", "stuck"] as const) : (["stuck", "without"] as const)) {
      const reader = name === "stuck" ? await openEventReader(server.url, id, { after: 0, isPaused: true }) : undefined;
      // What the reader is sent first is sent beside this one.
      await turn(id, "And then?");
      for (let done = 0; done < STUCK_TURNS; done += 1) times[name].push(await turn(id, "And now?"));
      reader?.close();
    }
  }
  return { withoutMs: median(times.without), stuckMs: median(times.stuck), turns: times.stuck.length };
}

async function create(prompt: string): Promise<string> {
  return (await ask("POST /sessions", { prompt, tool_preset: "safe" })).session_id;
}

async function turn(id: string, prompt: string): Promise<number> {
  const startedMs = performance.now();
  await ask(`POST /sessions/${id}/messages`, { prompt });
  return performance.now() - startedMs;
}

async function inTurn<T>(times: number, make: (index: number) => Promise<T>): Promise<readonly T[]> {
  const made: T[] = [];
  for (let index = 0; index < times; index += 1) made.push(await make(index));
  return made;
}

function percentiles(values: readonly number[]): { readonly p50: number; readonly p99: number } {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99) };
}
