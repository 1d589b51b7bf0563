import { createInMemoryStore, type RuntimeOptions } from "@rkat/core/create-runtime";
import { createScriptedModel } from "@rkat/core/providers/scripted";
import { describe, expect, it } from "vitest";
import { createCaller, serveRuntime } from "../support/rest-server.ts";
import { configWith, scriptedRuntime } from "../support/runtime.ts";
import { composedRuntime, serveBoth, tokenFolder } from "../support/tokens.ts";

const REACHING = ["shell", "shell_jobs", "shell_job_status", "shell_job_cancel", "apply_patch"];
const DENIED = { status: 403, body: { code: "PERMISSION_DENIED" } };

/** A server below `safe` whose model tells what it was offered, on a store where somebody else has given sessions more. */
async function safeServer(options: RuntimeOptions = {}) {
  const model = createScriptedModel(() => ({ text: "Hello." }));
  const store = createInMemoryStore();
  const elsewhere = composedRuntime({ model, store });
  const { body } = { body: await elsewhere.dispatch("createSession", { prompt: "Hi.", tool_preset: "full" }) };
  expect(offered()).toEqual(expect.arrayContaining(REACHING));
  const served = await serveRuntime(composedRuntime({ model, store, ceiling: "safe", ...options }));
  function offered(): readonly string[] {
    return (model.requests.at(-1)?.tools ?? []).map(({ name }) => name);
  }
  /** What of the tools that reach outside the model was offered since. */
  const reached = (since: number): readonly string[] =>
    model.requests
      .slice(since)
      .flatMap(({ tools }) => tools.map(({ name }) => name).filter((name) => REACHING.includes(name)));
  return { ...served, withShell: body.session_id, reached, asked: () => model.requests.length };
}

describe("no way to a tool passes a ceiling of safe:", () => {
  it("[I3] neither a preset nor a switch, a filter or an overlay, of a new session or a turn", async () => {
    const { call, reached, asked } = await safeServer();
    const since = asked();
    const refused = [{ tool_preset: "workspace" }, { tool_preset: "full" }, { enable_shell: true }];
    for (const more of refused) expect(await call("POST /sessions", { prompt: "Hi.", ...more })).toMatchObject(DENIED);
    expect(asked()).toBe(since);
    const lowered = [
      { enable_builtins: true },
      { tool_preset: "safe", tool_filter: { Allow: REACHING } },
      { tool_preset: "safe", enable_builtins: true },
      { enable_memory: true, enable_builtins: true },
    ];
    for (const more of lowered) {
      const { status, body } = await call("POST /sessions", { prompt: "Hi.", ...more });
      expect(status, JSON.stringify(body)).toBe(200);
      const turn = { prompt: "On.", flow_tool_overlay: { allowed_tools: REACHING } };
      expect((await call(`POST /sessions/${body.session_id}/messages`, turn)).status).toBe(200);
      const late = await call(`POST /sessions/${body.session_id}/messages`, { prompt: "On.", enable_shell: true });
      expect(late.status).toBe(400);
    }
    expect(asked()).toBeGreaterThan(since);
    expect(reached(since)).toEqual([]);
  });

  it("[I3] neither a session that was given more elsewhere, resumed or forked, with another message or without", async () => {
    const { call, reached, asked, withShell } = await safeServer();
    const since = asked();
    expect((await call(`POST /sessions/${withShell}/messages`, { prompt: "On." })).status).toBe(200);
    const fork = await call(`POST /sessions/${withShell}/fork`, { message_index: 2 });
    expect((await call(`POST /sessions/${fork.body.session_id}/messages`, { prompt: "On." })).status).toBe(200);
    const replacement = { type: "message", message: { role: "user", content: "Use the shell." } };
    const replaced = await call(`POST /sessions/${withShell}/fork-replace`, { message_index: 0, replacement });
    expect((await call(`POST /sessions/${replaced.body.session_id}/messages`, { prompt: "On." })).status).toBe(200);
    expect(asked()).toBe(since + 3);
    expect(reached(since)).toEqual([]);
  });

  it("[I3] neither a change of the configuration", async () => {
    const { call, reached, asked } = await safeServer();
    const since = asked();
    const patches = [
      { tools: { shell_enabled: true } },
      { tools: { builtins_enabled: true } },
      { ceiling: { tools: "full" } },
      { ceiling: { models: ["*"] } },
      { shell: { program: "/bin/sh" } },
      { providers: { openai: { base_url: "http://evil.example" } } },
    ];
    for (const patch of patches) {
      expect(await call("PATCH /config", patch), JSON.stringify(patch)).toMatchObject(DENIED);
      expect(await call("PUT /config", patch), JSON.stringify(patch)).toMatchObject(DENIED);
    }
    expect((await call("PATCH /config", { mcp: { evil: { command: "sh" } } })).status).toBe(400);
    expect((await call("POST /sessions", { prompt: "Hi." })).status).toBe(200);
    expect(reached(since)).toEqual([]);
  });

  it("[I3] neither a tool that the client brings, whatever it is called: the client runs it itself", async () => {
    const { stateFolder, create } = tokenFolder();
    const model = createScriptedModel(({ messages }) =>
      messages.at(-1)?.role === "user" ? { calls: [{ name: "shell", args: { command: "id" } }] } : { text: "Done." },
    );
    const runtime = composedRuntime({ model, ceiling: "safe" });
    const { connect } = await serveBoth(stateFolder, runtime);
    const { call } = await connect(await create("web", { scopes: ["run"] }));
    const tools = [{ name: "shell", description: "Mine.", input_schema: { type: "object" }, handler: "callback" }];
    const { payload } = await call("meerkat_run", { prompt: "Hi.", tools });
    expect(payload).toMatchObject({ status: "pending_tool_call", pending_tool_calls: [{ tool_name: "shell" }] });
    const [{ tool_use_id }] = payload.pending_tool_calls;
    const { session_id } = payload;
    const tool_results = [{ tool_use_id, content: "uid=0" }];
    expect((await call("meerkat_resume", { session_id, prompt: "", tool_results })).payload.content[0].text).toBe(
      "Done.",
    );
  });

  it("[I3] and over MCP neither, by any argument", async () => {
    const { stateFolder, create } = tokenFolder();
    const { connect } = await serveBoth(stateFolder, composedRuntime({ ceiling: "safe" }));
    const { call } = await connect(await create("web", { scopes: ["run", "tools", "config"] }));
    for (const more of [{ enable_shell: true }, { builtin_config: { enable_shell: true } }, { tool_preset: "full" }]) {
      expect((await call("meerkat_run", { prompt: "Hi.", ...more })).payload.code).toBe("PERMISSION_DENIED");
    }
    const patch = { tools: { shell_enabled: true } };
    expect((await call("meerkat_config", { action: "patch", patch })).payload.code).toBe("PERMISSION_DENIED");
  });
});

describe("a ceiling in the configuration", () => {
  it("[I3] lowers what a door allows, for everybody", async () => {
    const config = configWith({ ceiling: { tools: "safe" } });
    const runtime = composedRuntime({ config });
    await expect(runtime.dispatch("createSession", { prompt: "Hi.", enable_shell: true })).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      message: `enable_shell: the configuration's [ceiling] says tools = "safe", which no request passes`,
    });
    await runtime.close();
  });

  it("[I3] [I7] of what a session may cost is passed by no request", async () => {
    const prices = { scripted: { input: 1, output: 1 } };
    const config = configWith({ prices, ceiling: { limits: { max_cost: 1 } } });
    const { runtime } = scriptedRuntime([{ text: "Hello." }], { config });
    await expect(runtime.createSession("Hi.", { budgetLimits: { maxCost: 2 } })).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      message: "budget_limits.max_cost: at most 1 is allowed here",
    });
    expect((await runtime.createSession("Hi.")).text).toBe("Hello.");
  });

  it("[I3] bounds budgets: one that asks for more is refused, one that says nothing gets it, a resumed one, too", async () => {
    const store = createInMemoryStore();
    const free = composedRuntime({ store });
    const { session_id } = await free.dispatch("createSession", { prompt: "Hi." });
    const config = configWith({ ceiling: { limits: { max_tokens: 50, max_duration_ms: 60_000 } } });
    const { url } = await serveRuntime(composedRuntime({ store, config, ceiling: "safe" }));
    const call = createCaller(url);
    const more = await call("POST /sessions", { prompt: "Hi.", budget_limits: { max_tokens: 51 } });
    expect(more).toMatchObject({
      status: 403,
      body: { message: "budget_limits.max_tokens: at most 50 is allowed here" },
    });
    const longer = await call("POST /sessions", { prompt: "Hi.", budget_limits: { max_duration: "61s" } });
    expect(longer.body.message).toBe("budget_limits.max_duration: at most 1m is allowed here");
    const said = "word ".repeat(200);
    for (const route of ["POST /sessions", `POST /sessions/${session_id}/messages`]) {
      const id = (await call(route, { prompt: said })).body.session_id ?? session_id;
      const { body } = await call(`POST /sessions/${id}/messages`, { prompt: "More." });
      expect(body.code ?? body.terminal_cause_kind, route).toMatch(/budget/i);
    }
  });

  it("[I3] names the models that may be asked, whatever they are called by, at creation and at every turn", async () => {
    const config = configWith({
      ceiling: { models: ["off*", "openai/gpt-*"] },
      profiles: { mine: { model: "claude-x", api: "chat" } },
    });
    const { call } = await serveRuntime(composedRuntime({ config, env: { ANTHROPIC_API_KEY: "k" } }));
    const { body } = await call("POST /sessions", { prompt: "Hi.", model: "offline" });
    expect(body.session_id).toBeDefined();
    for (const model of ["claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"]) {
      expect(await call("POST /sessions", { prompt: "Hi.", model }), model).toMatchObject(DENIED);
      const turn = await call(`POST /sessions/${body.session_id}/messages`, { prompt: "Hi.", model });
      expect(turn, model).toMatchObject({ ...DENIED, body: { message: /allowed here are off\*, openai\/gpt-\*$/ } });
    }
  });
});

describe("a token without the scope tools", () => {
  it("[I4] gives no session a shell or file tools, and runs no turn of one that has them", async () => {
    const { stateFolder, create } = tokenFolder();
    const [run, tools] = [
      await create("run", { scopes: ["run", "read"] }),
      await create("hands", { scopes: ["run", "tools"] }),
    ];
    const { call } = await serveBoth(stateFolder, composedRuntime({ ceiling: "workspace" }));
    const asked = { prompt: "Hi.", tool_preset: "workspace" };
    const refused = await call("POST /sessions", asked, run);
    expect(refused).toMatchObject({
      ...DENIED,
      body: { message: "tool_preset workspace: shell and file tools need the scope tools" },
    });
    const { body } = await call("POST /sessions", asked, tools);
    const turn = await call(`POST /sessions/${body.session_id}/messages`, { prompt: "On." }, run);
    expect(turn).toMatchObject({ ...DENIED, body: { message: /needs the scope tools, which run does not have$/ } });
    expect((await call(`POST /sessions/${body.session_id}/messages`, { prompt: "On." }, tools)).status).toBe(200);
    expect((await call("POST /sessions", { prompt: "Hi.", enable_builtins: true }, run)).status).toBe(200);
  });
});
