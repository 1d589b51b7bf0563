// Random use of all surfaces at once on one folder, with little memory and with faults: who is alive, and what is true.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { createRandom } from "../test/crash/random.ts";
import { publish } from "./report.ts";
import { createBook } from "./soak/book.ts";
import { type Done, doHarm, openDisk } from "./soak/faults.ts";
import { ACTS } from "./soak/operations.ts";
import { livesOf, type Reading, readReadings } from "./soak/readings.ts";
import { createHostility, ROUGH_ACTS } from "./soak/rough.ts";
import { createCommandLine, openServer, type Place, SERVER_NAMES, type Server } from "./soak/servers.ts";
import type { Soak } from "./soak/soak.ts";
import { verify } from "./soak/verify.ts";
import { openSoakModel } from "./soak-model.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "60" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    workers: { type: "string", default: "4" },
    /** How often something is broken, in seconds. */
    harm: { type: "string" },
    "no-full-disk": { type: "boolean", default: false },
    "no-assert": { type: "boolean", default: false },
  },
});
const minutes = Number(values.minutes);
const seed = Number(values.seed);
/** A run of an hour breaks something every other minute, a short one often enough to have broken everything. */
const harmMs = values.harm === undefined ? Math.min(100_000, (minutes * 60_000) / 9) : Number(values.harm) * 1_000;
const THINK_MS_MAX = 120;
const DELAY_P99_MS_MAX = 50;
const FAULTS_KEPT = 200;
const HOSTILE_WEIGHT = 6;
/** What servers may take to close what their clients have left. */
const REST_MS = 8_000;
/** Connections that the fetch of this process keeps open to a server, for a while. */
const KEPT_SOCKETS = 12;

const folder = mkdtempSync(join(tmpdir(), "rkat-soak-"));
const readingsFolder = join(folder, "readings");
const project = join(folder, "project");
for (const made of [readingsFolder, project]) mkdirSync(made);
const disk = openDisk(join(folder, "state"));
const model = await openSoakModel(seed);
writeFileSync(join(project, "rkat.toml"), configuration(model.url));

const faults: string[] = [];
let faultCount = 0;
const fault = (sentence: string): void => {
  faultCount += 1;
  if (faults.length >= FAULTS_KEPT) return;
  faults.push(sentence);
  console.error(`${elapsed()} ${sentence}`);
};
const outcomes: Record<string, number> = {};
const startedMs = performance.now();
const loadAverage = loadavg()[0] ?? 0;
const place: Place = {
  root: join(import.meta.dirname, ".."),
  folder: project,
  stateRoot: join(folder, "state"),
  env: { PATH: process.env.PATH, HOME: project, RKAT_SOAK_READINGS: readingsFolder },
  preload: join(import.meta.dirname, "soak-preload.ts"),
  fault,
};
const [rest, mcpHttp, rpc, mcp] = await Promise.all(SERVER_NAMES.map((name) => openServer(name, place)));
if (rest === undefined || mcpHttp === undefined || rpc === undefined || mcp === undefined)
  throw new Error("no servers");
const soak: Soak = {
  random: createRandom(seed),
  book: createBook(seed),
  servers: { rest, "mcp-http": mcpHttp, rpc, mcp },
  commandLine: createCommandLine(place),
  isDiskFull: disk.isFull,
  fault,
  count: (outcome) => {
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  },
};
try {
  const stopping = new AbortController();
  const harm = doHarm(soak, values["no-full-disk"] ? { ...disk, isOwn: false } : disk, {
    everyMs: harmMs,
    signal: stopping.signal,
  });
  const endMs = performance.now() + minutes * 60_000;
  await Promise.all(Array.from({ length: Number(values.workers) }, () => work(endMs)));
  stopping.abort("over");
  const done = await harm;
  const checked = await verify(soak);
  await sleep(REST_MS);
  const resting = atRest(readReadings(readingsFolder));
  for (const server of Object.values(soak.servers)) await stop(server);
  const left = await leasesLeft();
  await report({ done, checked, resting, left });
} finally {
  for (const server of Object.values(soak.servers)) await server.stop();
  model.close();
  disk.close();
  rmSync(folder, { recursive: true, force: true });
}

/** One user after the other, each with something else in mind. */
async function work(endMs: number): Promise<void> {
  const acts = [...ACTS, ...ROUGH_ACTS, [HOSTILE_WEIGHT, createHostility(soak, folder)] as const];
  const all = acts.reduce((sum, [weight]) => sum + weight, 0);
  while (performance.now() < endMs) {
    let at = soak.random() * all;
    const [, act] =
      acts.find(([weight]) => {
        at -= weight;
        return at < 0;
      }) ?? [];
    await act?.(soak).catch((thrown: unknown) => fault(`the soak itself failed: ${Object(thrown).stack ?? thrown}`));
    await sleep(soak.random() * THINK_MS_MAX);
  }
}

async function stop(server: Server): Promise<void> {
  const code = await server.stop();
  // One that is ended by a signal says so by its code.
  if (code !== 0 && code !== 143) fault(`${server.name} ended with ${code} when it was asked to`);
}

/** Sockets that are open although nobody is connected any more, but for those of clients that are kept. */
function atRest(readings: readonly Reading[]): readonly Reading[] {
  const pids = Object.values(soak.servers).map(({ pid }) => pid);
  return readings.filter(({ pid }) => pids.includes(pid));
}

/** Sessions that somebody still holds although nobody runs. */
async function leasesLeft(): Promise<number> {
  const outcome = await soak.commandLine("listSessions", { limit: 1_000_000 });
  if (!outcome.ok) {
    fault(`the list of sessions was answered ${outcome.code}: ${outcome.message}`);
    return Number.NaN;
  }
  const { sessions } = Object(outcome.result);
  return (sessions as { is_active: boolean }[]).filter(({ is_active }) => is_active).length; // The wire's own form.
}

interface Came {
  readonly done: Done;
  readonly checked: Awaited<ReturnType<typeof verify>>;
  readonly resting: readonly Reading[];
  readonly left: number;
}

async function report({ done, checked, resting, left }: Came): Promise<void> {
  const lives = livesOf(readReadings(readingsFolder));
  const count = (pattern: RegExp): number => faults.filter((sentence) => pattern.test(sentence)).length;
  const asked = Object.values(outcomes).reduce((sum, one) => sum + one, 0);
  const deaths = count(/ died with /);
  await publish({
    name: "soak",
    tables: [
      [
        [
          `${minutes} minutes, seed ${seed}`,
          "processes",
          "loop p50, ms",
          "p99",
          "max",
          "heap max, MB",
          "RSS max, MB",
          "sockets at rest",
        ],
        ...lives.map(({ name, processes, delayMs, heapMax, rssMax }) => [
          name,
          String(processes),
          delayMs.p50.toFixed(1),
          delayMs.p99.toFixed(1),
          delayMs.max.toFixed(0),
          (heapMax / 1e6).toFixed(0),
          (rssMax / 1e6).toFixed(0),
          String(resting.find((reading) => reading.name === name)?.resources.TCPSocketWrap ?? 0),
        ]),
      ],
      [
        ["what was done", ""],
        ["things asked for", String(asked)],
        ["sessions, turns acknowledged", `${checked.sessions}, ${checked.turns}`],
        ["servers killed", String(done.kills)],
        ["disks filled", disk.isOwn ? String(done.fullDisks) : "none: it needs a file system of its own"],
        ["embedders killed", String(done.embedders)],
        ["load average at the start, at the end", `${loadAverage.toFixed(1)}, ${(loadavg()[0] ?? 0).toFixed(1)}`],
      ],
      [
        ["how it ended", "times"],
        ...Object.entries(outcomes)
          .sort()
          .map(([name, times]) => [name, String(times)]),
      ],
      ...(faults.length === 0
        ? []
        : [[["what must not be", ""], ...faults.map((sentence) => [sentence.slice(0, 300), ""])]]),
    ],
    targets: [
      { what: "servers that died", value: deaths, max: 0 },
      { what: "acknowledged turns and memories lost", value: count(/\bLOST\b/), max: 0 },
      { what: "wrong answers", value: count(/\bWRONG\b/), max: 0 },
      { what: "all that must not be", value: faultCount, max: 0 },
      { what: "sessions still held by nobody", value: left, max: 0 },
      {
        what: "sockets open at rest",
        // The reader's own connections to REST are kept alive by the driver; nobody else has any.
        value: Math.max(0, ...resting.map(({ resources }) => (resources.TCPSocketWrap ?? 0) - KEPT_SOCKETS)),
        max: 0,
      },
      {
        what: "loop delay p99, ms, of the worst server",
        value: Math.max(...lives.map(({ delayMs }) => delayMs.p99)),
        max: DELAY_P99_MS_MAX,
      },
    ],
    measured: { minutes, seed, loadAverage, lives, outcomes, faults, done, checked, resting, left },
  });
}

function elapsed(): string {
  return `${((performance.now() - startedMs) / 1_000).toFixed(0).padStart(5)} s`;
}

function configuration(url: string): string {
  return [
    '[agent]\nmodel = "soak"\n',
    '[retry]\nmax_retries = 3\ninitial_delay = "10ms"\nmax_delay = "200ms"\nstall_timeout = "2s"\ncall_timeout = "30s"\n',
    "[compaction]\nauto_compact_threshold = 6000\nrecent_turn_budget = 3\nmax_summary_tokens = 200\n",
    "[agent_memory]\nimmediate_window = 16\nrecent_window = 16\n",
    `[self_hosted.servers.soak]\nbase_url = "${url}"\n`,
    '[self_hosted.models.soak]\nserver = "soak"\ncontext_window = 100000\n',
  ].join("\n");
}
