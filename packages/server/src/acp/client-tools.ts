import { relative, resolve } from "node:path";
import type {
  AgentContext,
  ClientCapabilities,
  CreateTerminalResponse,
  ReadTextFileRequest,
  TerminalOutputResponse,
  WaitForTerminalExitResponse,
} from "@agentclientprotocol/sdk";
import type { Clock } from "@rkat/core/ports/clock";
import type { Tool, ToolCallContext } from "@rkat/core/ports/tool";
import type { Folder } from "./sessions.ts";

interface ClientToolParts extends Pick<Folder, "root" | "placeOf"> {
  readonly client: AgentContext;
  readonly capabilities: ClientCapabilities | undefined;
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

const readTool: Make = ({ client, root, placeOf }) => ({
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
  // Without it, the session reads files by commands.
  standsFor: { tool: "shell", args: (args) => ({ command: `cat ${quoted(named(root, args.path))}` }) },
  execute: async (args, { sessionId, signal }) => {
    const { line, limit } = args;
    const request: ReadTextFileRequest = {
      sessionId,
      path: await placeOf(String(args.path)),
      ...(typeof line === "number" ? { line } : {}),
      ...(typeof limit === "number" ? { limit } : {}),
    };
    const { content } = await client.request("fs/read_text_file", request, untilAborted(signal));
    // The client's answer is not validated by the protocol's library.
    if (typeof content !== "string") throw new Error("the editor did not answer with text");
    return content;
  },
});

const writeTool: Make = ({ client, root, placeOf }) => ({
  name: "write_text_file",
  description: "Write a text file of the project through the editor; an existing file is replaced as a whole.",
  inputSchema: {
    type: "object",
    properties: { path, content: { type: "string", description: "The whole new text of the file" } },
    required: ["path", "content"],
    additionalProperties: false,
  },
  timeoutMs: FILE_TIMEOUT_MS,
  needsApproval: true,
  standsFor: { tool: "apply_patch", args: (args) => ({ patch: `*** Update File: ${named(root, args.path)}` }) },
  execute: async (args, { sessionId, signal }) => {
    const request = { sessionId, path: await placeOf(String(args.path)), content: String(args.content) };
    await client.request("fs/write_text_file", request, untilAborted(signal));
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
  needsApproval: true,
  standsFor: { tool: "shell", args: (args) => args },
  execute: (args, context) => runInTerminal(parts, args, context),
});

/** Runs a command in a terminal that the client shows beside the call. */
async function runInTerminal(
  { client, placeOf, clock }: ClientToolParts,
  args: Readonly<Record<string, unknown>>,
  { sessionId, toolUseId, signal, shellEnv }: ToolCallContext,
): Promise<string> {
  const cwd = await placeOf(String(args.working_dir ?? "."));
  const command = { command: "sh", args: ["-c", String(args.command)], cwd, outputByteLimit: OUTPUT_BYTES_MAX };
  const env = Object.entries(shellEnv).map(([name, value]) => ({ name, value }));
  const { terminalId } = await inTime<CreateTerminalResponse>(clock, (how) =>
    client.request("terminal/create", { sessionId, env, ...command }, how),
  );
  const terminal = { sessionId, terminalId };
  const over = new AbortController();
  const stopped = AbortSignal.any([signal, over.signal]);
  try {
    const content = [{ type: "terminal" as const, terminalId }];
    const update = { sessionUpdate: "tool_call_update" as const, toolCallId: toolUseId, content };
    await client.notify("session/update", { sessionId, update });
    const seconds = typeof args.timeout_secs === "number" ? args.timeout_secs : TIMEOUT_SECS_DEFAULT;
    const ended: Promise<WaitForTerminalExitResponse> = client.request(
      "terminal/wait_for_exit",
      terminal,
      untilAborted(stopped),
    );
    const waited = clock.sleep(seconds * 1_000, stopped);
    const exit = await Promise.race([ended, waited.then(() => undefined)]);
    if (exit === undefined) await inTime(clock, (how) => client.request("terminal/kill", terminal, how));
    const { output, truncated } = await inTime<TerminalOutputResponse>(clock, (how) =>
      client.request("terminal/output", terminal, how),
    );
    const { exitCode = null, signal: killedBy = null } = exit ?? {};
    const reported = { exit_code: exitCode, signal: killedBy, output, truncated, timed_out: exit === undefined };
    return JSON.stringify(reported);
  } finally {
    over.abort("ended");
    // It kills what still runs.
    await inTime(clock, (how) => client.request("terminal/release", terminal, how));
  }
}

/** Asks for what takes no time: a client that does not answer has failed, also when the turn is over. */
async function inTime<T>(clock: Clock, ask: (how: ReturnType<typeof untilAborted>) => Promise<T>): Promise<T> {
  const late = new AbortController();
  const answered = new AbortController();
  void clock.sleep(FILE_TIMEOUT_MS, answered.signal).then(() => late.abort("the client did not answer"));
  try {
    return await ask(untilAborted(late.signal));
  } finally {
    answered.abort("answered");
  }
}

/** A path as rules see it: relative to the project where it is inside. */
function named(root: string, path: unknown): string {
  const absolute = resolve(root, String(path));
  const inside = relative(root, absolute);
  return inside.startsWith("../") ? absolute : inside.replaceAll("\n", " ");
}

/** One word of a command line. */
function quoted(path: string): string {
  const word = path.startsWith("-") ? `./${path}` : path;
  return `'${word.replaceAll("'", "'\\''")}'`;
}

/** A client that does not answer is waited for no longer than the call. */
function untilAborted(signal: AbortSignal) {
  return { cancellationSignal: signal, stopWaitingOnCancel: true } as const;
}
