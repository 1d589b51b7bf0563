import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import {
  ErrorCode,
  McpError,
  ResultSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { messageOf } from "../../contract/error.ts";
import type { JsonObject } from "../../contract/session.ts";
import { CONTRACT_VERSION } from "../../contract/version.ts";
import type { Clock } from "../../ports/clock.ts";
import type { McpServerConfig } from "../../ports/mcp-server.ts";
import type { Env } from "../shell/child-env.ts";
import { createChildTransport } from "./child-transport.ts";
import { createUrlTransport, type Line, LOST } from "./url-transport.ts";
import { fillHeaders, serverEnv } from "./variables.ts";

/** A server that answers. */
export interface Connection {
  /** False once the server has gone; another connection must be opened then. */
  readonly isOpen: boolean;
  /** Whether the server has said that its tools changed since they were listed. */
  readonly isStale: boolean;
  /** The tools as the server describes them. */
  list(signal: AbortSignal): Promise<readonly unknown[]>;
  /** Throws what the model is to read; an abort is told to the server. */
  call(tool: string, args: JsonObject, signal: AbortSignal): Promise<Readonly<Record<string, unknown>>>;
  /** Ends the server, or what was opened at it, in bounded time. */
  close(): Promise<void>;
}

export interface ConnectionPlace {
  readonly env: Env;
  /** Where programs start. */
  readonly root: string;
  readonly clock: Clock;
}

const PAGES_MAX = 64;
/** The SDK would give up on a call after a minute; how long it may take is decided by the caller's signal. */
const NO_TIMEOUT_MS = 2 ** 31 - 1;

/** Opens a connection; rejects with what went wrong, in words, and leaves nothing running then. */
export async function openConnection(
  server: McpServerConfig,
  place: ConnectionPlace,
  signal: AbortSignal,
): Promise<Connection> {
  const { transport, ending, farewell } = await createTransport(server, place);
  const { major, minor, patch } = CONTRACT_VERSION;
  const client = new Client({ name: "rkat", version: `${major}.${minor}.${patch}` });
  let isOpen = true;
  let isStale = false;
  let calls = 0;
  client.onclose = () => {
    isOpen = false;
  };
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
    isStale = true;
  });
  const ask = (method: string, params: JsonObject, until: AbortSignal) =>
    client.request({ method, params }, ResultSchema, { signal: until, timeout: NO_TIMEOUT_MS });
  try {
    // Not every step of it listens to the signal: an address may keep silent to any of them.
    await Promise.race([client.connect(transport, { signal, timeout: NO_TIMEOUT_MS }), abortOf(signal)]);
  } catch (thrown) {
    await transport.close();
    throw new Error(ending() ?? reasonOf(thrown), { cause: thrown });
  }
  return {
    get isOpen() {
      return isOpen;
    },
    get isStale() {
      return isStale;
    },
    list: async (until) => {
      isStale = false; // Before the question: a change while it is answered is another one.
      if (client.getServerCapabilities()?.tools === undefined) return [];
      try {
        return await readPages((page) => ask("tools/list", page, until));
      } catch (thrown) {
        isStale = true;
        throw new Error(ending() ?? reasonOf(thrown), { cause: thrown });
      }
    },
    call: async (tool, args, until) => {
      calls += 1;
      try {
        return await ask("tools/call", { name: tool, arguments: args }, until);
      } catch (thrown) {
        // A server may answer with the number that the SDK has for a connection that closed.
        const isLost = thrown instanceof McpError && thrown.data === LOST;
        const isAnswer =
          thrown instanceof McpError && (isOpen || thrown.code !== ErrorCode.ConnectionClosed) && !isLost;
        if (until.aborted || isAnswer) {
          throw new Error(reasonOf(thrown), { cause: thrown });
        }
        isOpen = false; // An address that does not answer may have forgotten us; the next use says hello again.
        const how = ending() ?? (isLost ? reasonOf(thrown) : `it could not be reached: ${reasonOf(thrown)}`);
        const advice = "the call may or may not have taken effect, and the next one connects anew";
        throw new Error(`MCP server ${server.name} failed during the call: ${how}; ${advice}`, { cause: thrown });
      } finally {
        calls -= 1;
        // Not before the last: a request that failed says nothing of those of other sessions.
        if (!isOpen && calls === 0) await transport.close();
      }
    },
    close: async () => {
      if (isOpen) await farewell();
      await transport.close();
    },
  };
}

async function readPages(ask: (page: JsonObject) => Promise<Readonly<JsonObject>>): Promise<readonly unknown[]> {
  const tools: unknown[] = [];
  let page: JsonObject = {};
  for (let count = 0; count < PAGES_MAX; count += 1) {
    const { tools: more, nextCursor: cursor } = await ask(page);
    if (Array.isArray(more)) tools.push(...more);
    if (cursor === undefined || cursor === "") break;
    page = { cursor };
  }
  return tools;
}

function abortOf(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => reject(new Error("it was not waited for"));
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
  });
}

async function createTransport(server: McpServerConfig, { env, root, clock }: ConnectionPlace): Promise<Line> {
  if ("url" in server) {
    return createUrlTransport(server, fillHeaders(server.headers ?? {}, env), clock);
  }
  const { command, args = [] } = server;
  const program = { command, args, env: serverEnv(server.env ?? {}, env), folder: root };
  const transport = createChildTransport(program, clock);
  return { transport, ending: transport.ending, farewell: async () => {} };
}

const REASON_CHARS_MAX = 300;

/** What the network or the server says, without the SDK's numbers: `fetch failed` alone helps nobody. */
function reasonOf(thrown: unknown): string {
  const inner = thrown instanceof Error && thrown.cause instanceof Error ? `: ${messageOf(thrown.cause)}` : "";
  const said = `${messageOf(thrown)}${inner}`.replace(/^(?:MCP error -?\d+: )+/, "");
  return said.replaceAll(/\p{Cc}+/gu, " ").slice(0, REASON_CHARS_MAX);
}
