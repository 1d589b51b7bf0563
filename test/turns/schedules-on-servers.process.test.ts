import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Occurrence } from "@rkat/core/contract/wire/schedule";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import type { Store } from "@rkat/core/ports/store";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { foldSchedule, type ScheduleHome } from "@rkat/core/schedules/schedule-row";
import { createScheduler } from "@rkat/core/schedules/scheduler";
import { createSchedules } from "@rkat/core/schedules/schedules";
import { foldRow } from "@rkat/core/state/session-row";
import { createStoreInMemory } from "@rkat/core/stores/in-memory";
import { openEmbeddedStore, schedulesIn } from "@rkat/node/open-runtime";
import { schedulesInDatabase } from "@rkat/postgres";
import { openDatabase } from "@rkat/postgres/open";
import { describe, expect, it, onTestFinished } from "vitest";
import { createRandom } from "../crash/random.ts";
import { serveConsole } from "../support/console-server.ts";
import { byEffort } from "../support/effort.ts";
import { createFastClock } from "../support/fast-clock.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { createCaller } from "../support/rest-server.ts";
import { testSeed } from "../support/seed.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const ROUNDS = byEffort({ quick: 1, usual: 5, full: 100 });
/** Days in which the clocks of New York or Berlin go forward or back. */
const CLOCK_CHANGES = ["2026-03-08", "2026-10-25", "2026-03-29", "2026-11-01"];
/** Where each look reads files or a database. */
const CHANGES_STORED = byEffort({ quick: 1, usual: 4, full: 4 });
const HOURS_SIMULATED = 3 * 24;
const JUMPS = [0, 2 * HOUR, -2 * HOUR];

/** What a server opens of the place that all servers share. */
type Place = () => Promise<{ readonly store: Store; readonly home: ScheduleHome; close(): Promise<void> }>;

const inMemory = async (): Promise<Place> => {
  const [store, kept] = [createInMemoryStore(), createStoreInMemory({ foldRow: foldSchedule, now: Date.now })];
  return async () => ({ store, home: { isThere: () => true, open: async () => kept }, close: async () => {} });
};

const inFolder = async (): Promise<Place> => {
  const folder = mkdtempSync(join(tmpdir(), "rkat-schedules-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return async () => {
    const store = await openEmbeddedStore(folder);
    return { store, home: schedulesIn(folder, { warn: () => {}, seal: undefined }), close: () => store.close() };
  };
};

const inDatabase = async (): Promise<Place> => {
  const url = await databaseFor("schedules");
  return async () => {
    const database = await openDatabase({ url, realm: "default", poolMax: 4 });
    const [store, home] = [database.store("session", foldRow), schedulesInDatabase(database)];
    return { store, home, close: () => database.close() };
  };
};

interface Given {
  readonly startMs?: number;
  /** The model answers once this is resolved. */
  readonly answering?: Promise<void>;
}

/** Servers of one place, each with stores and a clock of its own. */
async function openRealm(place: Place, servers: number, { startMs, answering = Promise.resolve() }: Given = {}) {
  const clock = createFastClock();
  if (startMs !== undefined) clock.advance(startMs - clock.now());
  const scripted = createScriptedModel(() => ({ text: "Done." }));
  const model: typeof scripted = {
    ...scripted,
    async *stream(request, signal) {
      await answering;
      yield* scripted.stream(request, signal);
    },
  };
  const warnings: string[] = [];
  const warn = (sentence: string) => warnings.push(sentence);
  const opened = await Promise.all(
    Array.from({ length: servers }, async () => {
      const { store, home, close } = await place();
      const off = { ms: 0 };
      const own = { ...clock, now: () => clock.now() + off.ms };
      const runtime = createRuntime({ model, clock: own, env: {}, store, schedules: home, warn });
      const schedules = createSchedules({ home, clock: own, redact: (text) => text });
      const { dispatch } = runtime;
      const server = createScheduler({ schedules, clock: own, dispatch, resuming: {}, warn });
      onTestFinished(async () => {
        await schedules.close();
        await runtime.close();
        await close();
      });
      return { off, runtime, server };
    }),
  );
  const [first] = opened;
  if (first === undefined) throw new Error("there is no server");
  const { dispatch } = first.runtime;
  return {
    ...{ clock, model, warnings, dispatch, opened },
    pass: async (ms: number) => {
      clock.advance(ms);
      await Promise.all(opened.map(({ server }) => server.look()));
      await Promise.all(opened.map(({ server }) => server.settled()));
    },
    history: async (schedule_id: string): Promise<readonly Occurrence[]> => {
      const { occurrences } = await dispatch("listOccurrences", { schedule_id, limit: 1_000 });
      return occurrences.filter(({ phase }) => phase !== "pending").toReversed();
    },
  };
}

/** The times of a cron expression with a minute and one hour or any, by the rules of docs/schedules.md. */
function timesOf(
  { cron, timezone }: { readonly cron: string; readonly timezone: string },
  fromMs: number,
  toMs: number,
) {
  const [minute = "", hour = ""] = cron.split(" ");
  const wanted = `${hour.padStart(2, "0")}:${minute.padStart(2, "0")}`;
  const format = new Intl.DateTimeFormat("sv", { timeZone: timezone, dateStyle: "short", timeStyle: "short" });
  const days = new Map<string, { readonly ms: number; readonly time: string }[]>();
  // A day before: the first one must be whole.
  for (let ms = fromMs - 24 * HOUR; ms <= toMs + 24 * HOUR; ms += MINUTE) {
    const [day = "", time = ""] = format.format(ms).split(" ");
    days.set(day, [...(days.get(day) ?? []), { ms, time }]);
  }
  const all = [...days.values()].flatMap((moments) => {
    if (hour === "*") return moments.filter(({ time }) => time.endsWith(wanted.slice(-3)));
    const first = moments.find(({ time }) => time === wanted) ?? moments.find(({ time }) => time > wanted);
    return first === undefined ? [] : [first];
  });
  return all.map(({ ms }) => ms).filter((ms) => fromMs < ms && ms <= toMs);
}

const DAILY = { prompt: "Look around." };
const HOURLY = { prompt: "Look.", cron: "0 * * * *", overlap_policy: "allow_concurrent" };
// Its window is longer than servers can be late, so that it leaves nothing out.
const misfire_policy = { type: "catch_up_within", window_seconds: 6 * 3_600 };
const CATCHING_UP = { ...HOURLY, timezone: "Europe/Berlin", misfire_policy };
const SCHEDULES = [
  { ...DAILY, cron: "30 2 * * *", timezone: "Europe/Berlin" },
  { ...DAILY, cron: "30 2 * * *", timezone: "America/New_York" },
  { ...DAILY, cron: "30 1 * * *", timezone: "America/New_York" },
  CATCHING_UP,
  { ...HOURLY, timezone: "America/New_York" },
];

/** Three servers whose clocks jump, around a clock change; each time is accounted for once. */
async function simulate(place: Place, day: string, seed: number): Promise<void> {
  const random = createRandom(seed);
  const below = (most: number) => Math.floor(random() * most);
  const startMs = Date.parse(`${day}T00:00:00Z`) - 24 * HOUR - 5 * MINUTE;
  const { pass, history, dispatch, model, clock, warnings, opened } = await openRealm(place, 3, { startMs });
  const ids: string[] = [];
  for (const given of SCHEDULES) ids.push((await dispatch("createSchedule", given)).schedule_id);
  const endMs = startMs + HOURS_SIMULATED * HOUR;
  while (clock.now() < endMs) {
    if (below(3) === 0) {
      const jumping = opened[below(opened.length)];
      if (jumping !== undefined) jumping.off.ms = JUMPS[below(JUMPS.length)] ?? 0;
    }
    await pass(below(HOUR));
  }
  for (const { off } of opened) off.ms = 0;
  for (let look = 0; look < 6; look += 1) await pass(0);
  const nowMs = clock.now();
  let completed = 0;
  for (const [at, schedule_id] of ids.entries()) {
    const given = SCHEDULES[at] ?? HOURLY;
    const context = `seed ${seed}, ${day}: ${JSON.stringify(given)}`;
    const occurrences = await history(schedule_id);
    const due = occurrences.map(({ due_at_utc }) => Date.parse(due_at_utc));
    const times = timesOf({ timezone: "UTC", ...given }, startMs, nowMs + 2 * HOUR);
    expect(
      occurrences.map(({ phase }) => phase),
      context,
    ).toEqual(due.map(() => "completed"));
    expect(due, context).toEqual([...new Set(due)].toSorted((one, other) => one - other));
    expect(
      due.filter((ms) => !times.includes(ms)),
      context,
    ).toEqual([]);
    const isMissed = (ms: number) =>
      occurrences.some(
        ({ missed_since_utc, due_at_utc }) =>
          missed_since_utc !== undefined && Date.parse(missed_since_utc) <= ms && ms < Date.parse(due_at_utc),
      );
    const open = times.filter((ms) => ms <= nowMs && !due.includes(ms));
    expect(
      open.filter((ms) => !isMissed(ms)),
      context,
    ).toEqual([]);
    if (given === CATCHING_UP) expect(open, context).toEqual([]);
    const { sessions } = await dispatch("listSessions", { labels: { schedule: schedule_id }, limit: 1_000 });
    expect(new Set(sessions.map(({ session_id }) => session_id)), context).toEqual(
      new Set(occurrences.map(({ session_id }) => session_id)),
    );
    completed += due.length;
  }
  expect(model.requests).toHaveLength(completed);
  expect(warnings).toEqual([]);
}

function describePlace(name: string, open: () => Promise<Place>, env: () => Promise<Record<string, string>>): void {
  it.each(CLOCK_CHANGES.slice(0, CHANGES_STORED))(
    `[Q2] are each run once, or missed by their policy, on three servers whose clocks jump by 2 h around %s, ${name}`,
    async (day) => {
      for (let round = 0; round < ROUNDS; round += 1) await simulate(await open(), day, testSeed() + round);
    },
    1_200_000,
  );

  it(`[Q2] go on where a server ended after its claim, and their turn runs once, ${name}`, async () => {
    const { promise: answering, resolve: answer } = Promise.withResolvers<void>();
    const { pass, history, dispatch, model, clock, opened } = await openRealm(await open(), 2, { answering });
    const { schedule_id } = await dispatch("createSchedule", { prompt: "Look around.", every: "1h" });
    const stopped = new AbortController();
    const [one, two] = opened;
    const watching = one?.server.watch(stopped.signal);
    await two?.server.look();
    clock.advance(HOUR);
    await one?.server.look();
    await expect.poll(() => dispatch("listSessions", {})).toMatchObject({ sessions: [{ is_active: true }] });
    stopped.abort();
    await watching;
    answer();
    for (let look = 0; look < 6; look += 1) await pass(1_000);
    expect((await history(schedule_id)).map(({ phase }) => phase)).toEqual(["completed"]);
    expect(model.requests).toHaveLength(1);
  });

  it(`[Q2] run nothing once the token that made them is revoked, ${name}`, async () => {
    const server = await serveConsole({ flags: ["--token", "s3cret"], env: await env() });
    const call = createCaller(server.url);
    const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
    const bot = bearer((await server.rkat("token", "create", "--name", "bot", "--scope", "run,read")).trim());
    const owner = bearer("s3cret");
    await expect.poll(async () => (await call("GET /access", undefined, bot)).body).toMatchObject({ name: "bot" });
    const at = new Date(Date.now() + 5_000).toISOString();
    const made = await call("POST /schedules", { prompt: "Look around.", at, every: "1h" }, bot);
    expect(made).toMatchObject({ status: 200, body: { phase: "active", caller: "bot" } });
    await server.rkat("token", "revoke", "bot");
    const path = `GET /schedules/${made.body.schedule_id}`;
    await expect
      .poll(async () => (await call(path, undefined, owner)).body, { timeout: 60_000 })
      .toMatchObject({ phase: "paused", phase_reason: "it lacks the token bot, which was revoked" });
    const { body } = await call(`${path}/occurrences`, undefined, owner);
    expect(body.occurrences).toEqual([]);
    expect((await call("GET /sessions", undefined, owner)).body).toMatchObject({ sessions: [] });
  });
}

describe("schedules of servers that share a realm", () => {
  it("[Q2] are each run once, or missed by their policy, on three servers whose clocks jump, in memory", async () => {
    for (const day of CLOCK_CHANGES) await simulate(await inMemory(), day, testSeed());
  });

  describePlace("in a folder", inFolder, async () => ({}));
});

withPostgres("schedules of servers that share a database", () => {
  describePlace("in a database", inDatabase, async () => ({ RKAT_STORE_URL: await databaseFor("revoked") }));
});
