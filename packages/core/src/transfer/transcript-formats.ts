import { blockText, type Content, type Message } from "../contract/message.ts";
import type { SessionInfo } from "../contract/session-info.ts";
import { chatMessages } from "../contract/wire/openai.ts";
import { asBlocks, contentText } from "../turn/tokens.ts";

/** Transcripts in the formats of other programs. */

type Placed = Message & { readonly seq?: number };

/** The messages in chat completions form. */
export function asChatMessages(messages: readonly Message[]): readonly object[] {
  return messages.flatMap(chatMessages);
}

/** A turn in ShareGPT form. */
interface SharedTurn {
  readonly from: "system" | "human" | "gpt" | "function_call" | "observation";
  readonly value: string;
}

/** The messages in ShareGPT form: text only; calls and results are turns of their own. */
export function asSharedTurns(messages: readonly Message[]): readonly SharedTurn[] {
  return messages.flatMap(sharedTurns);
}

function sharedTurns(message: Message): readonly SharedTurn[] {
  switch (message.role) {
    case "system":
      return [{ from: "system", value: message.content }];
    case "system_notice":
      return [{ from: "human", value: `[system notice: ${message.kind}]\n${message.body ?? ""}`.trimEnd() }];
    case "user":
      return [{ from: "human", value: contentText(message.content) }];
    case "tool_results":
      return message.results.map(({ content }) => ({ from: "observation", value: contentText(content) }));
    case "block_assistant": {
      const text = message.blocks.map((block) => (block.block_type === "text" ? block.data.text : "")).join("");
      const calls = message.blocks.filter((block) => block.block_type === "tool_use");
      return [
        ...(text === "" ? [] : [{ from: "gpt" as const, value: text }]),
        ...calls.map(({ data: { name, args } }) => ({
          from: "function_call" as const,
          value: JSON.stringify({ name, arguments: args }),
        })),
      ];
    }
  }
}

/** A session as Markdown; tool output is fenced so that it cannot end the fence. */
export function asMarkdown(info: Pick<SessionInfo, "session_id" | "model" | "title">, said: readonly Placed[]): string {
  const head = [
    `# ${oneLine(info.title) || "A session"}`,
    `Session \`${info.session_id}\`, model ${oneLine(info.model)}.`,
  ];
  return `${[...head, ...said.flatMap(markdownOf)].join("\n\n")}\n`;
}

function markdownOf(message: Placed): readonly string[] {
  const head = (who: string): string => {
    const seq = message.seq === undefined ? "" : ` · seq ${message.seq}`;
    return `## ${who} · ${message.created_at}${seq}`;
  };
  switch (message.role) {
    case "system":
      return [head("System"), fenced(message.content)];
    case "system_notice":
      return [head(`Notice: ${oneLine(message.kind)}`), fenced(message.body ?? "")];
    case "user":
      return [head("User"), ...asBlocks(message.content).map(blockText)];
    case "tool_results":
      return [
        head("Results"),
        ...message.results.flatMap(({ tool_use_id, content, is_error }) => [
          `\`${oneLine(tool_use_id)}\`${is_error ? " failed" : ""}:`,
          fenced(contentText(content)),
        ]),
      ];
    case "block_assistant":
      return [head("Assistant"), ...message.blocks.map(assistantBlock).filter((text) => text !== "")];
  }
}

function assistantBlock(block: Extract<Message, { role: "block_assistant" }>["blocks"][number]): string {
  switch (block.block_type) {
    case "text":
      return block.data.text;
    case "reasoning":
      return block.data.text === "" ? "" : `_Reasoning_\n\n${fenced(block.data.text)}`;
    case "tool_use":
      return `Calls **${oneLine(block.data.name)}** (\`${oneLine(block.data.id)}\`):\n\n${fenced(JSON.stringify(block.data.args, undefined, 2), "json")}`;
    case "server_tool_content":
      return `Result of **${oneLine(block.data.name)}**:\n\n${fenced(JSON.stringify(block.data.content, undefined, 2) ?? "", "json")}`;
    case "image":
      return `[image: ${block.data.media_type}]`;
  }
}

/** A text in a fence longer than any inside it. */
export function fenced(text: string, language = ""): string {
  const longest = Math.max(2, ...(text.match(/`{3,}/g) ?? []).map((fence) => fence.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}

const LINE_CHARS_MAX = 200;

function oneLine(text: string): string {
  return text
    .slice(0, LINE_CHARS_MAX)
    .replace(/[\s`]+/g, " ")
    .trim();
}

/** Content with its blobs inlined: `read` returns the bytes of a blob, or nothing if it is gone. */
export async function withBlobs(
  content: Content,
  read: (blobId: string) => Promise<string | undefined>,
): Promise<Content> {
  if (typeof content === "string") return content;
  return Promise.all(
    content.map(async (block) => {
      if (block.type === "text" || block.source !== "blob") return block;
      const data = await read(block.blob_id);
      const { blob_id: _id, size: _size, ...rest } = block;
      return data === undefined ? block : { ...rest, source: "inline" as const, data };
    }),
  );
}
