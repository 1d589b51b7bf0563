import { z } from "zod";
import { invalidInput } from "../contract/input.ts";
import type { JsonObject } from "../contract/session.ts";
import type { Tool, ToolCallContext, ToolOutput } from "../ports/tool.ts";

interface ToolDefinition<Input extends z.ZodType> {
  readonly name: string;
  readonly description: string;
  /** A strict object, each property described: the description is all the model knows of it. */
  readonly input: Input;
  readonly timeoutMs?: number;
  run(input: z.output<Input>, context: ToolCallContext): Promise<ToolOutput> | ToolOutput;
}

/** A tool whose arguments are parsed before it runs. */
export function defineTool<Input extends z.ZodType>(definition: ToolDefinition<Input>): Tool {
  const { name, description, input, timeoutMs, run } = definition;
  return {
    name,
    description,
    inputSchema: jsonSchemaOf(input),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    execute: async (args, context) => run(parseInput(input, args), context),
  };
}

function jsonSchemaOf(input: z.ZodType): JsonObject {
  // The dialect marker goes: a validator that does not know the dialect by this address refuses the whole schema.
  const { $schema: _dialect, ...schema } = z.toJSONSchema(input, { io: "input" });
  return schema;
}

function parseInput<Input extends z.ZodType>(input: Input, args: JsonObject): z.output<Input> {
  const parsed = input.safeParse(args);
  if (parsed.success) return parsed.data;
  throw invalidInput(parsed.error);
}
