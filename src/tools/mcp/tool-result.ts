import { z } from "zod";
import type { ContentBlock } from "../../contract/message.ts";
import type { ToolOutput } from "../../ports/tool.ts";

/** Images of one result that are shown; each costs the model as much as pages of text. */
const IMAGES_MAX = 16;
/** Larger ones are refused by providers, and with them the whole conversation. */
const IMAGE_CHARS_MAX = 5 * 1024 * 1024;
const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

const Resource = z.object({
  uri: z.string(),
  mimeType: z.string().optional(),
  text: z.string().optional(),
  blob: z.string().optional(),
});

/** Read by what it holds, not by what the protocol allows: what a server adds to a block must not lose the block. */
const Block = z.union([
  z.object({ type: z.literal("text"), text: z.string() }),
  z.object({ type: z.enum(["image", "audio"]), data: z.string(), mimeType: z.string() }),
  z.object({ type: z.literal("resource"), resource: Resource }),
  z.object({ type: z.literal("resource_link"), uri: z.string(), name: z.string(), description: z.string().optional() }),
]);

/** What a model is shown of a result: its texts and images, the rest in words. */
export function outputOf(result: Readonly<Record<string, unknown>>): ToolOutput {
  const blocks = Array.isArray(result.content) ? result.content.map(read) : [];
  const hasText = blocks.some((block) => block.type === "text" && block.text !== "");
  const structured =
    hasText || result.structuredContent === undefined ? [] : [text(JSON.stringify(result.structuredContent))];
  return { content: joined([...blocks, ...structured]), isError: result.isError === true };
}

function read(raw: unknown): ContentBlock {
  const { success, data: block } = Block.safeParse(raw);
  if (!success) return text(JSON.stringify(raw) ?? "");
  switch (block.type) {
    case "text":
      return text(block.text);
    case "image":
    case "audio":
      return media(block.data, block.mimeType);
    case "resource":
      return resource(block.resource);
    case "resource_link":
      return text(`[${block.name}: ${block.uri}${block.description === undefined ? "" : `, ${block.description}`}]`);
  }
}

function resource({ uri, mimeType = "application/octet-stream", text: said, blob }: z.infer<typeof Resource>) {
  if (said !== undefined) return text(`[${uri}]\n${said}`);
  return blob === undefined ? text(`[${uri}]`) : media(blob, mimeType, uri);
}

function media(data: string, media_type: string, uri?: string): ContentBlock {
  const isShown = IMAGE_TYPES.includes(media_type) && data.length <= IMAGE_CHARS_MAX;
  if (isShown) return { type: "image", source: "inline", media_type, data };
  const bytes = Math.floor((data.length * 3) / 4);
  return text(`[${uri === undefined ? "" : `${uri}, `}${media_type}, about ${bytes} bytes, not shown]`);
}

function text(said: string): ContentBlock {
  return { type: "text", text: said };
}

/** One text between two images: the bound on tool output is for each text, so there must not be many. */
function joined(blocks: readonly ContentBlock[]): string | readonly ContentBlock[] {
  const merged: ContentBlock[] = [];
  let images = 0;
  for (const block of blocks) {
    const isTooMany = block.type === "image" && ++images > IMAGES_MAX;
    const next = isTooMany ? text("[one more image, not shown]") : block;
    const last = merged.at(-1);
    if (last?.type === "text" && next.type === "text") merged[merged.length - 1] = text(`${last.text}\n${next.text}`);
    else merged.push(next);
  }
  const [only] = merged;
  if (only === undefined) return "";
  return merged.length === 1 && only.type === "text" ? only.text : merged;
}
