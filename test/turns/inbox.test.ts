import type { Message } from "@rkat/core/contract/message";
import { createInMemoryStore, type RuntimeOptions } from "@rkat/core/create-runtime";
import type { Store } from "@rkat/core/ports/store";
import type { Tool } from "@rkat/core/ports/tool";
import type { ScriptedStep } from "@rkat/core/providers/scripted";
import { describe, expect, it, vi } from "vitest";
import { createRealm } from "../support/realm.ts";

/** A tool whose calls end when they are told to. */
function gate() {
  const calls: (() => void)[] = [];
  const tool: Tool = {
    name: "wait",
    description: "Waits.",
    inputSchema: { type: "object" },
    execute: (_args, { signal }) =>
      new Promise((resolve) => {
        calls.push(() => resolve("waited"));
        signal.addEventListener("abort", () => resolve("stopped"));
      }),
  };
  return { tool, calls };
}

/** A prompt "wait" calls the tool; every other one is repeated. */
function answerTo({ messages }: { readonly messages: readonly Message[] }): ScriptedStep {
  const last = messages.at(-1);
  if (last?.role === "user" && last.content === "wait") return { calls: [{ name: "wait" }] };
  return { text: `heard ${textOf(last)}` };
}

function textOf(message: Message | undefined): string {
  if (message?.role === "user") return String(message.content);
  if (message?.role === "system_notice") return String(message.body);
  return message?.role ?? "nothing";
}

function createGatedRealm(shared?: Store) {
  const realm = createRealm(undefined, shared);
  const start = (options: RuntimeOptions = {}) => {
    const { tool, calls } = gate();
    return { ...realm.start(answerTo, { tools: [tool], ...options }), calls };
  };
  return { ...realm, start };
}

type Started = ReturnType<ReturnType<typeof createGatedRealm>["start"]>;

/** A session whose turn runs its tool. */
async function busySession({ runtime, calls }: Started) {
  const session = await runtime.createSession();
  const turn = session.turn("wait");
  turn.catch(() => {});
  await vi.waitFor(() => expect(calls).toHaveLength(1));
  return { session, turn };
}

async function promptsIn(store: Store, id: string) {
  const entries = await store.log.read(id, 1, Number.MAX_SAFE_INTEGER);
  return entries.flatMap(({ body }) => {
    if (body.kind === "turn_opened") return [textOf(body.message)];
    return body.kind === "message_delivered" ? [`+ ${textOf(body.message)}`] : [];
  });
}

async function drained(store: Store, id: string) {
  await vi.waitFor(
    async () => expect(await store.sessions.get(id)).toMatchObject({ has_open_turn: false, queued: 0 }),
    { timeout: 10_000, interval: 5 },
  );
}

describe("a session that is busy", () => {
  it("[Q1] rejects a prompt by default", async () => {
    const { start } = createGatedRealm();
    const one = start();
    const { session, turn } = await busySession(one);
    await expect(session.turn("now")).rejects.toMatchObject({ code: "SESSION_BUSY" });
    one.calls[0]?.();
    expect(await turn).toMatchObject({ text: "heard tool_results" });
  });

  it("[Q1] queues prompts, lists them in order, and runs each as its turn when the one before has ended", async () => {
    const { shared, start } = createGatedRealm();
    const one = start();
    const { session, turn } = await busySession(one);
    const first = session.turn("first", { whenBusy: "queue" });
    await vi.waitFor(async () => expect((await session.inbox()).messages).toHaveLength(1));
    const second = session.turn("second", { whenBusy: "queue" });
    await vi.waitFor(async () => {
      expect((await session.inbox()).messages.map(({ text }) => text)).toEqual(["first", "second"]);
    });
    one.calls[0]?.();
    expect(await turn).toMatchObject({ text: "heard tool_results" });
    expect(await first).toMatchObject({ text: "heard first" });
    expect(await second).toMatchObject({ text: "heard second" });
    expect(await promptsIn(shared, session.id)).toEqual(["wait", "first", "second"]);
    await drained(shared, session.id);
  });

  it("[Q1] shows a steering message to the running turn behind the results of its tools, and drops no call", async () => {
    const { shared, start } = createGatedRealm();
    const one = start();
    const { session, turn } = await busySession(one);
    const steer = session.turn("rather left", { whenBusy: "steer" });
    await vi.waitFor(async () => expect((await session.inbox()).messages).toHaveLength(1));
    one.calls[0]?.();
    expect(await turn).toMatchObject({ text: "heard rather left", turns: 2 });
    expect(await steer).toMatchObject({ text: "heard rather left", turns: 2 });
    expect(one.model.requests[1]?.messages.map(({ role }) => role)).toEqual([
      "user",
      "block_assistant",
      "tool_results",
      "user",
    ]);
    expect(await promptsIn(shared, session.id)).toEqual(["wait", "+ rather left"]);
  });

  it("[Q1] ends the running turn for a message that interrupts, and runs that before what was queued", async () => {
    const { shared, start } = createGatedRealm();
    const one = start();
    const { session, turn } = await busySession(one);
    const queued = session.turn("later", { whenBusy: "queue" });
    await vi.waitFor(async () => expect((await session.inbox()).messages).toHaveLength(1));
    const urgent = session.turn("stop", { whenBusy: "interrupt" });
    await expect(turn).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    expect(await urgent).toMatchObject({ text: "heard stop" });
    expect(await queued).toMatchObject({ text: "heard later" });
    expect(await promptsIn(shared, session.id)).toEqual(["wait", "stop", "later"]);
  });

  it("[Q1] lets a message be removed before it reaches the model; its caller is told", async () => {
    const { shared, start } = createGatedRealm();
    const one = start();
    const { session, turn } = await busySession(one);
    const queued = session.turn("never mind", { whenBusy: "queue" });
    queued.catch(() => {});
    await vi.waitFor(async () => expect((await session.inbox()).messages).toHaveLength(1));
    const [message] = (await session.inbox()).messages;
    expect(await session.removeInboxMessage(message?.messageId ?? "")).toMatchObject({ removed: true });
    await expect(queued).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    expect(await session.removeInboxMessage(message?.messageId ?? "")).toMatchObject({ removed: true });
    await expect(session.removeInboxMessage("other")).rejects.toThrow("no message other waits");
    one.calls[0]?.();
    await turn;
    expect(await promptsIn(shared, session.id)).toEqual(["wait"]);
  });

  it("[Q1] does not deliver a message that was removed while its turn was about to begin", async () => {
    const kept = createInMemoryStore();
    const [asked, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let isSlow = false;
    const get: Store["blobs"]["get"] = async (id) => {
      if (isSlow) asked.resolve();
      if (isSlow) await answer.promise;
      return kept.blobs.get(id);
    };
    const { shared, start } = createGatedRealm({ ...kept, blobs: { ...kept.blobs, get } });
    const one = start();
    const { session, turn } = await busySession(one);
    const blob_id = await kept.blobs.put({ mediaType: "image/png", data: new Uint8Array([1]) });
    const image = { type: "image" as const, media_type: "image/png", source: "blob" as const, blob_id };
    const queued = session.turn([image], { whenBusy: "queue" });
    queued.catch(() => {});
    await vi.waitFor(async () => expect((await session.inbox()).messages).toHaveLength(1));
    isSlow = true;
    const [message] = (await session.inbox()).messages;
    one.calls[0]?.();
    await turn;
    await asked.promise;
    expect(await session.removeInboxMessage(message?.messageId ?? "")).toMatchObject({ removed: true });
    isSlow = false;
    answer.resolve();
    await expect(queued).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    expect(await session.turn("next", { whenBusy: "queue" })).toMatchObject({ text: "heard next" });
    expect(await promptsIn(shared, session.id)).toEqual(["wait", "next"]);
  });

  it("[Q1] holds at most 100 messages, and refuses what cannot be kept in its log", async () => {
    const { start } = createGatedRealm();
    const one = start();
    const { session } = await busySession(one);
    const ways = { session_id: session.id, prompt: "x", when_busy: "queue" };
    for (let sent = 0; sent < 100; sent += 1) void one.runtime.dispatch("startTurn", ways).catch(() => {});
    await vi.waitFor(async () => expect((await session.inbox()).messages).toHaveLength(100));
    await expect(one.runtime.dispatch("startTurn", ways)).rejects.toThrow("100 messages wait in session");
    const hooks = { ...ways, hooks_override: { disable: ["x"] } };
    await expect(one.runtime.dispatch("startTurn", hooks)).rejects.toThrow("hooks_override: leave it out");
  });

  it("[Q1] takes the messages of another process, which waits for the end of their turn", async () => {
    const { shared, start } = createGatedRealm();
    const [one, two] = [start(), start()];
    const { session, turn } = await busySession(one);
    const there = two.runtime.session(session.id);
    const steer = there.turn("rather left", { whenBusy: "steer" });
    await vi.waitFor(async () => expect((await session.inbox()).messages).toHaveLength(1));
    const queue = there.turn("then right", { whenBusy: "queue" });
    await vi.waitFor(async () => expect((await session.inbox()).messages).toHaveLength(2));
    one.calls[0]?.();
    expect(await steer).toMatchObject({ text: "heard rather left" });
    expect(await turn).toMatchObject({ text: "heard rather left" });
    expect(await queue).toMatchObject({ text: "heard then right" });
    expect(await promptsIn(shared, session.id)).toEqual(["wait", "+ rather left", "then right"]);
  });

  it("[Q1] leaves its messages to another process when its own is killed", async () => {
    const { shared, start } = createGatedRealm();
    const one = start();
    const { session } = await busySession(one);
    void session.turn("first", { whenBusy: "queue" }).catch(() => {});
    void session.turn("second", { whenBusy: "queue" }).catch(() => {});
    await vi.waitFor(async () => expect((await session.inbox()).messages).toHaveLength(2));
    await one.kill();
    start();
    await drained(shared, session.id);
    expect(await promptsIn(shared, session.id)).toEqual(["wait", "first", "second"]);
  });

  it("[Q1] leaves its messages to another process when its own stops", async () => {
    const { shared, start } = createGatedRealm();
    const one = start();
    const { session } = await busySession(one);
    void session.turn("first", { whenBusy: "queue" }).catch(() => {});
    await vi.waitFor(async () => expect((await session.inbox()).messages).toHaveLength(1));
    await one.runtime.close();
    start();
    await drained(shared, session.id);
    expect(await promptsIn(shared, session.id)).toEqual(["wait", "first"]);
  });

  it("[Q1] gives the same request the same turn while it waits", async () => {
    const { shared, start } = createGatedRealm();
    const one = start();
    const { session } = await busySession(one);
    const options = { whenBusy: "queue", idempotencyKey: "k1" } as const;
    const first = session.turn("once", options);
    await vi.waitFor(async () => expect((await session.inbox()).messages).toHaveLength(1));
    const again = session.turn("once", options);
    one.calls[0]?.();
    expect(await first).toMatchObject({ text: "heard once" });
    expect(await again).toMatchObject({ text: "heard once" });
    expect(await session.turn("once", options)).toMatchObject({ text: "heard once" });
    expect(await promptsIn(shared, session.id)).toEqual(["wait", "once"]);
  });

  it("[Q1] gives its inbox to no fork, and erasing a message reaches the inbox", async () => {
    const { shared, start } = createGatedRealm();
    const one = start();
    const { session } = await busySession(one);
    void session.turn("the secret is 4711", { whenBusy: "queue" }).catch(() => {});
    await vi.waitFor(async () => expect((await session.inbox()).messages).toHaveLength(1));
    await one.kill();
    const two = start({ resumeTurns: false });
    const { session_id } = await two.runtime.dispatch("forkSession", { session_id: session.id, message_index: 1 });
    expect((await two.runtime.dispatch("readInbox", { session_id })).messages).toEqual([]);
    await two.runtime.dispatch("forget", { query_exact: "4711" });
    expect(JSON.stringify(await shared.log.read(session.id, 1, 1_000))).not.toContain("4711");
    await two.runtime.session(session.id).turn("go on");
    await drained(shared, session.id);
    expect(await promptsIn(shared, session.id)).toEqual(["wait", "go on"]);
  });

  it("[Q1] finds a message that another process queued while this one takes the session", async () => {
    const { shared, start } = createGatedRealm();
    let read: PromiseWithResolvers<void> | undefined;
    const slow: Store = {
      ...shared,
      sessions: { ...shared.sessions, get: (id) => Promise.resolve(read?.promise).then(() => shared.sessions.get(id)) },
      locks: {
        ...shared.locks,
        hold: async (id) => {
          const hold = await shared.locks.hold(id);
          read = Promise.withResolvers();
          return hold;
        },
      },
    };
    const [one, two] = [start({ resumeTurns: false }), start({ store: slow, resumeTurns: false })];
    const { session } = await busySession(one);
    const here = two.runtime.session(session.id);
    expect((await here.inbox()).messages).toEqual([]);
    session.turn("later", { whenBusy: "queue" }).catch(() => {});
    await vi.waitFor(async () => expect((await session.inbox()).messages).toHaveLength(1));
    const [message] = (await session.inbox()).messages;
    await one.kill();
    const turn = here.turn("now");
    await vi.waitFor(() => expect(read).toBeDefined());
    const removed = here.removeInboxMessage(message?.messageId ?? "");
    removed.catch(() => {});
    // As far as it comes before what is held is read.
    await new Promise(setImmediate);
    read?.resolve();
    await expect(removed).resolves.toEqual({ removed: true });
    await turn;
  });

  it("[P1] [Q1] leaves no turn behind whose process ended when another was about to take the session", async () => {
    const { shared, start } = createGatedRealm();
    const one = start();
    const { session } = await busySession(one);
    for (const prompt of ["first", "second"]) void session.turn(prompt, { whenBusy: "queue" }).catch(() => {});
    const [message] = await vi.waitFor(async () => {
      const { messages } = await session.inbox();
      expect(messages).toHaveLength(2);
      return messages;
    });
    const hold = async (id: string) => {
      await one.kill();
      return shared.locks.hold(id);
    };
    const two = start({ store: { ...shared, locks: { ...shared.locks, hold } } });
    const asked = { session_id: session.id, message_id: message?.messageId ?? "" };
    await two.runtime.dispatch("removeInboxMessage", asked);
    await drained(shared, session.id);
    expect(await promptsIn(shared, session.id)).toEqual(["wait", "second"]);
  });
});
