import type { ContentBlock as PromptBlock } from "@agentclientprotocol/sdk";
import { invalid } from "@rkat/core/contract/error";
import type { Content, ContentBlock } from "@rkat/core/contract/message";

/** What a client's blocks are to a session. What of it cannot be taken, or not be shown to the model, is said there. */
export function contentOf(blocks: readonly PromptBlock[]): Content {
  const content = blocks.map((block, index) => blockOf(block, `prompt[${index}]`));
  const [first] = content;
  return content.length === 1 && first?.type === "text" ? first.text : content;
}

/** The one place that says which kinds of blocks are taken; `where` names the block in a refusal. */
function blockOf(block: PromptBlock, where: string): ContentBlock {
  switch (block.type) {
    case "text":
      return { type: "text", text: block.text };
    case "image":
      if (block.data === "" && isAddress(block.uri)) return linkedImage(block.uri, block.mimeType);
      return { type: "image", source: "inline", media_type: block.mimeType, data: block.data };
    case "resource_link": {
      const { uri, mimeType, title, name } = block;
      if (isImage(mimeType) && isAddress(uri)) return linkedImage(uri, mimeType);
      return { type: "text", text: `[${title ?? name}](${uri})` };
    }
    case "resource": {
      const { resource } = block;
      const name = resource.uri.slice(-NAME_CHARS_MAX);
      const file = { type: "file", source: "inline", name } as const;
      if ("text" in resource) {
        return { ...file, media_type: "text/plain", data: Buffer.from(resource.text, "utf8").toString("base64") };
      }
      const { mimeType: media_type = "application/octet-stream", blob: data } = resource;
      if (isImage(media_type)) return { type: "image", source: "inline", media_type, data };
      return { ...file, media_type: media_type ?? "application/octet-stream", data };
    }
    case "audio":
      throw invalid(`${where}: audio is not taken; send a text, an image or a PDF`);
  }
}

/** As long as the name of a file may be. */
const NAME_CHARS_MAX = 255;

function isImage(mimeType: string | null | undefined): mimeType is string {
  return mimeType?.startsWith("image/") === true;
}

/** Whether a provider can fetch it. */
function isAddress(uri: string | null | undefined): uri is string {
  return /^https?:\/\//i.test(uri ?? "");
}

function linkedImage(url: string, media_type: string): ContentBlock {
  return { type: "image", source: "url", url, media_type };
}

/** A session's content as a client is shown it; what it cannot be shown is named. */
export function promptBlocks(content: Content): readonly PromptBlock[] {
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: content }];
  return content.map((block): PromptBlock => {
    if (block.type === "text") return { type: "text", text: block.text };
    const { media_type: mimeType } = block;
    if (block.type === "image" && block.source === "url") {
      return { type: "resource_link", name: block.url, uri: block.url, mimeType };
    }
    if (block.type === "image" && block.source === "inline") return { type: "image", mimeType, data: block.data };
    if (block.type === "file" && block.source === "inline") {
      return { type: "resource", resource: { uri: block.name ?? "file", mimeType, blob: block.data } };
    }
    return { type: "text", text: `[${block.type}: ${mimeType}]` };
  });
}
