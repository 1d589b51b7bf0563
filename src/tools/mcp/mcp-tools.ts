import { messageOf } from "../../contract/error.ts";
import type { Clock } from "../../ports/clock.ts";
import type { McpServerConfig } from "../../ports/mcp-server.ts";
import type { Tool } from "../../ports/tool.ts";
import type { Connection, ConnectionPlace } from "./connection.ts";
import { type ListedBy, readTools } from "./listed-tools.ts";

/** The tools of MCP servers; all sessions share the connections. */
export interface McpTools {
  /**
   * Connects in parallel to servers that are due, and lists changed tools again. Resolves when done or aborted, and
   * never rejects: a server that does not answer is left out with a warning.
   */
  prepare(signal: AbortSignal): Promise<void>;
  /** The tools as of the last `prepare`; starts nothing. */
  tools(): readonly Tool[];
  /** The state of each server, in configured order. */
  report(): readonly McpServerReport[];
  /** Ends every connection and program in bounded time. */
  close(): Promise<void>;
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
    prepare: async (signal) => {
      const ready = Promise.all(all.map((slot) => slot.prepare()));
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
  /** The default timeout. */
  readonly connectTimeoutMs: number;
}

/** One server: its connection, or when to retry. */
interface ServerSlot {
  /** Connects when due, and lists changed tools again. A failure is reported once; never rejects. */
  prepare(): Promise<void>;
  /** The tools as of the last `prepare`; none while the server is down. */
  tools(): readonly Tool[];
  /** Why the server is down; undefined if it is up. */
  failure(): string | undefined;
  close(): Promise<void>;
}

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

  const inTime = <T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> =>
    withTimeout({ clock, timeoutMs, closed: closing.signal }, work);

  const call: ListedBy["call"] = async (tool, args, signal) => {
    const to = await connect().catch((cause: unknown) => {
      throw new Error(`MCP server ${name} cannot be used: ${messageOf(cause)}`, { cause });
    });
    return to.call(tool, args, signal);
  };

  const list = async (to: Connection): Promise<void> => {
    const listed = await inTime((signal) => to.list(signal));
    tools = readTools(listed, { server, requireSound: parts.requireSound, warn: warnings.once, call });
  };

  const open = async (): Promise<Connection> => {
    const { openConnection } = await import("./connection.ts");
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
      failure = messageOf(thrown);
      tools = [];
      throw thrown;
    }
  };

  return {
    tools: () => tools,
    failure: () => failure ?? (connection?.isOpen ? undefined : "it was not waited for"),
    prepare: async () => {
      try {
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
  const told = new Set<string>();
  // Servers control parts of the text; remove terminal control characters.
  const plain = (sentence: string): string => sentence.replaceAll(/\p{Cc}+/gu, " ");
  return {
    once: (sentence: string): void => {
      if (told.has(plain(sentence)) || told.size >= WARNINGS_MAX) return;
      told.add(plain(sentence));
      warn(plain(sentence));
    },
    /** Report it again next time. */
    forget: (sentence: string): void => {
      told.delete(plain(sentence));
    },
  };
}
