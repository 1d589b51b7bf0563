import type { EntryBody } from "@rkat/core/contract/entry";
import { asRuntimeError } from "@rkat/core/contract/error";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import type { Store } from "@rkat/core/ports/store";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { contentText } from "@rkat/core/turn/tokens";
import { describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { configWith } from "../support/runtime.ts";
import { testSeed } from "../support/seed.ts";
import { foresee, planHooks } from "./schedule.ts";

const SCHEDULES = byEffort({ quick: 30, usual: 120, full: 1_000 });
/** Schedules that run side by side. */
const LANES = 4;
const FIRST_SEED = testSeed();

/** A turn of two calls and an answer, under hooks that a seed decides. */
async function live(seed: number) {
  const hooks = planHooks(createRandom(seed));
  const store = createInMemoryStore();
  const effects: number[] = [];
  const model = createScriptedModel((_request, index) =>
    index === 0
      ? { text: "Marking.", calls: [1, 2].map((n) => ({ id: `call-${n}`, name: "mark", args: { n } })) }
      : { text: "Done." },
  );
  const runtime = createRuntime({
    model,
    store,
    env: process.env,
    hooks: hooks.flatMap(({ own }) => own ?? []),
    config: configWith({ hooks: { entries: hooks.flatMap(({ entry }) => entry ?? []) } }),
    tools: [
      {
        name: "mark",
        description: "Marks a number.",
        inputSchema: { type: "object", properties: { n: { type: "number" } } },
        execute: ({ n }) => {
          effects.push(Number(n));
          return `marked ${n}`;
        },
      },
    ],
  });
  let code: string | undefined;
  try {
    await runtime.dispatch("createSession", { prompt: "Mark one and two." });
  } catch (thrown) {
    code = asRuntimeError(thrown).code;
  }
  await runtime.close();
  const [row] = await store.sessions.page({ max: 1 });
  if (row === undefined) throw new Error("there is no session");
  return { hooks, store, sessionId: row.session_id, code, effects: effects.toSorted((a, b) => a - b) };
}

async function logOf(store: Store, sessionId: string): Promise<readonly EntryBody[]> {
  return (await store.log.read(sessionId, 0, 1_000)).map(({ body }) => body);
}

function readLog(bodies: readonly EntryBody[]) {
  const kept = bodies.flatMap((body) => {
    if (body.kind !== "event" || !("hook_id" in body.event)) return [];
    return [`${body.event.type} ${body.event.hook_id} ${body.event.point}`];
  });
  const results = bodies.flatMap((body) => (body.kind === "tool_results" ? body.message.results : []));
  const calls = bodies.flatMap((body) =>
    body.kind === "assistant"
      ? body.message.blocks.flatMap((block) => (block.block_type === "tool_use" ? [block.data] : []))
      : [],
  );
  const end = bodies.flatMap((body) => (body.kind === "turn_closed" ? [body.end] : []));
  return { kept: kept.toSorted(), results, calls, end };
}

async function judge(seed: number): Promise<void> {
  const { hooks, store, sessionId, code, effects } = await live(seed);
  const bodies = await logOf(store, sessionId);
  const { kept, results, calls, end } = readLog(bodies);
  const must = foresee(hooks);
  const reported = results.map(({ content }) => contentText(content).replace(/^(denied by hook \w+:).*$/s, "$1"));
  const [{ status, cause } = { status: "none", cause: undefined }] = end;
  const got = {
    seed,
    kept,
    effects,
    results: calls.length === 0 ? undefined : reported,
    ends: end.length,
    status,
    cause,
    code,
  };
  expect(got).toEqual({
    seed,
    kept: must.kept,
    effects: [...must.effects].sort((a, b) => a - b),
    results: must.results,
    ends: 1,
    status: must.stoppedAt === undefined ? "completed" : "failed",
    cause: must.cause,
    code: must.stoppedAt === undefined ? undefined : "HOOK_DENIED",
  });
  // The model's own arguments stay what they were, and every call has exactly one result.
  expect(calls.map(({ args }) => args)).toEqual(calls.length === 0 ? [] : [{ n: 1 }, { n: 2 }]);
  expect(results.map(({ tool_use_id }) => tool_use_id)).toEqual(calls.map(({ id }) => id));
  // Whoever reads the log elsewhere goes on with it.
  const model = createScriptedModel([{ text: "And on." }]);
  const elsewhere = createRuntime({ model, store, env: {} });
  const next = await elsewhere.dispatch("startTurn", { session_id: sessionId, prompt: "Go on." });
  expect({ seed, text: next.text }).toEqual({ seed, text: "And on." });
}

describe("schedules", () => {
  it(`[N2] ${SCHEDULES} of slow, failing, lying, flooding and killed hooks end as their policies say`, {
    timeout: 60_000 + SCHEDULES * 2_000,
  }, async () => {
    let next = FIRST_SEED;
    const lane = async (): Promise<void> => {
      for (let seed = next++; seed < FIRST_SEED + SCHEDULES; seed = next++) await judge(seed);
    };
    await Promise.all(Array.from({ length: LANES }, lane));
  });
});
