import { describe, expect, it } from "vitest";
import { ModelsCatalog } from "../contract/capability.ts";
import {
  configuredPrices,
  DEFAULT_MODELS,
  describeModels,
  findModel,
  mergeModels,
  publishedPrices,
} from "./catalog.ts";
import { createModelResolver } from "./resolve.ts";

describe("catalogue", () => {
  it.each([
    ["gpt-5.5", "gpt-5.5"],
    ["gpt-5.5-2026-04-23", "gpt-5.5"],
    ["gpt-5.4-mini-2026-03-17", "gpt-5.4-mini"],
    ["claude-sonnet-4-5-20250929", "claude-sonnet-4-5"],
    ["claude-sonnet-5-5", "claude-sonnet-5-5"],
    ["gpt-5.9", undefined],
    ["gpt-50", undefined],
    ["llama3", undefined],
  ])("[A7] %s is found as %s", (id, known) => {
    expect(findModel(id)?.id).toBe(known);
  });

  it("[A7] every provider's default is in the catalogue, which keeps to its contract", () => {
    const catalogue = describeModels();
    expect(ModelsCatalog.parse(catalogue)).toEqual(catalogue);
    for (const [provider, id] of DEFAULT_MODELS) expect(findModel(id)).toMatchObject({ provider, id });
  });

  it("[G2] the wire's catalogue says which model is recommended and what each can be given", () => {
    const rows = describeModels().providers.flatMap(({ models }) => models);
    expect(rows.filter(({ profile }) => profile === undefined)).toEqual([]);
    expect(rows.find(({ id }) => id === "gpt-5.5")).toMatchObject({
      tier: "recommended",
      profile: { model_family: "gpt-5", supports_reasoning: true, supports_temperature: false, vision: true },
    });
    expect(rows.find(({ id }) => id === "gpt-5-chat-latest")).toMatchObject({
      tier: "supported",
      profile: { supports_reasoning: false, supports_temperature: true },
    });
  });

  it("[A7] the models of one's own servers are in the catalogue, and win over a known name", () => {
    const { providers } = describeModels(mergeModels({}), {
      coder: { server: "lab", remote_model: "qwen3:32b", context_window: 32_000 },
      "gpt-4o": { server: "lab" },
    });
    expect(providers.find(({ provider }) => provider === "self_hosted")).toEqual({
      provider: "self_hosted",
      default_model_id: "coder",
      models: [
        { id: "coder", display_name: "qwen3:32b", tier: "supported", context_window: 32_000, server_id: "lab" },
        { id: "gpt-4o", display_name: "gpt-4o", tier: "supported", server_id: "lab" },
      ],
    });
    expect(providers.flatMap(({ models }) => models).filter(({ id }) => id === "gpt-4o")).toHaveLength(1);
    expect(ModelsCatalog.parse({ ...describeModels(), providers })).toMatchObject({ providers });
  });

  it("[A7] configuration adds models and corrects them", () => {
    const models = mergeModels({ "gpt-5.5": { context_window: 400_000 }, mine: { provider: "self_hosted" } });
    expect(findModel("gpt-5.5", models)).toEqual({
      provider: "openai",
      id: "gpt-5.5",
      display_name: "GPT-5.5",
      context_window: 400_000,
      max_output_tokens: 128_000,
    });
    expect(findModel("mine", models)).toMatchObject({ provider: "self_hosted", display_name: "mine" });
    expect(models.filter((model) => model.id === "gpt-5.5")).toHaveLength(1);
  });
});

const MINE = { input: 1, output: 2, as_of: "2026-11-16" };

describe("prices", () => {
  it("[I7] are dated, from a source, and of models that are in the catalogue", () => {
    const rows = describeModels().providers.flatMap(({ models }) => models);
    const priced = rows.filter(({ prices }) => prices !== undefined);
    expect(priced.length).toBeGreaterThan(25);
    for (const { prices } of priced) {
      expect(prices).toMatchObject({ currency: "USD", as_of: expect.stringMatching(/^\d{4}-\d\d-\d\d$/) });
      expect(prices?.source).toBeTruthy();
    }
  });

  it.each([
    ["openai", "gpt-5", 1.25],
    ["openai", "gpt-5-2025-08-07", 1.25],
    ["anthropic", "claude-sonnet-4-5-20250929", 3],
    ["openai", "gpt-5-mini", undefined],
    ["openai", "gpt-4o-mini", undefined],
    ["openai", "o3-pro", undefined],
    ["self_hosted", "gpt-5", undefined],
    ["openai", "constructor", undefined],
    ["constructor", "gpt-5", undefined],
  ])("[I7] %s charges for %s, or it is unknown: %s", (provider, model, input) => {
    expect(publishedPrices(provider, model)?.input).toBe(input);
  });

  it("[I7] of the configuration win, for models of any server, and 0 is one", () => {
    const configured = { "gpt-5": MINE, coder: { input: 0, output: 0 } };
    expect(configuredPrices(configured, "gpt-5-2025-08-07")).toMatchObject({ input: 1, as_of: "2026-11-16" });
    expect(configuredPrices(configured, "gpt-5-mini")).toBeUndefined();
    const { providers } = describeModels(mergeModels({}), { coder: { server: "lab" } }, configured);
    const rows = providers.flatMap(({ models }) => models);
    expect(rows.find(({ id }) => id === "coder")?.prices).toMatchObject({ input: 0, output: 0 });
    expect(rows.find(({ id }) => id === "gpt-5")?.prices).toMatchObject({ input: 1, output: 2 });
  });

  it("[I7] of the catalogue hold at the provider's own address, and those of the configuration anywhere", async () => {
    const env = { OPENAI_API_KEY: "key" };
    const pricesOf = async (more: object, config: object = {}) =>
      (await createModelResolver({ env: { ...env, ...more }, config }).resolve("gpt-4o", undefined)).prices?.input;
    expect(await pricesOf({})).toBe(2.5);
    expect(await pricesOf({ OPENAI_BASE_URL: "http://127.0.0.1:1/v1" })).toBeUndefined();
    expect(await pricesOf({ OPENAI_BASE_URL: "http://127.0.0.1:1/v1" }, { prices: { "gpt-4o": MINE } })).toBe(1);
  });
});
