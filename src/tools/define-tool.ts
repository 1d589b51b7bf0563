import { z } from "zod";
import { messageOf, RuntimeError } from "../contract/error.ts";
import { invalidInput, isJsonTable } from "../contract/input.ts";
import type { JsonObject } from "../contract/session.ts";
import type { Tool, ToolCallContext } from "../ports/tool.ts";

/** What the arguments of a tool are held against: a zod schema, or a JSON Schema. */
type ToolInput = z.ZodType | Readonly<JsonObject>;
type Args<Input extends ToolInput> = Input extends z.ZodType ? z.output<Input> : JsonObject;

interface ToolDefinition<Input extends ToolInput> {
  readonly name: string;
  readonly description: string;
  /** An object, each property described: the description is all the model knows of it. Without it there are no parameters. */
  readonly input?: Input;
  readonly timeoutMs?: number;
  /** Whether a person is asked before it runs, unless a rule allows or denies it. */
  readonly needsApproval?: boolean | ((input: Args<Input>) => boolean | Promise<boolean>);
  /** Returns a text, content blocks, or another value, which the model is given as JSON. */
  run(input: Args<Input>, context: ToolCallContext): unknown;
}

const FIELDS = ["name", "description", "input", "timeoutMs", "needsApproval", "run"];
const NO_PARAMETERS = { type: "object", properties: {}, additionalProperties: false };

/** A tool whose arguments are parsed before it runs. */
export function defineTool<const Input extends ToolInput = Readonly<JsonObject>>(
  definition: ToolDefinition<Input>,
): Tool {
  const { name, description, input, timeoutMs, needsApproval, run } = definition;
  const refuse = (problem: string, cause?: unknown) =>
    new RuntimeError("INVALID_PARAMS", `tool ${name}: ${problem}`, { cause });
  // A misspelt input would be a tool without parameters.
  const unknown = Object.keys(definition).find((field) => !FIELDS.includes(field));
  if (unknown !== undefined) throw refuse(`${unknown} is not a field of a tool; use ${FIELDS.join(", ")}`);
  if (typeof run !== "function") throw refuse("run must be a function");
  const { inputSchema, parse } = readInput<Args<Input>>(input, refuse);
  return {
    name,
    description,
    inputSchema,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(needsApproval === undefined ? {} : { needsApproval: approvalFor(parse, needsApproval) }),
    execute: async (args, context) => run(requireParsed(parse(args)), context),
  };
}

type Parse<T> = (args: JsonObject) => z.ZodSafeParseResult<T>;

function readInput<T>(
  input: ToolInput | undefined,
  refuse: (problem: string, cause?: unknown) => RuntimeError,
): { readonly inputSchema: JsonObject; readonly parse: Parse<T> } {
  const isZod = typeof input === "object" && input !== null && "_zod" in input;
  const schema: unknown = isZod
    ? writtenSchema(input as z.ZodType, refuse)
    : input === undefined
      ? NO_PARAMETERS
      : input;
  if (!isJsonTable(schema) || !isOfObjects(schema)) {
    throw refuse('input must be a zod schema, or a JSON Schema with type: "object"');
  }
  // The definition's type pairs the two: a zod schema with what it parses to, a JSON Schema with an object.
  const parse = (args: JsonObject) => (isZod ? (input as z.ZodType).safeParse(args) : { success: true, data: args });
  return { inputSchema: schema, parse: parse as Parse<T> };
}

/** Unions are objects of several shapes; a provider refuses any other schema. */
function isOfObjects(schema: JsonObject): boolean {
  return schema.type === "object" || ["anyOf", "oneOf", "allOf", "$ref"].some((key) => Object.hasOwn(schema, key));
}

function writtenSchema(input: z.ZodType, refuse: (problem: string, cause?: unknown) => RuntimeError): JsonObject {
  try {
    // The dialect marker goes: a validator that does not know the dialect by this address refuses the whole schema.
    const { $schema: _dialect, ...schema } = z.toJSONSchema(input, { io: "input" });
    return schema;
  } catch (thrown) {
    throw refuse(`input cannot be written as a JSON Schema: ${messageOf(thrown)}`, thrown);
  }
}

function approvalFor<T>(
  parse: Parse<T>,
  needed: boolean | ((input: T) => boolean | Promise<boolean>),
): NonNullable<Tool["needsApproval"]> {
  if (typeof needed === "boolean") return needed;
  return (args) => {
    const parsed = parse(args);
    // What cannot be read is not run anyway.
    return parsed.success && needed(parsed.data);
  };
}

function requireParsed<T>(parsed: z.ZodSafeParseResult<T>): T {
  if (parsed.success) return parsed.data;
  throw invalidInput(parsed.error);
}
