import { invalid, messageOf, type RuntimeError } from "../contract/error.ts";
import { invalidInput } from "../contract/input.ts";
import { defined, isJsonTable } from "../contract/json.ts";
import { z } from "../contract/schema.ts";
import type { JsonObject } from "../contract/session.ts";
import { isStandard, readBy, type StandardSchema, jsonSchemaOf as writtenAs } from "../ports/standard-schema.ts";
import type { Effects, Tool, ToolCallContext } from "../ports/tool.ts";

/** The schema of a tool's arguments: that of zod or another library of Standard Schema, or a JSON Schema. */
type ToolInput = z.ZodType | StandardSchema | Readonly<JsonObject>;
type Args<Input extends ToolInput> = Input extends StandardSchema<infer Read> ? Read : JsonObject;

interface ToolDefinition<Input extends ToolInput> {
  readonly name: string;
  readonly description: string;
  /** An object with described properties: the model knows only the descriptions. Without it there are no parameters. */
  readonly input?: Input;
  readonly timeoutMs?: number;
  /** What a call changes: decides whether it runs again after its process ended. By default "once": it does not. */
  readonly effects?: Effects;
  /** Whether it needs approval, unless a rule allows or denies it. */
  readonly needsApproval?: boolean | ((input: Args<Input>) => boolean | Promise<boolean>);
  /** Returns a text, content blocks, or another value, which the model gets as JSON. */
  run(input: Args<Input>, context: ToolCallContext): unknown;
}

const FIELDS = ["name", "description", "input", "timeoutMs", "effects", "needsApproval", "run"];
const EFFECTS: readonly Effects[] = ["none", "idempotent", "once"];
const NO_PARAMETERS = { type: "object", properties: {}, additionalProperties: false };

/** A tool whose arguments are parsed before it runs. */
export function defineTool<const Input extends ToolInput = Readonly<JsonObject>>(
  definition: ToolDefinition<Input>,
): Tool {
  const { name, description, input = NO_PARAMETERS, timeoutMs, effects, needsApproval, run } = definition;
  // A misspelt `input` would be a tool without parameters.
  const unknown = Object.keys(definition).find((field) => !FIELDS.includes(field));
  if (unknown !== undefined) throw refusal(name, `${unknown} is not a field of a tool; use ${FIELDS.join(", ")}`);
  if (typeof run !== "function") throw refusal(name, "run must be a function");
  if (effects !== undefined && !EFFECTS.includes(effects)) throw refusal(name, `effects must be ${EFFECTS.join(", ")}`);
  const parse: Parse<Args<Input>> = async (args) => {
    if (isZod(input)) {
      const parsed = await input.safeParseAsync(args);
      // As below.
      return parsed.success ? { value: parsed.data as Args<Input> } : { problem: invalidInput(parsed.error).message };
    }
    // The caller validates arguments against the JSON Schema, and the definition's type pairs a schema with its values.
    if (!isStandard(input)) return { value: args as Args<Input> };
    return readBy(input as StandardSchema<Args<Input>>, args);
  };
  return {
    name,
    description,
    inputSchema: jsonSchemaOf(name, input),
    ...defined({ timeoutMs, effects }),
    ...(needsApproval === undefined ? {} : { needsApproval: approvalFor(parse, needsApproval) }),
    execute: async (args, context) => {
      const read = await parse(args);
      if ("value" in read) return run(read.value, context);
      throw invalid(read.problem);
    },
  };
}

type Parse<T> = (args: JsonObject) => ReturnType<typeof readBy<T>>;

function approvalFor<T>(
  parse: Parse<T>,
  needed: boolean | ((input: T) => boolean | Promise<boolean>),
): NonNullable<Tool["needsApproval"]> {
  if (typeof needed === "boolean") return needed;
  return async (args) => {
    const read = await parse(args);
    // Unreadable arguments are not run anyway.
    return "value" in read && needed(read.value);
  };
}

function isZod(input: unknown): input is z.ZodType {
  return "_zod" in Object(input);
}

/** Unions are objects of several shapes; providers reject any other schema. */
const OF_OBJECTS = ["anyOf", "oneOf", "allOf", "$ref"];

function jsonSchemaOf(name: string, input: unknown): JsonObject {
  const schema = isZod(input)
    ? written(name, input)
    : isStandard(input)
      ? writtenAs(`tool ${name}: input`, input)
      : input;
  const isOfObjects = isJsonTable(schema) && (schema.type === "object" || OF_OBJECTS.some((key) => key in schema));
  if (!isOfObjects) throw refusal(name, 'input must be a zod schema, or a JSON Schema with type: "object"');
  return schema;
}

function written(name: string, input: z.ZodType): JsonObject {
  try {
    // Without the dialect marker: a validator that does not know it rejects the whole schema.
    const { $schema: _dialect, ...schema } = z.toJSONSchema(input, { io: "input" });
    return schema;
  } catch (cause) {
    throw refusal(name, `input cannot be written as a JSON Schema: ${messageOf(cause)}`, cause);
  }
}

function refusal(name: string, problem: string, cause?: unknown): RuntimeError {
  return invalid(`tool ${name}: ${problem}`, cause);
}
