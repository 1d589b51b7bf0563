import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import type { Tool } from "../ports/tool.ts";
import { defineTool } from "./define-tool.ts";

/** What the model was shown after it called a tool once. */
async function resultOf(tool: Tool, args: Record<string, unknown> = {}, options: object = {}) {
  const { runtime, model } = scriptedRuntime([{ calls: [{ name: tool.name, args }] }, { text: "ok" }]);
  await runtime.createSession("Go.", { tools: [tool], ...options });
  const message = model.requests[1]?.messages.at(-1);
  const [result] = message?.role === "tool_results" ? message.results : [];
  return { content: result?.content, offered: model.requests[0]?.tools };
}

const CITY = { type: "object", properties: { city: { type: "string" } }, required: ["city"] } as const;

describe("[A5] defineTool", () => {
  it("makes a tool without parameters where there is no input", async () => {
    const tool = defineTool({ name: "roll", description: "Rolls a die.", run: () => ({ pips: 4 }) });
    expect(await resultOf(tool)).toMatchObject({
      content: '{"pips":4}',
      offered: [{ name: "roll", inputSchema: { type: "object", properties: {}, additionalProperties: false } }],
    });
    expect((await resultOf(tool, { sides: 6 })).content).toContain('the unknown property "sides"');
  });

  it("takes a JSON Schema, against which the arguments are held", async () => {
    const seen: string[] = [];
    const tool = defineTool({
      name: "weather",
      description: "The weather in a city.",
      input: CITY,
      needsApproval: ({ city }) => {
        expectTypeOf(city).toBeUnknown();
        seen.push(`asked about ${city}`);
        return city === "Oslo";
      },
      run: async ({ city }) => ({ city, celsius: 7 }),
    });
    expect(tool.inputSchema).toEqual(CITY);
    const allowed = await resultOf(tool, { city: "Oslo" }, { onApproval: async () => "allow" });
    expect(allowed.content).toBe('{"city":"Oslo","celsius":7}');
    expect((await resultOf(tool, { city: 7 })).content).toContain("city is a number, expected string");
    expect(seen).toContain("asked about Oslo");
  });

  it("knows what a zod schema parses to", () => {
    const input = z.strictObject({ city: z.string().default("Oslo") });
    defineTool({ name: "weather", description: "", input, run: ({ city }) => expectTypeOf(city).toBeString() });
  });

  it.each<[object, string]>([
    [{ input: { city: z.string() } }, 'tool act: input must be a zod schema, or a JSON Schema with type: "object"'],
    [{ input: { type: "string" } }, 'tool act: input must be a zod schema, or a JSON Schema with type: "object"'],
    [{ input: z.string() }, 'tool act: input must be a zod schema, or a JSON Schema with type: "object"'],
    [{ input: [] }, 'tool act: input must be a zod schema, or a JSON Schema with type: "object"'],
    [{ input: "city" }, 'tool act: input must be a zod schema, or a JSON Schema with type: "object"'],
    [{ input: null }, 'tool act: input must be a zod schema, or a JSON Schema with type: "object"'],
    [{ input: z.object({ at: z.date() }) }, "tool act: input cannot be written as a JSON Schema: Date cannot"],
    [{ parameters: CITY }, "tool act: parameters is not a field of a tool; use name, description, input, "],
    [{ run: undefined, execute: () => "" }, "tool act: execute is not a field of a tool; "],
    [{ run: "later" }, "tool act: run must be a function"],
  ])("refuses %j in a sentence", (given, problem) => {
    // What a program without types may write.
    const define = defineTool as unknown as (definition: object) => Tool;
    expect(() => define({ name: "act", description: "Acts.", run: () => "", ...given })).toThrow(
      expect.objectContaining({ code: "INVALID_PARAMS", message: expect.stringContaining(problem) }),
    );
  });
});
