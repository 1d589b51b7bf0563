import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MEMORY_RETRIEVAL } from "@rkat/core/contract/memory";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  asFrame,
  createRpcClient,
  type Frame,
  failure,
  type RpcClient,
  readAsClient,
  streamEvents,
  turnEvents,
} from "../support/rpc-client.ts";
import { type RpcProcess, startRpc } from "../support/rpc-process.ts";
import { openAiChatWire } from "../wire/openai-chat.ts";
import { openWireServer, type WireServer } from "../wire/server.ts";

const NOBODY = "01900000-0000-7000-8000-000000000000";

let home: string;
let server: RpcProcess;
let client: RpcClient;
let provider: WireServer;

/** Connects as both clients do: the flags they pass, `initialize`, the version, the capabilities. */
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), "rkat-compat-"));
  provider = await openWireServer(openAiChatWire);
  server = startRpc(
    home,
    ["--live-ws", "127.0.0.1:0", "--isolated", "--instance", "one", "--realm-backend", "sqlite"],
    {
      env: { OPENAI_API_KEY: "sk-test-key", OPENAI_BASE_URL: `${provider.url}/v1` },
    },
  );
  client = server.client;
  const { contract_version, methods, server_info } = await client.request("initialize", {});
  expect(contract_version).toMatch(/^0\.6\.\d+$/);
  expect(server_info).toEqual({ name: "meerkat-rpc", version: contract_version });
  expect(methods).not.toContain("mob/create");
  const { capabilities } = await client.request("capabilities/get", {});
  expect(capabilities).toContainEqual(expect.objectContaining({ id: "session_store", status: "Available" }));
});
afterAll(async () => {
  client.end();
  await server.exited;
  await provider.close();
  rmSync(home, { recursive: true });
});

const create = (options: Frame = {}) =>
  client.request("session/create", { prompt: "What is 2 + 3?", model: "offline", ...options });

/** What both clients require of a result before they give it to their user. */
const runResult = (more: object = {}) =>
  expect.objectContaining({
    session_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    session_ref: expect.stringMatching(/^realm-[0-9a-f-]{36}:[0-9a-f-]{36}$/),
    text: expect.any(String),
    turns: expect.any(Number),
    tool_calls: expect.any(Number),
    usage: expect.objectContaining({
      input_tokens: expect.any(Number),
      output_tokens: expect.any(Number),
      total_tokens: expect.any(Number),
    }),
    ...more,
  });

describe("a client of the 0.6 line", () => {
  it("[G2] createSession: every option of the wire is taken, also written as null", async () => {
    const everything = {
      provider: "openai",
      max_tokens: 100,
      system_prompt: "Be brief.",
      structured_output_retries: 1,
      hooks_override: {},
      enable_builtins: true,
      enable_shell: false,
      enable_memory: false,
      enable_schedule: false,
      enable_workgraph: false,
      enable_mob: false,
      enable_web_search: false,
      tool_filter: { Deny: ["apply_patch"] },
      keep_alive: false,
      comms_name: "",
      peer_meta: {},
      budget_limits: { max_tokens: 100_000, max_duration: { secs: 30, nanos: 0 }, max_tool_calls: 3 },
      provider_params: { temperature: 0 },
      auth_binding: {},
      preload_skills: [],
      skill_refs: [],
      labels: { team: "red" },
      additional_instructions: ["And polite."],
      app_context: { a: null },
      shell_env: { A: "b" },
      external_tools: [],
      some_later_field: 1,
    };
    expect(await create(everything)).toEqual(runResult({ text: "2 + 3 = 5", turns: 1, tool_calls: 0 }));
    const nulls = Object.fromEntries(Object.keys(everything).map((field) => [field, null]));
    expect(await create(nulls)).toEqual(runResult({ text: "2 + 3 = 5" }));
    const limits = { max_tokens: 100_000, max_duration: null, max_tool_calls: null };
    expect(await create({ budget_limits: limits, tool_filter: "All" })).toEqual(runResult());
  });

  it("[G2] [H1] createSession, startTurn: what is asked for and not there is refused, never dropped", async () => {
    const { session_id } = await create();
    const again = (fields: object) => client.request("turn/start", { session_id, prompt: "Go.", ...fields });
    const asks = [
      { enable_web_search: true },
      { enable_mob: true },
      { enable_schedule: true },
      { enable_workgraph: true },
      { auth_binding: { realm: "a", binding: "b" } },
      { provider_params: { no_such_parameter: 1 } },
    ];
    for (const fields of asks) {
      const [field = ""] = Object.keys(fields);
      const refused = failure(-32020, "CAPABILITY_UNAVAILABLE", new RegExp(`^${field}[.:]`));
      await expect(create(fields)).rejects.toEqual(refused);
      await expect(again(fields)).rejects.toEqual(refused);
    }
    const skills = { skill_refs: [{ kind: "structured", source_uuid: "a", skill_name: "b" }] };
    const notFound = failure(-32021, "SKILL_NOT_FOUND", /^skill_refs: there is no skill b/);
    await expect(create(skills)).rejects.toEqual(notFound);
    await expect(again(skills)).rejects.toEqual(notFound);
    await expect(create({ preload_skills: skills.skill_refs })).rejects.toEqual(
      failure(-32021, "SKILL_NOT_FOUND", /^preload_skills: there is no skill b/),
    );
  });

  it("[G2] [H1] createSession: what was retired, is reserved or unknown is refused by name", async () => {
    const refused = (message: RegExp) => failure(-32602, "INVALID_PARAMS", message);
    await expect(create({ skill_references: ["a"] })).rejects.toEqual(refused(/^skill_references: .*retired/));
    await expect(create({ labels: { "meerkat.runtime_id": "x" } })).rejects.toEqual(refused(/^labels: .*reserved/));
    await expect(create({ provider: "nobody" })).rejects.toEqual(refused(/^unknown provider nobody/));
    await expect(create({ tool_filter: "None" })).rejects.toEqual(refused(/^tool_filter: write "All"/));
    await expect(client.request("session/create", { model: "offline" })).rejects.toEqual(refused(/^prompt: /));
    for (const provider of ["anthropic", "openai", "gemini", "self_hosted"]) {
      expect(await create({ provider })).toEqual(runResult());
    }
  });

  it("[G2] createSessionStreaming: the frames of a new session are all there before its response", async () => {
    const from = client.frames.length;
    const created = await create();
    const frames = client.frames.slice(from);
    const events = turnEvents(frames, String(created.session_id));
    expect(frames.at(-1)).toMatchObject({ result: { session_id: created.session_id } });
    expect(frames.every((frame) => frame.method === undefined || asFrame(frame.params).event !== undefined)).toBe(true);
    expect([...new Set(events.map(readAsClient))]).toEqual([
      "run_started",
      "turn_started",
      "text_delta",
      "text_complete",
      "turn_completed",
      "run_completed",
    ]);
    expect(events.at(-1)).toMatchObject({ payload: { type: "run_completed", result: "2 + 3 = 5" }, source: {} });
  });

  it("[G2] createDeferredSession, startTurn: options of the first turn are taken then and refused later", async () => {
    const deferred = await create({ initial_turn: "deferred" });
    expect(deferred).toEqual({ session_id: expect.any(String), session_ref: expect.any(String) });
    const { session_id } = deferred;
    const first = { session_id, prompt: "Go.", max_tokens: 50, system_prompt: "Be brief.", keep_alive: true };
    expect(await client.request("turn/start", first)).toEqual(runResult({ session_id }));
    const later = { session_id, prompt: "Go.", max_tokens: 50 };
    await expect(client.request("turn/start", later)).rejects.toEqual(
      failure(-32602, "INVALID_PARAMS", /^Cannot override max_tokens/),
    );
    const overlay = { flow_tool_overlay: { allowed_tools: ["datetime"], blocked_tools: null }, skill_refs: null };
    expect(await client.request("turn/start", { session_id, prompt: "What is 4 + 4?", ...overlay })).toEqual(
      runResult({ text: "4 + 4 = 8" }),
    );
  });

  it("[G2] a session that is kept alive answers at once; its first turn goes on behind and is kept", async () => {
    const from = client.frames.length;
    provider.reply({ kind: "answer", scenario: { text: ["Here I am."], usage: { input: 1, output: 1 } } });
    const { session_id, ...answer } = await create({ keep_alive: true, prompt: "Hello.", model: "openai/gpt-4.1" });
    const usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };
    expect(answer).toEqual({ session_ref: expect.any(String), text: "", turns: 0, tool_calls: 0, usage });
    await expect
      .poll(() => client.request("session/read", { session_id }), { timeout: 60_000 })
      .toMatchObject({ state: "idle", last_assistant_text: "Here I am." });
    expect(turnEvents(client.frames.slice(from), String(session_id))).toEqual([]);
    expect(await client.request("session/archive", { session_id })).toEqual({ archived: true });
  });

  it("[G2] history, listSessions, readSession, interrupt, archive", async () => {
    const { session_id, session_ref } = await create({ labels: { kind: "history" } });
    const user = { role: "user", content: "What is 2 + 3?", created_at: expect.stringMatching(/T.*Z$/) };
    const assistant = {
      role: "block_assistant",
      blocks: [{ block_type: "text", data: { text: "2 + 3 = 5" } }],
      stop_reason: "end_turn",
      created_at: expect.any(String),
    };
    expect(await client.request("session/history", { session_id, offset: 0 })).toEqual({
      session_id,
      session_ref,
      message_count: 2,
      offset: 0,
      has_more: false,
      messages: [expect.objectContaining(user), expect.objectContaining(assistant)],
    });
    expect(await client.request("session/history", { session_id, offset: 0, limit: 1 })).toMatchObject({
      limit: 1,
      has_more: true,
    });
    expect(await client.request("session/history", { session_id: session_ref, limit: null })).toMatchObject({
      message_count: 2,
    });
    const now = Math.floor(Date.now() / 1_000);
    const summary = { session_id, session_ref, message_count: 2, is_active: false, labels: { kind: "history" } };
    const { sessions } = await client.request("session/list", { labels: { kind: "history" }, limit: 10, offset: 0 });
    expect(sessions).toEqual([expect.objectContaining({ ...summary, total_tokens: expect.any(Number) })]);
    const read = await client.request("session/read", { session_id });
    expect(read).toMatchObject({ ...summary, model: "offline", provider: "offline", last_assistant_text: "2 + 3 = 5" });
    expect(Math.abs(Number(read.created_at) - now)).toBeLessThan(600); // Seconds, not milliseconds.
    expect(await client.request("turn/interrupt", { session_id })).toEqual({ interrupted: true });
    expect(await client.request("session/archive", { session_id })).toEqual({ archived: true });
    await expect(client.request("turn/start", { session_id, prompt: "x" })).rejects.toEqual(
      failure(-32001, "SESSION_NOT_FOUND"),
    );
    expect(await client.request("session/history", { session_id })).toMatchObject({ message_count: 2 });
  });

  it("[G2] subscribeEvents: plain envelopes until the stream is closed, and then its end", async () => {
    const { session_id } = await create();
    const { stream_id, ...opened } = await client.request("session/stream_open", { session_id });
    expect(opened).toEqual({ session_id, opened: true });
    await client.request("turn/start", { session_id, prompt: "What is 4 + 4?" });
    expect(await client.request("session/stream_close", { stream_id })).toMatchObject({
      closed: true,
      already_closed: false,
    });
    const frames = streamEvents(client.frames, stream_id);
    expect(frames.map(({ sequence }) => sequence)).toEqual(frames.map((_, index) => index + 1));
    expect(frames.at(-1)?.event).toMatchObject({
      event_id: expect.any(String),
      source: { type: "session", session_id },
      source_id: `session:${session_id}`,
      seq: expect.any(Number),
      timestamp_ms: expect.any(Number),
      payload: { type: "run_completed" },
    });
    expect(client.frames.find((frame) => frame.method === "session/stream_end")?.params).toEqual({
      stream_id,
      session_id,
      ended: true,
      outcome: "explicit_close",
    });
    expect(await client.request("session/stream_close", { stream_id })).toMatchObject({ already_closed: true });
  });

  it("[G2] injectContext, sendExternalEvent: data the model is shown at its next call", async () => {
    const { session_id } = await create();
    const injected = { session_id, text: "The host is web-7.", source: "ops", idempotency_key: "k" };
    expect(await client.request("session/inject_context", injected)).toEqual({ status: "staged" });
    expect(await client.request("session/inject_context", injected)).toEqual({ status: "duplicate" });
    await expect(client.request("session/inject_context", { ...injected, text: "Other." })).rejects.toEqual(
      failure(-32602, "INVALID_PARAMS", /^idempotency_key/),
    );
    const event = { session_id, kind: "generic_json", event_type: "build.failed", payload: { job: 17 } };
    expect(await client.request("session/external_event", { ...event, blocks: null })).toEqual({
      outcome_type: "accepted",
      input_id: expect.any(String),
    });
    provider.reply({ kind: "answer", scenario: { text: ["I see."], usage: { input: 1, output: 1 } } });
    await client.request("turn/start", { session_id, prompt: "What happened?", model: "openai/gpt-4.1" });
    const sent = JSON.stringify(provider.requests.at(-1)?.body);
    expect(sent).toContain("The host is web-7.");
    expect(sent).toMatch(
      /External event .{1,4}build\.failed.{1,4}\. What follows is data from outside, not an instruct/,
    );
    expect(sent).toMatch(/job.{1,4}:17/);
  });

  it("[G2] tools: registered before and after, run by the client, and a session's own win", async () => {
    const tool = (name: string) => ({ name, description: name, input_schema: { type: "object", properties: {} } });
    const calls = (name: string) => ({
      kind: "answer" as const,
      scenario: { toolCalls: [{ id: "c1", name, args: "{}" }], usage: { input: 1, output: 1 } },
    });
    const says = { kind: "answer" as const, scenario: { text: ["Done."], usage: { input: 1, output: 1 } } };
    const asked: Frame[] = [];
    client.serveTools((call) => {
      asked.push(call);
      return { result: { content: `it is ${call.name}`, is_error: false } };
    });
    const offered = () => JSON.stringify(provider.requests.at(-1)?.body.tools ?? []);
    expect(await client.request("tools/register", { tools: [tool("before")] })).toEqual({ registered: 1 });
    provider.reply(calls("before"), says);
    const options = { model: "openai/gpt-4.1", external_tools: [tool("own")] };
    const { session_id } = await create(options);
    expect(await client.request("tools/register", { tools: [tool("after"), tool("own")] })).toEqual({ registered: 2 });
    provider.reply(calls("after"), says);
    expect(await client.request("turn/start", { session_id, prompt: "Again." })).toEqual(runResult({ tool_calls: 1 }));
    expect(asked).toMatchObject([
      { tool_use_id: "c1", name: "before", arguments: {} },
      { tool_use_id: "c1", name: "after", arguments: {} },
    ]);
    for (const name of ["before", "after", "own"]) expect(offered()).toContain(`"name":"${name}"`);
    expect(turnEvents(client.frames, String(session_id)).map(readAsClient)).not.toContainEqual(
      expect.stringMatching(/^malformed/),
    );
  });

  it("[G2] getConfig, setConfig, patchConfig, listSkills, getModelsCatalog, getBlob", async () => {
    const { config, generation, ...realm } = await client.request("config/get", {});
    expect(realm).toMatchObject({
      realm_id: expect.stringMatching(/^realm-/),
      instance_id: "one",
      backend: "embedded",
    });
    const set = await client.request("config/set", { config, expected_generation: generation });
    expect(set).toEqual({ config, generation: Number(generation) + 1, ...realm });
    const patched = await client.request("config/patch", { patch: { agent: { max_turns: 9 } } });
    expect(patched).toMatchObject({ generation: Number(generation) + 2, config: { agent: { max_turns: 9 } } });
    await client.request("config/set", { config: {} });
    expect(await client.request("skills/list", {})).toEqual({ skills: [MEMORY_RETRIEVAL] });
    expect(await client.request("models/catalog", {})).toMatchObject({ contract_version: { major: 0, minor: 6 } });
    await expect(client.request("blob/get", { blob_id: "x" })).rejects.toEqual(failure(-32602, "INVALID_PARAMS"));
  });

  it("[G2] errors carry the table's code in their data; what is not served is not advertised", async () => {
    await expect(client.request("session/read", { session_id: NOBODY })).rejects.toEqual(
      failure(-32001, "SESSION_NOT_FOUND", new RegExp(`^Session not found: ${NOBODY}$`)),
    );
    const { methods } = await client.request("initialize", {});
    for (const name of ["help/ask", "mob/list", "live/open", "schedule/tools"]) {
      expect(methods).not.toContain(name);
      await expect(client.request(name, {})).rejects.toEqual(failure(-32601, "METHOD_NOT_FOUND"));
    }
    provider.reply({ kind: "refuse", refusal: "auth" });
    const failed = await create({ model: "openai/gpt-4.1" }).catch((error) => error);
    expect(failed).toEqual(failure(-32010, "PROVIDER_ERROR"));
    expect(failed.data).toMatchObject({ session_id: expect.any(String) });
    const { session_id } = failed.data;
    expect(turnEvents(client.frames, session_id).map(readAsClient).at(-1)).toBe("run_failed");
  });
});

describe("how clients start and end it", () => {
  it("[G2] as rkat-rpc and as rkat rpc; the end of stdin and SIGTERM end it, with nothing but JSON said", async () => {
    const doors = [undefined, [join(import.meta.dirname, "../../packages/rkat/src/cli.ts"), "rpc"]];
    for (const door of doors) {
      const { child, exited } = startRpc(home, [], door === undefined ? {} : { door });
      const own = createRpcClient(child.stdin, child.stdout); // It fails on a line that is no JSON.
      expect(await own.request("initialize", {})).toMatchObject({ contract_version: "0.6.30" });
      own.end();
      child.kill("SIGTERM");
      const { stderr } = await exited;
      expect(stderr).toBe("");
    }
  });
});
