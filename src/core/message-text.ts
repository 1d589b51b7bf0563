import type { AssistantBlock, Content, ContentBlock } from "../contract/message.ts";

/** What an assistant message says; listeners and results show it. */
export function textOf(message: { readonly blocks: readonly AssistantBlock[] }): string {
  let text = "";
  for (const block of message.blocks) if (block.block_type === "text") text += block.data.text;
  return text;
}

/** Content as a text in which media are named. */
export function textOfContent(content: Content): string {
  if (typeof content === "string") return content;
  return content
    .map((block) => (block.type === "text" ? block.text : `[${block.type}: ${block.media_type}]`))
    .join("\n");
}

/** Content as blocks. */
export function asBlocks(content: Content): ContentBlock[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : content;
}
