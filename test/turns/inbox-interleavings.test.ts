import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Message } from "@rkat/core/contract/message";
import { createInMemoryStore, createRuntime } from "@rkat/core/create-runtime";
import type { Store } from "@rkat/core/ports/store";
import type { Tool } from "@rkat/core/ports/tool";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { describe, expect, it, onTestFinished } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { createFastClock } from "../support/fast-clock.ts";
import { killableStore } from "../support/killable-store.ts";
import { testSeed } from "../support/seed.ts";

const INTERLEAVINGS = byEffort({ quick: 5, usual: 100, full: 1_000 });
const SENDERS = 3;
const MESSAGES = 8;

/** Every prompt calls a tool once, then is answered. */
function answerTo({ messages }: { readonly messages: readonly Message[] }): ScriptedStep {
  return messages.at(-1)?.role === "user" ? { calls: [{ name: "work" }] } : { text: "done" };
}

/** Two processes of a realm, senders in both, and one kill; resolves with what was acknowledged and what was delivered. */
async function interleave(seed: number, open: () => Promise<Store>) {
  const random = createRandom(seed);
  const below = (most: number) => Math.floor(random() * most);
  const clock = createFastClock();
  const never = new AbortController().signal;
  const pause = (ms: number) => clock.sleep(below(ms), never);
  const shared = await open();
  const start = async () => {
    const opened = await open();
    const { store, kill } = killableStore(opened);
    const work: Tool = {
      name: "work",
      description: "Works.",
      inputSchema: { type: "object" },
      effects: "none",
      execute: async () => {
        await pause(300);
        return "worked";
      },
    };
    const model = createScriptedModel(answerTo);
    const runtime = createRuntime({ model, clock, env: {}, store, tools: [work], resumeTurns: true });
    return { runtime, kill };
  };
  const [one, two] = [await start(), await start()];
  const { id } = await one.runtime.createSession();
  const ways = ["queue", "queue", "steer", "interrupt"] as const;
  const sent: { readonly sender: number; readonly prompt: string; readonly way: string }[] = [];
  const first = one.runtime.session(id).turn("begin");
  first.catch(() => {});
  const send = async (sender: number): Promise<void> => {
    const { runtime } = below(2) === 0 ? one : two;
    for (let number = 0; number < MESSAGES / SENDERS; number += 1) {
      const way = ways[below(ways.length)] ?? "queue";
      const prompt = `${sender}.${number}`;
      const turn = { isOver: false };
      const over = () => {
        turn.isOver = true;
      };
      runtime.session(id).turn(prompt, { whenBusy: way }).then(over, over);
      // Sent: it is in the log, as a message that waits or as a turn.
      while (!turn.isOver && !(await isIn(shared, id, prompt))) await pause(100);
      if (await isIn(shared, id, prompt)) sent.push({ sender, prompt, way });
      await pause(200);
    }
  };
  const senders = Promise.allSettled(Array.from({ length: SENDERS }, (_, sender) => send(sender)));
  const dying = below(2) === 0;
  await pause(1_500);
  if (dying) await one.kill();
  await Promise.race([senders, clock.sleep(20_000, never)]);
  const last = await start();
  for (let waited = 0; ; waited += 1) {
    const row = await shared.sessions.get(id);
    if (row?.has_open_turn === false && (row.queued ?? 0) === 0 && !(await shared.locks.isHeld(id))) break;
    if (waited > 4_000) throw new Error(`seed ${seed}: ${JSON.stringify(row)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await Promise.all([two, last, ...(dying ? [] : [one])].map(({ runtime }) => runtime.close()));
  const entries = await shared.log.read(id, 1, Number.MAX_SAFE_INTEGER);
  const delivered = entries.flatMap(({ body }) => {
    if (body.kind !== "turn_opened" && body.kind !== "message_delivered") return [];
    return body.message.role === "user" ? [String(body.message.content)] : [];
  });
  return { sent, delivered };
}

async function isIn({ log }: Store, id: string, prompt: string): Promise<boolean> {
  const entries = await log.read(id, 1, Number.MAX_SAFE_INTEGER);
  return entries.some(({ body }) => {
    if (body.kind !== "message_queued" && body.kind !== "turn_opened") return false;
    return body.message.role === "user" && body.message.content === prompt;
  });
}

function inMemory(): () => Promise<Store> {
  const store = createInMemoryStore();
  return async () => store;
}

/** Stores of one folder, as processes open them. */
function inFolder(): () => Promise<Store> {
  const folder = mkdtempSync(join(tmpdir(), "rkat-inbox-"));
  const opened: Store[] = [];
  onTestFinished(async () => {
    for (const store of opened) await store.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return async () => {
    const store = await openEmbeddedStore(folder);
    opened.push(store);
    return store;
  };
}

describe(`${INTERLEAVINGS} interleavings of senders, steers, interrupts and a kill`, () => {
  const claim = "loses no acknowledged message, delivers none twice, and keeps the order of a sender's queued ones";
  it.each(["in memory", "in a folder"])(
    `[Q1] ${claim}, %s`,
    async (where) => {
      const seed = testSeed();
      for (let at = 0; at < INTERLEAVINGS; at += 1) {
        const { sent, delivered } = await interleave(seed + at, where === "in memory" ? inMemory() : inFolder());
        const context = `seed ${seed + at}: ${JSON.stringify({ sent, delivered })}`;
        expect(new Set(delivered).size, context).toBe(delivered.length);
        expect(
          sent.map(({ prompt }) => prompt).filter((prompt) => !delivered.includes(prompt)),
          context,
        ).toEqual([]);
        for (let sender = 0; sender < SENDERS; sender += 1) {
          const queued = sent.filter((one) => one.sender === sender && one.way === "queue").map(({ prompt }) => prompt);
          expect(
            delivered.filter((prompt) => queued.includes(prompt)),
            context,
          ).toEqual(queued);
        }
      }
    },
    3_600_000,
  );
});
