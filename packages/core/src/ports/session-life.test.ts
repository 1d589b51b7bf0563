import { describe, expect, it } from "vitest";
import { configWith, scriptedRuntime } from "../../../../test/support/runtime.ts";
import { createInMemoryStore } from "../create-runtime.ts";
import type { Store } from "./store.ts";
import type { Tool } from "./tool.ts";

describe("a session's life", () => {
  it("[F10] any call's context is read back exactly as the model saw it, proven by the hash kept with the call", async () => {
    const store = createInMemoryStore();
    const echo: Tool = { name: "echo", description: "", inputSchema: {}, execute: () => "said" };
    const { runtime, model } = scriptedRuntime(
      (_, index) => (index % 2 === 0 ? { text: "hm", calls: [{ name: "echo" }] } : { text: `answer ${index}` }),
      { store, tools: [echo], systemPrompt: "Be brief." },
    );
    const session = await runtime.createSession("One.");
    for (const prompt of ["Two.", "Three."]) await session.turn(prompt);
    const calls = (await store.log.read(session.id, 1, 1_000)).flatMap(({ seq, body }) =>
      body.kind === "model_called" ? [{ seq, sha256: body.context_sha256 }] : [],
    );
    expect(calls).toHaveLength(model.requests.length);
    // A process that has never seen the session.
    const after = scriptedRuntime([], { store });
    for (const [index, { seq, sha256 }] of calls.entries()) {
      const context = await after.runtime.dispatch("readContext", { session_id: session.id, at_seq: seq });
      expect(context.sha256).toBe(sha256);
      const messages = context.messages.map(({ seq: _, ...message }) => message);
      expect(messages).toEqual(model.requests[index]?.messages);
    }
    const now = await runtime.dispatch("readContext", { session_id: session.id });
    expect(now.parts.map((part) => part.kind)).toEqual(["system", "turn", "turn", "turn"]);
    await expect(runtime.dispatch("readContext", { session_id: session.id, at_seq: 1 })).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: expect.stringMatching(/^at_seq: no model call was made at 1; the call before it is at \d+$/),
    });
  });

  it("[F10] a fork has the messages before the index and goes its own way", async () => {
    const { runtime, model } = scriptedRuntime((_, index) => ({ text: `answer ${index}` }), {
      store: createInMemoryStore(),
    });
    const session = await runtime.createSession("One.", { systemPrompt: "Be brief.", labels: { team: "a" } });
    await session.turn("Two.");
    const fork = await runtime.dispatch("forkSession", { session_id: session.id, message_index: 3 });
    expect(fork).toMatchObject({ source_session_id: session.id, message_count: 3 });
    await runtime.session(fork.session_id).turn("Otherwise.");
    expect(model.requests.at(-1)?.messages).toMatchObject([
      { role: "system", content: "Be brief." },
      { role: "user", content: "One." },
      { role: "block_assistant" },
      { role: "user", content: "Otherwise." },
    ]);
    expect((await session.history()).messageCount).toBe(5);
    expect(await runtime.readSession(fork.session_id)).toMatchObject({ labels: { team: "a" }, model: "scripted" });
    const beyond = runtime.dispatch("forkSession", { session_id: session.id, message_index: 6 });
    await expect(beyond).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: expect.stringContaining("5 messages"),
    });
  });

  it("an injected text is shown from the next call on; the same key adds nothing, another text under it is refused", async () => {
    const { runtime, model } = scriptedRuntime(() => ({ text: "ok" }), { store: createInMemoryStore() });
    const session = await runtime.createSession("One.");
    const text = "The build is red.";
    const inject = (more: object) => runtime.dispatch("injectContext", { session_id: session.id, text, ...more });
    expect(await inject({ idempotency_key: "k" })).toEqual({ status: "staged" });
    expect(await inject({ idempotency_key: "k" })).toEqual({ status: "duplicate" });
    await expect(inject({ idempotency_key: "k", text: "other" })).rejects.toMatchObject({ code: "INVALID_PARAMS" });
    await session.turn("Two.");
    expect(model.requests[1]?.messages.slice(2)).toMatchObject([
      { role: "system_notice", kind: "context", body: text },
      { role: "user", content: "Two." },
    ]);
  });

  it("a text injected while tools run is kept at once and never stands between a call and its result", async () => {
    const started = Promise.withResolvers<void>();
    const finish = Promise.withResolvers<void>();
    const slow: Tool = {
      name: "slow",
      description: "",
      inputSchema: {},
      execute: async () => {
        started.resolve();
        await finish.promise;
        return "done";
      },
    };
    const { runtime, model } = scriptedRuntime([{ calls: [{ name: "slow" }] }, { text: "ok" }], {
      store: createInMemoryStore(),
      tools: [slow],
    });
    const session = await runtime.createDeferredSession("Begin.");
    const turn = session.turn("Go.");
    await started.promise;
    const text = "Hurry up.";
    expect(await runtime.dispatch("injectContext", { session_id: session.id, text })).toEqual({ status: "staged" });
    finish.resolve();
    await turn;
    expect(model.requests[1]?.messages.map((message) => message.role)).toEqual([
      "user",
      "block_assistant",
      "tool_results",
      "system_notice",
    ]);
    expect((await session.history()).messages.map((message) => message.role)).toEqual([
      "user",
      "block_assistant",
      "tool_results",
      "system_notice",
      "block_assistant",
    ]);
  });

  it("[A6] [F5] a turn cut off by the end of its process is shown, closed by the next one, and loses nothing", async () => {
    const store = createInMemoryStore();
    const before = scriptedRuntime([{ text: "so far", ends: "silent" }], { store });
    const session = await before.runtime.createDeferredSession("Begin.", { budgetLimits: { max_tokens: 500 } });
    void session.turn("Go.").catch(() => {});
    await new Promise((resolve) => setImmediate(resolve));
    const found = createInMemoryStore();
    await found.log.append(session.id, 0, await store.log.read(session.id, 1, 100));
    const { runtime, model } = scriptedRuntime([{ text: "back again" }], { store: found });
    expect(await runtime.readSession(session.id)).toMatchObject({ state: "interrupted", isActive: false });
    await runtime.session(session.id).turn("Go on.");
    expect(await runtime.readSession(session.id)).toMatchObject({ state: "idle" });
    const { events } = await runtime.dispatch("listEvents", { scope: { type: "session", session_id: session.id } });
    expect(events.map(({ payload }) => payload.type)).toEqual([
      "run_started",
      "turn_started",
      "run_failed",
      "run_started",
      "turn_started",
      "text_complete",
      "turn_completed",
      "run_completed",
    ]);
    expect(model.requests[0]?.messages).toMatchObject([{ content: "Begin.\n\nGo." }, { content: "Go on." }]);
  });

  it("[F4] what a caller does to a history or a context it read does not change the session", async () => {
    const { runtime } = scriptedRuntime([{ text: "one" }], { store: createInMemoryStore() });
    const session = await runtime.createSession("First.");
    const history = await session.history();
    const before = structuredClone(history);
    for (const message of history.messages) {
      if (message.role === "block_assistant") message.blocks.length = 0;
      message.created_at = "never";
    }
    const context = await runtime.dispatch("readContext", { session_id: session.id });
    for (const message of context.messages) if (message.role === "block_assistant") message.blocks.length = 0;
    expect(await session.history()).toEqual(before);
  });

  it("[F5] closing the runtime interrupts its turns and waits for them before the store is closed", async () => {
    const store = createInMemoryStore();
    let isClosed = false;
    const close = async (): Promise<void> => {
      isClosed = true;
    };
    const append: Store["log"]["append"] = (...args) => {
      expect(isClosed).toBe(false);
      return store.log.append(...args);
    };
    const { runtime } = scriptedRuntime([{ text: "so far", ends: "silent" }], {
      store: { ...store, log: { ...store.log, append }, close },
    });
    const session = await runtime.createDeferredSession("Begin.");
    const turn = session.turn("Go.");
    const refused = expect(turn).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
    await new Promise((resolve) => setImmediate(resolve));
    await runtime.close();
    await refused;
    expect(isClosed).toBe(true);
    expect((await store.log.read(session.id, 1, 100)).at(-1)?.body.kind).toBe("turn_closed");
  });

  it("[H5] closing does not wait for ever for a turn that does not end", async () => {
    const stuck: Tool = { name: "stuck", description: "", inputSchema: {}, execute: () => new Promise(() => {}) };
    const store = createInMemoryStore();
    const interrupt = async (): Promise<void> => {};
    const { runtime } = scriptedRuntime([{ calls: [{ name: "stuck" }] }], {
      store: { ...store, locks: { ...store.locks, interrupt } },
      tools: [stuck],
    });
    const session = await runtime.createDeferredSession("Begin.");
    void session.turn("Go.").catch(() => {});
    await new Promise((resolve) => setImmediate(resolve));
    await runtime.close();
    await runtime.close();
  });

  it("[H1] a signal that was aborted before the call creates nothing and says nothing", async () => {
    const store = createInMemoryStore();
    const { runtime } = scriptedRuntime([], { store });
    const signal = AbortSignal.abort();
    const refused = { code: "REQUEST_CANCELLED" };
    await expect(runtime.createSession("Go.", { signal })).rejects.toMatchObject(refused);
    expect(await runtime.listSessions()).toEqual([]);
    const session = await runtime.createDeferredSession("Begin.");
    await expect(session.turn("Go.", { signal })).rejects.toMatchObject(refused);
    expect((await store.log.read(session.id, 1, 100)).map(({ body }) => body.kind)).toEqual(["session_created"]);
  });

  it("[H5] a session that runs is never let go, and creating many at once keeps the limit", async () => {
    const config = configWith({ limits: { max_sessions: 2 } });
    const { runtime } = scriptedRuntime(() => ({ ends: "silent" }), { config, store: createInMemoryStore() });
    const first = await runtime.createDeferredSession("Begin.");
    const turn = first.turn("Go.");
    await new Promise((resolve) => setImmediate(resolve));
    for (let made = 0; made < 3; made += 1) await runtime.createDeferredSession("Another.");
    // Still the same session: the text is staged for the turn that runs.
    const staged = await runtime.dispatch("injectContext", { session_id: first.id, text: "Hurry." });
    expect(staged).toEqual({ status: "staged" });
    await first.interrupt();
    await expect(turn).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });

    const unstored = scriptedRuntime([], { config });
    const made = await Promise.allSettled(
      Array.from({ length: 5 }, () => unstored.runtime.createDeferredSession("Begin.")),
    );
    expect(made.filter(({ status }) => status === "fulfilled")).toHaveLength(2);
  });

  it("[F8] a turn appends what it adds, however long the session is", async () => {
    const store = createInMemoryStore();
    const { runtime } = scriptedRuntime(() => ({ text: "The same answer every time." }), { store });
    const session = await runtime.createSession("The same question every time.");
    const sizes: number[] = [];
    for (let turn = 0; turn < 200; turn += 1) {
      const { last_seq } = (await store.sessions.get(session.id)) ?? { last_seq: 0 };
      await session.turn("The same question every time.");
      sizes.push(JSON.stringify(await store.log.read(session.id, last_seq + 1, 100)).length);
    }
    // Only the digits of seqs and token counts grow.
    expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThan(60);
  });
});
