import { RuntimeError } from "@rkat/core/contract/error";
import type { Content, ContentBlock } from "@rkat/core/contract/message";
import type { JsonObject } from "@rkat/core/contract/session";
import type { ContentPart, Format, PartedContent } from "@rkat/core/contract/wire/openai";

/** The content of a message as our blocks; `at` names the field in errors. */
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
      requireNoId(part, at);
      return imageOf(part.image_url ?? "", at);
    case "file":
      return fileOf(part.file, `${at}.file`);
    case "input_file":
      return fileOf(part, at);
    case "input_audio":
      throw unread(at, "sound is not read here; send what was said as a text");
  }
}

const DATA_URL = /^data:([\w.+-]{1,100}\/[\w.+-]{1,100})(?:;[\w.=-]{1,100})*;base64,([A-Za-z0-9+/\s]*={0,2})$/;

function imageOf(url: string, at: string): ContentBlock {
  if (/^https?:\/\//i.test(url)) return { type: "image", media_type: "image/*", source: "url", url };
  const [, media_type, data] = DATA_URL.exec(url) ?? [];
  if (media_type?.startsWith("image/") === true && data !== undefined && data !== "") {
    return { type: "image", source: "inline", media_type, data: unbroken(data) };
  }
  throw unread(at, "write an image as an address of http or https, or as a data: URL, like data:image/png;base64,…");
}

interface FilePart {
  readonly file_data?: string | null | undefined;
  readonly filename?: string | null | undefined;
  readonly file_id?: string | null | undefined;
  readonly file_url?: string | null | undefined;
}

function fileOf(part: FilePart, at: string): ContentBlock {
  requireNoId(part, at);
  const { file_data, file_url, filename } = part;
  if ((file_url ?? undefined) !== undefined) {
    throw unread(`${at}.file_url`, "files are not fetched here; send the bytes as file_data");
  }
  const [, media_type, data] = DATA_URL.exec(file_data ?? "") ?? [];
  if (media_type === undefined || data === undefined || data === "") {
    throw unread(`${at}.file_data`, "write the file as a data: URL, like data:application/pdf;base64,…");
  }
  const named = (filename ?? "") === "" ? {} : { name: filename?.slice(0, NAME_CHARS_MAX) };
  return { type: "file", source: "inline", media_type, data: unbroken(data), ...named };
}

/** Encoders break lines. */
function unbroken(base64: string): string {
  return base64.replace(/\s+/g, "");
}

const NAME_CHARS_MAX = 255;

function requireNoId({ file_id }: FilePart, at: string): void {
  if ((file_id ?? undefined) === undefined) return;
  throw unread(`${at}.file_id`, "no files are kept here; send the file itself with the message");
}

function unread(at: string, why: string): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", `${at}: ${why}`);
}

/** The schema an answer must match; undefined for a text. */
export function schemaOf(format: Format | null | undefined): JsonObject | undefined {
  if (format === null || format === undefined || format.type === "text") return undefined;
  return format.type === "json_object" ? { type: "object" } : format.schema;
}
