import { describe, expect, it } from "vitest";
import { configWith, scriptedRuntime } from "../../../../test/support/runtime.ts";
import { OPERATIONS } from "../contract/operations.ts";
import { CreateSession } from "../contract/session.ts";
import { createInMemoryStore } from "../create-runtime.ts";
import type { Tool } from "../ports/tool.ts";
import { createSystemClock } from "../runtime/system-clock.ts";

const unknownId = "01900000-0000-7000-8000-ffffffffffff";

describe("the session service", () => {
  it("[F1] creates, goes on, resumes, reads, lists and archives", async () => {
    const store = createInMemoryStore();
    const before = scriptedRuntime([{ text: "one" }, { text: "two" }], { store });
    const session = await before.runtime.createSession("First.", {
      labels: { team: "a" },
      systemPrompt: "Be brief.",
    });
    await session.turn("Second.");

    const { runtime, model } = scriptedRuntime([{ text: "three" }], { store });
    expect(await runtime.dispatch("resumeSession", { session_id: session.id, prompt: "Third." })).toMatchObject({
      text: "three",
    });
    expect(model.requests[0]?.messages.map((message) => message.role)).toEqual([
      "system",
      "user",
      "block_assistant",
      "user",
      "block_assistant",
      "user",
    ]);
    expect(await runtime.readSession(session.id)).toMatchObject({
      sessionId: session.id,
      messageCount: 7,
      isActive: false,
      model: "scripted",
      provider: "scripted",
      lastAssistantText: "three",
      labels: { team: "a" },
    });
    expect(await runtime.listSessions({ labels: { team: "a" } })).toMatchObject([
      { sessionId: session.id, totalTokens: 45 },
    ]);
    expect(await runtime.listSessions({ labels: { team: "b" } })).toEqual([]);

    await runtime.session(session.id).archive();
    expect(await runtime.listSessions()).toEqual([]);
    expect((await runtime.session(session.id).history()).messageCount).toBe(7);
    await expect(runtime.session(session.id).turn("More?")).rejects.toMatchObject({ code: "SESSION_NOT_FOUND" });
  });

  it("[G8] tells a session's limits with what is used of them, and none where none were set", async () => {
    const look: Tool = { name: "look", description: "looks", inputSchema: {}, execute: () => "a pond" };
    const steps = [{ calls: [{ name: "look" }] }, { text: "A pond." }, { text: "Hi." }];
    const { runtime } = scriptedRuntime(steps, { store: createInMemoryStore(), tools: [look] });
    const budgetLimits = { maxTokens: 1_000, maxToolCalls: 5, maxDurationMs: 60_000 };
    const limited = await runtime.createSession("Look.", { budgetLimits });
    const { title, budgets, totalTokens: total_tokens } = await runtime.readSession(limited.id);
    expect({ title, budgets }).toEqual({
      title: "Look.",
      budgets: [
        { type: "tokens", limit: 1_000, used: total_tokens },
        { type: "time", limit: 60_000 },
        { type: "tool_calls", limit: 5, used: 1 },
      ],
    });
    const free = await runtime.createSession("Hi.");
    expect((await runtime.readSession(free.id)).budgets).toBeUndefined();
  });

  it("[F1] without a store, turns work and what needs one says so", async () => {
    const { runtime } = scriptedRuntime([{ text: "one" }, { text: "two" }]);
    const session = await runtime.createSession("First.");
    expect((await session.turn("Second.")).text).toBe("two");
    const refused = { code: "SESSION_PERSISTENCE_DISABLED" };
    await expect(runtime.listSessions()).rejects.toMatchObject(refused);
    await expect(runtime.readSession(session.id)).rejects.toMatchObject(refused);
    await expect(session.history()).rejects.toMatchObject(refused);
    await expect(session.archive()).rejects.toMatchObject(refused);
    const resume = runtime.dispatch("resumeSession", { session_id: session.id, prompt: "x" });
    await expect(resume).rejects.toMatchObject(refused);
  });

  it("[F1] pages a history, oldest first, each message with its place in the log", async () => {
    const { runtime } = scriptedRuntime(() => ({ text: "ok" }), { store: createInMemoryStore() });
    const session = await runtime.createSession("one");
    await session.turn("two");
    const page = await session.history({ offset: 1, limit: 2 });
    expect(page).toMatchObject({ messageCount: 4, offset: 1, limit: 2, hasMore: true });
    expect(page.messages.map((message) => message.role)).toEqual(["block_assistant", "user"]);
    const [first, second] = page.messages;
    expect(first?.seq).toBeLessThan(second?.seq ?? 0);
  });

  it("a second turn at the same time is refused; an interrupt on idle does nothing", async () => {
    const { runtime } = scriptedRuntime([{ ends: "silent" }]);
    const session = await runtime.createDeferredSession("Begin.");
    await session.interrupt();
    const turn = session.turn("One.");
    await expect(session.turn("Two.")).rejects.toMatchObject({ code: "SESSION_BUSY" });
    await session.interrupt();
    await expect(turn).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
  });

  it("[F9] a turn waits for another process that holds the session for a moment, and for no turn of one", async () => {
    const store = createInMemoryStore();
    const system = createSystemClock();
    const there = scriptedRuntime([{ text: "one" }, { ends: "silent" }], { store, clock: system });
    const { id } = await there.runtime.createSession("First.");
    const hold = await store.locks.hold(id);
    const sleep: typeof system.sleep = async (...args) => {
      await hold.release();
      return system.sleep(...args);
    };
    const here = scriptedRuntime([{ text: "two" }], { store, clock: { ...system, sleep } });
    expect(await here.runtime.session(id).turn("Second.")).toMatchObject({ text: "two" });
    const turn = there.runtime.session(id).turn("Third.");
    await expect.poll(() => there.model.requests.length).toBe(2);
    await expect(here.runtime.session(id).turn("Fourth.")).rejects.toMatchObject({ code: "SESSION_BUSY" });
    await there.runtime.session(id).interrupt();
    await expect(turn).rejects.toMatchObject({ code: "REQUEST_CANCELLED" });
  });

  it("a deferred prompt is delivered with the first turn, which may still set things", async () => {
    const { runtime, model } = scriptedRuntime([{ text: "ok" }]);
    const session = await runtime.createDeferredSession("Context first.");
    const input = { session_id: session.id, prompt: "Then the question.", system_prompt: "Be kind.", max_tokens: 77 };
    await runtime.dispatch("startTurn", input);
    expect(model.requests[0]).toMatchObject({
      maxOutputTokens: 77,
      messages: [
        { role: "system", content: "Be kind." },
        { role: "user", content: "Context first.\n\nThen the question." },
      ],
    });
    await expect(runtime.dispatch("startTurn", input)).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: expect.stringContaining("Cannot override max_tokens"),
    });
  });

  it("a turn can name another model, and the session stays with it", async () => {
    const { runtime } = scriptedRuntime([{ text: "scripted" }], { store: createInMemoryStore() });
    const session = await runtime.createSession("Hello.");
    await session.turn("Who are you?", { model: "offline" });
    expect(await runtime.readSession(session.id)).toMatchObject({ model: "offline", provider: "offline" });
    expect((await session.turn("And now?")).text).not.toBe("");
  });

  it("a provider of the configuration's own is as good as a known one", async () => {
    const config = configWith({ providers: { mine: { base_url: "http://localhost:9/v1" } } });
    const { runtime } = scriptedRuntime([], { config, store: createInMemoryStore() });
    const session = await runtime.createDeferredSession("Begin.", { provider: "mine", model: "small" });
    expect(await runtime.readSession(session.id)).toMatchObject({ provider: "mine", model: "small" });
    expect(CreateSession.parse({ prompt: "x", provider: "open_a_i" }).provider).toBe("openai");
  });

  it("tools can be filtered for the session and for one turn", async () => {
    const tool = (name: string): Tool => ({ name, description: name, inputSchema: {}, execute: () => name });
    const { runtime, model } = scriptedRuntime(() => ({ text: "ok" }), { tools: [tool("a"), tool("b"), tool("c")] });
    const session = await runtime.createSession("x", { toolFilter: { Deny: ["c"] }, tools: [tool("d")] });
    await session.turn("y", { flowToolOverlay: { blocked_tools: ["a"] } });
    const offered = model.requests.map((request) => request.tools.map(({ name }) => name));
    expect(offered).toEqual([
      ["a", "b", "d"],
      ["b", "d"],
    ]);
  });

  it("[H1] bad input names the field and creates nothing", async () => {
    const { runtime, model } = scriptedRuntime([], { store: createInMemoryStore() });
    const bad: [unknown, RegExp][] = [
      [{}, /^prompt: write a text or a list of content blocks$/],
      [{ prompt: 5 }, /^prompt: write a text or a list of content blocks$/],
      [{ prompt: "  " }, /^prompt: the prompt is empty/],
      [{ prompt: "x", budget_limits: { max_tokens: "many" } }, /^budget_limits\.max_tokens: /],
      [{ prompt: "x", provider: "nobody" }, /provider nobody/],
      [{ prompt: "x", provider: "" }, /^provider: write the name of a provider$/],
      [{ prompt: "x", model: "" }, /^model: write the name of a model$/],
      [{ prompt: "x", max_turns: 0 }, /^max_turns: write a whole number above 0$/],
      [{ prompt: "x", max_tokens: 1.5 }, /^max_tokens: write a whole number above 0$/],
      [
        { prompt: "x", structured_output_retries: 11 },
        /^structured_output_retries: write a whole number from 0 to 10$/,
      ],
      [{ prompt: "x", tool_preset: "everything" }, /^tool_preset: /],
      [{ prompt: "x", labels: { a: 1 } }, /^labels\.a: /],
      [{ prompt: "x", labels: { "meerkat.runtime_id": "1" } }, /^labels.*reserved/],
      [{ prompt: "x", skill_references: ["a"] }, /^skill_references: .*retired/],
      [{ prompt: "x", keep_alive: "yes" }, /^keep_alive: write true or false$/],
    ];
    for (const [input, message] of bad) {
      const refused = { code: "INVALID_PARAMS", message: expect.stringMatching(message) };
      await expect(runtime.dispatch("createSession", input)).rejects.toMatchObject(refused);
    }
    const notAnId = { code: "INVALID_PARAMS", message: "sessionId: expected a session id (a UUID)" };
    await expect(runtime.session("../../etc/passwd").turn("x")).rejects.toMatchObject(notAnId);
    await expect(runtime.session(unknownId).turn("x")).rejects.toMatchObject({ code: "SESSION_NOT_FOUND" });
    expect(await runtime.listSessions()).toEqual([]);
    expect(model.requests).toHaveLength(0);
  });

  it("[H1] a runtime that was closed says so", async () => {
    const { runtime } = scriptedRuntime(() => ({ text: "ok" }), { store: createInMemoryStore() });
    const session = await runtime.createSession("x");
    await runtime.close();
    await expect(session.turn("y")).rejects.toThrow("this runtime is closed");
    await expect(runtime.listSessions()).rejects.toThrow("this runtime is closed");
  });

  it("[H1] memory asked for without the capability is refused before anything is created", async () => {
    const { runtime } = scriptedRuntime([]);
    const asked = runtime.createSession("x", { enableMemory: true });
    await expect(asked).rejects.toMatchObject({ code: "MEMORY_STORE_DISABLED" });
  });

  it("[H4] shell and file tools are off unless asked for", async () => {
    const offered = async (options: Parameters<typeof runtime.createSession>[1]) => {
      await runtime.createSession("x", options);
      return model.requests.at(-1)?.tools.map(({ name }) => name) ?? [];
    };
    const { runtime, model } = scriptedRuntime(() => ({ text: "ok" }));
    expect(await offered({})).toEqual([]);
    const safe = ["datetime", "task_create", "task_get", "task_list", "task_update"];
    expect(await offered({ toolPreset: "safe" })).toEqual(safe);
    expect(await offered({ enableBuiltins: true })).toEqual([...safe, "apply_patch"]);
    expect(await offered({ toolPreset: "workspace" })).toContain("shell");
    expect(await offered({ toolPreset: "workspace", enableShell: false })).not.toContain("shell");
  });

  it("[H4] no session has more than the ceiling, whoever gave it more", async () => {
    const store = createInMemoryStore();
    const elsewhere = scriptedRuntime(() => ({ text: "ok" }), { store, memory: {} });
    const made = await elsewhere.runtime.createSession("x", { toolPreset: "full" });
    const { runtime, model } = scriptedRuntime(() => ({ text: "ok" }), {
      ...{ store, memory: {}, clock: elsewhere.clock },
      ceiling: "none",
    });
    await runtime.session(made.id).turn("y");
    expect(elsewhere.model.requests.at(-1)?.tools.map(({ name }) => name)).toContain("shell");
    expect(model.requests.at(-1)?.tools).toEqual([]);
    await runtime.createSession("x");
    await runtime.createSession("x", { toolPreset: "none" });
    expect(model.requests.at(-1)?.tools).toEqual([]);
    const refused: readonly (readonly [Parameters<typeof runtime.createSession>[1], string])[] = [
      [{ enableBuiltins: true }, "enable_builtins: this server has no tools; start it with --tools safe"],
      [{ enableMemory: true }, "enable_memory: this server has no memory; start it with --tools safe"],
      [{ toolPreset: "safe" }, "tool_preset safe: this server has no tools; start it with --tools safe"],
      [{ enableShell: true }, "enable_shell: this server has no shell; start it with --tools workspace"],
    ];
    for (const [options, message] of refused) {
      await expect(runtime.createSession("x", options)).rejects.toMatchObject({ code: "PERMISSION_DENIED", message });
    }
    expect(await runtime.listSessions()).toHaveLength(3);
  });

  it("[H4] a program is told of a preset that the configuration's file forbids", () => {
    const config = { ...configWith({}), forbidden: ["shell"] as const };
    expect(() => scriptedRuntime(() => ({ text: "ok" }), { config, toolPreset: "workspace" })).toThrow(
      "tool_preset workspace: the configuration's file says tools.shell_enabled = false, which no request changes",
    );
  });

  it("[H5] sessions in memory are bounded", async () => {
    const config = configWith({ limits: { max_sessions: 2 } });
    const { runtime } = scriptedRuntime(() => ({ text: "ok" }), { config });
    await runtime.createSession("one");
    await runtime.createSession("two");
    const third = runtime.createSession("three");
    await expect(third).rejects.toThrow("this runtime holds 2 sessions, its limit");
  });

  it("[H3] a key in a provider's message reaches neither error nor log", async () => {
    const store = createInMemoryStore();
    const key = "sk-live-0123456789abcdef0123";
    const failure = { kind: "auth" as const, message: `invalid key ${key}` };
    const { runtime } = scriptedRuntime([{ ends: { failure } }], { store, env: { OPENAI_API_KEY: key } });
    await expect(runtime.createSession("x")).rejects.toMatchObject({ message: "invalid key [redacted]" });
    const [{ session_id: id } = { session_id: "" }] = await store.sessions.page({ max: 1 });
    expect(JSON.stringify(await store.log.read(id, 1, 100))).not.toContain(key);
  });

  it("[G1] serves exactly the operations of the table", async () => {
    const { runtime } = scriptedRuntime([]);
    // Every name is dispatched with nothing: each is known, and answers or names what it misses.
    for (const name of Object.keys(OPERATIONS)) {
      const answer = await runtime.dispatch(name as keyof typeof OPERATIONS, {}).catch((error) => error.code);
      const known = [
        "INVALID_PARAMS",
        "SESSION_PERSISTENCE_DISABLED",
        "SESSION_COMPACTION_DISABLED",
        "MEMORY_STORE_DISABLED",
      ];
      expect(typeof answer === "object" || known.includes(answer), `${name}: ${answer}`).toBe(true);
    }
  });
});
