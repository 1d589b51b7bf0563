import type { ContentBlock as ToldBlock } from "@agentclientprotocol/sdk";
import { RuntimeError } from "../../contract/error.ts";
import type { Content, ContentBlock } from "../../contract/message.ts";

/** What a client's blocks are to a session: texts, images, and files as texts with their address. */
export function contentOf(blocks: readonly ToldBlock[]): Content {
  const content = blocks.map((block, index) => blockOf(block, `prompt[${index}]`));
  const [first] = content;
  return content.length === 1 && first?.type === "text" ? first.text : content;
}

/** The one place that says which kinds of blocks are taken; `where` names the block in a refusal. */
function blockOf(block: ToldBlock, where: string): ContentBlock {
  switch (block.type) {
    case "text":
      return { type: "text", text: block.text };
    case "image":
      return { type: "image", source: "inline", media_type: block.mimeType, data: block.data };
    case "resource_link":
      return { type: "text", text: `[${block.title ?? block.name}](${block.uri})` };
    case "resource": {
      const { resource } = block;
      if ("text" in resource) return { type: "text", text: fileText(resource.uri, resource.text) };
      const { mimeType } = resource;
      if (mimeType?.startsWith("image/") === true) {
        return { type: "image", source: "inline", media_type: mimeType, data: resource.blob };
      }
      throw refused(where, `a file of the type ${mimeType ?? "unknown"} is not taken; embed a text or an image`);
    }
    case "audio":
      throw refused(where, "audio is not taken; send a text or an image");
  }
}

function fileText(uri: string, text: string): string {
  return `<file uri=${JSON.stringify(uri)}>\n${text}${text.endsWith("\n") ? "" : "\n"}</file>`;
}

function refused(where: string, why: string): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", `${where}: ${why}`);
}

/** A session's content as a client is shown it; what it cannot be shown is named. */
export function toldBlocks(content: Content): readonly ToldBlock[] {
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: content }];
  return content.map((block): ToldBlock => {
    if (block.type === "text") return { type: "text", text: block.text };
    if (block.type === "image" && block.source === "inline") {
      return { type: "image", mimeType: block.media_type, data: block.data };
    }
    return { type: "text", text: `[${block.type}: ${block.media_type}]` };
  });
}
