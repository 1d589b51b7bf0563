export { type Config, defaultConfig, loadConfig } from "./config.ts";
export type { Capability } from "./contract/capability.ts";
export type { Entry, EntryBody, NewEntry } from "./contract/entry.ts";
export { type ErrorCode, RuntimeError, type WireError } from "./contract/error.ts";
export type { AgentEvent, AgentEventOf, AgentEventType, TerminalCause, Usage } from "./contract/event.ts";
export type { AssistantBlock, Content, ContentBlock, Message, StopReason, ToolResult } from "./contract/message.ts";
export type { RunResult, SessionHistory, SessionInfo, SessionSummary } from "./contract/session.ts";
export type { Clock } from "./ports/clock.ts";
export type { ModelClient, ModelFailure, ModelPart, ModelRequest } from "./ports/model.ts";
export type { BlobStore, EventLog, Hold, SessionLocks, SessionRow, SessionStore, Store } from "./ports/store.ts";
export type { Tool, ToolCallContext, ToolOutput } from "./ports/tool.ts";
export { createScriptedModel, type ScriptedModel, type ScriptedStep } from "./providers/scripted.ts";
export {
  createInMemoryStore,
  createRuntime,
  type OpenOptions,
  openEmbeddedStore,
  openRuntime,
  type Runtime,
  type RuntimeOptions,
} from "./runtime.ts";
export type { Delivery } from "./service/event-queue.ts";
export type { EventStream, Session, SessionOptions, TurnOptions } from "./service/session-handle.ts";
export { defineTool } from "./tools/define-tool.ts";
