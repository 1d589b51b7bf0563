import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Runtime } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { runLock } from "@rkat/core/schedules/schedules";
import { openRuntime, schedulesIn } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { lookFor } from "./look.ts";
import { lookInDatabase } from "./look-in-database.ts";

const SECRET = "ada.lovelace@example.org";
const SOON = "2999-01-01T00:00:00Z";
const root = mkdtempSync(join(tmpdir(), "rkat-forget-schedules-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const openOn = (place: { readonly stateFolder: string; readonly store?: string }): Promise<Runtime> =>
  openRuntime({ ...place, model: createScriptedModel(() => ({ text: "Done." })), toolPreset: "none", env: {} });

/** Schedules that say the secret in each of their parts, one that said it once, and one that never did. */
async function plant(runtime: Runtime) {
  const make = async (given: object): Promise<string> =>
    (await runtime.dispatch("createSchedule", { prompt: "Look around.", at: SOON, ...given })).schedule_id;
  const target = {
    target_kind: "session",
    type: "new_session",
    create: { system_prompt: `You work for ${SECRET}.` },
    action: { type: "event", event_type: "mail", payload: { [SECRET]: [SECRET] } },
  };
  const saying = await Promise.all([
    make({ prompt: `Write to ${SECRET}.` }),
    make({ name: SECRET }),
    make({ description: `For ${SECRET}.` }),
    make({ labels: { [SECRET]: "x", of: SECRET } }),
    make({ prompt: undefined, target }),
  ]);
  const changed = await make({ prompt: `Write to ${SECRET}.`, name: "changed" });
  await runtime.dispatch("updateSchedule", { schedule_id: changed, prompt: "Write to nobody." });
  return { saying, changed, other: await make({ name: "other" }) };
}

async function forgetSchedules(runtime: Runtime): Promise<void> {
  const { saying, changed, other } = await plant(runtime);
  const preview = await runtime.dispatch("forget", { query_exact: SECRET, dry_run: true });
  const named = preview.logs.map(({ schedule_id }) => schedule_id);
  expect(new Set(named)).toEqual(new Set([...saying, changed]));
  const { receipt } = await runtime.dispatch("forget", { query_exact: SECRET });
  expect(receipt).toMatchObject({ scan: { matches: 0 }, quoted_in: [] });
  expect(receipt?.logs.map((log) => [log.schedule_id, log.all])).toEqual(
    preview.logs.map((log) => [log.schedule_id, log.all]),
  );
  for (const schedule_id of saying) {
    const schedule = await runtime.dispatch("readSchedule", { schedule_id });
    expect(schedule).toMatchObject({ phase: "deleted", phase_reason: "it contained a text that was forgotten" });
    expect(schedule.next_due_at_utc).toBeUndefined();
  }
  const { schedules } = await runtime.dispatch("listSchedules", {});
  expect(schedules.map(({ schedule_id }) => schedule_id).sort()).toEqual([changed, other].sort());
  expect(schedules.find(({ schedule_id }) => schedule_id === changed)).toMatchObject({
    phase: "active",
    target: { action: { prompt: "Write to nobody." } },
  });
  const again = await runtime.dispatch("forget", { query_exact: SECRET, dry_run: true });
  expect(again.logs).toEqual([]);
}

describe("forgetting a text that schedules contain", () => {
  it("[D9] leaves no byte of it in a state folder, and deletes the schedules that would say it again", async () => {
    const stateFolder = join(root, "folder");
    const runtime = await openOn({ stateFolder });
    await forgetSchedules(runtime);
    await runtime.close();
    expect(lookFor(stateFolder, [SECRET])).toEqual([]);
  });

  it("[D9] ends a claimed occurrence, so that no server runs an emptied prompt, and waits for one that runs", async () => {
    const stateFolder = join(root, "claimed");
    const runtime = await openOn({ stateFolder });
    const { schedule_id } = await runtime.dispatch("createSchedule", { prompt: `Write to ${SECRET}.`, at: SOON });
    await runtime.close();
    // As a server that was killed after its claim leaves it.
    const kept = await schedulesIn(stateFolder, { warn: () => {}, seal: undefined }).open();
    const claim = { schedule_revision: 1, occurrence_ordinal: 0, due_ms: 0, phase: "awaiting_completion" } as const;
    const hold = await kept.locks.hold(schedule_id);
    await kept.log.append(schedule_id, 1, [
      { span: 1, body: { kind: "occurrence", occurrence_id: "0c1b", ...claim, failure_detail: SECRET } },
    ]);
    await hold.release();
    const running = await kept.locks.hold(runLock(schedule_id));
    const again = await openOn({ stateFolder });
    const refused = again.dispatch("forget", { query_exact: SECRET });
    await expect(refused).rejects.toMatchObject({ code: "SESSION_BUSY" });
    await running.release();
    await again.dispatch("forget", { query_exact: SECRET });
    const { occurrences } = await again.dispatch("listOccurrences", { schedule_id });
    expect(occurrences).toMatchObject([{ phase: "skipped", occurrence_id: "0c1b" }]);
    expect(await again.dispatch("readSchedule", { schedule_id })).toMatchObject({ phase: "deleted", running: 0 });
    await again.close();
    await kept.close();
    expect(lookFor(stateFolder, [SECRET])).toEqual([]);
  });
});

withPostgres("forgetting a text that schedules of a database contain", () => {
  it("[D9] leaves nothing of it in any table", async () => {
    const [store, stateFolder] = [await databaseFor("forget"), join(root, "beside")];
    const runtime = await openOn({ stateFolder, store });
    await forgetSchedules(runtime);
    await runtime.close();
    expect(await lookInDatabase(store, [SECRET])).toEqual([]);
    expect(lookFor(stateFolder, [SECRET])).toEqual([]);
  });
});
