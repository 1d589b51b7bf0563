import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ModelServer } from "../model-server.ts";
import { median } from "../report.ts";
import { type Contender, type Ran, runJob } from "./contenders.ts";
import type { Job } from "./host.ts";
import type { Figures } from "./result.ts";

const ROUNDS = 3;
const TURNS = 100;
const CROWD_ROUNDS = 1;
const CROWD = 200;
const CROWD_TURNS = 5;
const LONG_TURNS = 1_000;
const LONG_CPU_MS_MAX = 90_000;
/** Growth is what a turn costs around a late one over what it costs around an early one. */
const WINDOW_TURNS = 50;

interface Reading extends Ran {
  readonly requestBytes: number;
  readonly storedBytes: number;
}

type Missing = Figures["missing"][number];

/** Runs the same job for all, by turns, so that what else the machine does meets everyone alike. */
async function interleave(
  contenders: readonly Contender[],
  server: ModelServer,
  { rounds, ...job }: Pick<Job, "sessions" | "turns" | "warmUps"> & { readonly rounds: number },
) {
  const readings = new Map<Contender, Reading[]>(contenders.map((contender) => [contender, []]));
  const missing = new Map<Contender, Missing>();
  for (let round = 0; round < rounds; round += 1) {
    for (const contender of contenders) {
      if (missing.has(contender)) continue;
      const folder = mkdtempSync(join(tmpdir(), "bench-peers-"));
      try {
        const ran = await runJob(contender, {
          ...job,
          baseUrl: server.baseUrl,
          ...(contender.keeps && { folder }),
        });
        const requestBytes = await server.requestBytes();
        readings.get(contender)?.push({ ...ran, requestBytes, storedBytes: sizeOf(folder) });
      } catch (error) {
        missing.set(contender, [contender.name, String(error)]);
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    }
  }
  const ran = contenders.filter((contender) => !missing.has(contender));
  const of = (contender: Contender | undefined, value: (reading: Reading) => number): number =>
    median((contender && readings.get(contender)?.map(value)) ?? []);
  return { ran, missing: [...missing.values()], of };
}

const turnMs = ({ spent }: Ran): number => spent?.turnMs ?? Number.NaN;
const wholeMs = ({ spent }: Ran): number => spent?.wholeMs ?? Number.NaN;
const rss = ({ spent }: Ran): number => (spent?.rssBytes ?? Number.NaN) / 2 ** 20;

export async function measureConversation(contenders: readonly Contender[], server: ModelServer): Promise<Figures> {
  const job = { rounds: ROUNDS, sessions: 1, turns: TURNS, warmUps: 1 };
  const { ran, missing, of } = await interleave(contenders, server, job);
  const [floor] = ran;
  return {
    name: "conversation",
    title: `A conversation of ${TURNS} turns, each with a tool call`,
    text:
      `Each turn calls the model, runs one tool, and calls the model again; answers are streamed and listened to. After one such ` +
      `conversation to warm up. CPU of all threads of the process; median of ${ROUNDS} processes by turns.`,
    columns: ["", "CPU ms a turn", "× bare fetch", "bytes of the last request", "RSS MB"],
    rows: ran.map((contender) => [
      contender.name,
      of(contender, turnMs).toFixed(2),
      (of(contender, turnMs) / of(floor, turnMs)).toFixed(2),
      String(of(contender, ({ requestBytes }) => requestBytes)),
      of(contender, rss).toFixed(0),
    ]),
    missing,
    chart: {
      title: "CPU ms of a turn, 100 turns",
      bars: ran.map((contender) => ({ label: contender.name, value: of(contender, turnMs) })),
    },
  };
}

export async function measureCrowd(contenders: readonly Contender[], server: ModelServer): Promise<Figures> {
  const job = { rounds: CROWD_ROUNDS, sessions: CROWD, turns: CROWD_TURNS, warmUps: 0 };
  const { ran, missing, of } = await interleave(contenders, server, job);
  const [floor] = ran;
  return {
    name: "crowd",
    title: `${CROWD} sessions of ${CROWD_TURNS} turns at once`,
    text: `One process holds ${CROWD} conversations like the one above, all at once, from cold. One process for each.`,
    columns: ["", "CPU ms a turn", "× bare fetch", "RSS MB", "KB stored a session"],
    rows: ran.map((contender) => [
      contender.name,
      of(contender, turnMs).toFixed(2),
      (of(contender, turnMs) / of(floor, turnMs)).toFixed(2),
      of(contender, rss).toFixed(0),
      contender.keeps ? (of(contender, ({ storedBytes }) => storedBytes) / CROWD / 1_024).toFixed(1) : "–",
    ]),
    missing,
    chart: {
      title: `CPU ms of a turn, ${CROWD} sessions at once`,
      bars: ran.map((contender) => ({ label: contender.name, value: of(contender, turnMs) })),
    },
  };
}

export async function measureColdStart(contenders: readonly Contender[], server: ModelServer): Promise<Figures> {
  const job = { rounds: 2 * ROUNDS + 1, sessions: 1, turns: 1, warmUps: 0 };
  const { ran, missing, of } = await interleave(contenders, server, job);
  const [floor] = ran;
  return {
    name: "cold-start",
    title: "A process that has one turn and ends",
    text: `From the start of Node to the end: import, open, a new session, one turn with a tool call, close. Median of ${job.rounds} by turns.`,
    columns: ["", "CPU ms", "× bare fetch", "RSS MB"],
    rows: ran.map((contender) => [
      contender.name,
      of(contender, wholeMs).toFixed(0),
      (of(contender, wholeMs) / of(floor, wholeMs)).toFixed(2),
      of(contender, rss).toFixed(0),
    ]),
    missing,
    chart: {
      title: "CPU ms of a process with one turn",
      bars: ran.map((contender) => ({ label: contender.name, value: of(contender, wholeMs) })),
    },
  };
}

interface Long {
  readonly contender: Contender;
  readonly folder: string;
  readonly ran: Ran;
  readonly storedBytes: number;
  readonly resumes: { readonly wholeMs: number; readonly requestBytes: number }[];
}

/** Who keeps sessions has one of 1,000 turns, which processes of its own then continue by one turn each, by turns. */
export async function measureLong(contenders: readonly Contender[], server: ModelServer): Promise<Figures> {
  const missing: Missing[] = [];
  const all: Long[] = [];
  const { baseUrl } = server;
  for (const contender of contenders.filter(({ keeps }) => keeps)) {
    const folder = mkdtempSync(join(tmpdir(), "bench-peers-"));
    try {
      const job = { baseUrl, folder, sessions: 1, turns: LONG_TURNS, warmUps: 0 };
      const ran = await runJob(contender, { ...job, cpuMsMax: LONG_CPU_MS_MAX });
      all.push({ contender, folder, ran, storedBytes: sizeOf(folder), resumes: [] });
    } catch (error) {
      missing.push([contender.name, String(error)]);
    }
  }
  for (let round = 0; round < 2 * ROUNDS - 1; round += 1) {
    for (const { contender, folder, ran, resumes } of all) {
      const job = { baseUrl, folder, sessions: 1, turns: 1, warmUps: 0, session: ran.session };
      const next = await runJob(contender, job).catch((error) => void missing.push([contender.name, String(error)]));
      if (next) resumes.push({ wholeMs: wholeMs(next), requestBytes: await server.requestBytes() });
    }
  }
  for (const { folder } of all) rmSync(folder, { recursive: true, force: true });
  const resumeMs = ({ resumes }: Long): number => median(resumes.map((resume) => resume.wholeMs));
  const [floor] = all;
  return {
    name: "long",
    title: `A session of ${LONG_TURNS} turns, and its continuation in a new process`,
    text:
      `The same conversation with ${LONG_TURNS} turns, kept on disk. Growth is CPU of a turn at the end over that around turn ${TURNS}. ` +
      `Bytes handed to the disk are whole pages, as the kernel counts them. Then a new process continues the session by a turn, ` +
      `from its start to its end; median of ${2 * ROUNDS - 1}. A session ends before if it has taken ${LONG_CPU_MS_MAX / 1_000} s of CPU. ` +
      "A request that is smaller than that of bare fetch was compacted, or is of fewer turns.",
    columns: [
      "",
      "turns reached",
      `CPU ms a turn, around ${TURNS}`,
      "at the end",
      "growth",
      "MB stored",
      "KB to disk a turn",
      "resume, CPU ms",
      "resume, × bare fetch",
      "bytes of its request",
    ],
    rows: all.map((long) => {
      const { atTurnMs, writtenBytes } = long.ran;
      const turns = atTurnMs.length - 1;
      const early = between(atTurnMs, TURNS - WINDOW_TURNS / 2, TURNS + WINDOW_TURNS / 2);
      const late = between(atTurnMs, turns - WINDOW_TURNS, turns);
      return [
        long.contender.name,
        String(turns),
        early.toFixed(1),
        late.toFixed(1),
        (late / early).toFixed(2),
        (long.storedBytes / 2 ** 20).toFixed(2),
        (writtenBytes / turns / 1_024).toFixed(0),
        resumeMs(long).toFixed(0),
        (resumeMs(long) / (floor ? resumeMs(floor) : Number.NaN)).toFixed(2),
        String(median(long.resumes.map(({ requestBytes }) => requestBytes))),
      ];
    }),
    missing,
    chart: {
      title: `MB stored after ${LONG_TURNS} turns`,
      bars: all.map(({ contender, storedBytes }) => ({ label: contender.name, value: storedBytes / 2 ** 20 })),
    },
  };
}

function between(atTurn: readonly number[], from: number, to: number): number {
  return ((atTurn[to] ?? Number.NaN) - (atTurn[from] ?? Number.NaN)) / (to - from);
}

function sizeOf(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}
