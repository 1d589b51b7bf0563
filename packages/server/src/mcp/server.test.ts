import { LoggingMessageNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { OPERATIONS } from "@rkat/core/contract/operations";
import { EXTRA_TOOLS } from "@rkat/core/contract/wire/mcp-tools";
import { createInMemoryStore } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { afterEach, describe, expect, it } from "vitest";
import { connectMcp, REALM } from "../../../../test/support/mcp-connection.ts";

const open: { close(): Promise<void> }[] = [];
const connect = async (...given: Parameters<typeof connectMcp>) => {
  const connection = await connectMcp(...given);
  open.push(connection);
  return connection;
};
afterEach(async () => {
  for (const connection of open.splice(0)) await connection.close();
});

/** Of sections 6 and 15 of the wire contract. */
const CONTRACT_TOOLS =
  `meerkat_run meerkat_resume meerkat_read meerkat_sessions meerkat_history meerkat_interrupt meerkat_archive meerkat_config
  meerkat_capabilities meerkat_models_catalog meerkat_skills meerkat_blob_get meerkat_event_stream_open
  meerkat_event_stream_read meerkat_event_stream_close meerkat_compact meerkat_compactions meerkat_compact_undo
  meerkat_compact_expand meerkat_context memory_search search_project_history meerkat_memory_status meerkat_forget
  agent_remember agent_context agent_compact agent_status meerkat_fork`.split(/\s+/);

describe("what a client is told at first", () => {
  it("[G4] lists exactly the tools of the table, each with the schema of its operation", async () => {
    const { client } = await connect({}, { allTools: true });
    const { tools } = await client.listTools();
    const rows = Object.values(OPERATIONS).flatMap((row) => ("mcp" in row ? [[row.mcp, row.summary]] : []));
    const extra = Object.entries(EXTRA_TOOLS).map(([name, { summary }]) => [name, summary]);
    expect(Object.fromEntries(tools.map(({ name, description }) => [name, description]))).toEqual(
      // One tool for several rows says what all of them do.
      {
        ...Object.fromEntries([...rows, ...extra]),
        meerkat_config: expect.stringMatching(/get.*set.*patch/),
        meerkat_skills: expect.stringMatching(/list.*inspect/),
      },
    );
    const byName = new Map(tools.map((tool) => [tool.name, tool]));
    expect(byName.get("memory_search")?.inputSchema).toMatchObject({
      required: ["query"],
      additionalProperties: false,
      properties: { query: { type: "string" }, limit: { type: "integer", default: 5 } },
    });
    expect(byName.get("meerkat_run")?.inputSchema).toMatchObject({
      required: ["prompt"],
      properties: { stream: { type: "boolean", default: false }, tool_preset: {} },
    });
    expect(byName.get("meerkat_run")?.annotations).toMatchObject({ readOnlyHint: false, openWorldHint: true });
    expect(byName.get("meerkat_history")?.annotations).toEqual({ readOnlyHint: true, openWorldHint: false });
  });

  it("[G4] lists the tools of the contract in 30,000 bytes unless all are asked for, and the others are called by name", async () => {
    const { client, call } = await connect();
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name).sort()).toEqual(CONTRACT_TOOLS.toSorted());
    expect(Buffer.byteLength(JSON.stringify({ tools }))).toBeLessThanOrEqual(30_000);
    expect(tools.filter((tool) => "outputSchema" in tool)).toEqual([]);
    const run = tools.find(({ name }) => name === "meerkat_run")?.inputSchema.properties;
    expect(run?.history).toEqual({ description: expect.any(String), type: "array", items: { type: "object" } });
    expect((await call("agent_list")).payload).toEqual({ agents: [] });
    // What the list does not describe is checked all the same.
    const history = [{ role: "user", content: 7 }];
    expect(await call("meerkat_run", { prompt: "hi", history })).toMatchObject({ isError: true });
  });

  it("says what it is, in the version the client speaks", async () => {
    const { client } = await connect();
    expect(client.getServerVersion()).toEqual({ name: "rkat-mcp", version: "1.2.3" });
    expect(client.getServerCapabilities()).toEqual({ tools: {}, logging: {} });
    expect(client.getInstructions()).toMatch(/outlive any context window/);
  });

  it("[G4] as a memory server it offers nothing that runs a turn", async () => {
    const { client, call } = await connect({}, { memoryOnly: true });
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual([
      "recall_compacted",
      "memory_search",
      "search_project_history",
      "meerkat_memory_status",
      "agent_remember",
      "agent_note",
      "agent_context",
      "agent_compact",
      "agent_status",
      "agent_list",
    ]);
    await expect(client.callTool({ name: "meerkat_run", arguments: { prompt: "hi" } })).rejects.toThrow(/Unknown tool/);

    expect(await call("agent_remember", { agent: "ada", content: "The staging host is tern." })).toMatchObject({
      isError: false,
      payload: { count: 1 },
    });
    await call("agent_note", { agent: "ada", content: "Bob prefers mornings." });
    expect((await call("agent_context", { agent: "ada" })).payload.prompt).toContain("tern");
    expect((await call("agent_list")).payload).toMatchObject({ agents: [{ agent: "ada" }] });
    const { payload: hits } = await call("search_project_history", { query: "staging host" });
    expect(hits).toEqual([expect.objectContaining({ content: expect.stringContaining("tern"), agent: "ada" })]);
    expect((await call("memory_search", { query: "staging host" })).payload).toEqual(hits);
  });
});

it("[U3] a memory server recalls what a compaction removed, with what its receipt says", async () => {
  const summary = { text: "They chose a staging host.", usage: { input_tokens: 1, output_tokens: 1 } };
  const model = createScriptedModel(() => summary);
  const { runtime, call } = await connectMcp({ model }, { memoryOnly: true });
  const { session_id } = await runtime.dispatch("createSession", {
    prompt: "hello",
    history: [
      { role: "user", content: "The staging host is tern-47.example.test and its port is 48213." },
      { role: "assistant", content: "Noted." },
      ...Array.from({ length: 12 }, (_, at) => [
        {
          role: "user" as const,
          content: `Step ${at}: describe the pond at length. ${"Reeds grow there. ".repeat(40)}`,
        },
        { role: "assistant" as const, content: `The pond of step ${at} is quiet.` },
      ]).flat(),
    ],
  });
  await runtime.dispatch("compactSession", { session_id });
  for (let turn = 0; turn < 8; turn += 1) {
    await runtime.dispatch("resumeSession", {
      session_id,
      prompt: `Now turn ${turn}. ${"Frogs call there. ".repeat(40)}`,
    });
  }
  await runtime.dispatch("compactSession", { session_id });
  const { compactions } = await runtime.dispatch("listCompactions", { session_id });
  expect(compactions).toHaveLength(2);
  const { payload } = await call("recall_compacted", { query: "port of the staging host", limit: 1 });
  expect(payload.results[0].content).toContain("48213");
  expect(payload.compactions).toEqual([
    expect.objectContaining({
      session_id,
      // The older one, which removed what was found.
      compaction_id: compactions[0]?.compaction_id,
      receipt: expect.objectContaining({ lost: 0 }),
      not_in_summary: expect.arrayContaining([expect.objectContaining({ text: "48213", status: "recoverable" })]),
    }),
  ]);
  expect(await call("recall_compacted", {})).toMatchObject({ isError: true });
  expect((await call("recall_compacted", { query: "zeppelin", session_id })).payload.compactions).toHaveLength(1);
});

describe("a turn", () => {
  it("[G4] answers in the form of the wire, and goes on by id or reference", async () => {
    const { call } = await connect();
    const { payload, result } = await call("meerkat_run", { prompt: "What is 2 + 3?", labels: { a: "b" } });
    expect(payload).toMatchObject({
      content: [{ type: "text", text: expect.stringContaining("5") }],
      session_ref: `${REALM}:${payload.session_id}`,
      turns: 1,
      tool_calls: 0,
      structured_output: null,
      extraction_error: null,
      schema_warnings: null,
      skill_diagnostics: null,
    });
    expect(result.structuredContent).toEqual(payload);
    const resumed = await call("meerkat_resume", { session_id: payload.session_ref, prompt: "What is 4 + 4?" });
    expect(resumed.payload).toMatchObject({ session_id: payload.session_id });
    expect((await call("meerkat_history", { session_id: payload.session_id })).payload.message_count).toBe(4);
    expect((await call("meerkat_interrupt", { session_id: payload.session_id })).payload).toEqual({
      session_id: payload.session_id,
      interrupted: true,
    });
    const { session_id } = (await call("meerkat_run", { prompt: "later", initial_turn: "deferred" })).payload;
    expect(session_id).toEqual(expect.any(String));
  });

  it("tells of every step to a client that gives a token, and of nothing else", async () => {
    const model = createScriptedModel([{ calls: [{ name: "datetime" }] }, { text: "noon" }]);
    const { client } = await connect({ model });
    const received: unknown[] = [];
    const args = { prompt: "what time is it?", tool_preset: "safe" };
    await client.callTool({ name: "meerkat_run", arguments: args }, undefined, {
      onprogress: (progress) => received.push(progress),
    });
    expect(received).toEqual([
      { progress: 1, message: "model call 1" },
      { progress: 2, message: "tool datetime" },
      { progress: 3, message: "model call 2" },
    ]);
  });

  it("streams every event as a log message, unless the client wants fewer of those", async () => {
    const { client, call } = await connect();
    const received: { source: string; session_id: string; event: { payload: { type: string } } }[] = [];
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
      received.push(params.data as (typeof received)[number]); // What the assertions below look at.
    });
    const { payload } = await call("meerkat_run", { prompt: "hi", stream: true });
    expect(received[0]).toMatchObject({
      source: "meerkat",
      session_id: payload.session_id,
      event: { source_id: `session:${payload.session_id}`, seq: 2, payload: { type: "run_started" } },
    });
    expect(received.at(-1)?.event.payload.type).toBe("run_completed");
    received.length = 0;
    await client.setLoggingLevel("warning");
    await call("meerkat_resume", { session_id: payload.session_id, prompt: "again", stream: true });
    expect(received).toEqual([]);
  });

  it("[G4] is interrupted when its request is cancelled, and what was said is kept", async () => {
    const model = createScriptedModel([{ text: "half", ends: "silent" }, { text: "whole" }]);
    const { client, call } = await connect({ model });
    const cancel = new AbortController();
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
      if (JSON.stringify(params).includes("half")) cancel.abort("enough");
    });
    const args = { prompt: "wait", stream: true };
    const asked = client.callTool({ name: "meerkat_run", arguments: args }, undefined, { signal: cancel.signal });
    await expect(asked).rejects.toThrow(/enough/);
    const { sessions } = (await call("meerkat_sessions")).payload;
    expect(sessions).toHaveLength(1);
    await expect
      .poll(async () => (await call("meerkat_read", { session_id: sessions[0].session_id })).payload)
      .toMatchObject({ state: { state: "idle", last_assistant_text: "half" } });
    const resumed = await call("meerkat_resume", { session_id: sessions[0].session_id, prompt: "go on" });
    expect(resumed.payload.content).toEqual([{ type: "text", text: "whole" }]);
  });
});

describe("reading a session", () => {
  it("[G4] tells the session and, apart from it, what it has used", async () => {
    const { call } = await connect({
      model: createScriptedModel([{ text: "Hello.", usage: { input_tokens: 7, output_tokens: 2 } }]),
    });
    const { session_id } = (await call("meerkat_run", { prompt: "Hi", labels: { team: "core" } })).payload;
    const time = { secs_since_epoch: expect.any(Number), nanos_since_epoch: 0 };
    const { payload } = await call("meerkat_read", { session_id });
    expect(payload).toEqual({
      session_id,
      session_ref: `${REALM}:${session_id}`,
      state: expect.objectContaining({
        ...{ session_id, created_at: time, updated_at: time, message_count: 2, is_active: false },
        ...{ model: "scripted", provider: "scripted", last_assistant_text: "Hello.", labels: { team: "core" } },
      }),
      billing: { total_tokens: 9, usage: { input_tokens: 7, output_tokens: 2 } },
    });
    expect(payload.state).not.toHaveProperty("total_tokens");
  });
});

describe("memory", () => {
  it("[G4] answers a search with the list of what was found", async () => {
    const { call } = await connect();
    const { payload } = await call("meerkat_run", { prompt: "The launch code word is heliotrope." });
    const found = await call("search_project_history", { query: "launch code word", limit: 3 });
    expect(found.payload).toContainEqual(
      expect.objectContaining({
        content: expect.stringContaining("heliotrope"),
        session_id: payload.session_id,
        score: expect.any(Number),
        turn: expect.any(Number),
      }),
    );
    expect((await call("memory_search", { query: "launch code word" })).payload).toEqual([]);
    expect((await call("meerkat_memory_status")).result.structuredContent).toMatchObject({ mode: expect.any(String) });
  });

  it("[D11] refuses memory that is not there with a stable code", async () => {
    const { call } = await connect({}, { without: ["memory"] });
    for (const name of ["memory_search", "search_project_history"]) {
      expect(await call(name, { query: "x" })).toMatchObject({
        isError: true,
        payload: { code: "MEMORY_STORE_DISABLED", error: expect.any(String) },
      });
    }
    expect(await call("meerkat_run", { prompt: "x", enable_memory: true })).toMatchObject({
      isError: true,
      payload: { code: "MEMORY_STORE_DISABLED" },
    });
  });
});

describe("what goes wrong", () => {
  it("[F3] without a store, what needs one is a tool error with its code", async () => {
    const { call } = await connect({}, { without: ["store", "memory"] });
    const { payload } = await call("meerkat_run", { prompt: "hi" });
    const { session_id } = payload;
    const disabled = { isError: true, payload: { code: "SESSION_PERSISTENCE_DISABLED" } };
    for (const name of ["meerkat_read", "meerkat_history", "meerkat_archive", "meerkat_sessions"]) {
      expect(await call(name, { session_id, prompt: "x" })).toMatchObject(disabled);
    }
    // What this process knows goes on; what it does not would have to be read from a store.
    expect(await call("meerkat_resume", { session_id, prompt: "x" })).toMatchObject({ payload: { session_id } });
    const stored = "00000000-0000-7000-8000-000000000000";
    expect(await call("meerkat_resume", { session_id: stored, prompt: "x" })).toMatchObject(disabled);
  });

  it("[H1] is a tool error that names the field; an unknown tool is an error of the protocol", async () => {
    const { client, call } = await connect();
    const wrong = (message: RegExp) => ({
      isError: true,
      payload: { code: "INVALID_PARAMS", error: expect.stringMatching(message), details: { problems: [{}] } },
    });
    expect(await call("meerkat_run", {})).toMatchObject(wrong(/^prompt: /));
    expect(await call("meerkat_run", { prompt: "x", stream: "yes" })).toMatchObject(wrong(/^stream: write true/));
    expect(await call("meerkat_run", { prompt: "x", tools: [{}] })).toMatchObject(wrong(/^tools\.0\.name: /));
    expect(await call("meerkat_read", { session_id: "x" })).toMatchObject(wrong(/^session_id: /));
    expect(await call("memory_search", { query: "x", colour: "red" })).toMatchObject(wrong(/colour/));
    expect(await call("meerkat_read", { session_id: `other:${crypto.randomUUID()}` })).toMatchObject({
      isError: true,
      payload: { code: "INVALID_PARAMS", error: expect.stringContaining("realm other") },
    });
    expect(await call("meerkat_read", { session_id: "018f0000-0000-7000-8000-000000000000" })).toMatchObject({
      isError: true,
      payload: { code: "SESSION_NOT_FOUND" },
    });
    await expect(client.callTool({ name: "nope" })).rejects.toMatchObject({ code: -32602 });
    await expect(client.callTool({ name: "__proto__" })).rejects.toMatchObject({ code: -32602 });
  });

  it("a failing provider is a tool error that names the session", async () => {
    const failure = { kind: "invalid_request", message: "no such model" } as const;
    const store = createInMemoryStore();
    const { call } = await connect({ model: createScriptedModel([{ ends: { failure } }]), store });
    expect(await call("meerkat_run", { prompt: "x" })).toMatchObject({
      isError: true,
      payload: { code: "PROVIDER_ERROR", details: { session_id: expect.any(String) } },
    });
  });

  it("[H5] refuses more calls at once than its bound", async () => {
    const model = createScriptedModel(() => ({ ends: "silent" }));
    const { client, call } = await connect({ model });
    const started = Array.from({ length: 256 }, () => call("meerkat_run", { prompt: "wait" }).catch(() => "closed"));
    expect(await call("meerkat_capabilities")).toMatchObject({ isError: true, payload: { code: "AGENT_ERROR" } });
    await client.close();
    expect(new Set(await Promise.all(started))).toEqual(new Set(["closed"]));
  });
});
