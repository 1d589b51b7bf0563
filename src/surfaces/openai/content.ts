import { RuntimeError } from "../../contract/error.ts";
import type { Content, ContentBlock } from "../../contract/message.ts";
import type { ContentPart, Format, PartedContent } from "../../contract/openai.ts";
import type { JsonObject } from "../../contract/session.ts";

/** What somebody says, as our blocks; `at` names the field in what is refused. */
export function contentOf(content: PartedContent, at: string): Content {
  if (typeof content === "string") return content;
  const blocks = content.map((part, index) => blockOf(part, `${at}[${index}]`));
  return blocks.every((block) => block.type === "text") ? blocks.map(({ text }) => text).join("\n") : blocks;
}

/** Several contents as one; texts stay a text. */
export function joined(contents: readonly Content[]): Content {
  const [only] = contents;
  if (only !== undefined && contents.length === 1) return only;
  if (contents.every((content) => typeof content === "string")) return contents.join("\n\n");
  return contents.flatMap((content) =>
    typeof content === "string" ? [{ type: "text" as const, text: content }] : content,
  );
}

/** The text of a content; what is no text is left out. */
export function textOf(content: Content): string {
  if (typeof content === "string") return content;
  return content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");
}

function blockOf(part: ContentPart, at: string): ContentBlock {
  switch (part.type) {
    case "input_text":
    case "output_text":
    case "text":
      return { type: "text", text: part.text };
    case "refusal":
      return { type: "text", text: part.refusal };
    case "image_url":
      return imageOf(part.image_url.url, at);
    case "input_image":
      return imageOf(part.image_url ?? undefined, at);
    case "file":
    case "input_file":
    case "input_audio":
      throw unread(at, "files and sound are not read here");
  }
}

const DATA_URL = /^data:(image\/[\w.+-]{1,100});base64,([A-Za-z0-9+/\s]*={0,2})$/;

function imageOf(url: string | undefined, at: string): ContentBlock {
  const [, media_type, data] = DATA_URL.exec(url ?? "") ?? [];
  if (media_type === undefined || data === undefined || data === "") {
    throw unread(at, "images are read from a data: URL alone, like data:image/png;base64,…");
  }
  return { type: "image", source: "inline", media_type, data: data.replace(/\s/g, "") };
}

function unread(at: string, why: string): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", `${at}: ${why}`);
}

/** The schema an answer must match; undefined for a text. */
export function schemaOf(format: Format | null | undefined): JsonObject | undefined {
  if (format === null || format === undefined || format.type === "text") return undefined;
  return format.type === "json_object" ? { type: "object" } : format.schema;
}
