import { describe, expect, it } from "vitest";
import { listen, scriptedRuntime, typesOf } from "../../../../test/support/runtime.ts";
import type { BudgetLimits } from "../contract/input.ts";
import type { ModelFailure } from "../ports/model.ts";
import type { ScriptedStep } from "../providers/scripted.ts";

const outputSchema = {
  type: "object",
  properties: { city: { type: "string" }, people: { type: "integer" } },
  required: ["city", "people"],
  additionalProperties: false,
};
const oslo = { city: "Oslo", people: 700_000 };

describe("structured output", () => {
  it("takes the answer itself when it fits the schema, fenced or not", async () => {
    for (const text of [JSON.stringify(oslo), `\`\`\`json\n${JSON.stringify(oslo)}\n\`\`\``]) {
      const { runtime, model } = scriptedRuntime([{ text }]);
      const { events, result } = await listen(runtime.createSessionStreaming("Where?", { outputSchema }));
      expect(result?.structuredOutput).toEqual(oslo);
      expect(model.requests).toHaveLength(1);
      expect(typesOf(events).slice(-2)).toEqual(["run_completed", "extraction_succeeded"]);
      expect(events.at(-2)).toMatchObject({ extraction_required: true });
    }
  });

  it("asks for it otherwise, without showing the JSON as more of the answer, and says what was wrong", async () => {
    const { runtime, model } = scriptedRuntime([
      { text: "Oslo, with 700,000 people." },
      { text: '{"city": "Oslo"}' },
      { text: JSON.stringify(oslo) },
    ]);
    const { events, result } = await listen(runtime.createSessionStreaming("Where?", { outputSchema }));
    expect(result).toMatchObject({ text: "Oslo, with 700,000 people.", structuredOutput: oslo });
    expect(model.requests[1]).toMatchObject({ tools: [], outputSchema });
    expect(JSON.stringify(model.requests[2]?.messages.at(-1))).toContain("does not have required property");
    expect(events.filter((event) => event.type === "text_delta")).toHaveLength(1);
    expect(result?.usage.totalTokens).toBe(45);
  });

  it("gives up after the retries with what it last got; the turn stays a success", async () => {
    const { runtime, model } = scriptedRuntime(() => ({ text: "no JSON here" }));
    const { events, result } = await listen(
      runtime.createSessionStreaming("Where?", { outputSchema, structuredOutputRetries: 1 }),
    );
    expect(model.requests).toHaveLength(3);
    expect(result).toMatchObject({
      text: "no JSON here",
      terminalCauseKind: "structured_output_validation_failed",
      extractionError: { lastOutput: "no JSON here", attempts: 2, reason: "the output is not JSON" },
    });
    expect(events.at(-1)).toMatchObject({ type: "extraction_failed", attempts: 2 });
  });

  it("what stops it is told as what it was; the turn that was committed stays a success", async () => {
    const failing = (failure: ModelFailure): ScriptedStep => ({ ends: { failure } });
    const stopped: { how: ScriptedStep; limits?: BudgetLimits; cause: string | undefined; reason: string }[] = [
      { how: failing({ kind: "auth", message: "wrong key" }), cause: "llm_failure", reason: "wrong key" },
      { how: failing({ kind: "overloaded", message: "busy" }), cause: "retry_exhausted", reason: "busy" },
      {
        how: { ends: "silent" },
        limits: { max_duration: "5s" },
        cause: "time_budget_exceeded",
        reason: "the time budget ran out",
      },
      {
        how: { text: "still no JSON" },
        limits: { max_tokens: 30 },
        cause: "budget_exhausted",
        reason: "the token budget is exhausted",
      },
    ];
    for (const { how, limits = {}, cause, reason } of stopped) {
      const { runtime } = scriptedRuntime((_, index) => (index === 0 ? { text: "Oslo." } : how));
      const { events, result } = await listen(
        runtime.createSessionStreaming("Where?", { outputSchema, budgetLimits: limits }),
      );
      expect(result).toMatchObject({ text: "Oslo.", terminalCauseKind: cause, extractionError: { reason } });
      expect(events.at(-1)).toMatchObject({ type: "extraction_failed", reason });
    }
  });

  it("an interrupt during it ends it, and is no mismatch of the schema", async () => {
    const { runtime } = scriptedRuntime([{ text: "Oslo." }, { ends: "silent" }]);
    const controller = new AbortController();
    const stream = runtime.createSessionStreaming("Where?", { outputSchema, signal: controller.signal });
    for await (const event of stream) if (event.type === "run_completed") controller.abort();
    const result = await stream.result;
    expect(result.extractionError).toEqual({ lastOutput: "Oslo.", attempts: 1, reason: "interrupted" });
    expect(result.terminalCauseKind).toBeUndefined();
  });

  it("keeps the extraction out of the conversation", async () => {
    const { runtime, model } = scriptedRuntime([{ text: "Oslo." }, { text: JSON.stringify(oslo) }, { text: "Oslo." }]);
    const session = await runtime.createSession("Where?", { outputSchema, structuredOutputRetries: 0 });
    await session.turn("Again?");
    expect(model.requests[2]?.messages.map((message) => message.role)).toEqual(["user", "block_assistant", "user"]);
  });

  it("[H1] refuses a schema that is none before anything is created", async () => {
    const { runtime, model } = scriptedRuntime([]);
    await expect(runtime.createSession("Where?", { outputSchema: { type: "objekt" } })).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: expect.stringContaining('outputSchema is not a usable JSON schema: type "objekt"'),
    });
    expect(model.requests).toHaveLength(0);
  });
});
