import { createConnect } from "./clients/connect.ts";
import { workerFile } from "./ports/package-file.ts";

/**
 * Connects to where sessions run: `{ url, token }` a server over HTTP, `{ command, args }` a server started as a command
 * (without one, the package's own), `{ runtime }` a runtime of this process. What comes back is the same for all three.
 */
export const connect = createConnect(async (options) => {
  const { openStdio } = await import("./clients/stdio.ts");
  return openStdio(options, { env: process.env, node: process.execPath, server: workerFile("rpc") });
});

export type { CommandOptions, ConnectOptions, RuntimeOption } from "./clients/connect.ts";
export type { HttpOptions } from "./clients/http.ts";
export type { AgentCompacted, AgentContext, AgentStatus } from "./contract/agent.ts";
export type { Compaction, CompactResult } from "./contract/compaction.ts";
export { describeEvent, type EventLine } from "./contract/describe-event.ts";
export { type ErrorCode, RuntimeError } from "./contract/error.ts";
export type { AgentEvent, AgentEventOf, AgentEventType } from "./contract/event.ts";
export type { MemoryHit, MemoryResults } from "./contract/memory.ts";
export type { Content, Message } from "./contract/message.ts";
export type { MessageInput, ReplacementInput, RewriteCommit } from "./contract/rewrite.ts";
export type { RewriteResult, TranscriptRevision } from "./contract/rewrite-operations.ts";
export type { RunResult } from "./contract/session.ts";
export type { SessionContext } from "./contract/session-context.ts";
export type { SessionHistory, SessionInfo, SessionSummary } from "./contract/session-info.ts";
export type { UiChatData, UiChatMetadata } from "./contract/ui-chat.ts";
export type { Tool, ToolCallContext, ToolOutput } from "./ports/tool.ts";
export type { Agent } from "./service/agent/agent-handle.ts";
export type { Delivery } from "./service/event-queue.ts";
export type { Runtime as Client } from "./service/runtime-calls.ts";
export type {
  EventStream,
  RewriteOptions,
  Session,
  SessionOptions,
  TurnOptions,
  TurnResult,
} from "./service/session-handle.ts";
