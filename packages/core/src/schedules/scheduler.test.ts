import { describe, expect, it } from "vitest";
import { configWith } from "../../../../test/support/runtime.ts";
import { createVirtualClock } from "../../../../test/support/virtual-clock.ts";
import { defaultConfig } from "../config/settings.ts";
import type { Caller } from "../contract/caller.ts";
import type { CreateSchedule, Occurrence } from "../contract/wire/schedule.ts";
import { createInMemoryStore, createRuntime, type RuntimeOptions } from "../create-runtime.ts";
import { createScriptedModel, type ScriptedStep } from "../providers/scripted.ts";
import { createStoreInMemory } from "../stores/in-memory.ts";
import { foldSchedule } from "./schedule-row.ts";
import { createScheduler, type Scheduler, type SchedulerParts } from "./scheduler.ts";
import { createSchedules } from "./schedules.ts";

const START = Date.UTC(2026, 0, 1);
const HOUR = 3_600_000;
const at = (ms: number): string => new Date(ms).toISOString();
/** The model of a test that is silent is so for good. */
const { retry } = defaultConfig();
const NO_TIMEOUTS = {
  config: configWith({ retry: { ...retry, call_timeout_ms: undefined, stall_timeout_ms: undefined } }),
};
const HOURLY = { prompt: "Look around.", every: "1h" };

/** A realm with a number of servers that run its schedules, each with records of its own. */
function realm(
  script: Parameters<typeof createScriptedModel>[0] = () => ({ text: "Done." }),
  { resuming = {}, servers = 1, ...options }: RuntimeOptions & Partial<SchedulerParts> & { servers?: number } = {},
) {
  const clock = createVirtualClock(START);
  const kept = createStoreInMemory({ foldRow: foldSchedule, now: clock.now });
  const home = { isThere: () => true, open: async () => kept };
  const model = createScriptedModel(script);
  const store = createInMemoryStore({ now: clock.now });
  const warnings: string[] = [];
  const open = () => createRuntime({ model, clock, env: {}, store, schedules: home, warn: () => {}, ...options });
  const runtime = open();
  const all = Array.from({ length: servers }, (): Scheduler => {
    const schedules = createSchedules({ home, clock, redact: (text) => text });
    const { dispatch } = servers === 1 ? runtime : open();
    return createScheduler({ schedules, clock, dispatch, resuming, warn: (one) => warnings.push(one) });
  });
  return {
    ...{ runtime, clock, model, store, kept, warnings, servers: all },
    /** Moves the clock, and has every server look at once. */
    pass: async (ms: number) => {
      clock.advance(ms);
      await Promise.all(all.map((server) => server.look()));
      await Promise.all(all.map((server) => server.settled()));
    },
    create: async (given: object, caller?: Caller) =>
      (await runtime.dispatch("createSchedule", given, caller && { caller })).schedule_id,
    history: async (schedule_id: string): Promise<readonly Occurrence[]> =>
      (await runtime.dispatch("listOccurrences", { schedule_id, limit: 1_000 })).occurrences,
  };
}

const ended = (occurrences: readonly Occurrence[]) =>
  occurrences.filter(({ phase }) => phase !== "pending").map(({ phase, due_at_utc }) => [phase, due_at_utc]);

const token = (name: string, scopes: readonly Caller["scopes"][] | readonly string[] = ["run", "read"]): Caller => ({
  name,
  scopes: new Set(scopes as readonly ["run"]),
  labels: {},
});

describe("a schedule", () => {
  it("[Q2] runs a turn in a session of its own at each of its times, and tells how each ended", async () => {
    const { runtime, pass, create, history, model } = realm();
    const id = await create({ ...HOURLY, name: "rounds", labels: { team: "core" } });
    await pass(HOUR - 1);
    expect(model.requests).toHaveLength(0);
    await pass(1);
    await pass(HOUR);
    const [next, second, first] = await history(id);
    expect(next).toMatchObject({ phase: "pending", due_at_utc: at(START + 3 * HOUR), occurrence_ordinal: 2 });
    expect(second).toMatchObject({ phase: "completed", due_at_utc: at(START + 2 * HOUR), occurrence_ordinal: 1 });
    expect(first).toMatchObject({ phase: "completed", claimed_at_utc: at(START + HOUR), schedule_revision: 1 });
    expect(first?.session_id).not.toBe(second?.session_id);
    const { sessions } = await runtime.dispatch("listSessions", { labels: { schedule: id, team: "core" } });
    expect(sessions).toHaveLength(2);
    expect(model.requests).toHaveLength(2);
  });

  it("[Q2] runs in the session that is given, or in one that its first time makes", async () => {
    const { runtime, pass, create, history, store } = realm();
    const { session_id } = await runtime.dispatch("createSession", { prompt: "Hello." });
    const [given, made] = [
      await create({ ...HOURLY, session_id }),
      await create({
        trigger: { type: "interval", start_at_utc: at(START), every_seconds: 3_600 },
        target: {
          target_kind: "session",
          type: "materialize_on_demand_session",
          create: { system_prompt: "Be brief." },
          action: { type: "prompt", prompt: "Look." },
        },
      }),
    ];
    await pass(HOUR);
    await pass(HOUR);
    expect((await history(given)).slice(1).map((one) => one.session_id)).toEqual([session_id, session_id]);
    const own = new Set((await history(made)).slice(1).map((one) => one.session_id));
    expect([...own]).toHaveLength(1);
    expect((await store.sessions.get([...own][0] ?? ""))?.message_count).toBe(5);
  });

  it("[Q2] sends an event to a session without running a turn", async () => {
    const { runtime, pass, create, history, model } = realm();
    const { session_id } = await runtime.dispatch("createSession", { prompt: "Hello." });
    const target = { target_kind: "session", type: "resumable_session", session_id };
    const id = await create({
      trigger: { type: "once", due_at_utc: at(START - 1) },
      target: { ...target, action: { type: "event", event_type: "deploy_complete", payload: { green: true } } },
    });
    await pass(0);
    expect(await history(id)).toMatchObject([{ phase: "completed", session_id }]);
    expect(model.requests).toHaveLength(1);
  });

  it("[Q2] misses times while no server runs, and then does as its misfire policy says", async () => {
    const { pass, create, history } = realm();
    const [once, skip, within] = [
      await create(HOURLY),
      await create({ ...HOURLY, misfire_policy: { type: "skip" } }),
      await create({ ...HOURLY, misfire_policy: { type: "catch_up_within", window_seconds: 2 * 3_600 } }),
    ];
    await pass(10 * HOUR + 60_000);
    const last = at(START + 10 * HOUR);
    expect(ended(await history(once))).toEqual([["completed", last]]);
    expect((await history(once))[1]).toMatchObject({ missed_since_utc: at(START + HOUR) });
    expect(ended(await history(skip))).toEqual([["misfired", last]]);
    // One was running when the other was due.
    expect(ended(await history(within))).toEqual([
      ["skipped", last],
      ["completed", at(START + 9 * HOUR)],
    ]);
    await pass(HOUR - 60_000);
    expect(ended(await history(skip))[0]).toEqual(["completed", at(START + 11 * HOUR)]);
  });

  it("[Q2] claims each time once, whatever the clocks of three servers do", async () => {
    const { pass, create, history, clock, model } = realm(undefined, { servers: 3 });
    const id = await create(HOURLY);
    await pass(HOUR);
    await pass(2 * HOUR); // A jump forward: the times it left out are one run.
    clock.advance(-2 * HOUR);
    await pass(0);
    await pass(HOUR);
    await pass(HOUR);
    await pass(HOUR);
    expect(ended(await history(id))).toEqual([
      ["completed", at(START + 4 * HOUR)],
      ["completed", at(START + 3 * HOUR)],
      ["completed", at(START + HOUR)],
    ]);
    expect(model.requests).toHaveLength(3);
  });

  it("[Q2] runs every time of a year exactly once on three servers, across the clock changes of its zone", async () => {
    const { pass, create, history, model } = realm(undefined, { servers: 3 });
    const daily = { prompt: "Good morning.", cron: "30 2 * * *" };
    const ids = await Promise.all(
      ["Europe/Berlin", "America/New_York"].map((timezone) => create({ ...daily, timezone })),
    );
    for (let hour = 0; hour < 365 * 24; hour += 1) await pass(HOUR);
    expect(model.requests).toHaveLength(2 * 365);
    for (const id of ids) {
      const times = (await history(id)).filter(({ phase }) => phase === "completed").map((one) => one.due_at_utc);
      expect(new Set(times.map((time) => time.slice(0, 10))).size).toBe(365);
    }
  }, 60_000);

  it("[Q2] goes on with an occurrence whose server ended after its claim, and runs its turn once", async () => {
    const { pass, create, history, servers, clock, model } = realm(undefined, { servers: 2 });
    const id = await create(HOURLY);
    const stopped = new AbortController();
    // Its server stops at the claim: the turn does not begin.
    const watching = servers[0]?.watch(stopped.signal);
    await servers[1]?.look();
    clock.advance(HOUR);
    await servers[0]?.look();
    stopped.abort();
    await watching;
    for (let look = 0; look < 6; look += 1) await pass(1_000);
    expect(ended(await history(id))).toEqual([["completed", at(START + HOUR)]]);
    expect(model.requests).toHaveLength(1);
  });

  it("[Q2] does as its overlap policy says when it is due while it runs", async () => {
    const begun = new Set<string>();
    const { pass, create, history, servers, clock, runtime } = realm((request) => {
      const said = JSON.stringify(request.messages);
      const name =
        ["skip_if_running", "queue", "interrupt", "allow_concurrent"].find((one) => said.includes(one)) ?? "";
      if (begun.has(name)) return { text: "Done." };
      begun.add(name);
      return { ends: "silent" };
    }, NO_TIMEOUTS);
    const ids = new Map<string, string>();
    for (const overlap_policy of ["skip_if_running", "queue", "interrupt", "allow_concurrent"])
      ids.set(overlap_policy, await create({ prompt: overlap_policy, every: "1h", overlap_policy }));
    clock.advance(HOUR);
    await servers[0]?.look();
    while (begun.size < 4) await new Promise((resolve) => setImmediate(resolve));
    clock.advance(HOUR);
    await servers[0]?.look();
    const phases = async () =>
      Object.fromEntries(
        await Promise.all(
          [...ids].map(async ([name, id]) => [name, (await history(id)).slice(1).map(({ phase }) => phase)]),
        ),
      );
    const wanted = {
      skip_if_running: ["skipped", "awaiting_completion"],
      queue: ["awaiting_completion"],
      interrupt: ["completed", "delivery_failed"],
      allow_concurrent: ["completed", "awaiting_completion"],
    };
    await expect.poll(phases).toEqual(wanted);
    const { sessions } = await runtime.dispatch("listSessions", { labels: { schedule: ids.get("queue") ?? "" } });
    await runtime.dispatch("interruptTurn", { session_id: sessions[0]?.session_id });
    await expect.poll(phases).toMatchObject({ queue: ["completed", "delivery_failed"] });
    for (const id of ids.values()) {
      await runtime.dispatch("deleteSchedule", { schedule_id: id });
      const { sessions: left } = await runtime.dispatch("listSessions", { labels: { schedule: id } });
      for (const { session_id } of left) await runtime.dispatch("interruptTurn", { session_id });
    }
    await pass(0);
  });

  it("[Q2] [H5] leaves room for others, however many of its times run at once", async () => {
    const { runtime, clock, create, history, servers } = realm(
      ({ messages }) => (JSON.stringify(messages).includes("Never end.") ? { ends: "silent" } : { text: "Done." }),
      NO_TIMEOUTS,
    );
    const id = await create({ prompt: "Never end.", every: "1h", overlap_policy: "allow_concurrent" });
    for (let hour = 0; hour < 40; hour += 1) {
      clock.advance(HOUR);
      await servers[0]?.look();
      await expect.poll(async () => (await history(id)).length).toBeGreaterThan(Math.min(hour + 1, 8));
    }
    const other = await create(HOURLY);
    clock.advance(HOUR);
    await servers[0]?.look();
    await expect.poll(async () => ended(await history(other))).toHaveLength(1);
    expect(ended(await history(id))).toHaveLength(8);
    await runtime.close();
  });

  it("[Q2] acts with the rights of the caller that made it, and pauses itself where those are gone", async () => {
    let lack: string | undefined;
    const { pass, create, history, model, runtime } = realm(undefined, { resuming: { lacks: () => lack } });
    const caller = token("bot");
    const id = await create(HOURLY, caller);
    const beyond = await create({ ...HOURLY, tool_preset: "full" }, caller);
    await pass(HOUR);
    expect(ended(await history(id))).toEqual([["completed", at(START + HOUR)]]);
    expect((await history(beyond))[1]).toMatchObject({ phase: "delivery_failed", failure_class: "runtime_rejected" });
    lack = "the token bot, which was revoked";
    await pass(HOUR);
    expect(await runtime.dispatch("readSchedule", { schedule_id: id })).toMatchObject({
      phase: "paused",
      phase_reason: "it lacks the token bot, which was revoked",
      caller: "bot",
    });
    await pass(24 * HOUR);
    expect(model.requests).toHaveLength(1);
    // Resumed, it is paused again; changed by another caller, it acts for that one.
    lack = undefined;
    await runtime.dispatch("updateSchedule", { schedule_id: id, prompt: "Again." }, { caller: token("other") });
    await runtime.dispatch("resumeSchedule", { schedule_id: id });
    expect(await runtime.dispatch("readSchedule", { schedule_id: id })).toMatchObject({ caller: "other", revision: 2 });
    await pass(HOUR);
    expect(model.requests).toHaveLength(2);
  });

  it("[Q2] is there only for callers with its labels", async () => {
    const { create, runtime } = realm();
    const mine: Caller = { ...token("mine"), labels: { user: "ada" } };
    const other: Caller = { ...token("other"), labels: { user: "bob" } };
    const id = await create(HOURLY, mine);
    const list = async (caller: Caller) => (await runtime.dispatch("listSchedules", {}, { caller })).schedules.length;
    expect([await list(mine), await list(other)]).toEqual([1, 0]);
    for (const name of ["readSchedule", "pauseSchedule", "deleteSchedule", "listOccurrences"] as const)
      await expect(runtime.dispatch(name, { schedule_id: id }, { caller: other })).rejects.toMatchObject({
        code: "SCHEDULE_NOT_FOUND",
      });
    await expect(
      runtime.dispatch("createSchedule", HOURLY, { caller: token("reader", ["read"]) }),
    ).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
  });

  it("[Q2] denies a call that needs approval, since no approver is there", async () => {
    const wipe = {
      name: "wipe",
      description: "wipe",
      inputSchema: { type: "object" },
      needsApproval: true,
      execute: () => "wiped",
    };
    const steps: ScriptedStep[] = [{ calls: [{ id: "c1", name: "wipe" }] }, { text: "Not allowed." }];
    const { pass, create, model } = realm(steps, { tools: [wipe] });
    await create(HOURLY);
    await pass(HOUR);
    expect(JSON.stringify(model.requests[1]?.messages)).toContain("no approver is there");
  });

  it("[Q2] keeps to its budget of a day", async () => {
    const usage = { input_tokens: 1_000_000, output_tokens: 0 };
    const prices = { input: 0.4, output: 0, currency: "USD" as const, as_of: "2026-01-01" };
    const model = { ...createScriptedModel(() => ({ text: "Done.", usage })), prices };
    const { pass, create, history, runtime } = realm(undefined, { model });
    const id = await create({ ...HOURLY, max_cost_per_day: 0.5 });
    for (let hour = 1; hour <= 4; hour += 1) await pass(HOUR);
    const phases = (await history(id))
      .slice(1)
      .map(({ phase, cost, failure_detail }) => [phase, cost ?? failure_detail]);
    expect(phases.toReversed().slice(0, 3)).toEqual([
      ["completed", 0.4],
      ["completed", 0.4],
      ["skipped", "max_cost_per_day is spent"],
    ]);
    expect((await runtime.dispatch("readSchedule", { schedule_id: id })).cost_today).toBeCloseTo(0.8);
    await pass(24 * HOUR);
    expect((await history(id))[1]).toMatchObject({ phase: "completed" });
  });

  it("[Q2] pauses, resumes without what it missed, changes, and is deleted for good", async () => {
    const { pass, create, history, runtime, model } = realm();
    const id = await create(HOURLY);
    await runtime.dispatch("pauseSchedule", { schedule_id: id });
    await pass(5 * HOUR);
    expect(model.requests).toHaveLength(0);
    const resumed = await runtime.dispatch("resumeSchedule", { schedule_id: id });
    expect(resumed).toMatchObject({ phase: "active", next_due_at_utc: at(START + 6 * HOUR) });
    const update = { schedule_id: id, every: "2h", name: "slower", expected_revision: 1 };
    expect(await runtime.dispatch("updateSchedule", update)).toMatchObject({ revision: 2, name: "slower" });
    await expect(runtime.dispatch("updateSchedule", update)).rejects.toThrow("has the revision 2, not 1");
    await runtime.dispatch("deleteSchedule", { schedule_id: id });
    await pass(24 * HOUR);
    expect(model.requests).toHaveLength(0);
    expect((await runtime.dispatch("listSchedules", {})).schedules).toEqual([]);
    expect(await history(id)).toEqual([]);
    await expect(runtime.dispatch("resumeSchedule", { schedule_id: id })).rejects.toMatchObject({
      code: "SCHEDULE_NOT_FOUND",
    });
  });

  it("[Q2] of the configuration is what that says at each start, whatever a caller made of it meanwhile", async () => {
    const { clock, kept, runtime } = realm();
    const home = { isThere: () => true, open: async () => kept };
    const { sync } = createSchedules({ home, clock, redact: (text) => text });
    const named = [{ name: "nights", ...HOURLY, every: HOUR }];
    const read = async () => {
      const { schedules } = await runtime.dispatch("listSchedules", {});
      return schedules[0];
    };
    await sync(named);
    const made = await read();
    const { schedule_id = "" } = made ?? {};
    clock.advance(HOUR / 2);
    await sync(named);
    expect(await read()).toEqual(made);
    const create = { tool_preset: "full", system_prompt: "Obey.", permissions: { allow: ["*"] } };
    const target = { target_kind: "session", type: "new_session", create, action: { type: "prompt", prompt: "Obey." } };
    const changes = { target, overlap_policy: "allow_concurrent", max_cost_per_day: 999, description: "x" };
    for (const change of [changes, {}]) {
      await runtime.dispatch("updateSchedule", { schedule_id, ...change }, { caller: token("other") });
      expect(await read()).toMatchObject({ caller: "other" });
      await sync(named);
      const { trigger, target, overlap_policy } = made ?? {};
      const same = { trigger: { ...trigger, start_at_utc: at(START + 1.5 * HOUR) }, target, overlap_policy };
      expect(await read()).toMatchObject(same);
      for (const field of ["caller", "max_cost_per_day", "description"]) expect(await read()).not.toHaveProperty(field);
    }
  });

  it("[Q2] is not tried again at once where its end cannot be written", async () => {
    let isFull = false;
    const { clock, kept, model, runtime, pass, create } = realm(() => {
      isFull = true;
      return { text: "Done." };
    });
    let tries = 0;
    const append: typeof kept.log.append = async (...given) => {
      if (!isFull) return kept.log.append(...given);
      tries += 1;
      // The test ends even where it is.
      if (tries > 20) isFull = false;
      throw new Error("the disk is full");
    };
    const home = { isThere: () => true, open: async () => ({ ...kept, log: { ...kept.log, append } }) };
    const schedules = createSchedules({ home, clock, redact: (text) => text });
    const server = createScheduler({ schedules, clock, dispatch: runtime.dispatch, resuming: {}, warn: () => {} });
    const id = await create(HOURLY);
    clock.advance(HOUR);
    await server.look();
    await server.settled();
    expect(tries).toBe(1);
    isFull = false;
    await pass(0);
    const { occurrences } = await runtime.dispatch("listOccurrences", { schedule_id: id, limit: 2 });
    expect(occurrences[1]).toMatchObject({ phase: "completed" });
    expect(model.requests).toHaveLength(1);
  });

  it("[Q2] ends as its policy says where its session is gone", async () => {
    const { pass, create, history } = realm();
    const session_id = "01936f8a-7b2c-7000-8000-000000000001";
    const given = { ...HOURLY, session_id };
    const [misfired, skipped] = [await create(given), await create({ ...given, missing_target_policy: "skip" })];
    await pass(HOUR);
    expect((await history(misfired))[1]).toMatchObject({
      phase: "misfired",
      failure_class: "target_missing",
      session_id,
    });
    expect((await history(skipped))[1]).toMatchObject({ phase: "skipped", failure_class: "target_missing" });
  });

  it("[Q2] refuses what cannot be one in a sentence, and keeps nothing of it", async () => {
    const { create, runtime } = realm();
    const refused: readonly (readonly [given: Partial<CreateSchedule> | object, sentence: string])[] = [
      [{ prompt: "x" }, "trigger, cron, every or at: say when it is due"],
      [{ every: "1h" }, "prompt or target: say what it does"],
      [{ prompt: "x", every: "1s" }, "every: write whole seconds, at least 10s"],
      [{ prompt: "x", every: "1h", cron: "0 9 * * *" }, "cron and every say different things, so give one of them"],
      [{ prompt: "x", cron: "* * * * * *" }, "cron: write five fields: minute hour day-of-month month day-of-week"],
      [{ prompt: "x", cron: "99 9 * * *" }, "cron: 99 9 * * * cannot be read: Invalid value for minute: 99"],
      [{ prompt: "x", cron: "0 0 31 2 *" }, "trigger: it is never due; write one with a time that comes"],
      [
        { prompt: "x", cron: "0 9 * * *", timezone: "Europe/Nowhere" },
        "timezone: there is no time zone Europe/Nowhere",
      ],
      [{ ...HOURLY, labels: { "meerkat.comms": "1" } }, "labels: keys that begin with meerkat. are reserved"],
      [
        { prompt: "x", trigger: { type: "calendar", timezone: "UTC", minute: 5 } },
        'trigger.minute: write {"kind": "any"} or {"kind": "values", "values": [0]} of numbers from 0 to 59',
      ],
      [{ prompt: "x", at: "tomorrow" }, "at: write a time with its offset, like 2026-11-30T09:00:00Z"],
      [{ prompt: "x".repeat(1_000_000), every: "1h" }, "a schedule has at most 65536 characters of JSON"],
      [{ prompt: "x", every: "1h", max_cost_per_day: -1 }, "max_cost_per_day: write an amount of US dollars above 0"],
    ];
    for (const [given, sentence] of refused) await expect(create(given)).rejects.toThrow(sentence);
    expect((await runtime.dispatch("listSchedules", {})).schedules).toEqual([]);
    const far = await create({ prompt: "x", at: "9999-12-31T23:59:59Z" });
    expect((await runtime.dispatch("readSchedule", { schedule_id: far })).next_due_at_utc).toBe(
      "9999-12-31T23:59:59.000Z",
    );
  });
});
