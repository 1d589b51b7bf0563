import type { ModelRequest } from "@rkat/core/ports/model";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { describe, expect, it } from "vitest";
import { asFrame, type Frame, readAsClient, turnEvents } from "../../../../test/support/rpc-client.ts";
import { connectRpc } from "../../../../test/support/rpc-connection.ts";
import { createVirtualClock } from "../../../../test/support/virtual-clock.ts";

const weather = {
  name: "weather",
  description: "The weather",
  input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

/** Calls the tool once a turn, then repeats what it answered. */
const callsWeather = () =>
  createScriptedModel((request) => {
    const last = request.messages.at(-1);
    if (last?.role === "tool_results")
      return { text: JSON.stringify(last.results.map(({ content, is_error }) => ({ content, is_error }))) };
    return { calls: [{ id: "c1", name: "weather", args: { city: "Oslo" } }] };
  });
const offered = (request: ModelRequest | undefined) => request?.tools.map((tool) => tool.name);
const textOf = (result: Frame) => JSON.parse(String(result.text));

describe("a tool the client runs", () => {
  it("is asked for with tool/execute, and its answer goes to the model", async () => {
    const { client } = connectRpc({ model: callsWeather() });
    expect(await client.request("tools/register", { tools: [weather] })).toEqual({ registered: 1 });
    const calls: Frame[] = [];
    client.serveTools((call) => {
      calls.push(call);
      return { result: { content: "rain", is_error: false } };
    });
    const result = await client.request("session/create", { prompt: "what is it like outside?" });
    const source = { type: "session", session_id: result.session_id };
    expect(calls).toEqual([{ tool_use_id: "c1", name: "weather", arguments: { city: "Oslo" }, source }]);
    expect(client.frames.find((frame) => frame.method === "tool/execute")?.id).toBe("srv-1");
    expect(textOf(result)).toEqual([{ content: "rain", is_error: false }]);
  });

  it("that fails, or answers nonsense, is an error the model sees", async () => {
    const { client } = connectRpc({ model: callsWeather() });
    await client.request("tools/register", { tools: [weather] });
    client.serveTools(() => ({ result: { content: "no sensor", is_error: true } }));
    const { session_id, ...failed } = await client.request("session/create", { prompt: "go" });
    client.serveTools(() => ({ error: { code: -32000, message: "it broke" } }));
    const broken = await client.request("turn/start", { session_id, prompt: "go" });
    client.serveTools(() => ({ result: 5 }));
    const nonsense = await client.request("turn/start", { session_id, prompt: "go" });
    expect(textOf(failed)).toEqual([{ content: "no sensor", is_error: true }]);
    expect(textOf(broken)).toEqual([{ content: expect.stringContaining("it broke"), is_error: true }]);
    expect(textOf(nonsense)).toEqual([{ content: expect.stringContaining("unusable"), is_error: true }]);
  });

  it("[A2] that is registered late is told at the next turn of a session, once", async () => {
    const { client } = connectRpc({ model: createScriptedModel(() => ({ text: "ok" })) });
    const { session_id } = await client.request("session/create", { prompt: "one" });
    await client.request("tools/register", { tools: [weather] });
    await client.request("turn/start", { session_id, prompt: "two" });
    await client.request("turn/start", { session_id, prompt: "three" });
    const { session_id: other } = await client.request("session/create", { prompt: "with it from the start" });
    const events = turnEvents(client.frames, String(session_id));
    const changed = events.findIndex((event) => event.type === "tool_config_changed");
    expect(events[changed]).toMatchObject({
      payload: { operation: "add", target: "callback:weather", status: "applied", persisted: false },
    });
    expect(events.slice(changed - 2, changed)).toMatchObject([
      { type: "run_started", prompt: "two" },
      { type: "turn_started" },
    ]);
    expect(events.filter((event) => event.type === "tool_config_changed")).toHaveLength(1);
    expect(turnEvents(client.frames, String(other)).map((event) => event.type)).not.toContain("tool_config_changed");
  });

  it("has 30 seconds to answer", async () => {
    const { client } = connectRpc({ model: callsWeather(), clock: createVirtualClock() });
    await client.request("tools/register", { tools: [weather] });
    const result = await client.request("session/create", { prompt: "go" });
    const events = turnEvents(client.frames, String(result.session_id));
    expect(events.find((event) => event.type === "tool_execution_timed_out")).toMatchObject({ timeout_ms: 30_000 });
    expect(textOf(result)).toEqual([{ content: expect.stringContaining("30000 ms"), is_error: true }]);
  });

  it("registered later is there from the next turn on; the same name is replaced", async () => {
    const model = createScriptedModel(() => ({ text: "ok" }));
    const { client } = connectRpc({ model });
    const { session_id } = await client.request("session/create", { prompt: "hi" });
    await client.request("tools/register", { tools: [weather, { name: "bell" }] });
    await client.request("tools/register", { tools: [{ ...weather, description: "Better weather" }] });
    await client.request("turn/start", { session_id, prompt: "hi" });
    expect(model.requests.map(offered)).toEqual([[], ["weather", "bell"]]);
    expect(model.requests[1]?.tools[0]?.description).toBe("Better weather");
  });

  it("given to one session is its own, wins over a registered one, and goes along with a fork", async () => {
    const model = createScriptedModel(() => ({ text: "ok" }));
    const { client } = connectRpc({ model });
    await client.request("tools/register", { tools: [weather] });
    const own = { ...weather, description: "My weather" };
    const { session_id } = await client.request("session/create", {
      prompt: "hi",
      external_tools: [own, { name: "bell" }],
    });
    await client.request("turn/start", { session_id, prompt: "hi" });
    const fork = await client.request("session/fork_at", { session_id, message_index: 2 });
    await client.request("turn/start", { session_id: fork.session_id, prompt: "hi" });
    await client.request("session/create", { prompt: "another" });
    expect(model.requests.map(offered)).toEqual([
      ["weather", "bell"],
      ["weather", "bell"],
      ["weather", "bell"],
      ["weather"],
    ]);
    expect(model.requests.map((request) => request.tools[0]?.description)).toEqual([
      "My weather",
      "My weather",
      "My weather",
      "The weather",
    ]);
  });

  it("that nobody answers does not outlast an interrupt", async () => {
    const { client } = connectRpc({ model: callsWeather() });
    await client.request("tools/register", { tools: [weather] });
    const { result } = client.start("session/create", { prompt: "go" });
    await client.frame((frame) => frame.method === "tool/execute");
    const started = client.frames.find((frame) => frame.method === "session/event");
    await client.request("turn/interrupt", { session_id: asFrame(started?.params).session_id });
    await expect(result).rejects.toMatchObject({ number: -32005 });
    client.raw('{"jsonrpc":"2.0","id":"srv-1","result":{"content":"late"}}\n{"id":"srv-9","result":{}}\n');
    const error = await result.catch((thrown) => thrown);
    const types = turnEvents(client.frames, error.data.session_id).map(readAsClient);
    expect(types.at(-1)).toBe("run_failed");
    expect(await client.request("runtime/health")).toMatchObject({ status: "ok" });
  });

  it("[H1] [H5] must be described, and there may not be too many", async () => {
    const { client } = connectRpc();
    const wrong = { number: -32602, data: { code: "INVALID_PARAMS" } };
    await expect(client.request("tools/register", {})).rejects.toMatchObject(wrong);
    await expect(client.request("tools/register", { tools: [{ name: "" }] })).rejects.toMatchObject(wrong);
    await expect(client.request("session/create", { prompt: "hi", external_tools: [{}] })).rejects.toMatchObject(wrong);
    const many = Array.from({ length: 1_024 }, (_, index) => ({ name: `tool-${index}` }));
    expect(await client.request("tools/register", { tools: many })).toEqual({ registered: 1_024 });
    await expect(client.request("tools/register", { tools: [weather] })).rejects.toMatchObject(wrong);
  });
});
