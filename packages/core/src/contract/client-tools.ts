import { Content } from "./message.ts";
import { z } from "./schema.ts";

const TOOL_NAME_CHARS_MAX = 128;

/** A tool that the client runs: only its description is here. */
export const ClientTool = z.object({
  name: z.string().min(1).max(TOOL_NAME_CHARS_MAX).describe("the tool's name, which the model calls it by"),
  description: z.string().default("").describe("what it does, for the model to read"),
  input_schema: z
    .record(z.string(), z.unknown())
    .default({ type: "object" })
    .describe("a JSON schema of what it is given"),
});
export type ClientTool = z.infer<typeof ClientTool>;

export const CLIENT_TOOLS_MAX = 1_024;

export const ClientTools = z
  .array(ClientTool, { error: "write a list of {name, description, input_schema}" })
  .max(CLIENT_TOOLS_MAX, { error: `write at most ${CLIENT_TOOLS_MAX} tools` })
  .refine((tools) => new Set(tools.map(({ name }) => name)).size === tools.length, {
    error: "two tools have the same name; rename one",
  });

const ClientResult = z.object({
  tool_use_id: z.string().min(1).describe("the call it answers, as the pending calls name it"),
  content: Content.describe("what the tool gave"),
  is_error: z.boolean({ error: "write true or false" }).default(false).describe("whether it failed"),
});
export const ClientResults = z
  .array(ClientResult, { error: "write a list of {tool_use_id, content, is_error}" })
  .min(1, { error: "give the result of every call that waits" })
  .max(CLIENT_TOOLS_MAX, { error: `write at most ${CLIENT_TOOLS_MAX} results` });

/** A call that waits for its result from the client. */
export const PendingCall = z.object({
  id: z.string().describe("the call's id, which its result names as tool_use_id"),
  name: z.string().describe("the tool it calls"),
  args: z.record(z.string(), z.unknown()).describe("what the tool is given"),
});
export type PendingCall = z.infer<typeof PendingCall>;
