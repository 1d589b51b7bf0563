import { MEMORY_RETRIEVAL } from "@rkat/core/contract/memory";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { afterEach, describe, expect, it } from "vitest";
import { connectMcp } from "../../../../test/support/mcp-connection.ts";

const open: { close(): Promise<void> }[] = [];
const connect = async (...given: Parameters<typeof connectMcp>) => {
  const connection = await connectMcp(...given);
  open.push(connection);
  return connection;
};
afterEach(async () => {
  for (const connection of open.splice(0)) await connection.close();
});

const weather = {
  name: "weather",
  description: "The weather in a city.",
  input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const cities = (...names: string[]) => ({
  calls: names.map((city) => ({ id: `call-${city}`, name: "weather", args: { city } })),
});

describe("tools that the client of MCP runs", () => {
  it("[G4] are asked for in the answer, together, and the turn goes on with their results", async () => {
    const model = createScriptedModel([cities("Oslo", "Bergen"), cities("Tromsø"), { text: "All is well." }]);
    const { call } = await connect({ model });
    const first = await call("meerkat_run", { prompt: "weather?", tools: [weather] });
    const { session_id } = first.payload;
    const wanted = (city: string) => {
      const tool_use_id = `call-${city}`;
      return { tool_name: "weather", tool_use_id, args: { city, tool_use_id } };
    };
    expect(first).toMatchObject({
      isError: false,
      payload: {
        content: [{ type: "text", text: "Agent is waiting for tool results" }],
        status: "pending_tool_call",
        pending_tool_calls: [wanted("Oslo"), wanted("Bergen")],
      },
    });
    // Nothing runs meanwhile: the results may come after a restart, and through another connection.
    expect((await call("meerkat_read", { session_id })).payload.state.state).toBe("idle");
    const result = (city: string, content: string, more = {}) => ({ tool_use_id: `call-${city}`, content, ...more });
    const give = (...tool_results: object[]) => call("meerkat_resume", { session_id, prompt: "", tool_results });
    // Results are kept together or not at all, so half of them is not taken for given.
    const [rain, cold] = [result("Bergen", "rain"), result("Oslo", "no station", { is_error: true })];
    for (const [wrong, named] of [
      [[rain], "call-Oslo is missing"],
      [[rain, rain, cold], "call-Bergen"],
      [[rain, cold, result("Rome", "sun")], "call-Rome"],
    ] as const) {
      const message = expect.stringContaining(named);
      expect(await give(...wrong)).toMatchObject({ isError: true, payload: { code: "INVALID_PARAMS", message } });
    }
    const [second, late] = await Promise.all([give(rain, cold), give(rain, cold)]);
    expect(second.payload.pending_tool_calls).toEqual([wanted("Tromsø")]);
    expect(["INVALID_PARAMS", "SESSION_BUSY"]).toContain(late.payload.code);
    const last = await give(result("Tromsø", "snow"));
    expect(last.payload).toMatchObject({ content: [{ text: "All is well." }], turns: 1, tool_calls: 1 });
    expect(last.payload.status).toBeUndefined();
    const reported = model.requests[1]?.messages.at(-1);
    expect(reported).toMatchObject({
      role: "tool_results",
      results: [
        { tool_use_id: "call-Oslo", content: "no station", is_error: true },
        { tool_use_id: "call-Bergen", content: "rain", is_error: false },
      ],
    });
  });

  it("[G4] are there in later turns, and something may be said with their results", async () => {
    const model = createScriptedModel([{ text: "Hello." }, cities("Oslo"), { text: "Cold." }]);
    const { call } = await connect({ model });
    const { session_id } = (await call("meerkat_run", { prompt: "hi", tools: [weather] })).payload;
    expect((await call("meerkat_resume", { session_id, prompt: "weather?" })).payload.status).toBe("pending_tool_call");
    const tool_results = [{ tool_use_id: "call-Oslo", content: "-9" }];
    const ended = await call("meerkat_resume", { session_id, prompt: "in Celsius, mind", tool_results });
    expect(ended.payload.content).toEqual([{ type: "text", text: "Cold." }]);
    expect(JSON.stringify(model.requests[2]?.messages)).toContain("in Celsius, mind");
  });

  it("[G4] an interrupt ends a turn that waits, and a cancelled request the one it goes on with", async () => {
    const model = createScriptedModel([cities("Oslo"), cities("Bergen"), { text: "half", ends: "silent" }]);
    const { client, call } = await connect({ model });
    const first = await call("meerkat_run", { prompt: "weather?", tools: [weather] });
    const { session_id } = first.payload;
    await call("meerkat_interrupt", { session_id });
    const tool_results = [{ tool_use_id: "call-Oslo", content: "late" }];
    await expect
      .poll(async () => (await call("meerkat_resume", { session_id, prompt: "", tool_results })).payload.code)
      .toBe("INVALID_PARAMS");
    await expect.poll(async () => (await call("meerkat_read", { session_id })).payload.state.state).toBe("idle");
    expect((await call("meerkat_resume", { session_id, prompt: "again" })).payload.status).toBe("pending_tool_call");
    const cancel = new AbortController();
    const results = [{ tool_use_id: "call-Bergen", content: "rain" }];
    const args = { session_id, prompt: "", tool_results: results };
    const asked = client.callTool({ name: "meerkat_resume", arguments: args }, undefined, { signal: cancel.signal });
    await expect.poll(() => model.requests.length).toBe(3);
    cancel.abort("enough");
    await expect(asked).rejects.toThrow(/enough/);
    await expect
      .poll(async () => (await call("meerkat_read", { session_id })).payload)
      .toMatchObject({ state: { state: "idle", last_assistant_text: "half" } });
  });
});

describe("events for a client that cannot be sent them", () => {
  it("[G4] are read one by one, and a read waits no longer than it says", async () => {
    const { call } = await connect();
    const { session_id } = (await call("meerkat_run", { prompt: "hi" })).payload;
    const { stream_id } = (await call("meerkat_event_stream_open", { session_id })).payload;
    const read = async (more = {}) => (await call("meerkat_event_stream_read", { stream_id, ...more })).payload;
    expect(await read({ timeout_ms: 1 })).toEqual({ stream_id, status: "timeout" });
    const waiting = read({ no_timeout: true });
    await call("meerkat_resume", { session_id, prompt: "What is 2 + 3?" });
    expect(await waiting).toMatchObject({ status: "event", event: { payload: { type: "run_started" } } });
    const types: string[] = [];
    for (let next = await read(); next.status === "event"; next = await read({ timeout_ms: 1 })) {
      types.push(next.event.payload.type);
    }
    expect(types.at(0)).toBe("turn_started");
    expect(types.at(-1)).toBe("run_completed");
    const close = async () => (await call("meerkat_event_stream_close", { stream_id })).payload;
    expect(await close()).toEqual({ stream_id, closed: true, already_closed: false });
    expect(await close()).toEqual({ stream_id, closed: true, already_closed: true });
    expect(await read()).toEqual({ stream_id, status: "closed" });
    const unknown = { session_id: "018f0000-0000-7000-8000-000000000000" };
    expect((await call("meerkat_event_stream_open", unknown)).payload.code).toBe("SESSION_NOT_FOUND");
  });

  it("[H5] are told through so many streams", async () => {
    const { call } = await connect();
    const { session_id } = (await call("meerkat_run", { prompt: "hi" })).payload;
    for (let opened = 0; opened < 64; opened += 1) await call("meerkat_event_stream_open", { session_id });
    expect((await call("meerkat_event_stream_open", { session_id })).payload.code).toBe("AGENT_ERROR");
  });

  it("[H1] [F2] what is asked for and not there is refused, also of a session that has begun", async () => {
    const { call } = await connect();
    const { session_id } = (await call("meerkat_run", { prompt: "hi", enable_mob: false })).payload;
    const codeOf = async (tool: string, fields: object) => (await call(tool, { prompt: "hi", ...fields })).payload.code;
    expect(await codeOf("meerkat_run", { enable_mob: true })).toBe("CAPABILITY_UNAVAILABLE");
    expect(await codeOf("meerkat_run", { builtin_config: { shell_timeout_secs: 5 } })).toBe("INVALID_PARAMS");
    expect(await codeOf("meerkat_resume", { session_id, enable_web_search: true })).toBe("CAPABILITY_UNAVAILABLE");
    expect(await codeOf("meerkat_resume", { session_id, enable_shell: true })).toBe("INVALID_PARAMS");
    expect(await codeOf("meerkat_resume", { session_id, enable_memory: true, enable_shell: false })).toBeUndefined();
  });

  it("[D2] the skill of memory is listed and read where there is a memory", async () => {
    const { call } = await connect();
    expect((await call("meerkat_skills", { action: "list" })).payload).toEqual({ skills: [MEMORY_RETRIEVAL] });
    const skill_key = MEMORY_RETRIEVAL.key;
    const { payload } = await call("meerkat_skills", { action: "inspect", skill_key });
    expect(payload).toEqual({ ...MEMORY_RETRIEVAL, body: expect.stringContaining("call memory_search") });
    expect((await call("meerkat_skills", { action: "inspect" })).payload.code).toBe("SKILL_NOT_FOUND");
    const without = await connect({}, { without: ["memory"] });
    expect((await without.call("meerkat_skills", { action: "list" })).payload).toEqual({ skills: [] });
  });
});
