import { RuntimeError } from "../contract/error.ts";
import { blockText, type Content, type ContentBlock, type Message } from "../contract/message.ts";
import type { ModelClient } from "../ports/model.ts";
import type { BlobStore } from "../ports/store.ts";

/** More than one request body can hold; providers accept less. */
export const MEDIA_BYTES_MAX = 12 * 1_024 * 1_024;
const MEDIA_MAX = 100;
const PDF = "application/pdf";
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
/** Media types that are read as text. */
const TEXT = /^(?:text\/[\w.+-]+|application\/(?:[\w.-]+\+)?(?:json|xml|yaml|toml|javascript|sql))(?:;|$)/;

/**
 * Content as it is stored: media as blobs, text files as text. Throws INVALID_PARAMS for broken or too large media,
 * CAPABILITY_UNAVAILABLE for media the model cannot read.
 */
export async function takeContent(
  content: Content,
  { blobs, model, field }: { blobs: BlobStore; model: ModelClient | undefined; field: string },
): Promise<Content> {
  if (typeof content === "string") return content;
  const media = content.filter(({ type }) => type !== "text").length;
  if (media > MEDIA_MAX)
    throw invalid(field, `${media} images and files are more than ${MEDIA_MAX}; send fewer at once`);
  const taken: ContentBlock[] = [];
  for (const [index, block] of content.entries()) {
    const at = `${field}[${index}]`;
    if (block.type === "text") {
      taken.push(block);
      continue;
    }
    if (block.source === "inline") requireBytes(block.data, at);
    if (block.source === "blob" && (await blobs.get(block.blob_id)) === undefined) {
      throw invalid(`${at}.blob_id`, `there is no blob ${block.blob_id}`);
    }
    const said = block.type === "file" ? await readText(block, at, blobs) : block;
    const why = said.type === "text" ? undefined : model?.refuseContent?.(said);
    if (why !== undefined) {
      const what = `${at}: ${model?.modelId} cannot be shown ${blockText(said)}`;
      throw new RuntimeError("CAPABILITY_UNAVAILABLE", `${what}: ${why}`);
    }
    taken.push(said);
  }
  return keepMedia(taken, blobs);
}

function invalid(field: string, why: string): RuntimeError {
  return new RuntimeError("INVALID_PARAMS", `${field}: ${why}`);
}

function requireBytes(data: string, at: string): void {
  if ((data.length * 3) / 4 > MEDIA_BYTES_MAX) {
    throw invalid(`${at}.data`, `it is larger than ${MEDIA_BYTES_MAX / 1_024 / 1_024} MiB; send a smaller one`);
  }
  if (data.length % 4 !== 0 || !BASE64.test(data))
    throw invalid(`${at}.data`, "it is no Base64; encode the bytes as such");
}

type FileBlock = Extract<ContentBlock, { type: "file" }>;

/** A text file as text; a PDF unchanged. */
async function readText(block: FileBlock, at: string, blobs: BlobStore): Promise<ContentBlock> {
  if (block.media_type === PDF) return block;
  if (!TEXT.test(block.media_type)) {
    throw invalid(`${at}.media_type`, `a file is of text or ${PDF}, and this one is ${block.media_type}`);
  }
  // The blob was checked before.
  const bytes = block.source === "inline" ? Buffer.from(block.data, "base64") : (await blobs.get(block.blob_id))?.data;
  const text = textOfFile(block, bytes ?? Buffer.alloc(0));
  if (text !== undefined) return { type: "text", text };
  throw invalid(`${at}.data`, `it is said to be ${block.media_type} and is not UTF-8; send it in that encoding`);
}

/** The text of a text file; undefined for any other file. */
export function textOfFile({ media_type, name = "" }: FileBlock, bytes: Uint8Array): string | undefined {
  if (!TEXT.test(media_type)) return undefined;
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return `<file name="${name.replace(/[\p{Cc}"<>]/gu, " ")}">\n${text}\n</file>`;
  } catch {
    return undefined;
  }
}

/** Smaller media are not worth a blob. */
const INLINE_CHARS_MAX = 4_096;

/** Content with its media as blobs, each stored once. */
export async function keepMedia(content: Content, blobs: Pick<BlobStore, "put">): Promise<Content> {
  if (typeof content === "string") return content;
  return Promise.all(content.map((block) => keepBlock(block, blobs)));
}

async function keepBlock(block: ContentBlock, blobs: Pick<BlobStore, "put">): Promise<ContentBlock> {
  if (block.type === "text" || block.type === "video" || block.source !== "inline") return block;
  if (block.data.length <= INLINE_CHARS_MAX) return block;
  const { data: base64, ...rest } = block;
  const data = Buffer.from(base64, "base64");
  const blob_id = await blobs.put({ mediaType: block.media_type, data });
  return { ...rest, source: "blob", blob_id, size: data.length };
}

const filled = new WeakMap<Message, Message>();

/**
 * Messages with their media inlined, as sent to a provider. Each message object is filled once, so providers can cache
 * by object. A missing blob stays a reference.
 */
export async function fillMedia(
  messages: readonly Message[],
  blobs: Pick<BlobStore, "get">,
): Promise<readonly Message[]> {
  if (!messages.some(namesBlob)) return messages;
  return Promise.all(messages.map((message) => (namesBlob(message) ? fillMessage(message, blobs) : message)));
}

function namesBlob(message: Message): boolean {
  switch (message.role) {
    case "user":
      return blobsIn(message.content).length > 0;
    case "tool_results":
      return message.results.some(({ content }) => blobsIn(content).length > 0);
    default:
      return false;
  }
}

export function blobsIn(content: Content): readonly string[] {
  if (typeof content === "string") return [];
  return content.flatMap((block) => (block.type !== "text" && block.source === "blob" ? [block.blob_id] : []));
}

async function fillMessage(message: Message, blobs: Pick<BlobStore, "get">): Promise<Message> {
  const known = filled.get(message);
  if (known !== undefined) return known;
  const whole = await withMedia(message, blobs);
  filled.set(message, whole);
  return whole;
}

async function withMedia(message: Message, blobs: Pick<BlobStore, "get">): Promise<Message> {
  if (message.role === "user") return { ...message, content: await fillContent(message.content, blobs) };
  if (message.role !== "tool_results") return message;
  const results = message.results.map(async (result) => {
    return { ...result, content: await fillContent(result.content, blobs) };
  });
  return { ...message, results: await Promise.all(results) };
}

/** Content with its media inlined; a missing blob stays a reference. */
export async function fillContent(content: Content, blobs: Pick<BlobStore, "get">): Promise<Content> {
  if (typeof content === "string") return content;
  return Promise.all(
    content.map(async (block) => {
      if (block.type === "text" || block.source !== "blob") return block;
      const blob = await blobs.get(block.blob_id);
      if (blob === undefined) return block;
      const { blob_id: _id, size: _size, ...rest } = block;
      return { ...rest, source: "inline" as const, data: Buffer.from(blob.data).toString("base64") };
    }),
  );
}
