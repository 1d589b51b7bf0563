import type { Message } from "@rkat/core/contract/message";
import { createInMemoryStore, createRuntime, type Runtime } from "@rkat/core/create-runtime";
import type { Tool } from "@rkat/core/ports/tool";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";
import { foldSession } from "@rkat/core/state/whole-state";
import { describe, expect, it, vi } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { createFastClock } from "../support/fast-clock.ts";
import { killableStore } from "../support/killable-store.ts";
import { testSeed } from "../support/seed.ts";

const SCHEDULES = byEffort({ usual: 200, full: 5_000 });
const PROCESSES = 3;
const FAULTS_MAX = 4;

/** Look, pay, check if the payment is unknown, pay again if it was not made, then report. */
function answerTo(messages: readonly Message[]): ScriptedStep {
  const last = messages.at(-1);
  const content = last?.role === "tool_results" ? String(last.results[0]?.content) : "";
  if (last?.role === "user") return { calls: [{ name: "look" }] };
  if (content.startsWith("an order")) return { calls: [{ name: "pay" }] };
  if (content.startsWith("unknown")) return { calls: [{ name: "check" }] };
  if (content === "not paid") return { calls: [{ name: "pay" }] };
  return { text: ["The order ", "is paid."] };
}

interface World {
  readonly payments: string[];
  readonly looks: number[];
}

function toolsOf({ payments, looks }: World, pause: () => Promise<void>): readonly Tool[] {
  const tool = (name: string, effects: Tool["effects"], execute: Tool["execute"]): Tool => ({
    name,
    description: name,
    inputSchema: { type: "object" },
    ...(effects === undefined ? {} : { effects }),
    execute,
  });
  return [
    tool("look", "idempotent", async () => {
      looks.push(1);
      await pause();
      return "an order of 7 dollars";
    }),
    tool("pay", undefined, async (_args, { effectId }) => {
      await pause();
      payments.push(effectId);
      await pause();
      return "paid";
    }),
    tool("check", "none", async () => (payments.length > 0 ? "paid" : "not paid")),
  ];
}

/** One turn, three processes, and a few faults at random moments; resolves with the log of the session. */
async function runSchedule(seed: number) {
  const random = createRandom(seed);
  const below = (most: number) => Math.floor(random() * most);
  const clock = createFastClock();
  const shared = createInMemoryStore({ now: clock.now });
  const world: World = { payments: [], looks: [] };
  const never = new AbortController().signal;
  const sleep = () => clock.sleep(below(400), never);
  const start = () => {
    const { store, ...faults } = killableStore(shared);
    const model = createScriptedModel(({ messages }) => answerTo(messages));
    const runtime: Runtime = createRuntime({
      model: {
        ...model,
        stream: async function* (request, signal) {
          await sleep();
          yield* model.stream(request, signal);
        },
      },
      clock,
      env: {},
      store,
      tools: toolsOf(world, sleep),
      resumeTurns: true,
    });
    return { runtime, ...faults };
  };
  const processes = Array.from({ length: PROCESSES }, start);
  const [first] = processes;
  if (first === undefined) throw new Error("there is no process");
  const session = await first.runtime.createSession();
  void session.turn("Pay the order.").catch(() => {});
  await vi.waitFor(async () => expect((await shared.sessions.get(session.id))?.message_count).toBeGreaterThan(0));
  const log: string[] = [];
  const dead = new Set<number>();
  const healing: (() => void)[] = [];
  for (let fault = 0; fault < below(FAULTS_MAX + 1); fault += 1) {
    await clock.sleep(below(2_500), never);
    const at = below(PROCESSES);
    const one = processes[at];
    if (one === undefined || dead.has(at)) continue;
    const kind = below(4);
    log.push(`${["kill", "pause", "lose", "stop"][kind]} ${at}`);
    if (kind === 0) {
      dead.add(at);
      await one.kill();
    } else if (kind === 1) healing.push(await one.pause());
    else if (kind === 2) healing.push(one.lose());
    else {
      dead.add(at);
      await one.runtime.close();
    }
    if (below(2) === 0) for (const heal of healing.splice(0)) heal();
  }
  for (const heal of healing) heal();
  const last = start();
  for (let waited = 0; (await shared.sessions.get(session.id))?.has_open_turn !== false; waited += 1) {
    if (waited > 2_000) throw new Error(`seed ${seed}: the turn has not ended after ${log.join(", ")}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await Promise.all([last, ...processes.filter((_, at) => !dead.has(at))].map(({ runtime }) => runtime.close()));
  const entries = await shared.log.read(session.id, 1, Number.MAX_SAFE_INTEGER);
  return { entries, world, log, sessionId: session.id };
}

describe("processes that crash, stand still, lose their store and stop", () => {
  it(`[P1] [P2] in ${SCHEDULES} random schedules a turn ends exactly once, and its log explains each step`, async () => {
    const seed = testSeed();
    for (let schedule = 0; schedule < SCHEDULES; schedule += 1) {
      const { entries, world, log, sessionId } = await runSchedule(seed + schedule);
      const bodies = entries.map(({ body }) => body);
      const kinds = bodies.map(({ kind }) => kind);
      const label = `seed ${seed + schedule}: ${log.join(", ")}; the log says ${kinds.join(", ")}`;
      expect(
        kinds.filter((kind) => kind === "turn_closed"),
        label,
      ).toHaveLength(1);
      expect(
        kinds.filter((kind) => kind === "turn_opened"),
        label,
      ).toHaveLength(1);
      // A payment that the model was told nothing certain about is checked before it is made again.
      expect(new Set(world.payments).size, label).toBe(world.payments.length);
      const unknown = bodies.filter(
        (body) => body.kind === "tool_results" && String(body.message.results[0]?.content).startsWith("unknown"),
      );
      expect(world.payments.length, label).toBeLessThanOrEqual(1 + unknown.length);
      // Attempts count up, one at a time, and a released turn does not count.
      let attempt = 1;
      let isReleased = false;
      for (const body of bodies) {
        if (body.kind === "turn_released") isReleased = true;
        if (body.kind !== "turn_adopted") continue;
        expect(body, label).toMatchObject({ reason: isReleased ? "released" : "process_ended" });
        attempt += isReleased ? 0 : 1;
        isReleased = false;
        expect(body.attempt, label).toBe(attempt);
      }
      expect(foldSession(sessionId, entries), label).toMatchObject({ isTurnOpen: false, openCalls: [] });
    }
  }, 900_000);
});
