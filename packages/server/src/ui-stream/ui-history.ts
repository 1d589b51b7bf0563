import {
  type AssistantBlock,
  blockText,
  type Content,
  type ContentBlock,
  type Message,
  type ToolResult,
} from "@rkat/core/contract/message";
import type { SessionHistory } from "@rkat/core/contract/session-info";
import { textOf } from "../openai/content.ts";

type SeqMessage = SessionHistory["messages"][number];

/** A message as a page shows it. */
interface ShownMessage {
  readonly id: string;
  readonly role: "user" | "assistant";
  readonly parts: unknown[];
}

/** What was said in a session, as messages of the AI SDK; of an open turn the question alone. */
export function messagesOf(
  session_id: string,
  messages: readonly SeqMessage[],
  { isOpen }: { readonly isOpen: boolean },
): readonly ShownMessage[] {
  const asked = messages.findLastIndex(isQuestion);
  const known = isOpen ? messages.slice(0, asked + 1) : messages;
  const results = new Map(
    messages.flatMap((message) =>
      message.role === "tool_results" ? message.results.map((result) => [result.tool_use_id, result] as const) : [],
    ),
  );
  const shown: ShownMessage[] = [];
  let askedSeq = 0;
  for (const message of known) {
    if (isQuestion(message)) {
      askedSeq = message.seq;
      shown.push({
        id: `user_${message.seq}`,
        role: "user",
        parts: message.content.length === 0 ? [] : partsOf(message.content),
      });
    }
    if (message.role !== "block_assistant") continue;
    const parts = [{ type: "step-start" }, ...message.blocks.flatMap((block) => blockPart(block, results))];
    const last = shown.at(-1);
    // The steps of a turn are one message, and it has the name its stream gave it.
    if (last?.role === "assistant") last.parts.push(...parts);
    else shown.push({ id: `msg_${session_id.replaceAll("-", "")}_${askedSeq}`, role: "assistant", parts });
  }
  return shown.filter(({ parts }) => parts.length > 0);
}

function isQuestion(message: SeqMessage): message is SeqMessage & Extract<Message, { role: "user" }> {
  return message.role === "user" && message.compaction_id === undefined;
}

function partsOf(content: Content): unknown[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return content.map(partOf);
}

function partOf(block: ContentBlock): unknown {
  if (block.type === "text") return block;
  const filename = block.type === "file" && block.name !== undefined ? { filename: block.name } : {};
  const file = { type: "file", mediaType: block.media_type, ...filename };
  switch (block.source) {
    case "inline":
      return { ...file, url: `data:${block.media_type};base64,${block.data}` };
    case "url":
      return { ...file, url: block.url };
    case "blob":
      // Its bytes are not read for a page that may not show them.
      return { type: "text", text: blockText(block) };
  }
}

function blockPart(block: AssistantBlock, results: ReadonlyMap<string, ToolResult>): readonly unknown[] {
  switch (block.block_type) {
    case "text":
      return [{ type: "text", text: block.data.text, state: "done" }];
    case "reasoning":
      return block.data.text === "" ? [] : [{ type: "reasoning", text: block.data.text, state: "done" }];
    case "tool_use": {
      const { id: toolCallId, name: toolName, args: input } = block.data;
      const result = results.get(toolCallId);
      const call = { type: "dynamic-tool", toolName, toolCallId, input };
      if (result === undefined) return [{ ...call, state: "input-available" }];
      const output = typeof result.content === "string" ? result.content : textOf(result.content);
      const run = { ...call, providerExecuted: true };
      return [
        result.is_error
          ? { ...run, state: "output-error", errorText: output }
          : { ...run, state: "output-available", output },
      ];
    }
    case "image":
      return [
        {
          type: "file",
          mediaType: block.data.media_type,
          url: `data:${block.data.media_type};base64,${block.data.data}`,
        },
      ];
    case "server_tool_content":
      return [];
  }
}
