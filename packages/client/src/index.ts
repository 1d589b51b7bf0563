import { workerFile } from "@rkat/core/ports/package-file";
import { createConnect } from "./connect.ts";

/**
 * Connects to where sessions run: `{ url, token }` a server over HTTP, `{ command, args }` a server started as a command
 * (without one, the package's own), `{ runtime }` a runtime of this process. What comes back is the same for all three.
 */
export const connect = createConnect(async (options) => {
  const { openStdio } = await import("./stdio.ts");
  return openStdio(options, { env: process.env, node: process.execPath, server: workerFile("rkat", "rpc") });
});

export type { Agent } from "@rkat/core/agents/agent-handle";
export { describeEvent, type EventLine } from "@rkat/core/contract/describe-event";
export { type ErrorCode, RuntimeError } from "@rkat/core/contract/error";
export type { AgentEvent, AgentEventOf, AgentEventType } from "@rkat/core/contract/event";
export type { Content, Message } from "@rkat/core/contract/message";
export type { MessageInput, ReplacementInput } from "@rkat/core/contract/rewrite";
export type { UiChatData, UiChatMetadata } from "@rkat/core/contract/wire/ui-chat";
export type { Tool, ToolCallContext, ToolOutput } from "@rkat/core/ports/tool";
export type {
  AgentCompacted,
  AgentContext,
  AgentStatus,
  Compaction,
  CompactResult,
  MemoryHit,
  MemoryResults,
  RewriteCommit,
  RewriteResult,
  SessionContext,
  SessionHistory,
  SessionInfo,
  SessionSummary,
  TranscriptRevision,
} from "@rkat/core/runtime/answers";
export type { Runtime as Client } from "@rkat/core/runtime/runtime-calls";
export type { Delivery } from "@rkat/core/sessions/event-queue";
export type {
  EventStream,
  ExtractionError,
  RewriteOptions,
  Session,
  SessionOptions,
  TurnOptions,
  TurnResult,
} from "@rkat/core/sessions/session-handle";
export type { CommandOptions, ConnectOptions, RuntimeOption } from "./connect.ts";
export type { HttpOptions } from "./http.ts";
