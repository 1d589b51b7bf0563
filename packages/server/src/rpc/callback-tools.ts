import { invalid } from "@rkat/core/contract/error";
import { invalidInput } from "@rkat/core/contract/input";
import { isRecord } from "@rkat/core/contract/json";
import type { ClientTool } from "@rkat/core/contract/message";
import { CallbackResult, ExternalTools, parseParams, RegisterTools } from "@rkat/core/contract/wire/requests";
import type { Tool, ToolCallContext, ToolOutput } from "@rkat/core/ports/tool";
import { type Outbox, requestFrame } from "../http/frames.ts";
import type { Answer } from "../http/incoming.ts";

/** The tools the client runs for the sessions of this connection. */
export interface CallbackTools {
  /** `tools/register`: a tool of the same name is replaced. */
  register(params: unknown): { registered: number };
  /** The tools `session/create` brings along. */
  parseExternal(params: unknown): readonly Tool[];
  keep(sessionId: string | undefined, tools: readonly Tool[]): void;
  externalOf(sessionId: string | undefined): readonly Tool[];
  /** What a turn is offered now: a session's own tools, and the registered ones they leave a name for. */
  withRegistered(external: readonly Tool[]): readonly Tool[];
  /** Takes the client's answer to `tool/execute`; an unexpected answer is ignored. */
  answer(id: unknown, answer: Answer): undefined;
}

const CALLBACK_TIMEOUT_MS = 30_000;
const REGISTERED_MAX = 1_024;
/** The client may be running it for all we know. */
const STOPPED: ToolOutput = { content: "interrupted: this call may or may not have taken effect", isError: true };

export function createCallbackTools(outbox: Outbox): CallbackTools {
  const registered = new Map<string, Tool>();
  const external = new Map<string, readonly Tool[]>();
  const waiting = new Map<unknown, (answer: Answer) => void>();
  let asked = 0;

  const ask = async (name: string, args: unknown, context: ToolCallContext): Promise<ToolOutput> => {
    const { sessionId, toolUseId, signal } = context;
    asked += 1;
    const id = `srv-${asked}`;
    const done = new AbortController();
    const answered = new Promise<ToolOutput>((resolve) => {
      waiting.set(id, (answer) => resolve(outputOf(name, answer)));
      signal.addEventListener("abort", () => resolve(STOPPED), { once: true, signal: done.signal });
    });
    // Named as an event names it: clients of the 0.6 line take whatever has a `session_id` at the top for an event.
    const source = { type: "session", session_id: sessionId };
    const params = { tool_use_id: toolUseId, name, arguments: args, source };
    // Not waited for: a client that does not read must not outlast the tool's time.
    void outbox.send(requestFrame(id, "tool/execute", params));
    const output = await answered;
    waiting.delete(id);
    done.abort("done");
    return output;
  };
  const toTool = ({ name, description, input_schema }: ClientTool): Tool => ({
    name,
    description,
    inputSchema: input_schema,
    timeoutMs: CALLBACK_TIMEOUT_MS,
    isCallback: true,
    execute: (args, context) => ask(name, args, context),
  });
  return {
    register: (params) => {
      const { tools } = parseParams(RegisterTools, params);
      const names = new Set([...registered.keys(), ...tools.map((tool) => tool.name)]);
      if (names.size > REGISTERED_MAX) {
        throw invalid(`tools: a connection may register ${REGISTERED_MAX} tools at most`);
      }
      for (const tool of tools) registered.set(tool.name, toTool(tool));
      return { registered: tools.length };
    },
    parseExternal: (params) => (parseParams(ExternalTools, params).external_tools ?? []).map(toTool),
    keep: (sessionId, tools) => {
      if (sessionId !== undefined && tools.length > 0) external.set(sessionId, tools);
    },
    externalOf: (sessionId = "") => external.get(sessionId) ?? [],
    withRegistered: (own) => {
      const names = new Set(own.map((tool) => tool.name));
      return [...[...registered.values()].filter((tool) => !names.has(tool.name)), ...own];
    },
    answer: (id, answer) => {
      waiting.get(id)?.(answer);
      return undefined;
    },
  };
}

/** The tool output for the client's answer; a client that fails is a tool that fails. */
function outputOf(name: string, answer: Answer): ToolOutput {
  if ("error" in answer) {
    const { error } = answer;
    const said = isRecord(error) && typeof error.message === "string" ? error.message : "no reason was given";
    return { content: `the client could not run ${name}: ${said}`, isError: true };
  }
  const parsed = CallbackResult.safeParse(answer.result);
  if (!parsed.success) {
    return {
      content: `the client's answer for ${name} is unusable: ${invalidInput(parsed.error).message}`,
      isError: true,
    };
  }
  return { content: parsed.data.content, isError: parsed.data.is_error };
}
