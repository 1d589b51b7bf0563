import { type core, globalRegistry } from "zod";
import { invalidInput } from "../input.ts";
import { CLIENT_TOOLS_MAX, ClientTool, Content } from "../message.ts";
import { OPERATIONS, type OperationName } from "../operations.ts";
import { z } from "../schema.ts";
import { SessionId } from "../session.ts";

/** Tools the client runs: the server asks for them with `tool/execute`. */
const CallbackTools = z.array(ClientTool).max(CLIENT_TOOLS_MAX);

/** `tools/register`: for every session of the connection, from its next turn on. */
export const RegisterTools = z.object({ tools: CallbackTools.describe("the tools, in place of those before") });

/** What `session/create` takes on this surface alone: tools of that one session. */
export const ExternalTools = z.object({
  external_tools: CallbackTools.optional().describe("tools that the client runs, for this session alone"),
});

/** What the client answers to `tool/execute`. */
export const CallbackResult = z.object({
  content: Content.describe("the result"),
  is_error: z.boolean().default(false).describe("whether it failed"),
});

export const OpenStream = z.object({ session_id: SessionId });
export const CloseStream = z.object({ stream_id: z.string().min(1).describe("the stream, as opening it answered") });

/** The parsed parameters of a method that is no row of the table; throws INVALID_PARAMS, naming each wrong field. */
export function parseParams<T extends z.ZodType>(schema: T, params: unknown): z.output<T> {
  const parsed = schema.safeParse(params);
  if (parsed.success) return parsed.data;
  throw invalidInput(parsed.error);
}

/** As much of a JSON schema as a surface looks at; the rest is handed on as it is. */
export interface JsonSchema {
  /** A list where one of several will do. */
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly [keyword: string]: unknown;
}

/** What goes into an operation and what comes out, as JSON schemas of their own: nothing in them refers to elsewhere. */
export function operationSchema(name: OperationName, io: "input" | "output"): JsonSchema {
  // zod's type of a JSON schema is this one with every keyword of the standard.
  const { $schema: _dialect, ...schema } = z.toJSONSchema(OPERATIONS[name][io], {
    io,
    override: (context) => {
      withExamples(context);
      withoutTuple(context);
    },
  }) as JsonSchema;
  return schema;
}

/** What is changed after it was read loses its examples in the library; they are of what is written, all the same. */
export function withExamples({ zodSchema, jsonSchema }: Overridden): void {
  const { examples } = globalRegistry.get(zodSchema) ?? {};
  if (Array.isArray(examples)) jsonSchema.examples = examples;
}

interface Overridden {
  readonly zodSchema: core.$ZodType;
  readonly jsonSchema: core.JSONSchema.BaseSchema;
}

/** Common tools stumble over the schema of a tuple: it becomes a list of as many. */
function withoutTuple({ jsonSchema }: Overridden): void {
  const { prefixItems } = jsonSchema;
  if (prefixItems === undefined) return;
  delete jsonSchema.prefixItems;
  const different = [...new Map(prefixItems.map((item) => [JSON.stringify(item), item])).values()];
  const [only] = different;
  const items = different.length === 1 && only !== undefined ? only : { anyOf: different };
  Object.assign(jsonSchema, { items, minItems: prefixItems.length, maxItems: prefixItems.length });
}
