import type { OPERATIONS, OperationName } from "../contract/operations.ts";

/**
 * What operations are called on the wires. The table of operations says the same, with schemas that would be most of what
 * a page loads; the compiler holds the two equal.
 */
export const WIRE_NAMES: { readonly [N in OperationName]: Pick<(typeof OPERATIONS)[N], "rpc" | "http"> } = {
  createSession: { rpc: "session/create", http: "POST /sessions" },
  startTurn: { rpc: "turn/start", http: "POST /sessions/{session_id}/messages" },
  resumeSession: { rpc: "session/resume", http: "POST /sessions/{session_id}/messages" },
  interruptTurn: { rpc: "turn/interrupt", http: "POST /sessions/{session_id}/interrupt" },
  readSession: { rpc: "session/read", http: "GET /sessions/{session_id}" },
  listSessions: { rpc: "session/list", http: "GET /sessions" },
  readHistory: { rpc: "session/history", http: "GET /sessions/{session_id}/history" },
  archiveSession: { rpc: "session/archive", http: "DELETE /sessions/{session_id}" },
  injectContext: { rpc: "session/inject_context", http: "POST /sessions/{session_id}/system_context" },
  sendExternalEvent: { rpc: "session/external_event", http: "POST /sessions/{session_id}/external-events" },
  forkSession: { rpc: "session/fork_at", http: "POST /sessions/{session_id}/fork" },
  forkReplacing: { rpc: "session/fork_replace", http: "POST /sessions/{session_id}/fork-replace" },
  rewriteTranscript: { rpc: "session/rewrite_transcript", http: "POST /sessions/{session_id}/rewrite-transcript" },
  readRevision: {
    rpc: "session/transcript_revision",
    http: "GET /sessions/{session_id}/transcript-revisions/{revision}",
  },
  restoreRevision: {
    rpc: "session/restore_transcript_revision",
    http: "POST /sessions/{session_id}/restore-transcript-revision",
  },
  listRewrites: { rpc: "session/transcript_rewrites", http: "GET /sessions/{session_id}/transcript-rewrites" },
  readContext: { rpc: "session/context", http: "GET /sessions/{session_id}/context" },
  compactSession: { rpc: "session/compact", http: "POST /sessions/{session_id}/compact" },
  listCompactions: { rpc: "session/compactions", http: "GET /sessions/{session_id}/compactions" },
  undoCompaction: { rpc: "session/compact_undo", http: "POST /sessions/{session_id}/compactions/{compaction_id}/undo" },
  expandCompaction: {
    rpc: "session/compact_expand",
    http: "POST /sessions/{session_id}/compactions/{compaction_id}/expand",
  },
  pinMessage: { rpc: "session/pin", http: "PUT /sessions/{session_id}/pins/{seq}" },
  unpinMessage: { rpc: "session/unpin", http: "DELETE /sessions/{session_id}/pins/{seq}" },
  searchMemory: { rpc: "memory/search", http: "GET /memory/search" },
  searchHistory: { rpc: "memory/search_history", http: "GET /memory/history" },
  readMemoryStatus: { rpc: "memory/status", http: "GET /memory/status" },
  remember: { rpc: "agent/remember", http: "POST /agents/{agent}/memories" },
  takeNote: { rpc: "agent/note", http: "POST /agents/{agent}/notes" },
  readAgentContext: { rpc: "agent/context", http: "GET /agents/{agent}/context" },
  compactAgent: { rpc: "agent/compact", http: "POST /agents/{agent}/compact" },
  readAgentStatus: { rpc: "agent/status", http: "GET /agents/{agent}" },
  listAgents: { rpc: "agent/list", http: "GET /agents" },
  readEventCursor: { rpc: "events/latest_cursor", http: "GET /sessions/{session_id}/events/cursor" },
  listEvents: { rpc: "events/list_since", http: "GET /sessions/{session_id}/events/list" },
  readBlob: { rpc: "blob/get", http: "GET /blobs/{blob_id}" },
  readCapabilities: { rpc: "capabilities/get", http: "GET /capabilities" },
  readModels: { rpc: "models/catalog", http: "GET /models/catalog" },
  readConfig: { rpc: "config/get", http: "GET /config" },
  setConfig: { rpc: "config/set", http: "PUT /config" },
  patchConfig: { rpc: "config/patch", http: "PATCH /config" },
};
