import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Message } from "@rkat/core/contract/message";
import { createInMemoryStore, createRuntime, type Runtime } from "@rkat/core/create-runtime";
import type { Store } from "@rkat/core/ports/store";
import type { Tool } from "@rkat/core/ports/tool";
import { createScriptedModel, type ScriptedStep } from "@rkat/core/providers/scripted";
import { openEmbeddedStore } from "@rkat/node/open-runtime";
import { describe, expect, it } from "vitest";
import { createRandom } from "../crash/random.ts";
import { byEffort } from "../support/effort.ts";
import { createFastClock } from "../support/fast-clock.ts";
import { killableStore } from "../support/killable-store.ts";
import { databaseFor, withPostgres } from "../support/postgres.ts";
import { openPostgresStore } from "../support/postgres-store.ts";
import { testSeed } from "../support/seed.ts";

const INTERLEAVINGS = byEffort({ quick: 5, usual: 1_000, full: 10_000 });
const AT_ONCE = 6;
const SENDERS = 3;
const MESSAGES = 8;
const REMOVALS = 3;
const WAYS = ["queue", "queue", "steer", "interrupt"] as const;
/** Most interleavings lose one of their two servers; in the others both live to the end. */
const FATES = ["lives", "killed", "killed", "stopped", "away"] as const;

/** Where the servers of an interleaving keep their sessions. */
interface Place {
  /** The store, as a process opens it. */
  open(): Promise<Store>;
  remove(): Promise<void>;
}

/** Every prompt calls a tool once, then is answered. */
function answerTo({ messages }: { readonly messages: readonly Message[] }): ScriptedStep {
  return messages.at(-1)?.role === "user" ? { calls: [{ name: "work" }] } : { text: "done" };
}

const isOver = (promise: Promise<unknown>) => {
  const over = { isOver: false };
  const end = () => {
    over.isOver = true;
  };
  promise.then(end, end);
  return over;
};

/** Two servers of a realm, senders and removals at both, and a fault; resolves with what was promised and what the log has. */
async function interleave(seed: number, open: Place["open"]) {
  const random = createRandom(seed);
  const below = (most: number) => Math.floor(random() * most);
  const clock = createFastClock();
  const never = new AbortController().signal;
  const pause = (ms: number) => clock.sleep(below(ms), never);
  const shared = await open();
  const start = async () => {
    const { store, ...faults } = killableStore(await open());
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
    const runtime: Runtime = createRuntime({ model, clock, env: {}, store, tools: [work], resumeTurns: true });
    return { runtime, ...faults };
  };
  const [one, two] = [await start(), await start()];
  const { id } = await one.runtime.createSession();
  const anywhere = () => (below(2) === 0 ? one : two).runtime.session(id);
  const read = () => shared.log.read(id, 1, Number.MAX_SAFE_INTEGER);
  const isIn = async (prompt: string): Promise<boolean> =>
    (await read()).some(
      ({ body }) =>
        (body.kind === "message_queued" || body.kind === "turn_opened") && promptOf(body.message) === prompt,
    );

  let isEnding = false;
  let isKilled = false;
  const sent: { readonly sender: number; readonly prompt: string; readonly way: string }[] = [];
  isOver(one.runtime.session(id).turn("begin"));
  const send = async (sender: number): Promise<void> => {
    for (let number = 0; number < MESSAGES / SENDERS; number += 1) {
      const way = WAYS[below(WAYS.length)] ?? "queue";
      const prompt = `${sender}.${number}`;
      const turn = isOver(anywhere().turn(prompt, { whenBusy: way }));
      // Sent: it is in the log, as a message that waits or as a turn.
      while (!turn.isOver && !(await isIn(prompt))) await pause(100);
      // What arrives later may find every server closed.
      if (!isEnding && (await isIn(prompt)) && !isEnding) sent.push({ sender, prompt, way });
      await pause(200);
    }
  };
  const removals: { readonly prompt: string; answer: "none" | "removed" | "refused" }[] = [];
  const remove = async (): Promise<void> => {
    for (let number = 0; number < REMOVALS; number += 1) {
      await pause(800);
      const { messages } = await anywhere().inbox();
      const message = messages[below(messages.length)];
      if (message === undefined) continue;
      const removal: (typeof removals)[number] = { prompt: message.text, answer: "none" };
      removals.push(removal);
      const removed = () => {
        removal.answer = "removed";
      };
      const refused = (thrown: { readonly code?: string }) => {
        removal.answer = thrown.code === "INVALID_PARAMS" ? "refused" : "none";
      };
      const asked = below(2) === 0 ? one : two;
      const removing = asked.runtime.session(id).removeInboxMessage(message.messageId);
      const answered = removing.then(removed, refused).then(() => {
        // What is dead answers nothing.
        if (isKilled && asked === one) removal.answer = "none";
      });
      await Promise.race([answered, pause(2_000)]);
    }
  };
  const working = Promise.allSettled([...Array.from({ length: SENDERS }, (_, sender) => send(sender)), remove()]);
  const fate = FATES[below(FATES.length)] ?? "lives";
  await pause(1_500);
  isKilled = fate === "killed";
  if (isKilled) await one.kill();
  if (fate === "stopped") await one.runtime.close();
  if (fate === "away") {
    const back = one.lose();
    await pause(500);
    back();
  }
  await Promise.race([working, clock.sleep(60_000, never)]);
  isEnding = true;
  const last = await start();
  for (let waited = 0; ; waited += 1) {
    const row = await shared.sessions.get(id);
    if (row?.has_open_turn === false && (row.queued ?? 0) === 0 && !(await shared.locks.isHeld(id))) break;
    if (waited > 12_000) throw new Error(`seed ${seed}, ${fate}: ${JSON.stringify(row)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  // What is dead never ends its work, but must not go on looking for more.
  if (isKilled) one.runtime.close().catch(() => {});
  const ended = ["killed", "stopped"].includes(fate) ? [] : [one];
  await Promise.all([two, last, ...ended].map(({ runtime }) => runtime.close()));
  const bodies = (await read()).map(({ body }) => body);
  const promptOfId = new Map(
    bodies.flatMap((body) => (body.kind === "message_queued" ? [[body.id, promptOf(body.message)] as const] : [])),
  );
  return {
    ...{ fate, sent, removals },
    queued: bodies.flatMap((body) =>
      body.kind === "message_queued" && body.when_busy === "queue" ? [promptOf(body.message)] : [],
    ),
    removed: bodies.flatMap((body) => (body.kind === "message_removed" ? [promptOfId.get(body.id) ?? ""] : [])),
    delivered: bodies.flatMap((body) =>
      body.kind === "turn_opened" || body.kind === "message_delivered" ? [promptOf(body.message)] : [],
    ),
  };
}

function promptOf(message: Message): string {
  return message.role === "user" ? String(message.content) : message.role;
}

function expectPromisesKept(seed: number, ended: Awaited<ReturnType<typeof interleave>>): void {
  const { sent, removals, queued, removed, delivered } = ended;
  const context = `seed ${seed}: ${JSON.stringify(ended)}`;
  const isDelivered = (prompt: string) => delivered.includes(prompt);
  expect(new Set(delivered).size, context).toBe(delivered.length);
  // Each acknowledged message was delivered, unless a removal took it.
  const lost = sent.filter(({ prompt }) => !isDelivered(prompt) && !removed.includes(prompt));
  expect(lost, context).toEqual([]);
  expect(removed.filter(isDelivered), context).toEqual([]);
  expect(
    removed.filter((prompt) => !removals.some((one) => one.prompt === prompt)),
    context,
  ).toEqual([]);
  for (const { prompt, answer } of removals) {
    if (answer === "removed") expect(removed, context).toContain(prompt);
    if (answer === "refused") expect(delivered, context).toContain(prompt);
  }
  // What is queued keeps the order of the log, and so that of each sender.
  expect(
    delivered.filter((prompt) => queued.includes(prompt)),
    context,
  ).toEqual(queued.filter(isDelivered));
  for (let sender = 0; sender < SENDERS; sender += 1) {
    const own = sent.filter((one) => one.sender === sender && one.way === "queue").map(({ prompt }) => prompt);
    expect(
      delivered.filter((prompt) => own.includes(prompt)),
      context,
    ).toEqual(own.filter(isDelivered));
  }
}

function inMemory(): Place {
  const store = createInMemoryStore();
  return { open: async () => store, remove: async () => {} };
}

/** A place whose stores are closed with it. */
function placeOf(open: Place["open"], remove: () => void): Place {
  const opened: Store[] = [];
  return {
    open: async () => {
      const store = await open();
      opened.push(store);
      return store;
    },
    remove: async () => {
      for (const store of opened) await store.close();
      remove();
    },
  };
}

function inFolder(): Place {
  const folder = mkdtempSync(join(tmpdir(), "rkat-inbox-"));
  return placeOf(
    () => openEmbeddedStore(folder),
    () => rmSync(folder, { recursive: true, force: true }),
  );
}

/** Runs all interleavings, some at once: most of one is waiting. */
async function interleaveAll(placeFor: (seed: number) => Place): Promise<void> {
  const seeds = Array.from({ length: INTERLEAVINGS }, (_, at) => testSeed() + at).values();
  const run = async (): Promise<void> => {
    for (const seed of seeds) {
      const place = placeFor(seed);
      try {
        expectPromisesKept(seed, await interleave(seed, place.open));
      } finally {
        await place.remove();
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, run));
}

const CLAIM =
  "loses no acknowledged message, delivers none twice and none that was removed, and keeps the order of what is queued";

describe(`${INTERLEAVINGS} interleavings of senders, steers, interrupts, removals and a fault of one of two servers`, () => {
  it(`[Q1] ${CLAIM}, in memory`, () => interleaveAll(inMemory), 7_200_000);

  it(`[Q1] ${CLAIM}, in a folder`, () => interleaveAll(inFolder), 7_200_000);
});

withPostgres(`${INTERLEAVINGS} interleavings in a database`, () => {
  it(`[Q1] ${CLAIM}, in a database`, async () => {
    const url = await databaseFor("inboxes");
    // Connections are kept for later interleavings: to open them takes longer than one of these.
    const opened: Store[][] = [];
    await interleaveAll((seed) => {
      const stores = opened.pop() ?? [];
      let at = 0;
      const open = async (): Promise<Store> => {
        const number = at;
        at += 1;
        const store = stores[number] ?? (await openPostgresStore({ url, realm: `r${seed}`, poolMax: 3 }));
        stores[number] = store;
        return store;
      };
      return { open, remove: async () => void opened.push(stores) };
    });
    for (const store of opened.flat()) await store.close();
  }, 7_200_000);
});
