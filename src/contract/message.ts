import { z } from "zod";

/** What a provider needs back, untouched, to accept a block it produced earlier. */
export const BlockMeta = z.discriminatedUnion("provider", [
  z.object({ provider: z.literal("anthropic"), signature: z.string() }),
  z.object({ provider: z.literal("anthropic_redacted"), data: z.string() }),
  z.object({ provider: z.literal("gemini"), thoughtSignature: z.string() }),
  z.object({
    provider: z.literal("open_ai"),
    id: z.string(),
    encrypted_content: z.string().optional(),
    phase: z.string().optional(),
  }),
  z.object({
    provider: z.literal("unknown"),
    metadata: z.record(z.string(), z.record(z.string(), z.unknown())).optional(),
  }),
]);
export type BlockMeta = z.infer<typeof BlockMeta>;

const InlineMedia = z.object({ media_type: z.string(), source: z.literal("inline"), data: z.string() });
const BlobMedia = z.object({ media_type: z.string(), source: z.literal("blob"), blob_id: z.string() });

export const ContentBlock = z.union([
  z.object({ type: z.literal("text"), text: z.string() }),
  InlineMedia.extend({ type: z.literal("image") }),
  BlobMedia.extend({ type: z.literal("image") }),
  InlineMedia.extend({ type: z.literal("video"), duration_ms: z.number().int().nonnegative() }),
]);
export type ContentBlock = z.infer<typeof ContentBlock>;

/** Text alone is a plain string; anything else is a list of blocks. */
export const Content = z.union([z.string(), z.array(ContentBlock)]);
export type Content = z.infer<typeof Content>;

const meta = BlockMeta.optional();

export const AssistantBlock = z.discriminatedUnion("block_type", [
  z.object({ block_type: z.literal("text"), data: z.object({ text: z.string(), meta }) }),
  z.object({ block_type: z.literal("reasoning"), data: z.object({ text: z.string(), meta }) }),
  z.object({
    block_type: z.literal("tool_use"),
    data: z.object({
      id: z.string(),
      name: z.string(),
      args: z.record(z.string(), z.unknown()),
      /** Why the model's arguments were unusable; `args` then holds them as `{raw_arguments}`. */
      args_error: z.string().optional(),
      meta,
    }),
  }),
  z.object({
    block_type: z.literal("server_tool_content"),
    data: z.object({ id: z.string().optional(), name: z.string(), content: z.unknown(), meta }),
  }),
  z.object({
    block_type: z.literal("image"),
    data: z.object({ media_type: z.string(), data: z.string(), meta }),
  }),
]);
export type AssistantBlock = z.infer<typeof AssistantBlock>;

export const StopReason = z.enum([
  "end_turn",
  "tool_use",
  "max_tokens",
  "stop_sequence",
  "content_filter",
  "cancelled",
]);
export type StopReason = z.infer<typeof StopReason>;

export const ToolResult = z.object({ tool_use_id: z.string(), content: Content, is_error: z.boolean() });
export type ToolResult = z.infer<typeof ToolResult>;

const created_at = z.string();

export const Message = z.discriminatedUnion("role", [
  z.object({ role: z.literal("system"), content: z.string(), created_at }),
  z.object({ role: z.literal("system_notice"), kind: z.string(), body: z.string().optional(), created_at }),
  z.object({
    role: z.literal("user"),
    content: Content,
    created_at,
    /** Only on the summary a compaction left: it speaks for earlier turns and is none itself. */
    compaction_id: z.string().optional(),
  }),
  z.object({
    role: z.literal("block_assistant"),
    blocks: z.array(AssistantBlock),
    stop_reason: StopReason,
    created_at,
  }),
  z.object({ role: z.literal("tool_results"), results: z.array(ToolResult), created_at }),
]);
export type Message = z.infer<typeof Message>;
export type AssistantMessage = Extract<Message, { role: "block_assistant" }>;
export type ToolResultsMessage = Extract<Message, { role: "tool_results" }>;
export type ToolUseBlock = Extract<AssistantBlock, { block_type: "tool_use" }>;
