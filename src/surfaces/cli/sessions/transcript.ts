import type { AssistantBlock, Content, Message } from "../../../contract/message.ts";
import { withoutControls } from "../../wire/terminal-text.ts";
import type { Paint } from "../paint.ts";
import { oneLine } from "../plain-text.ts";

const RESULT_LINES_MAX = 20;
const ARGS_CHARS_MAX = 200;

/** A message with its place in the log and, in a context, why it is shown. */
type Shown = Message & { readonly seq: number; readonly part?: string | undefined };

/** A transcript to read: each message with its index, which `fork --at` counts in, and its seq. */
export function transcriptLines(messages: readonly Shown[], paint: Paint): readonly string[] {
  return messages.flatMap((message, index) => [
    `${paint.bold(`${index}  ${SPEAKERS[message.role]}`)}  ${paint.dim(`seq ${message.seq}`)}${tagOf(message, paint)}`,
    ...bodyOf(message)
      .flatMap((text) => withoutControls(text).trimEnd().split("\n"))
      .map((line) => `   ${line}`),
    "",
  ]);
}

/** What a part of a context is, unless it goes without saying. */
function tagOf({ part }: Shown, { cyan }: Paint): string {
  return part === undefined || part === "turn" || part === "system" ? "" : `  ${cyan(part)}`;
}

/** Who says what, as one text. */
export function messageText(message: Message): string {
  return `${SPEAKERS[message.role]}: ${bodyOf(message).join("\n")}`;
}

const SPEAKERS: Readonly<Record<Message["role"], string>> = {
  system: "system",
  system_notice: "notice",
  user: "you",
  block_assistant: "model",
  tool_results: "tools",
};

function bodyOf(message: Message): readonly string[] {
  switch (message.role) {
    case "system":
      return [message.content];
    case "system_notice":
      return [message.body ?? message.kind];
    case "user":
      return [textOf(message.content)];
    case "block_assistant": {
      const cut = message.stop_reason === "cancelled" ? ["(cut off here)"] : [];
      return [...message.blocks.map(blockText), ...cut];
    }
    case "tool_results":
      return message.results.map(({ content, is_error }) => `${is_error ? "✗" : "←"} ${shortened(textOf(content))}`);
  }
}

function blockText(block: AssistantBlock): string {
  switch (block.block_type) {
    case "text":
      return block.data.text;
    case "reasoning":
      return `(thought) ${block.data.text}`;
    case "tool_use":
      return `→ ${block.data.name} ${oneLine(JSON.stringify(block.data.args), ARGS_CHARS_MAX)}`;
    case "server_tool_content":
      return `→ ${block.data.name}, run by the provider`;
    case "image":
      return `(${block.data.media_type})`;
  }
}

function textOf(content: Content): string {
  if (typeof content === "string") return content;
  return content.map((block) => (block.type === "text" ? block.text : `(${block.media_type})`)).join("\n");
}

/** Tools may answer with more than anybody reads; the whole is in the JSON. */
function shortened(text: string): string {
  const lines = text.trimEnd().split("\n");
  if (lines.length <= RESULT_LINES_MAX) return text;
  return [...lines.slice(0, RESULT_LINES_MAX), `… ${lines.length - RESULT_LINES_MAX} more lines`].join("\n");
}
