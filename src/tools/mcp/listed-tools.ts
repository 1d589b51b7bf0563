import { hash } from "node:crypto";
import { z } from "zod";
import { messageOf } from "../../contract/error.ts";
import type { ContentBlock } from "../../contract/message.ts";
import type { JsonObject } from "../../contract/session.ts";
import type { McpServerConfig } from "../../ports/mcp-server.ts";
import type { Tool, ToolOutput } from "../../ports/tool.ts";

export interface ListedBy {
  readonly server: McpServerConfig;
  /** Throws for an invalid JSON schema. */
  requireSound(schema: JsonObject, what: string): void;
  warn(sentence: string): void;
  /** Calls a tool by the server's name for it; throws errors for the model. */
  call(tool: string, args: JsonObject, signal: AbortSignal): Promise<Readonly<Record<string, unknown>>>;
}

const TOOLS_MAX = 256;
const DESCRIPTION_CHARS_MAX = 10_000;

/** The usable tools of a server's list; unusable ones are reported and skipped. */
export function readTools(listed: readonly unknown[], by: ListedBy): readonly Tool[] {
  const { name, tools: allowed } = by.server;
  for (const missing of (allowed ?? []).filter((tool) => !listed.some((raw) => nameOf(raw) === tool)))
    by.warn(`MCP server ${name} has no tool ${missing}`);
  const wanted = listed.filter((raw) => allowed?.includes(nameOf(raw)) ?? true);
  if (wanted.length > TOOLS_MAX)
    by.warn(`MCP server ${name} has ${wanted.length} tools, of which the first ${TOOLS_MAX} are offered`);
  const tools = new Map<string, Tool>();
  for (const raw of wanted.slice(0, TOOLS_MAX)) {
    try {
      const tool = readTool(raw, by);
      if (tools.has(tool.name)) throw new Error("the server has another of this name");
      tools.set(tool.name, tool);
    } catch (thrown) {
      by.warn(`tool ${nameOf(raw)} of MCP server ${name} is left out: ${messageOf(thrown)}`);
    }
  }
  return [...tools.values()];
}

const ListedTool = z.object({
  name: z.string().min(1),
  description: z.string().optional(),
  inputSchema: z.record(z.string(), z.unknown()),
});

function readTool(raw: unknown, { server, requireSound, call }: ListedBy): Tool {
  const parsed = ListedTool.safeParse(raw);
  if (!parsed.success) throw new Error("its description is not one of a tool");
  const { name, description = "", inputSchema } = parsed.data;
  // Without the dialect marker: a validator that does not know it rejects the whole schema.
  const { $schema: _dialect, ...schema } = inputSchema;
  if (schema.type !== "object") throw new Error("its input schema is not one of an object");
  requireSound(schema, "its input schema");
  return {
    name: offeredName(server.name, name),
    description: description.slice(0, DESCRIPTION_CHARS_MAX),
    inputSchema: schema,
    mcp: { server: server.name, tool: name },
    ...(server.timeoutMs === undefined ? {} : { timeoutMs: server.timeoutMs }),
    execute: async (args, { signal }) => {
      try {
        return outputOf(await call(name, args, signal));
      } catch (thrown) {
        if (!signal.aborted) throw thrown;
        // The aborting side explains it better than the protocol.
        return { content: "interrupted: this call may or may not have taken effect", isError: true };
      }
    },
  };
}

function nameOf(raw: unknown): string {
  return typeof raw === "object" && raw !== null && "name" in raw && typeof raw.name === "string" ? raw.name : "?";
}

/** Accepted by every provider. */
const NAME_CHARS_MAX = 64;
const HASH_CHARS = 8;

/**
 * The name of a server's tool for the model. It depends on the two names only, so it is the same in every session. A
 * changed or ambiguous name ends in a hash.
 */
export function offeredName(server: string, tool: string): string {
  const [safeServer, safeTool] = [safe(server), safe(tool)];
  const name = `mcp__${safeServer}__${safeTool}`;
  const isKept = safeServer === server && safeTool === tool && name.length <= NAME_CHARS_MAX;
  // `a` with `b__c` and `a__b` with `c` would be equal.
  if (isKept && !server.includes("__") && !server.endsWith("_")) return name;
  const mark = hash("sha256", `${server}\0${tool}`).slice(0, HASH_CHARS);
  return `${name.slice(0, NAME_CHARS_MAX - HASH_CHARS - 1)}_${mark}`;
}

function safe(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9_-]/g, "_");
}

/** Images per result; each costs as much as pages of text. */
const IMAGES_MAX = 16;
/** Providers reject larger ones together with the conversation. */
const IMAGE_CHARS_MAX = 5 * 1024 * 1024;
const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

const Resource = z.object({
  uri: z.string(),
  mimeType: z.string().optional(),
  text: z.string().optional(),
  blob: z.string().optional(),
});

/** Lenient: unknown fields that a server adds must not lose the block. */
const Block = z.union([
  z.object({ type: z.literal("text"), text: z.string() }),
  z.object({ type: z.enum(["image", "audio"]), data: z.string(), mimeType: z.string() }),
  z.object({ type: z.literal("resource"), resource: Resource }),
  z.object({ type: z.literal("resource_link"), uri: z.string(), name: z.string(), description: z.string().optional() }),
]);

/** A result for the model: texts and images, other content as a description. */
function outputOf(result: Readonly<Record<string, unknown>>): ToolOutput {
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

/** One text between two images: the output limit applies per text, so there must be few. */
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
