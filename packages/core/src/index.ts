export { type AgentPromptParts, assembleAgentPrompt } from "./agent-memory/tier-text.ts";
export type { AgentRow } from "./agent-memory/tiers.ts";
export type { Agent } from "./agents/agent-handle.ts";
export type { AgentHome, AgentPlace } from "./agents/agent-operations.ts";
export { DefaultCompactor } from "./compaction/policy.ts";
export type { Config } from "./config/config-schema.ts";
export { defaultConfig } from "./config/settings.ts";
export type { TrustRequest } from "./config/trust-requests.ts";
export type { AgentEntryBody } from "./contract/agent.ts";
export type { Capability } from "./contract/capability.ts";
export type { CompactionSettings, SeqRange } from "./contract/compaction.ts";
export { describeEvent, type EventLine } from "./contract/describe-event.ts";
export type { Entry, EntryBody, NewEntry } from "./contract/entry.ts";
export { type ErrorCode, RuntimeError, type WireError } from "./contract/error.ts";
export type { AgentEvent, AgentEventOf, AgentEventType, TerminalCause, Usage } from "./contract/event.ts";
export type { HookAnswer, HookEntry, HookPoint } from "./contract/hook.ts";
export type { AssistantBlock, Content, ContentBlock, Message, StopReason, ToolResult } from "./contract/message.ts";
export type { MessageInput, ReplacementInput } from "./contract/rewrite.ts";
export {
  createInMemoryStore,
  createRuntime,
  type MemoryOptions,
  type Runtime,
  type RuntimeOptions,
  type TelemetryOptions,
} from "./create-runtime.ts";
export type { Clock } from "./ports/clock.ts";
export type {
  CompactionConfig,
  CompactionContext,
  CompactionPlan,
  CompactionResult,
  Compactor,
  Curator,
  Judge,
  Verdict,
  Verdicts,
} from "./ports/compactor.ts";
export type { HookCall } from "./ports/hook.ts";
export type { Embedder, MemoryStore } from "./ports/memory.ts";
export type { ModelClient, ModelFailure, ModelPart, ModelRequest } from "./ports/model.ts";
export type { InlineSkill, Skill, SkillReading, SkillSource } from "./ports/skill.ts";
export type {
  BlobStore,
  ConfigStore,
  EventLog,
  Hold,
  KeptLayer,
  LayerBefore,
  SessionLocks,
  SessionRow,
  SessionStore,
  Store,
} from "./ports/store.ts";
export type { SubAgent, SubAgentLimits } from "./ports/sub-agent.ts";
export type { McpAddress, McpProgram, McpServerConfig, Tool, ToolCallContext, ToolOutput } from "./ports/tool.ts";
export type { Vault } from "./ports/vault.ts";
export { createScriptedModel, type ScriptedModel, type ScriptedStep } from "./providers/scripted.ts";
export type {
  AgentCompacted,
  AgentContext,
  AgentStatus,
  Compaction,
  CompactResult,
  MemoryHit,
  MemoryResults,
  Receipt,
  RewriteCommit,
  RewriteResult,
  SessionContext,
  SessionHistory,
  SessionInfo,
  SessionSummary,
  TranscriptRevision,
} from "./runtime/answers.ts";
export type { ApprovalAnswer, OnApproval } from "./runtime/operation-calls.ts";
export type { Delivery } from "./sessions/event-queue.ts";
export type { HookOptions } from "./sessions/hooks.ts";
export type {
  EventStream,
  ExtractionError,
  RewriteOptions,
  Session,
  SessionOptions,
  TurnOptions,
  TurnResult,
} from "./sessions/session-handle.ts";
export type { CompactionOptions } from "./sessions/session-settings.ts";
export { defineTool } from "./tools/define-tool.ts";
export type { CopyOptions, CopyProgress, CopyReport } from "./transfer/store-copy.ts";
