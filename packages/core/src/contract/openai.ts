import { CLIENT_TOOLS_MAX } from "./client-tools.ts";
import { asksForNothing, positive } from "./input.ts";
import { z } from "./schema.ts";

/** What OpenAI's two endpoints take alike. */

const JsonObject = z.record(z.string(), z.unknown());

/** A field that would change what is answered and cannot be honoured; what asks for nothing is let through. */
export function unserved(why: string, ...nothing: readonly unknown[]) {
  return z
    .unknown()
    .refine((value) => asksForNothing(value) || nothing.includes(value), { error: why })
    .optional();
}

/** Fields that are accepted and have no effect. */
const harmless = z.unknown().optional();
const METADATA_MAX = 16;
const metadatum = z.string({ error: "write a text" }).max(512, { error: "write a text of at most 512 characters" });
const HARMLESS = {
  metadata: z
    .record(z.string().max(64, { error: "write names of at most 64 characters" }), metadatum, {
      error: "write an object of texts",
    })
    .refine((metadata) => Object.keys(metadata).length <= METADATA_MAX, {
      error: `write at most ${METADATA_MAX} of them`,
    })
    .nullish()
    .describe("kept as labels of the session that begins with the request, and handed back"),
  user: z.string({ error: "write a text" }).nullish(),
  service_tier: harmless,
  prompt_cache_key: z.string({ error: "write a text" }).nullish(),
  prompt_cache_retention: harmless,
  prompt_cache_options: harmless,
  safety_identifier: z.string({ error: "write a text" }).nullish(),
  stream_options: harmless,
  verbosity: harmless,
};

const between = (least: number, most: number) => {
  const wanted = { error: `write a number from ${least} to ${most}` };
  return z.number(wanted).min(least, wanted).max(most, wanted).nullish();
};

const SAMPLING = { temperature: between(0, 2), top_p: between(0, 1) };

export const COMMON = {
  ...HARMLESS,
  ...SAMPLING,
  model: z.string({ error: "write the name of a model" }).min(1, { error: "write the name of a model" }).optional(),
  stream: z.boolean({ error: "write true or false" }).nullish(),
  store: z.boolean({ error: "write true or false" }).nullish(),
  parallel_tool_calls: z.boolean({ error: "write true or false" }).nullish(),
};

export const outputTokens = positive.nullish();

/** The format of an answer: a text, any JSON object, or what a schema says. */
export const Format = z.discriminatedUnion(
  "type",
  [
    z.object({ type: z.literal("text") }),
    z.object({ type: z.literal("json_object") }),
    z.object({
      type: z.literal("json_schema"),
      name: z.string().optional(),
      description: z.string().nullish(),
      schema: JsonObject,
      strict: z.boolean().nullish(),
    }),
  ],
  { error: "write a format of the type text, json_object or json_schema" },
);
export type Format = z.infer<typeof Format>;

/** A function of the client's, flat as one endpoint writes it. */
export const FunctionTool = z.object({
  type: z.literal("function"),
  name: z.string().min(1).max(128),
  description: z.string().nullish(),
  parameters: JsonObject.nullish(),
  strict: z.boolean().nullish(),
});
export type FunctionTool = z.infer<typeof FunctionTool>;

/** Tools of this server's own: it is asked for as the MCP server that it is. */
const OwnTools = z.object({
  type: z.literal("mcp"),
  server_label: z.literal("rkat", { error: 'write "rkat": this server runs its own tools and no other server\'s' }),
  allowed_tools: z.union([z.array(z.string()), z.object({ tool_names: z.array(z.string()).optional() })]).nullish(),
  server_url: z.unknown().optional(),
  server_description: z.unknown().optional(),
  require_approval: z.unknown().optional(),
  headers: z.unknown().optional(),
});
export type OwnTools = z.infer<typeof OwnTools>;

export const Tools = z
  .array(
    z.discriminatedUnion("type", [FunctionTool, OwnTools], {
      error: 'write a tool of the type function, or mcp with the server_label "rkat" for the tools of this server',
    }),
  )
  .max(CLIENT_TOOLS_MAX)
  .nullish();
export type Tools = z.infer<typeof Tools>;

/** What chat completions write one level deeper, as `{type, function: {…}}`, as responses have it. */
export function flat(given: unknown): unknown {
  if (typeof given !== "object" || given === null || !("function" in given)) return given;
  const { function: inner, ...rest } = given;
  return typeof inner === "object" ? { ...rest, ...inner } : given;
}

/** Whether the model must call a function, and which. */
export const ToolChoice = z.preprocess(
  flat,
  z
    .union(
      [
        z.enum(["auto", "none", "required"]),
        z.object({ type: z.literal("function"), name: z.string().min(1, { error: "write the name of a function" }) }),
      ],
      { error: 'write "auto", "none", "required" or {type: "function", name} with a function of tools' },
    )
    .nullish(),
);
export type ToolChoice = z.infer<typeof ToolChoice>;

const FILE = { file_data: z.string().nullish(), filename: z.string().nullish(), file_id: z.string().nullish() };

/** A content part of a message, as either endpoint writes it. */
export const ContentPart = z.discriminatedUnion(
  "type",
  [
    z.looseObject({ type: z.enum(["input_text", "text", "output_text"]), text: z.string() }),
    z.looseObject({ type: z.literal("refusal"), refusal: z.string() }),
    z.looseObject({ type: z.literal("input_image"), image_url: z.string().nullish(), file_id: z.string().nullish() }),
    z.looseObject({ type: z.literal("image_url"), image_url: z.object({ url: z.string() }).loose() }),
    z.looseObject({ type: z.literal("input_file"), ...FILE, file_url: z.string().nullish() }),
    z.looseObject({ type: z.literal("file"), file: z.looseObject(FILE) }),
    z.looseObject({ type: z.literal("input_audio") }),
  ],
  { error: "write a part of the type input_text, input_image, input_file, text, image_url or file" },
);
export type ContentPart = z.infer<typeof ContentPart>;

export const PartedContent = z.union([z.string(), z.array(ContentPart)], {
  error: "write a text or a list of content parts",
});
export type PartedContent = z.infer<typeof PartedContent>;
