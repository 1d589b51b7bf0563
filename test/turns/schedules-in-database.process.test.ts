import type { Occurrence } from "@rkat/core/contract/wire/schedule";
import { createRuntime } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { createScheduler } from "@rkat/core/schedules/scheduler";
import { createSchedules } from "@rkat/core/schedules/schedules";
import { foldRow } from "@rkat/core/state/session-row";
import { schedulesInDatabase } from "@rkat/postgres";
import { openDatabase } from "@rkat/postgres/open";
import { expect, it, onTestFinished } from "vitest";
import { createFastClock } from "../support/fast-clock.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";

const HOUR = 3_600_000;

/** Servers of one database, each with connections of its own. */
async function openRealm(servers: number) {
  const [url, clock] = [await databaseFor("schedules"), createFastClock()];
  const model = createScriptedModel(() => ({ text: "Done." }));
  const warnings: string[] = [];
  const warn = (sentence: string) => warnings.push(sentence);
  const opened = await Promise.all(
    Array.from({ length: servers }, async () => {
      const database = await openDatabase({ url, realm: "default" });
      const [store, home] = [database.store("session", foldRow), schedulesInDatabase(database)];
      const runtime = createRuntime({ model, clock, env: {}, store, schedules: home, warn });
      const schedules = createSchedules({ home, clock, redact: (text) => text });
      onTestFinished(async () => {
        await schedules.close();
        await runtime.close();
        await database.close();
      });
      return { runtime, server: createScheduler({ schedules, clock, dispatch: runtime.dispatch, resuming: {}, warn }) };
    }),
  );
  const [first] = opened;
  if (first === undefined) throw new Error("there is no server");
  const { dispatch } = first.runtime;
  return {
    ...{ clock, model, warnings, dispatch, servers: opened.map(({ server }) => server) },
    pass: async (ms: number) => {
      clock.advance(ms);
      await Promise.all(opened.map(({ server }) => server.look()));
      await Promise.all(opened.map(({ server }) => server.settled()));
    },
    history: async (schedule_id: string): Promise<readonly Occurrence[]> => {
      const { occurrences } = await dispatch("listOccurrences", { schedule_id, limit: 1_000 });
      return occurrences.filter(({ phase }) => phase !== "pending");
    },
  };
}

withPostgres("schedules of servers that share a database", () => {
  it("[Q2] are claimed once for each time, whatever the clocks do", async () => {
    const { pass, history, dispatch, model, clock, warnings } = await openRealm(2);
    const ids = await Promise.all(
      Array.from({ length: 4 }, async (_, number) => {
        const { schedule_id } = await dispatch("createSchedule", { prompt: `Look at ${number}.`, every: "1h" });
        return schedule_id;
      }),
    );
    await pass(HOUR);
    await pass(HOUR);
    await pass(2 * HOUR); // A jump forward: the time it left out is not run.
    clock.advance(-2 * HOUR);
    await pass(0);
    for (let hour = 0; hour < 5; hour += 1) await pass(HOUR);
    for (const id of ids) {
      const occurrences = await history(id);
      expect(occurrences.map(({ phase }) => phase)).toEqual(Array.from({ length: 6 }, () => "completed"));
      expect(new Set(occurrences.map(({ due_at_utc }) => due_at_utc)).size).toBe(6);
      const { sessions } = await dispatch("listSessions", { labels: { schedule: id } });
      expect(new Set(sessions.map(({ session_id }) => session_id))).toEqual(
        new Set(occurrences.map(({ session_id }) => session_id)),
      );
    }
    expect(model.requests).toHaveLength(4 * 6);
    expect(warnings).toEqual([]);
  });

  it("[Q2] go on where a server ended after its claim, and their turn runs once", async () => {
    const { pass, history, dispatch, model, clock, servers } = await openRealm(2);
    const { schedule_id } = await dispatch("createSchedule", { prompt: "Look around.", every: "1h" });
    const stopped = new AbortController();
    const watching = servers[0]?.watch(stopped.signal);
    await servers[1]?.look();
    clock.advance(HOUR);
    await servers[0]?.look();
    stopped.abort();
    await watching;
    for (let look = 0; look < 6; look += 1) await pass(1_000);
    expect((await history(schedule_id)).map(({ phase }) => phase)).toEqual(["completed"]);
    expect(model.requests).toHaveLength(1);
  });
});
