import { hash } from "node:crypto";
import { messageOf } from "../../contract/error.ts";
import type { ContentBlock } from "../../contract/message.ts";
import { z } from "../../contract/schema.ts";
import type { JsonObject } from "../../contract/session.ts";
import type { Clock } from "../../ports/clock.ts";
import { loadOptional } from "../../ports/package-file.ts";
import { AskUser, type Effects, type McpServerConfig, type Tool, type ToolOutput } from "../../ports/tool.ts";
import type { Connection, ConnectionPlace } from "./connection.ts";
import { secretsOfLogin } from "./variables.ts";

/** The tools of MCP servers; all sessions share the connections. */
export interface McpTools {
  /**
   * Connects in parallel to servers that are due, and lists changed tools again. Resolves when done or aborted, and
   * never rejects: a server that does not answer is left out with a warning. A session's changes say which servers it does
   * not have, and when it asked for another connection.
   */
  prepare(signal: AbortSignal, changes?: ServerChanges): Promise<void>;
  /** The tools as of the last `prepare`; starts nothing. */
  tools(): readonly Tool[];
  /** The state of each server, in configured order. */
  report(): readonly McpServerReport[];
  /** Ends every connection and program in bounded time. */
  close(): Promise<void>;
}

interface ServerChanges {
  readonly removed?: readonly string[] | undefined;
  readonly reloaded?: Readonly<Record<string, number>> | undefined;
}

export interface McpServerReport {
  readonly name: string;
  readonly state: "connected" | "failed" | "off";
  readonly tools: readonly string[];
  readonly error?: string;
}

/** Loads and starts nothing before the first `prepare`. */
export function createMcpTools(servers: readonly McpServerConfig[], parts: SlotParts): McpTools {
  const slots = servers.map((server) => ({
    server,
    slot: server.enabled === false ? undefined : createServerSlot(server, parts),
  }));
  const all = slots.flatMap(({ slot }) => slot ?? []);
  return {
    prepare: async (signal, { removed = [], reloaded = {} } = {}) => {
      const wanted = slots.filter(({ server }) => !removed.includes(server.name));
      const ready = Promise.all(wanted.map(({ server, slot }) => slot?.prepare(reloaded[server.name])));
      const { promise: aborted, resolve } = Promise.withResolvers<void>();
      const onAbort = (): void => resolve();
      if (signal.aborted) resolve();
      signal.addEventListener("abort", onAbort, { once: true });
      // Started work continues: other sessions may wait for the same servers.
      await Promise.race([ready, aborted]);
      signal.removeEventListener("abort", onAbort);
    },
    tools: () => all.flatMap((slot) => slot.tools()),
    report: () =>
      slots.map(({ server: { name }, slot }) => {
        if (slot === undefined) return { name, state: "off", tools: [] };
        const error = slot.failure();
        if (error !== undefined) return { name, state: "failed", tools: [], error };
        return { name, state: "connected", tools: slot.tools().map((tool) => tool.name) };
      }),
    close: async () => {
      await Promise.all(all.map((slot) => slot.close()));
    },
  };
}

export interface SlotParts extends ConnectionPlace, Pick<ListedBy, "requireSound" | "warn"> {
  readonly connectTimeoutMs: number;
}

/** One server: its connection, or when to retry. */
interface ServerSlot {
  /**
   * Connects when due, and lists changed tools again; a connection from before a time is replaced. A failure is reported
   * once; never rejects.
   */
  prepare(reloadedAtMs?: number): Promise<void>;
  /** The tools as of the last `prepare`; none while the server is down. */
  tools(): readonly Tool[];
  /** Why the server is down; undefined if it is up. */
  failure(): string | undefined;
  close(): Promise<void>;
}

const NO_SDK = "MCP servers need a package that is not installed; run npm install @modelcontextprotocol/client";
const RETRY_FIRST_MS = 5_000;
const RETRY_MS_MAX = 300_000;

function createServerSlot(server: McpServerConfig, parts: SlotParts): ServerSlot {
  const { clock } = parts;
  const { name, connectTimeoutMs: timeoutMs = parts.connectTimeoutMs } = server;
  const closing = new AbortController();
  const warnings = createWarnings(parts.warn);
  let connection: Connection | undefined;
  let opening: Promise<Connection> | undefined;
  let tools: readonly Tool[] = [];
  let failure: string | undefined;
  let failures = 0;
  let retryAtMs = 0;
  let openedAtMs = 0;

  const inTime = <T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> =>
    withTimeout({ clock, timeoutMs, closed: closing.signal }, work);

  const call: ListedBy["call"] = async (tool, args, by) => {
    const to = await connect().catch((cause: unknown) => {
      throw new Error(`MCP server ${name} cannot be used: ${messageOf(cause)}`, { cause });
    });
    return to.call(tool, args, by);
  };

  const list = async (to: Connection): Promise<void> => {
    const listed = await inTime((signal) => to.list(signal));
    tools = readTools(listed, { server, requireSound: parts.requireSound, warn: warnings.once, call });
  };

  const open = async (): Promise<Connection> => {
    const { openConnection } = await loadOptional("CAPABILITY_UNAVAILABLE", NO_SDK, () => import("./connection.ts"));
    const opened = await inTime((signal) => openConnection(server, parts, signal));
    try {
      await list(opened);
      return opened;
    } catch (thrown) {
      await opened.close();
      throw thrown;
    }
  };

  const leftOut = (why: string | undefined): string => `MCP server ${name} is left out: ${why}`;

  /** The shared connection; a failure delays the next attempt. */
  const connect = async (): Promise<Connection> => {
    if (connection?.isOpen) return connection;
    if (closing.signal.aborted) throw new Error("this runtime is closed");
    if (opening === undefined && failure !== undefined && clock.now() < retryAtMs) throw new Error(failure);
    if (opening === undefined) openedAtMs = clock.now();
    opening ??= open().finally(() => {
      opening = undefined;
    });
    try {
      connection = await opening;
      warnings.forget(leftOut(failure));
      [failure, failures] = [undefined, 0];
      return connection;
    } catch (thrown) {
      // Only the first waiting caller counts the failure.
      if (failure === undefined || clock.now() >= retryAtMs) {
        retryAtMs = clock.now() + Math.min(RETRY_MS_MAX, RETRY_FIRST_MS * 2 ** failures);
        failures += 1;
      }
      // A server may repeat what it was sent.
      const hidden = (text: string, secret: string): string => text.replaceAll(secret, "[redacted]");
      failure = secretsOfLogin(server, parts.logins).reduce(hidden, messageOf(thrown));
      tools = [];
      throw new Error(failure, { cause: thrown });
    }
  };

  return {
    tools: () => {
      const secrets = secretsOfLogin(server, parts.logins);
      return secrets.length === 0 ? tools : tools.map((tool) => ({ ...tool, secrets }));
    },
    failure: () => failure ?? (connection?.isOpen ? undefined : "it was not waited for"),
    prepare: async (reloadedAtMs = 0) => {
      try {
        if (openedAtMs < reloadedAtMs) {
          retryAtMs = 0;
          await connection?.retire();
        }
        const to = await connect();
        if (!to.isStale) return;
        await list(to).catch((thrown: unknown) => {
          warnings.once(`the tools of MCP server ${name} changed and cannot be listed: ${messageOf(thrown)}`);
        });
      } catch (thrown) {
        warnings.once(leftOut(messageOf(thrown)));
      }
    },
    close: async () => {
      closing.abort("closed");
      await opening?.catch(() => {});
      await connection?.close();
    },
  };
}

async function withTimeout<T>(
  { clock, timeoutMs, closed }: { clock: Clock; timeoutMs: number; closed: AbortSignal },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const over = new AbortController();
  const done = new AbortController();
  void clock.sleep(timeoutMs, done.signal).then(() => {
    if (!done.signal.aborted) over.abort("too late");
  });
  try {
    return await work(AbortSignal.any([over.signal, closed]));
  } catch (thrown) {
    if (!over.signal.aborted) throw thrown;
    throw new Error(`it did not answer within ${timeoutMs} ms (connect_timeout)`, { cause: thrown });
  } finally {
    done.abort("done");
  }
}

const WARNINGS_MAX = 100;

/** Reports each sentence once, even if a server fails turn after turn. */
function createWarnings(warn: (sentence: string) => void) {
  const reported = new Set<string>();
  // Servers control parts of the text; remove terminal control characters.
  const plain = (sentence: string): string => sentence.replaceAll(/\p{Cc}+/gu, " ");
  return {
    once: (sentence: string): void => {
      if (reported.has(plain(sentence)) || reported.size >= WARNINGS_MAX) return;
      reported.add(plain(sentence));
      warn(plain(sentence));
    },
    forget: (sentence: string): void => {
      reported.delete(plain(sentence));
    },
  };
}

interface ListedBy {
  readonly server: McpServerConfig;
  requireSound(schema: JsonObject, what: string): void;
  warn(sentence: string): void;
  /** Calls a tool by the server's name for it; throws errors for the model. */
  readonly call: Connection["call"];
}

const TOOLS_MAX = 256;
const DESCRIPTION_CHARS_MAX = 10_000;

/** The usable tools of a server's list; unusable ones are reported and skipped. */
function readTools(listed: readonly unknown[], by: ListedBy): readonly Tool[] {
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
      if (tools.has(tool.name)) throw new Error("the server has another tool of this name");
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
  annotations: z.object({ readOnlyHint: z.unknown().optional(), idempotentHint: z.unknown().optional() }).optional(),
});

/** The hints of a server are trusted: only servers of trusted configuration are connected. */
function effectsOf(hints: z.infer<typeof ListedTool>["annotations"]): Effects {
  if (hints?.readOnlyHint === true) return "none";
  return hints?.idempotentHint === true ? "idempotent" : "once";
}

function readTool(raw: unknown, { server, requireSound, call }: ListedBy): Tool {
  const parsed = ListedTool.safeParse(raw);
  if (!parsed.success) throw new Error("its description is not that of a tool");
  const { name, description = "", inputSchema, annotations } = parsed.data;
  // Without the dialect marker: a validator that does not know it rejects the whole schema.
  const { $schema: _dialect, ...schema } = inputSchema;
  if (schema.type !== "object") throw new Error("its input schema is not that of an object");
  requireSound(schema, "its input schema");
  return {
    name: offeredName(server.name, name),
    description: description.slice(0, DESCRIPTION_CHARS_MAX),
    inputSchema: schema,
    mcp: { server: server.name, tool: name, fingerprint: fingerprintOf(server.name, parsed.data) },
    effects: effectsOf(annotations),
    ...(server.timeoutMs === undefined ? {} : { timeoutMs: server.timeoutMs }),
    execute: async (args, context) => {
      try {
        const result = await call(name, args, context);
        return result instanceof AskUser ? result : outputOf(result);
      } catch (thrown) {
        if (!context.signal.aborted) throw thrown;
        // The aborting side explains it better than the protocol.
        return { content: "interrupted: this call may or may not have taken effect", isError: true };
      }
    },
  };
}

const FINGERPRINT_CHARS = 32;

function fingerprintOf(server: string, { name, description, inputSchema, annotations }: z.infer<typeof ListedTool>) {
  const text = JSON.stringify([server, name, description, inputSchema, annotations]);
  return hash("sha256", text).slice(0, FINGERPRINT_CHARS);
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
