import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import type { ModelClient, ModelPart } from "../ports/model.ts";
import { type Environment, type ProviderConfig, providerStatus } from "./provider-settings.ts";
import { createModelResolver } from "./resolve.ts";

interface Sent {
  readonly url: string;
  readonly headers: Headers;
  readonly body: Readonly<Record<string, unknown>>;
}

/** Resolves a model and asks it once; says where the request went. */
async function sent(
  given: { env?: Environment; config?: ProviderConfig },
  model: string | undefined,
  provider?: string,
): Promise<Sent & { client: ModelClient; reported: readonly ModelPart[] }> {
  const requests: Sent[] = [];
  const fetch: typeof globalThis.fetch = async (input, init) => {
    requests.push({ url: String(input), headers: new Headers(init?.headers), body: JSON.parse(String(init?.body)) });
    return new Response("{}", { status: 500 });
  };
  const resolver = createModelResolver({ env: given.env ?? {}, config: given.config, fetch });
  const client = await resolver.resolve(model, provider);
  const messages = [{ role: "user" as const, content: "hi", created_at: "2026-01-01T00:00:00Z" }];
  const reported: ModelPart[] = [];
  for await (const part of client.stream({ messages, tools: [] }, new AbortController().signal)) reported.push(part);
  const [request] = requests;
  if (request === undefined) throw new Error("nothing was sent");
  return { ...request, client, reported };
}

describe("model resolver", () => {
  it.each([
    ["claude-sonnet-4-5", { ANTHROPIC_API_KEY: "k" }, "https://api.anthropic.com/v1/messages", "anthropic"],
    ["anthropic/claude-new", { ANTHROPIC_API_KEY: "k" }, "https://api.anthropic.com/v1/messages", "anthropic"],
    ["gpt-5.5", { OPENAI_API_KEY: "k" }, "https://api.openai.com/v1/responses", "openai"],
    ["o3", { OPENAI_API_KEY: "k" }, "https://api.openai.com/v1/responses", "openai"],
    ["chatgpt-9", { OPENAI_API_KEY: "k" }, "https://api.openai.com/v1/responses", "openai"],
    [
      "gemini-2.5-pro",
      { GOOGLE_API_KEY: "k" },
      "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
      "gemini",
    ],
    ["ollama/llama3", {}, "http://127.0.0.1:11434/v1/chat/completions", "self_hosted"],
    ["ollama/llama3", { OLLAMA_HOST: "0.0.0.0" }, "http://127.0.0.1:11434/v1/chat/completions", "self_hosted"],
    ["ollama/llama3", { OLLAMA_HOST: "box:9/v1" }, "http://box:9/v1/chat/completions", "self_hosted"],
  ])("[A7] %s with %j is asked at %s", async (model, env, url, provider) => {
    const request = await sent({ env }, model);
    expect(request.url).toBe(url);
    expect(request.client.provider).toBe(provider);
  });

  it.each([
    ["claude-sonnet-4-5", "ANTHROPIC_BASE_URL", "http://gate/a", "http://gate/a/v1/messages"],
    ["claude-sonnet-4-5", "ANTHROPIC_BASE_URL", "http://gate/a/v1/", "http://gate/a/v1/messages"],
    ["gpt-5.5", "OPENAI_BASE_URL", "http://gate", "http://gate/v1/chat/completions"],
    ["gpt-5.5", "RKAT_OPENAI_BASE_URL", "http://gate/v1", "http://gate/v1/chat/completions"],
    ["openai/qwen", "OPENAI_BASE_URL", "http://gate/v1beta/openai", "http://gate/v1beta/openai/chat/completions"],
    [
      "gemini-2.5-pro",
      "GEMINI_BASE_URL",
      "http://gate",
      "http://gate/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
    ],
    [
      "gemini-2.5-pro",
      "GOOGLE_GENERATIVE_AI_BASE_URL",
      "http://gate/v1beta",
      "http://gate/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
    ],
  ])("[A7] %s with %s=%s is asked at %s", async (model, variable, address, url) => {
    const keys = { ANTHROPIC_API_KEY: "k", OPENAI_API_KEY: "k", GEMINI_API_KEY: "k" };
    expect((await sent({ env: { ...keys, [variable]: address } }, model)).url).toBe(url);
  });

  it("[A7] a server of one's own that fails is called by its name", async () => {
    const config = { self_hosted: { servers: { lab: { base_url: "http://lab:8000" } } } };
    const blamed = async (model: string) => JSON.stringify((await sent({ config }, model)).reported);
    expect(await blamed("ollama/llama3")).toContain("Ollama at http://127.0.0.1:11434 failed (500)");
    expect(await blamed("lab/qwen")).toContain("the server lab failed (500)");
  });

  it("[A7] a server behind OPENAI_BASE_URL may know Responses, and need no key", async () => {
    const config = { providers: { openai: { api: "responses" } } };
    const request = await sent({ env: { OPENAI_BASE_URL: "http://gate" }, config }, "gpt-5.5");
    expect(request.url).toBe("http://gate/v1/responses");
  });

  it("[A7] keys: configuration, then RKAT_ variables, then the usual ones", async () => {
    const env = { ANTHROPIC_API_KEY: "usual", RKAT_ANTHROPIC_API_KEY: "ours", MINE: "mine" };
    expect((await sent({ env }, "claude-sonnet-4-5")).headers.get("x-api-key")).toBe("ours");
    const config = { providers: { anthropic: { api_key_env: "MINE" } } };
    expect((await sent({ env, config }, "claude-sonnet-4-5")).headers.get("x-api-key")).toBe("mine");
  });

  it("[A7] without a model, configuration chooses, then the first provider with a key", async () => {
    const env = { OPENAI_API_KEY: "k", GEMINI_API_KEY: "k" };
    expect((await sent({ env }, undefined)).body.model).toBe("gpt-5.5");
    expect((await sent({ env, config: { defaultModel: "gemini-2.5-pro" } }, undefined)).url).toContain(
      "gemini-2.5-pro",
    );
    expect((await sent({ env: { ...env, ANTHROPIC_API_KEY: "k" } }, undefined)).body.model).toBe("claude-sonnet-5-5");
    expect((await sent({ env }, undefined, "gemini")).url).toContain("gemini-3.6-flash");
  });

  it("[A7] configured self-hosted models win over known names, and resolve again by what the client says it is", async () => {
    const config = {
      self_hosted: {
        servers: { lab: { base_url: "http://lab:8000", api_key_env: "LAB_KEY" } },
        models: { "gpt-4o": { server: "lab", remote_model: "qwen-72b", context_window: 32_000 } },
      },
    };
    const env = { LAB_KEY: "lab-secret", OPENAI_API_KEY: "k" };
    const request = await sent({ env, config }, "gpt-4o");
    expect(request.url).toBe("http://lab:8000/v1/chat/completions");
    expect(request.body).toMatchObject({ model: "qwen-72b", stream_options: { include_usage: true } });
    expect(request.headers.get("authorization")).toBe("Bearer lab-secret");
    expect(request.client).toMatchObject({ provider: "self_hosted", modelId: "gpt-4o", contextWindow: 32_000 });
    const again = await sent({ env, config }, request.client.modelId, request.client.provider);
    expect(again.body.model).toBe("qwen-72b");
    expect((await sent({ env, config }, "lab/other")).body.model).toBe("other");
  });

  it("[A7] a profile names a model, its endpoint and its stops", async () => {
    const profiles = {
      base: { model: "comma", api: "ollama-generate", base_url: "http://box:11434/v1", stop: ["\n\n"] },
      chat: { model: "qwen", api: "chat", base_url: "http://box", stop: ["END"] },
    };
    const base = await sent({ config: { profiles } }, "base");
    expect(base.url).toBe("http://box:11434/api/generate");
    expect(base.body).toEqual({ model: "comma", prompt: "hi", raw: true, stream: true, options: { stop: ["\n\n"] } });
    const again = await sent({ config: { profiles } }, base.client.modelId, base.client.provider);
    expect(again.body).toEqual(base.body);
    const chat = await sent({ config: { profiles } }, "chat");
    expect(chat.body).toMatchObject({ model: "qwen", stop: ["END"] });
  });

  it("[A7] a client is kept, and a failed attempt is not", async () => {
    const env: Record<string, string> = {};
    const resolver = createModelResolver({ env });
    await expect(resolver.resolve("gpt-5.5", undefined)).rejects.toThrow();
    env.OPENAI_API_KEY = "k";
    const client = await resolver.resolve("gpt-5.5", undefined);
    expect(await resolver.resolve("gpt-5.5", undefined)).toBe(client);
    expect(client.contextWindow).toBe(1_050_000);
  });

  it("[A8] offline needs no key", async () => {
    const client = await createModelResolver({ env: {} }).resolve("offline", undefined);
    expect(client.provider).toBe("offline");
  });

  it.each([
    ["gpt-5.5", undefined, 'no key for openai: set OPENAI_API_KEY, or use the model "offline", which needs no key'],
    [
      "gemini-2.5-pro",
      undefined,
      'no key for gemini: set GEMINI_API_KEY, or use the model "offline", which needs no key',
    ],
    [
      undefined,
      undefined,
      'no model is configured: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or use the model "offline", which needs no key',
    ],
    [
      "mystery-7b",
      undefined,
      "unknown model mystery-7b: write PROVIDER/mystery-7b with anthropic, openai, gemini or ollama, or configure it under [self_hosted.models]",
    ],
    ["x", "nobody", "unknown provider nobody: use anthropic, openai, gemini, ollama, self_hosted or offline"],
    ["offline", "nobody", "unknown provider nobody: use anthropic, openai, gemini, ollama, self_hosted or offline"],
    [undefined, "nobody", "unknown provider nobody: use anthropic, openai, gemini, ollama, self_hosted or offline"],
  ])("[A7] %s of %s is refused in one sentence", async (model, provider, message) => {
    const refused = createModelResolver({ env: {} }).resolve(model, provider);
    await expect(refused).rejects.toMatchObject({ code: "INVALID_PARAMS", message });
  });

  it.each(["constructor", "__proto__", "toString", "hasOwnProperty"])(
    "[A7] %s, which every object has, names no model, provider, server or profile",
    async (name) => {
      const { resolve } = createModelResolver({
        env: {},
        config: { profiles: {}, providers: {}, models: {}, self_hosted: { servers: {}, models: {} } },
      });
      const unknown = { code: "INVALID_PARAMS" };
      await expect(resolve(name, undefined)).rejects.toMatchObject({
        ...unknown,
        message: expect.stringMatching(/^unknown model/),
      });
      await expect(resolve(`${name}/x`, undefined)).rejects.toMatchObject({
        ...unknown,
        message: expect.stringMatching(/^unknown model/),
      });
      await expect(resolve("x", name)).rejects.toMatchObject({
        ...unknown,
        message: expect.stringMatching(/^unknown provider/),
      });
      await expect(resolve(undefined, name)).rejects.toMatchObject({
        ...unknown,
        message: expect.stringMatching(/^unknown provider/),
      });
      const config = { providers: { mine: { base_url: "http://box", api_key_env: name } } };
      await expect(createModelResolver({ env: {}, config }).resolve("x", "mine")).rejects.toThrow(
        `no key for mine: set ${name}`,
      );
    },
  );

  it("[A7] a provider of one's own is asked by its name, whatever else has the model's", async () => {
    const config = {
      providers: { mine: { base_url: "http://box:8000" } },
      self_hosted: { servers: { lab: { base_url: "http://lab" } }, models: { qwen: { server: "lab" } } },
    };
    const request = await sent({ config }, "qwen", "mine");
    expect(request.url).toBe("http://box:8000/v1/chat/completions");
    expect(request.client).toMatchObject({ provider: "mine", modelId: "qwen" });
    expect((await sent({ config }, "mine/qwen")).url).toBe("http://box:8000/v1/chat/completions");
    expect((await sent({ config }, "qwen", "lab")).url).toBe("http://lab/v1/chat/completions");
  });

  it("[A7] an unknown provider is refused with the names of those that are configured", async () => {
    const config = {
      providers: { openai: { api: "responses" }, mine: { base_url: "http://box" } },
      self_hosted: { servers: { lab: { base_url: "http://lab" } } },
    };
    await expect(createModelResolver({ env: {}, config }).resolve("x", "nobody")).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: "unknown provider nobody: use anthropic, openai, gemini, ollama, self_hosted, offline, mine or lab",
    });
  });

  it("[A7] a provider without an address says what is missing", async () => {
    const config = { providers: { mine: { api_key_env: "MINE" } } };
    await expect(createModelResolver({ env: {}, config }).resolve("x", "mine")).rejects.toThrow(
      "provider mine has no address: set base_url under [providers.mine]",
    );
  });

  it("[A7] a base url that is none names its variable", async () => {
    const env = { OPENAI_API_KEY: "k", OPENAI_BASE_URL: "nonsense" };
    const refused = createModelResolver({ env }).resolve("gpt-5.5", undefined);
    await expect(refused).rejects.toThrow("OPENAI_BASE_URL is not an http address: nonsense");
  });

  it("[A7] the status of providers says which have keys, and never a key", () => {
    const status = providerStatus({ RKAT_OPENAI_API_KEY: "very-secret", ANTHROPIC_BASE_URL: "http://gate" });
    expect(status).toEqual([
      {
        provider: "anthropic",
        keyVariable: "ANTHROPIC_API_KEY",
        hasKey: false,
        baseUrl: "http://gate/v1",
        defaultModel: "claude-sonnet-5-5",
      },
      {
        provider: "openai",
        keyVariable: "RKAT_OPENAI_API_KEY",
        hasKey: true,
        baseUrl: "https://api.openai.com/v1",
        defaultModel: "gpt-5.5",
      },
      {
        provider: "gemini",
        keyVariable: "GEMINI_API_KEY",
        hasKey: false,
        baseUrl: "https://generativelanguage.googleapis.com/v1beta",
        defaultModel: "gemini-3.6-flash",
      },
    ]);
    expect(JSON.stringify(status)).not.toContain("very-secret");
  });

  it("[A7] importing the resolver loads no provider's package", async () => {
    const script = `
      import { registerHooks } from "node:module";
      const loaded = [];
      registerHooks({ load(url, context, next) { loaded.push(url); return next(url, context); } });
      await import(${JSON.stringify(new URL("./resolve.ts", import.meta.url).href)});
      process.stdout.write(JSON.stringify(loaded.filter((url) => url.includes("@ai-sdk"))));`;
    const run = promisify(execFile);
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script]);
    expect(JSON.parse(stdout)).toEqual([]);
  });
});
