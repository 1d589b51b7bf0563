import { describe, expect, it } from "vitest";
import { z } from "zod";
import { ConfigTool } from "./config.ts";
import { metaOf, unwrapped } from "./input.ts";
import { OPERATIONS } from "./operations.ts";
import { EXTRA_TOOLS, objectSchemaOf, ResumeTool, RunTool } from "./wire/mcp-tools.ts";
import {
  CallbackResult,
  CloseStream,
  ExternalTools,
  OpenStream,
  operationSchema,
  RegisterTools,
} from "./wire/requests.ts";

/** Every field anywhere in a schema that says nothing of itself, by where it stands. */
function undescribed(schema: z.core.$ZodType, path: string, seen = new Set<unknown>()): readonly string[] {
  const { def } = unwrapped(schema)._zod;
  if (seen.has(def)) return [];
  seen.add(def);
  const inner = (one: z.core.$ZodType, at = path) => undescribed(one, at, seen);
  switch (def.type) {
    case "object":
      return Object.entries(def.shape).flatMap(([name, field]) => {
        const at = `${path}.${name}`;
        return [...(metaOf(field).description === undefined ? [at] : []), ...inner(field, at)];
      });
    case "array":
      return inner(def.element, `${path}[]`);
    case "record":
      return inner(def.valueType, `${path}{}`);
    case "union":
      return def.options.flatMap((option) => inner(option));
    case "intersection":
      return [...inner(def.left), ...inner(def.right)];
    default:
      return [];
  }
}

const TOOLS = { ...EXTRA_TOOLS, RunTool, ResumeTool, ConfigTool };
const REQUESTS = { CallbackResult, CloseStream, ExternalTools, OpenStream, RegisterTools };

describe("a field of the contract", () => {
  it.each(Object.entries(OPERATIONS))("[G1] of %s says what it is", (name, { input, output }) => {
    expect(undescribed(input, name)).toEqual([]);
    expect(undescribed(output, name)).toEqual([]);
  });

  it.each(Object.entries({ ...TOOLS, ...REQUESTS }))("[G1] of %s says what it is", (name, schema) => {
    const schemas = schema instanceof z.ZodType ? [schema] : [schema.input];
    expect(schemas.flatMap((one) => undescribed(one, name))).toEqual([]);
  });

  it("[G1] is described wherever its schema is read, and the command line's words are nowhere", () => {
    const { properties } = operationSchema("createSession", "input");
    expect(properties?.max_turns).toMatchObject({ type: "integer", description: "model calls in the turn" });
    expect(properties?.provider_params).toMatchObject({ examples: [{ temperature: 0 }] });
    expect(objectSchemaOf(RunTool)?.properties).toMatchObject({
      max_turns: { description: "model calls in the turn" },
    });
    expect(JSON.stringify([properties, objectSchemaOf(RunTool)])).not.toContain("--max-turns");
  });
});
