import type { Receipt as WireReceipt } from "../contract/compaction.ts";
import type { AnswerOf } from "./operation-calls.ts";
import type { Answer } from "./options.ts";

/** What methods of the SDK resolve with, by name; `dispatch` and the wire have the same in the wire's names. */
export type AgentCompacted = AnswerOf<"compactAgent">;
export type AgentContext = AnswerOf<"readAgentContext">;
export type AgentStatus = AnswerOf<"readAgentStatus">;
export type Compaction = AnswerOf<"listCompactions">["compactions"][number];
export type CompactResult = AnswerOf<"compactSession">;
export type MemoryHit = MemoryResults["results"][number];
export type MemoryResults = AnswerOf<"searchMemory">;
export type Receipt = Answer<WireReceipt>;
export type RewriteCommit = AnswerOf<"listRewrites">["commits"][number];
export type RewriteResult = AnswerOf<"rewriteTranscript">;
export type SessionContext = AnswerOf<"readContext">;
export type SessionHistory = AnswerOf<"readHistory">;
export type SessionInfo = AnswerOf<"readSession">;
export type SessionSummary = AnswerOf<"listSessions">["sessions"][number];
export type TranscriptRevision = AnswerOf<"readRevision">;
