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
  /** Whether a person is asked before it runs, unless a rule allows or denies it. */
  readonly needsApproval?: boolean | ((input: z.output<Input>) => boolean | Promise<boolean>);
  run(input: z.output<Input>, context: ToolCallContext): Promise<ToolOutput> | ToolOutput;
}

/** A tool whose arguments are parsed before it runs. */
export function defineTool<Input extends z.ZodType>(definition: ToolDefinition<Input>): Tool {
  const { name, description, input, timeoutMs, needsApproval, run } = definition;
  return {
    name,
    description,
    inputSchema: jsonSchemaOf(input),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(needsApproval === undefined ? {} : { needsApproval: approvalFor(input, needsApproval) }),
    execute: async (args, context) => run(parseInput(input, args), context),
  };
}

function approvalFor<Input extends z.ZodType>(
  input: Input,
  needed: NonNullable<ToolDefinition<Input>["needsApproval"]>,
): NonNullable<Tool["needsApproval"]> {
  if (typeof needed === "boolean") return needed;
  return (args) => {
    const parsed = input.safeParse(args);
    // What cannot be read is not run anyway.
    return parsed.success && needed(parsed.data);
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
