import { describe, expect, it } from "vitest";
import { scriptedRuntime } from "../../../../test/support/runtime.ts";
import type { JsonObject } from "../contract/session.ts";
import type { Tool } from "../ports/tool.ts";
import { checkInWorker } from "../sessions/schema-worker.ts";
import { compileSchema } from "./json-schema.ts";

const inProperties = (schema: unknown): JsonObject => ({ type: "object", properties: { a: schema } });

describe("a JSON schema from outside", () => {
  const broken: [JsonObject, string][] = [
    [{ type: "objekt" }, 'type "objekt" is none of object, array, string, number, integer, boolean, null'],
    [inProperties({ type: "string", pattern: "[" }), 'pattern "[" is not a regular expression'],
    [{ patternProperties: { "(": {} } }, 'pattern "(" is not a regular expression'],
    [inProperties({ $ref: "#/$defs/nowhere" }), 'reference "#/$defs/nowhere" leads nowhere'],
    [inProperties({ $ref: "#nowhere" }), 'reference "#nowhere" leads nowhere'],
    [inProperties({ $ref: "https://example.com/a.json" }), 'reference "https://example.com/a.json" leads nowhere'],
    [inProperties("string"), 'properties has "string" where a schema is expected'],
    [inProperties({ items: null }), "items has null where a schema is expected"],
    [{ properties: [] }, "properties is not a map of schemas"],
    [inProperties({ enum: "red" }), "enum is no list"],
    [{ required: "a" }, "required is no list"],
    [{ anyOf: { type: "string" } }, "anyOf is no list"],
  ];
  for (const [schema, problem] of broken) {
    it(`[H1] is refused before it is used: ${problem}`, async () => {
      await expect(compileSchema(schema, "output_schema", checkInWorker)).rejects.toMatchObject({
        code: "INVALID_PARAMS",
        message: `output_schema is not a usable JSON schema: ${problem}`,
      });
    });
  }

  const sound: JsonObject[] = [
    {},
    { dependentRequired: { type: ["a"] } },
    { dependentSchemas: { type: { required: ["a"] } } },
    { dependencies: { type: ["a"], items: { type: "object" } } },
    inProperties({ const: { type: "weird" }, default: { $ref: "#/x" }, examples: [{ type: "weird" }] }),
    inProperties({ "x-form": { type: "slider" } }),
    { properties: { a: { $ref: "#/$defs/a~1b%20c" } }, $defs: { "a/b c": { type: "string" } } },
    { properties: { a: { $ref: "#there" } }, $defs: { a: { $anchor: "there", type: "string" } } },
    { properties: { a: { $ref: "#" } } },
    { properties: { a: { $ref: "other" } }, $defs: { a: { $id: "https://github.com/other", type: "string" } } },
    { properties: { type: { type: ["string", "null"] }, pattern: true } },
  ];
  for (const schema of sound) {
    it(`[H1] is accepted when it is one: ${JSON.stringify(schema)}`, async () => {
      const check = await compileSchema(schema, "output_schema", checkInWorker);
      expect(await check({})).toEqual([]);
    });
  }

  it("[H1] is only read, so it may be frozen", async () => {
    const schema = Object.freeze({ type: "object" });
    const check = await compileSchema(schema, "output_schema", checkInWorker);
    expect(await check([])).toEqual(["the value is an array, expected object"]);
  });

  it("[H1] that goes round in circles is refused, or says so when it is used", async () => {
    await expect(compileSchema({ $ref: "#" }, "output_schema", checkInWorker)).rejects.toMatchObject({
      code: "INVALID_PARAMS",
      message: "output_schema is not a usable JSON schema: it refers to itself endlessly",
    });
    const circle = { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } };
    const schema = { properties: { a: { $ref: "#/$defs/a" } }, $defs: circle };
    const check = await compileSchema(schema, "output_schema", checkInWorker);
    expect(await check({ a: 1 })).toEqual(["cannot be checked: it refers to itself endlessly"]);
  });

  const doubled = Object.fromEntries(
    Array.from({ length: 40 }, (_, at) => [`d${at}`, { allOf: [1, 2].map(() => ({ $ref: `#/$defs/d${at + 1}` })) }]),
  );
  const endless: [string, JsonObject, unknown][] = [
    ["a pattern", inProperties({ type: "string", pattern: "^(a+)+$" }), { a: `${"a".repeat(40)}!` }],
    ["the pattern of a name", { patternProperties: { "^(a+)+$": true } }, { [`${"a".repeat(40)}!`]: 1 }],
    [
      "references that double",
      { ...inProperties({ $ref: "#/$defs/d0" }), $defs: { ...doubled, d40: { type: "string" } } },
      { a: "b" },
    ],
    [
      "items that are compared each with each",
      { uniqueItems: true },
      Array.from({ length: 60_000 }, (_, at) => ({ at })),
    ],
  ];
  it.concurrent.each(endless)("[H1] that asks for endless work by %s stops nobody else", async (_, schema, value) => {
    let rounds = 0;
    const counting = setInterval(() => (rounds += 1), 1);
    const check = await compileSchema(schema, "output_schema", checkInWorker);
    const problems = await check(value);
    clearInterval(counting);
    expect(problems).toEqual([
      "cannot be checked: it took longer than 2 seconds; make its patterns and references simpler",
    ]);
    expect(rounds).toBeGreaterThan(10);
  });

  it("[H1] of a tool is refused before a session is made or a model asked", async () => {
    const inputSchema = inProperties({ type: "string", pattern: "[" });
    const tool: Tool = { name: "look", description: "", inputSchema, execute: () => "" };
    const refused = {
      code: "INVALID_PARAMS",
      message: 'the input schema of tool look is not a usable JSON schema: pattern "[" is not a regular expression',
    };
    const { runtime, model } = scriptedRuntime(() => ({ text: "ok" }));
    await expect(runtime.createSession("Go.", { tools: [tool] })).rejects.toMatchObject(refused);
    expect(model.requests).toEqual([]);
    expect(() => scriptedRuntime([], { tools: [tool] })).toThrow(refused.message);
  });
});
