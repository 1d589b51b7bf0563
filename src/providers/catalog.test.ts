import { describe, expect, it } from "vitest";
import { ModelsCatalog } from "../contract/catalog.ts";
import { DEFAULT_MODELS, describeModels, findModel, mergeModels } from "./catalog.ts";

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
