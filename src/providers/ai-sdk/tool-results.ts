import type { LanguageModelV4Message, LanguageModelV4ToolResultOutput } from "@ai-sdk/provider";
import type { AssistantMessage, Content, ToolResult, ToolResultsMessage } from "../../contract/message.ts";
import { callId, type Dialect } from "./dialect.ts";

type ResultPart = Extract<LanguageModelV4Message, { role: "tool" }>["content"][number];

/** The results that answer calls of `assistant`; one without its call would have the whole request refused. */
export function convertResults(
  message: ToolResultsMessage,
  assistant: AssistantMessage | undefined,
  dialect: Dialect,
): LanguageModelV4Message | undefined {
  const content: ResultPart[] = [];
  for (const result of message.results) {
    const toolName = nameOfCall(assistant, result.tool_use_id);
    if (toolName === undefined) continue;
    const toolCallId = callId(result.tool_use_id, dialect);
    content.push({ type: "tool-result", toolCallId, toolName, output: outputOf(result, dialect) });
  }
  return content.length === 0 ? undefined : { role: "tool", content };
}

function nameOfCall(assistant: AssistantMessage | undefined, id: string): string | undefined {
  if (assistant === undefined || assistant.stop_reason === "cancelled") return undefined;
  for (const block of assistant.blocks) {
    if (block.block_type === "tool_use" && block.data.id === id) return block.data.name;
  }
  return undefined;
}

function outputOf(result: ToolResult, dialect: Dialect): LanguageModelV4ToolResultOutput {
  if (result.is_error) return { type: "error-text", value: plainText(result.content) };
  const hasMedia = typeof result.content !== "string" && result.content.some(isInlineImage);
  if (!hasMedia || !dialect.takesToolMedia) return { type: "text", value: plainText(result.content) };
  return { type: "content", value: mediaContent(result.content, dialect) };
}

type Block = Exclude<Content, string>[number];

function isInlineImage(block: Block): boolean {
  return block.type === "image" && block.source === "inline";
}

function plainText(content: Content): string {
  return typeof content === "string" ? content : content.map(textOf).join("\n");
}

function textOf(block: Block): string {
  return block.type === "text" ? block.text : `[${block.type}: ${block.media_type}]`;
}

type MediaContent = Extract<LanguageModelV4ToolResultOutput, { type: "content" }>["value"];

function mediaContent(content: Content, dialect: Dialect): MediaContent {
  const blocks: readonly Block[] = typeof content === "string" ? [{ type: "text", text: content }] : content;
  // Each version's own spelling of the same thing; the type names v4's.
  return blocks.map((block) => mediaPart(block, dialect)) as MediaContent;
}

function mediaPart(block: Block, dialect: Dialect): unknown {
  if (block.type !== "image" || block.source !== "inline") return { type: "text", text: textOf(block) };
  const { data, media_type: mediaType } = block;
  switch (dialect.version) {
    case "v4":
      return { type: "file", mediaType, data: { type: "data", data } };
    case "v3":
      return { type: "image-data", mediaType, data };
    case "v2":
      return { type: "media", mediaType, data };
  }
}
