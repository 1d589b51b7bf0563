// What a server spends that does nothing, by how many schedules are not due and how many inboxes have messages that wait.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EntryBody } from "@rkat/core/contract/entry";
import type { ScheduleEntryBody } from "@rkat/core/contract/wire/schedule";
import type { LogRow, Store } from "@rkat/core/ports/store";
import { openEmbeddedStore, schedulesIn } from "@rkat/node/open-runtime";
import { median, publish } from "./report.ts";
import { startRest } from "./server-process.ts";

const SIZES = [0, 1_000, 10_000, 100_000];
const AT_ONCE = 1_000;
/** Its first looks read everything once. */
const SETTLING_MS = 20_000;
const ROUNDS = 5;
const ROUND_MS = 12_000;
const MINUTE_MS = 60_000;
const YEAR_MS = 365 * 24 * 60 * MINUTE_MS;
/** A server may spend so much more on a hundred times as many; what else the machine does is within it. */
const GROWTH_MAX = 1.5;

const folder = mkdtempSync(join(tmpdir(), "rkat-bench-inboxes-"));
try {
  const readings = [];
  for (const size of SIZES) readings.push({ size, ...(await measure(size)) });
  const [, small, , large] = readings;
  if (small === undefined || large === undefined) throw new Error("two sizes are compared");
  await publish({
    name: "inboxes",
    tables: [
      [
        ["schedules, and inboxes with a message", "CPU until settled, ms", "CPU, ms/minute", "RSS, MB"],
        ...readings.map(({ size, startMs, idleMs, rssBytes }) => [
          String(size),
          startMs.toFixed(0),
          idleMs.toFixed(0),
          (rssBytes / 1e6).toFixed(0),
        ]),
      ],
    ],
    targets: [
      {
        what: "idle CPU with 100,000 schedules and inboxes over 1,000",
        value: large.idleMs / small.idleMs,
        max: GROWTH_MAX,
      },
    ],
    measured: readings,
  });
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function measure(size: number) {
  const cwd = join(folder, String(size));
  const state = join(cwd, "bench");
  mkdirSync(state, { recursive: true });
  const sessions = await openEmbeddedStore(state);
  await fill(sessions, size, waiting);
  await sessions.close();
  const schedules = await schedulesIn(state, { warn: () => {}, seal: undefined }).open();
  await fill(schedules, size, yearly);
  await schedules.close();
  // What is embedded behind turns is measured elsewhere.
  const env = { RKAT_MODEL: "offline", RKAT_FEATURES: "session-store,session-compaction" };
  const server = await startRest({ cwd, env });
  try {
    await pass(SETTLING_MS);
    const { cpuMs: startMs } = await server.usage();
    const perMinute: number[] = [];
    let before = startMs;
    for (let round = 0; round < ROUNDS; round += 1) {
      const startedMs = performance.now();
      await pass(ROUND_MS);
      const { cpuMs } = await server.usage();
      perMinute.push(((cpuMs - before) / (performance.now() - startedMs)) * MINUTE_MS);
      before = cpuMs;
    }
    return { startMs, idleMs: median(perMinute), rssBytes: (await server.usage()).rssBytes };
  } finally {
    await server.close();
  }
}

async function fill<B, R extends LogRow>({ log }: Store<B, R>, size: number, make: (number: number) => readonly B[]) {
  for (let first = 0; first < size; first += AT_ONCE) {
    const batch = Array.from({ length: Math.min(AT_ONCE, size - first) }, (_, at) => {
      const id = `01900000-0000-7000-8000-${(first + at).toString(16).padStart(12, "0")}`;
      return log.append(
        id,
        0,
        make(first + at).map((body) => ({ span: 1, body })),
      );
    });
    await Promise.all(batch);
  }
}

/** A session with a message that waits for somebody to begin it. */
function waiting(number: number): readonly EntryBody[] {
  const created_at = new Date(Date.now()).toISOString();
  const settings = {
    model: "offline",
    provider: "offline",
    max_turns: 100,
    budget_limits: {},
    tools: { builtins: "none" as const, shell: false, memory: false },
    tool_filter: "All" as const,
    structured_output_retries: 2,
    labels: {},
  };
  const message = { role: "user" as const, content: "And then?", created_at };
  return [
    { kind: "session_created", settings },
    { kind: "message_queued", id: `message-${number}`, when_busy: "queue", message, source: { type: "user" } },
  ];
}

/** A schedule that is due in a year. */
function yearly(number: number): readonly ScheduleEntryBody[] {
  const action = { type: "prompt" as const, prompt: "Look around." };
  const next_due_ms = Date.now() + YEAR_MS + number;
  const spec = {
    trigger: { type: "interval" as const, start_at_utc: new Date(next_due_ms).toISOString(), every_seconds: 3_600 },
    target: { target_kind: "session" as const, type: "new_session" as const, create: {}, action },
    misfire_policy: { type: "run_once" as const },
    overlap_policy: "skip_if_running" as const,
    missing_target_policy: "mark_misfired" as const,
    labels: {},
  };
  return [{ kind: "schedule_set", spec, next_due_ms }];
}

function pass(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
