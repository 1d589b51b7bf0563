import { describe, expect, it } from "vitest";
import { configWith, scriptedRuntime } from "../../../../test/support/runtime.ts";
import { composeLayers } from "../config/config-layers.ts";
import { createInMemoryStore, createRuntime } from "../create-runtime.ts";
import { createConfigInMemory } from "../stores/in-memory.ts";

const scripted = (options: Parameters<typeof scriptedRuntime>[1] = {}) =>
  scriptedRuntime(() => ({ text: "ok" }), { store: createInMemoryStore(), ...options });

describe("a configuration that changes", () => {
  it("[G2] holds for sessions that are made afterwards", async () => {
    const { runtime, model } = scripted();
    await runtime.createSession("before");
    await runtime.dispatch("patchConfig", {
      agent: { system_prompt: "Be brief.", max_tokens_per_turn: 99 },
      budget: { max_tool_calls: 2 },
      tools: { builtins_enabled: true },
    });
    await runtime.createSession("after");
    const [before, after] = model.requests;
    expect(before?.tools).toEqual([]);
    expect(after?.tools.map(({ name }) => name)).toContain("apply_patch");
    expect(after).toMatchObject({ maxOutputTokens: 99, messages: [{ role: "system", content: "Be brief." }, {}] });
  });

  it("[G2] chooses the model of sessions that name none, and lists what was added to the catalogue", async () => {
    const runtime = createRuntime({ env: {}, store: createInMemoryStore() });
    await expect(runtime.createSession("x")).rejects.toThrow("no model is configured");
    await runtime.dispatch("patchConfig", {
      agent: { model: "offline" },
      models: { "my-model": { context_window: 5_000, provider: "anthropic" } },
    });
    expect((await runtime.createSession("What is 2 + 3?")).text).toContain("5");
    expect(JSON.stringify(await runtime.dispatch("readModels", {}))).toContain("my-model");
  });

  it("[G2] holds for the next turn of a session, and never for one that runs", async () => {
    let retry: (() => Promise<unknown>) | undefined;
    const failure = { kind: "overloaded" as const, message: "busy" };
    const { runtime, model } = scriptedRuntime(
      (_, index) => {
        if (index === 0) void retry?.();
        return { ends: { failure } };
      },
      { store: createInMemoryStore() },
    );
    const session = await runtime.createDeferredSession("Begin.");
    retry = () => runtime.dispatch("patchConfig", { retry: { max_retries: 0 } });
    await expect(session.turn("go")).rejects.toThrow("busy");
    expect(model.requests).toHaveLength(4);
    await expect(session.turn("again")).rejects.toThrow("busy");
    expect(model.requests).toHaveLength(5);
  });

  it("[G2] is read as it can be written: get, set, get", async () => {
    const { runtime } = scripted({ config: configWith({ agent: { max_turns: 7 }, shell: { timeout_ms: 1_500 } }) });
    const first = await runtime.dispatch("readConfig", {});
    expect(first).toMatchObject({ generation: 0, config: { agent: { max_turns: 7 }, shell: { timeout_secs: 1.5 } } });
    const { generation, ...rest } = await runtime.dispatch("setConfig", { config: first.config });
    expect(generation).toBe(1);
    expect(rest).toEqual({ config: first.config });
    expect(await runtime.dispatch("readConfig", {})).toEqual({ generation, ...rest });
  });

  it("[G2] is changed by a patch that removes with null, and set as a whole", async () => {
    const { runtime } = scripted({ config: configWith({ agent: { max_turns: 7 } }) });
    const turnsOf = async () => (await runtime.dispatch("readConfig", {})).config.agent;
    await runtime.dispatch("patchConfig", { patch: { agent: { max_turns: 9, system_prompt: "x" } } });
    expect(await turnsOf()).toMatchObject({ max_turns: 9, system_prompt: "x" });
    await runtime.dispatch("patchConfig", { agent: { max_turns: null } });
    expect(await turnsOf()).toMatchObject({ max_turns: 7, system_prompt: "x" });
    await runtime.dispatch("setConfig", { config: {} });
    expect(await turnsOf()).not.toHaveProperty("system_prompt");
  });

  it("[G2] is refused when somebody else changed it meanwhile", async () => {
    const { runtime } = scripted();
    await runtime.dispatch("patchConfig", { patch: { agent: { max_turns: 9 } }, expected_generation: 0 });
    const late = runtime.dispatch("setConfig", { config: {}, expected_generation: 0 });
    await expect(late).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: "Generation conflict: expected 0, current 1",
      details: { type: "generation_conflict", expected_generation: 0, current_generation: 1 },
    });
    expect(await runtime.dispatch("readConfig", {})).toMatchObject({
      generation: 1,
      config: { agent: { max_turns: 9 } },
    });
  });

  it("[C17] [C19] [H1] is refused before anything changes when it cannot hold", async () => {
    const { runtime } = scripted({ compaction: true });
    const refused: [unknown, string, RegExp][] = [
      [
        { agent: { modle: "x" } },
        "INVALID_PARAMS",
        /^patch: agent\.modle is not a known key; did you mean agent\.model\?$/,
      ],
      [{ agent: 5 }, "INVALID_PARAMS", /^patch: agent is 5; make it a table/],
      [{ retry: { max_retries: -1 } }, "INVALID_PARAMS", /^patch: retry\.max_retries is -1; write a whole number/],
      [{ compaction: { auto_compact_threshold: 10 } }, "COMPACTION_THRESHOLD_UNREACHABLE", /can never be met/],
      [{ features: [], compaction: { recent_turn_budget: 2 } }, "SESSION_COMPACTION_DISABLED", /disabled/],
      [{}, "INVALID_PARAMS", /^patch: write the configuration as an object/],
      [{ patch: [] }, "INVALID_PARAMS", /^patch: write the configuration as an object/],
      [{ patch: {}, expected_generation: -1 }, "INVALID_PARAMS", /^expected_generation: /],
    ];
    for (const [input, code, sentence] of refused) {
      const answer = runtime.dispatch("patchConfig", input);
      await expect(answer).rejects.toMatchObject({ code, message: expect.stringMatching(sentence) });
    }
    expect(await runtime.dispatch("readConfig", {})).toMatchObject({ generation: 0 });
    const without = scripted();
    await expect(
      without.runtime.dispatch("patchConfig", { compaction: { recent_turn_budget: 2 } }),
    ).rejects.toMatchObject({ code: "SESSION_COMPACTION_DISABLED" });
  });

  it("[G2] is what the store holds when the runtime starts, not what it held before", async () => {
    const kept = { generation: 3, layer: { agent: { max_turns: 9 }, rest: { port: 1 } } };
    const configStore = { name: "it", read: () => kept, hasChanged: () => false, change: async () => kept };
    const { runtime } = scripted({ configStore });
    expect(await runtime.dispatch("readConfig", {})).toMatchObject({
      generation: 3,
      config: kept.layer,
      restart_required: ["rest.port"],
    });
  });

  it("[G2] says what of it waits for the next start, as long as it does", async () => {
    const { runtime } = scripted();
    const patch = (changes: object) => runtime.dispatch("patchConfig", changes);
    expect(await patch({ features: ["session-store"], rest: { port: 1 }, agent: { max_turns: 2 } })).toMatchObject({
      restart_required: ["features", "rest.port"],
    });
    expect(await runtime.dispatch("readConfig", {})).toHaveProperty("restart_required");
    expect(await patch({ features: null, rest: null })).not.toHaveProperty("restart_required");
  });
});

describe("a configuration that others may ask to change", () => {
  const base_url = "http://models.example/v1";
  const config = configWith({ providers: { lab: { base_url, api_key_env: "LAB_KEY" } }, rest: { host: "10.0.0.1" } });
  const denied = (key: string) => ({ code: "PERMISSION_DENIED", message: expect.stringMatching(`^${key}: `) });

  it("[G2] takes back what was read, and changes what reaches nowhere", async () => {
    const { runtime } = scripted({ config, ceiling: "safe" });
    const first = await runtime.dispatch("readConfig", {});
    await runtime.dispatch("setConfig", { config: first.config });
    await runtime.dispatch("patchConfig", { agent: { max_turns: 3 }, providers: { lab: { base_url, api: "chat" } } });
    const { config: read } = await runtime.dispatch("readConfig", {});
    expect(read).toMatchObject({ agent: { max_turns: 3 }, providers: { lab: { base_url, api_key_env: "LAB_KEY" } } });
  });

  it("[G2] keeps what reaches outside: it is not set, replaced or taken away", async () => {
    const store = createConfigInMemory();
    await store.change(() => ({ telemetry: { endpoint: "http://collector.example" }, rest: { host: "10.0.0.2" } }));
    const { runtime } = scripted({ config, configStore: store, ceiling: "full" });
    const refused: readonly (readonly [string, object])[] = [
      ["providers.lab.base_url", { providers: { lab: { base_url: "http://evil.example" } } }],
      ["providers.lab.api_key_env", { providers: { lab: { api_key_env: "HOME" } } }],
      ["telemetry.endpoint", { telemetry: null }],
      ["telemetry.endpoint", { telemetry: { endpoint: null } }],
      ["rest.host", { rest: { host: "0.0.0.0" } }],
      ["shell.program", { shell: { program: "/bin/evil" } }],
    ];
    const hidden: object = JSON.parse('{"providers":{"__proto__":{"base_url":"http://evil.example"}}}');
    await expect(runtime.dispatch("patchConfig", hidden)).rejects.toMatchObject({ code: "INVALID_PARAMS" });
    for (const [key, patch] of refused)
      await expect(runtime.dispatch("patchConfig", patch)).rejects.toMatchObject(denied(key));
    await expect(runtime.dispatch("setConfig", { config: {} })).rejects.toMatchObject(denied("rest.host"));
    expect(await runtime.dispatch("readConfig", {})).toMatchObject({ generation: 1 });
  });

  it("[G2] is not changed behind a variable that hides it", async () => {
    const compose = composeLayers({ name: "rkat.toml", table: {} }, { RKAT_HOST: "127.0.0.1" });
    const { runtime } = scripted({ config: compose({}, ""), compose, ceiling: "safe" });
    const hidden = runtime.dispatch("patchConfig", { rest: { host: "0.0.0.0" } });
    await expect(hidden).rejects.toMatchObject(denied("rest.host"));
  });

  it("[G2] is whoever's who started the process where nobody else asks", async () => {
    const { runtime } = scripted({ config });
    const patch = { shell: { program: "/bin/sh" }, tools: { shell_enabled: true } };
    expect(await runtime.dispatch("patchConfig", patch)).toMatchObject({ config: patch });
  });
});
