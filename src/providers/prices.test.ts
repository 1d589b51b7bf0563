import { describe, expect, it } from "vitest";
import { describeModels, mergeModels } from "./catalog.ts";
import { configuredPrices, publishedPrices } from "./prices.ts";
import { createModelResolver } from "./resolve.ts";

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
