import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Runtime } from "@rkat/core/create-runtime";
import { openRuntime, verifyStore } from "@rkat/node/open-runtime";
import { afterAll, describe, expect, it } from "vitest";
import { byEffort } from "../support/effort.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { lookFor } from "./look.ts";
import { lookInDatabase } from "./look-in-database.ts";
import { createTalkingModel, embedder, lookUp, OFTEN, plantSecrets, secretFor } from "./planted-secrets.ts";

const SECRETS = byEffort({ usual: 28, full: 1_000 });
const SESSIONS = byEffort({ usual: 6, full: 200 });
const TIMEOUT_MS = byEffort({ usual: 300_000, full: 3_000_000 });
const root = mkdtempSync(join(tmpdir(), "rkat-forget-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const openOn = (place: { readonly stateFolder: string; readonly store?: string }): Promise<Runtime> =>
  openRuntime({
    ...place,
    model: createTalkingModel(),
    compaction: OFTEN,
    memory: { embedder },
    tools: [lookUp],
    toolPreset: "none",
    env: {},
  });

const isForgotten = (number: number): boolean => number % 2 === 0;
const numbers = Array.from({ length: SECRETS }, (_, number) => number);

/** Plants, forgets every second secret, and looks at what is left. */
async function forgetHalf(open: () => Promise<Runtime>) {
  const runtime = await open();
  const placed = await plantSecrets(runtime, { secrets: SECRETS, sessions: SESSIONS });
  await runtime.searchHistory("the code");
  for (const number of numbers.filter(isForgotten)) {
    const { receipt } = await runtime.dispatch("forget", { query_exact: secretFor(number) });
    expect({ number, scan: receipt?.scan }).toMatchObject({ number, scan: { matches: 0, texts: 1 } });
    expect(receipt?.logs.length, `${number} ${placed.get(number)}`).toBeGreaterThan(0);
  }
  const kept: number[] = [];
  for (const number of numbers.filter((one) => !isForgotten(one))) {
    const place = placed.get(number);
    const secret = secretFor(number);
    if (place === "label") {
      const { sessions } = await runtime.dispatch("listSessions", { labels: { [`of-${number}`]: secret } });
      if (sessions.length > 0) kept.push(number);
      continue;
    }
    const { results } = await runtime.dispatch("searchHistory", { query: secret, limit: 20 });
    if (results.some(({ content }) => content.replaceAll("\\", "").includes(secret))) kept.push(number);
  }
  const gone = numbers.filter(isForgotten).map(secretFor);
  for (const secret of gone.slice(0, 5)) {
    const { results } = await runtime.dispatch("searchHistory", { query: secret, limit: 20 });
    expect(results.filter(({ content }) => content.includes(secret))).toEqual([]);
  }
  expect(kept).toEqual(numbers.filter((one) => !isForgotten(one)));
  await undoEverything(runtime, gone);
  const { forgettings, unfinished } = await runtime.dispatch("listForgettings", {});
  expect({ count: forgettings.length, unfinished }).toEqual({ count: gone.length, unfinished: 0 });
  expect(forgettings.every(({ valid }) => valid)).toBe(true);
  await runtime.close();
  return gone;
}

/** Undoing a compaction, and reading every earlier context, brings nothing back and says where something is missing. */
async function undoEverything(runtime: Runtime, gone: readonly string[]): Promise<void> {
  const { sessions } = await runtime.dispatch("listSessions", {});
  let explained = 0;
  for (const { session_id } of sessions) {
    const { events } = await runtime.dispatch("listEvents", { scope: { type: "session", session_id }, limit: 1_000 });
    const calls = events.filter(({ payload }) => payload.type === "turn_started");
    for (const { cursor } of calls) {
      const { forgotten = [], messages } = await runtime.dispatch("readContext", {
        session_id,
        at_seq: cursor.sequence,
      });
      expect(gone.filter((secret) => JSON.stringify(messages).replaceAll("\\", "").includes(secret))).toEqual([]);
      const holes = messages
        .filter((message) => JSON.stringify(message).includes('"[forgotten]"'))
        .map(({ seq }) => seq);
      expect(forgotten).toEqual(expect.arrayContaining([...new Set(holes)]));
      explained += holes.length;
    }
    const { compactions } = await runtime.dispatch("listCompactions", { session_id });
    const [first] = compactions.filter(({ undone }) => !undone);
    if (first !== undefined)
      await runtime.dispatch("undoCompaction", { session_id, compaction_id: first.compaction_id });
    const { messages } = await runtime.dispatch("readContext", { session_id });
    expect(gone.filter((secret) => JSON.stringify(messages).replaceAll("\\", "").includes(secret))).toEqual([]);
  }
  expect(explained).toBeGreaterThan(0);
}

describe("forgetting half of what was told", { timeout: TIMEOUT_MS }, () => {
  it(`[D9] leaves no byte of it in a state folder, and all of the rest: ${SECRETS} secrets in ${SESSIONS} sessions`, async () => {
    const stateFolder = join(root, "folder");
    const gone = await forgetHalf(() => openOn({ stateFolder }));
    expect(lookFor(stateFolder, gone)).toEqual([]);
    const left = numbers.filter((one) => !isForgotten(one)).map(secretFor);
    expect(new Set(lookFor(stateFolder, left).map(({ text }) => text)).size).toBe(left.length);
    expect((await verifyStore(stateFolder)).problems).toEqual([]);
  });
});

withPostgres("forgetting half of what was told, in a database", () => {
  it("[D9] leaves nothing of it in any table, nor in the folder beside it", { timeout: TIMEOUT_MS }, async () => {
    const [store, stateFolder] = [await databaseFor("forget"), join(root, "beside")];
    const gone = await forgetHalf(() => openOn({ stateFolder, store }));
    expect(await lookInDatabase(store, gone)).toEqual([]);
    expect(lookFor(stateFolder, gone)).toEqual([]);
  });
});
