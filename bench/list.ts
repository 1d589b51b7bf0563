// What a page of the list of sessions costs, by how many sessions there are.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRuntime, createScriptedModel, type EntryBody, openEmbeddedStore, type Store } from "@rkat/node";
import { median, publish } from "./report.ts";

const SIZES = [10_000, 100_000];
const ROUNDS = 25;
const PAGE = 50;
const WALK_PAGE = 1_000;
const AT_ONCE = 1_000;
/** Of so many sessions one has the label that is asked for. */
const RARE = 1_000;
const MONTH_MS = 30 * 86_400_000;
/** A page may become so much dearer when there are ten times as many sessions. */
const GROWTH_MAX = 3;

const folder = mkdtempSync(join(tmpdir(), "rkat-bench-list-"));
try {
  const readings = [];
  for (const sessions of SIZES) readings.push({ sessions, ...(await measure(sessions)) });
  const [small, large] = readings;
  if (small === undefined || large === undefined) throw new Error("two sizes are compared");
  await publish({
    name: "list",
    tables: [
      [
        ["sessions", "page of 50, ms", "listSessions 50, ms", "50 of a rare label, ms", "walk over all, ms"],
        ...readings.map(({ sessions, page, list, rare, walk }) => [
          String(sessions),
          page.toFixed(2),
          list.toFixed(2),
          rare.toFixed(2),
          walk.toFixed(0),
        ]),
      ],
    ],
    targets: [
      { what: "page of 50 among 100,000 over among 10,000", value: large.page / small.page, max: GROWTH_MAX },
      { what: "listSessions of 50 among 100,000 over among 10,000", value: large.list / small.list, max: GROWTH_MAX },
    ],
    measured: readings,
  });
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function measure(sessions: number) {
  const place = join(folder, String(sessions));
  const filling = await openEmbeddedStore(place);
  await fill(filling, sessions);
  await filling.close();
  const store = await openEmbeddedStore(place);
  const runtime = createRuntime({ model: createScriptedModel([]), store, env: {} });
  try {
    return {
      page: await timed(() => store.sessions.page({ archived: false, max: PAGE })),
      list: await timed(() => runtime.listSessions({ limit: PAGE })),
      rare: await timed(() => store.sessions.page({ archived: false, labels: { rare: "yes" }, max: PAGE })),
      walk: await timed(() => walk(store, sessions), 1),
    };
  } finally {
    await runtime.close();
  }
}

async function fill({ log }: Store, sessions: number): Promise<void> {
  const start = Date.now() - MONTH_MS;
  for (let first = 0; first < sessions; first += AT_ONCE) {
    const batch = Array.from({ length: AT_ONCE }, (_, at) => {
      const number = first + at;
      // Spread over the month in another order than that of the ids.
      const atMs = start + ((number * 7_919) % sessions) * Math.floor(MONTH_MS / sessions);
      return log.append(idOf(number), 0, [{ span: 1, body: created(number) }], atMs);
    });
    await Promise.all(batch);
  }
}

function created(number: number): EntryBody {
  return {
    kind: "session_created",
    settings: {
      model: "offline",
      provider: "offline",
      max_turns: 100,
      budget_limits: {},
      tools: { builtins: "none", shell: false, memory: false },
      tool_filter: "All",
      structured_output_retries: 2,
      labels: { team: "core", ...(number % RARE === 0 ? { rare: "yes" } : {}) },
    },
  };
}

function idOf(number: number): string {
  return `01900000-0000-7000-8000-${number.toString(16).padStart(12, "0")}`;
}

async function walk({ sessions }: Store, expected: number): Promise<void> {
  let met = 0;
  for (let page = await sessions.page({ max: WALK_PAGE }); page.length > 0; ) {
    met += page.length;
    const after = page.at(-1);
    page = after === undefined ? [] : await sessions.page({ after, max: WALK_PAGE });
  }
  if (met !== expected) throw new Error(`${met} sessions were met, and ${expected} are there`);
}

async function timed(work: () => Promise<unknown>, rounds = ROUNDS): Promise<number> {
  const took: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const startedMs = performance.now();
    await work();
    took.push(performance.now() - startedMs);
  }
  return median(took);
}
