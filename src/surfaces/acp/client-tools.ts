import { isAbsolute, relative, resolve } from "node:path";
import type { AgentContext, ClientCapabilities, ReadTextFileRequest } from "@agentclientprotocol/sdk";
import type { Clock } from "../../ports/clock.ts";
import type { Tool, ToolCallContext } from "../../ports/tool.ts";

interface ClientToolParts {
  readonly client: AgentContext;
  readonly capabilities: ClientCapabilities | undefined;
  /** The session's folder: paths are relative to it and stay in it. */
  readonly root: string;
  readonly clock: Clock;
}

type Make = (parts: ClientToolParts) => Tool;

const OUTPUT_BYTES_MAX = 100_000;
const TIMEOUT_SECS_DEFAULT = 30;
const TIMEOUT_SECS_MAX = 86_400;
const FILE_TIMEOUT_MS = 30_000;

/** The tools that run in the editor: its files, with what is not saved yet, and its terminal in the place of our shell. */
export function createClientTools(parts: ClientToolParts): readonly Tool[] {
  const { fs, terminal } = parts.capabilities ?? {};
  const makers: readonly Make[] = [
    ...(fs?.readTextFile === true ? [readTool] : []),
    ...(fs?.writeTextFile === true ? [writeTool] : []),
    ...(terminal === true ? [shellTool] : []),
  ];
  return makers.map((make) => make(parts));
}

const path = { type: "string", minLength: 1, description: "The file, relative to the project" };
const place = { type: "integer", minimum: 1 };

const readTool: Make = ({ client, root }) => ({
  name: "read_text_file",
  description: "Read a text file of the project as the editor has it, with changes that are not saved yet.",
  inputSchema: {
    type: "object",
    properties: {
      path,
      line: { ...place, description: "The first line to read, counted from 1" },
      limit: { ...place, description: "How many lines to read at most" },
    },
    required: ["path"],
    additionalProperties: false,
  },
  timeoutMs: FILE_TIMEOUT_MS,
  execute: async (args, { sessionId, signal }) => {
    const { line, limit } = args;
    const request: ReadTextFileRequest = {
      sessionId,
      path: inProject(root, args.path),
      ...(typeof line === "number" ? { line } : {}),
      ...(typeof limit === "number" ? { limit } : {}),
    };
    const { content } = await client.request("fs/read_text_file", request, { cancellationSignal: signal });
    return content;
  },
});

const writeTool: Make = ({ client, root }) => ({
  name: "write_text_file",
  description: "Write a text file of the project through the editor; a file that is there is replaced as a whole.",
  inputSchema: {
    type: "object",
    properties: { path, content: { type: "string", description: "The whole new text of the file" } },
    required: ["path", "content"],
    additionalProperties: false,
  },
  timeoutMs: FILE_TIMEOUT_MS,
  needsApproval: true,
  execute: async (args, { sessionId, signal }) => {
    const request = { sessionId, path: inProject(root, args.path), content: String(args.content) };
    await client.request("fs/write_text_file", request, { cancellationSignal: signal });
    return `wrote ${String(args.path)}`;
  },
});

const shellTool: Make = (parts) => ({
  name: "shell",
  description: `Run a command line in a terminal of the editor, in the project, and wait for it. Answers with exit_code and the last ${OUTPUT_BYTES_MAX} bytes of its output.`,
  inputSchema: {
    type: "object",
    properties: {
      command: { type: "string", minLength: 1, description: "The command line to run" },
      working_dir: { type: "string", minLength: 1, description: "Folder to run it in, relative to the project" },
      timeout_secs: {
        type: "number",
        exclusiveMinimum: 0,
        maximum: TIMEOUT_SECS_MAX,
        description: `Seconds after which it is killed, ${TIMEOUT_SECS_DEFAULT} unless given`,
      },
    },
    required: ["command"],
    additionalProperties: false,
  },
  // The command's own timeout decides; this only covers the killing that follows it.
  timeoutMs: TIMEOUT_SECS_MAX * 1_000 + FILE_TIMEOUT_MS,
  execute: (args, context) => runInTerminal(parts, args, context),
});

/** Runs a command in a terminal that the client shows beside the call. */
async function runInTerminal(
  { client, root, clock }: ClientToolParts,
  args: Readonly<Record<string, unknown>>,
  { sessionId, toolUseId, signal, shellEnv }: ToolCallContext,
): Promise<string> {
  const terminal = await client.createTerminal({
    sessionId,
    command: "sh",
    args: ["-c", String(args.command)],
    cwd: inProject(root, args.working_dir ?? "."),
    env: Object.entries(shellEnv).map(([name, value]) => ({ name, value })),
    outputByteLimit: OUTPUT_BYTES_MAX,
  });
  const over = new AbortController();
  try {
    await client.notify("session/update", {
      sessionId,
      update: {
        sessionUpdate: "tool_call_update",
        toolCallId: toolUseId,
        content: [{ type: "terminal", terminalId: terminal.id }],
      },
    });
    const seconds = typeof args.timeout_secs === "number" ? args.timeout_secs : TIMEOUT_SECS_DEFAULT;
    const ended = terminal.waitForExit();
    const waited = clock.sleep(seconds * 1_000, AbortSignal.any([signal, over.signal]));
    const exit = await Promise.race([ended, waited.then(() => undefined)]);
    if (exit === undefined) await terminal.kill();
    const { output, truncated } = await terminal.currentOutput();
    const { exitCode = null, signal: killedBy = null } = exit ?? {};
    const told = { exit_code: exitCode, signal: killedBy, output, truncated, timed_out: exit === undefined };
    return JSON.stringify(told);
  } finally {
    over.abort("ended");
    await terminal.release();
  }
}

/** The absolute path of a file of the project; throws, for the model to read, where it leaves it. */
function inProject(root: string, given: unknown): string {
  const absolute = resolve(root, String(given));
  const inside = relative(root, absolute);
  if (!inside.startsWith("..") && !isAbsolute(inside)) return absolute;
  throw new Error(`${String(given)} is outside of the project; name a path inside of it`);
}
