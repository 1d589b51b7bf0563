import { messageOf, RuntimeError } from "../../contract/error.ts";
import type { OperationName } from "../../contract/operations.ts";
import type { CallContext } from "../../service/dispatch.ts";
import { type Fields, isRecord } from "../fields.ts";

type Tools = NonNullable<CallContext["tools"]>;
type Tool = Tools[number];

/** The tools of this client's sessions: the server asks for them, and they run here. */
export interface CallbackTools {
  /** An operation's params, with the tools a new session is given. */
  paramsWith(name: OperationName, input: unknown, tools: Tools | undefined): unknown;
  /** Remembers the tools of a session. */
  keep(sessionId: string, tools: Tools): void;
  /** A fork has the tools of what it was made of. */
  share(sourceId: string, forkId: string): void;
  forget(sessionId: string): void;
  /** Answers `tool/execute`; what a tool throws is a failure the model sees. */
  execute(params: Fields): Promise<Fields>;
  /** Aborts what runs for a session, whose turn has ended; without one, everything. */
  stop(sessionId?: string): void;
}

export function createCallbackTools(): CallbackTools {
  const bySession = new Map<string, Tools>();
  const running = new Map<AbortController, string>();

  const find = (sessionId: string, name: string): Tool | undefined => {
    const own = bySession.get(sessionId) ?? [...bySession.values()].flat();
    return own.findLast((tool) => tool.name === name);
  };
  return {
    paramsWith: (name, input, tools = []) => {
      if (tools.length === 0) return input;
      if (name !== "createSession") {
        throw new RuntimeError("INVALID_PARAMS", "tools: a server is given them with createSession, for all turns");
      }
      const external_tools = tools.map(({ name: toolName, description, inputSchema }) => ({
        name: toolName,
        description,
        input_schema: inputSchema,
      }));
      return { ...(isRecord(input) ? input : {}), external_tools };
    },
    keep: (sessionId, tools) => {
      if (tools.length > 0) bySession.set(sessionId, tools);
    },
    share: (sourceId, forkId) => {
      const tools = bySession.get(sourceId);
      if (tools !== undefined) bySession.set(forkId, tools);
    },
    forget: (sessionId) => {
      bySession.delete(sessionId);
    },
    execute: async ({ source, tool_use_id, name, arguments: args }) => {
      const sessionId = isRecord(source) ? String(source.session_id) : "";
      const tool = find(sessionId, String(name));
      if (tool === undefined) throw new RuntimeError("METHOD_NOT_FOUND", `there is no tool ${name} here`);
      const stopping = new AbortController();
      running.set(stopping, sessionId);
      const context = { sessionId, toolUseId: String(tool_use_id), signal: stopping.signal, shellEnv: {} };
      try {
        // The server has held the arguments against the tool's schema, which is that of an object.
        const output = await tool.execute(args as Parameters<Tool["execute"]>[0], context);
        if (typeof output === "string") return { content: output, is_error: false };
        return { content: output.content, is_error: output.isError ?? false };
      } catch (thrown) {
        return { content: messageOf(thrown), is_error: true };
      } finally {
        running.delete(stopping);
      }
    },
    stop: (sessionId) => {
      for (const [stopping, of] of running) if (sessionId === undefined || of === sessionId) stopping.abort("stopped");
    },
  };
}
