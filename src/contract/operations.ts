import { z } from "zod";
import {
  AgentCompacted,
  AgentContext,
  AgentStatus,
  AgentSummary,
  OneAgent,
  ReadAgentContext,
  Remember,
  Remembered,
  TakeNote,
} from "./agent/agent.ts";
import { Capabilities, type Capability } from "./capability.ts";
import { ModelsCatalog } from "./catalog.ts";
import {
  Compaction,
  CompactNow,
  CompactResult,
  ExpandInput,
  ExpandResult,
  PinResult,
  UndoResult,
} from "./compaction.ts";
import { CONFIG_OPERATIONS } from "./config/config-operations.ts";
import { ContractVersion, EventCursor, EventPage, OneScope } from "./event-page.ts";
import { nonnegative, positive } from "./input/whole-number.ts";
import { MemoryResults, MemorySearch, MemoryStatusReport } from "./memory.ts";
import {
  CreateSession,
  DeferredSession,
  ExternalEvent,
  ExternalEventOutcome,
  ForkedSession,
  InjectContext,
  RunResult,
  SessionContext,
  SessionHistory,
  SessionId,
  SessionInfo,
  SessionSummary,
  StartTurn,
} from "./session.ts";
import { REWRITE_OPERATIONS } from "./transcript/rewrite-operations.ts";

export interface Operation {
  readonly summary: string;
  readonly input: z.ZodType;
  readonly output: z.ZodType;
  readonly rpc: string;
  readonly http: `${"GET" | "POST" | "PUT" | "PATCH" | "DELETE"} /${string}`;
  /** Absent where a person decides, not an agent. */
  readonly mcp?: string;
  readonly cli: string;
  readonly requires?: Capability;
}

/** Events of one page; a reader asks again for the next. */
const EVENTS_PAGE_MAX = 1_000;
const OneSession = z.object({ session_id: SessionId });
const page = { limit: positive.optional(), offset: nonnegative.default(0) };

/** The product: a row an operation. Service, SDK, surfaces and documentation are projections of it. */
export const OPERATIONS = {
  createSession: {
    summary: "Create a session and run its first turn, unless it is deferred.",
    input: CreateSession,
    output: z.union([RunResult, DeferredSession]),
    rpc: "session/create",
    http: "POST /sessions",
    mcp: "meerkat_run",
    cli: "rkat run PROMPT",
  },
  startTurn: {
    summary: "Run a further turn of a session.",
    input: StartTurn,
    output: RunResult,
    rpc: "turn/start",
    http: "POST /sessions/{session_id}/messages",
    mcp: "meerkat_resume",
    cli: "rkat run --resume=ID PROMPT",
  },
  resumeSession: {
    summary: "Run a further turn of a stored session, in this process or after a restart.",
    input: StartTurn,
    output: RunResult,
    rpc: "session/resume",
    http: "POST /sessions/{session_id}/messages",
    mcp: "meerkat_resume",
    cli: "rkat resume ID PROMPT",
    requires: "session-store",
  },
  interruptTurn: {
    summary: "Stop the running turn; a session that is idle is left as it is.",
    input: OneSession,
    output: z.object({ interrupted: z.literal(true) }),
    rpc: "turn/interrupt",
    http: "POST /sessions/{session_id}/interrupt",
    mcp: "meerkat_interrupt",
    cli: "rkat session interrupt ID",
  },
  readSession: {
    summary: "Read what a session is and how far it got.",
    input: OneSession,
    output: SessionInfo,
    rpc: "session/read",
    http: "GET /sessions/{session_id}",
    mcp: "meerkat_read",
    cli: "rkat session show ID",
    requires: "session-store",
  },
  listSessions: {
    summary: "List sessions, newest first; labels must all match.",
    input: z.object({ labels: z.record(z.string(), z.string()).optional(), ...page }),
    output: z.object({ sessions: z.array(SessionSummary) }),
    rpc: "session/list",
    http: "GET /sessions",
    mcp: "meerkat_sessions",
    cli: "rkat session list",
    requires: "session-store",
  },
  readHistory: {
    summary: "Read a session's full transcript, oldest first.",
    input: OneSession.extend(page),
    output: SessionHistory,
    rpc: "session/history",
    http: "GET /sessions/{session_id}/history",
    mcp: "meerkat_history",
    cli: "rkat session show ID --history",
    requires: "session-store",
  },
  archiveSession: {
    summary: "Archive a session: it stays readable and runs no more turns.",
    input: OneSession,
    output: z.object({ archived: z.literal(true) }),
    rpc: "session/archive",
    http: "DELETE /sessions/{session_id}",
    mcp: "meerkat_archive",
    cli: "rkat session delete ID",
    requires: "session-store",
  },
  injectContext: {
    summary: "Add a text the model is shown from its next call on, without running a turn.",
    input: InjectContext,
    output: z.object({ status: z.enum(["applied", "staged", "duplicate"]) }),
    rpc: "session/inject_context",
    http: "POST /sessions/{session_id}/system_context",
    mcp: "meerkat_inject_context",
    cli: "rkat session inject ID TEXT",
  },
  sendExternalEvent: {
    summary: "Tell the model of an event from outside, as data it is shown from its next call on; no turn is run.",
    input: ExternalEvent,
    output: ExternalEventOutcome,
    rpc: "session/external_event",
    http: "POST /sessions/{session_id}/external-events",
    mcp: "meerkat_external_event",
    cli: "rkat session event ID TYPE [JSON]",
  },
  forkSession: {
    summary: "Make a new session of the messages before an index; the source stays as it is.",
    input: OneSession.extend({
      message_index: nonnegative,
      running_behavior: z.literal("reject").default("reject"),
    }),
    output: ForkedSession,
    rpc: "session/fork_at",
    http: "POST /sessions/{session_id}/fork",
    mcp: "meerkat_fork",
    cli: "rkat session fork ID --at N",
    requires: "session-store",
  },
  ...REWRITE_OPERATIONS,
  readContext: {
    summary: "Read what the model is shown now, or was shown at an earlier call, byte for byte.",
    input: z.strictObject({ session_id: SessionId, at_seq: positive.optional() }),
    output: SessionContext,
    rpc: "session/context",
    http: "GET /sessions/{session_id}/context",
    mcp: "meerkat_context",
    cli: "rkat session context ID",
    requires: "session-store",
  },
  compactSession: {
    summary: "Compact a session's context now, or preview what that would keep, drop and cost.",
    input: z.strictObject({ session_id: SessionId, ...CompactNow }),
    output: CompactResult,
    rpc: "session/compact",
    http: "POST /sessions/{session_id}/compact",
    mcp: "meerkat_compact",
    cli: "rkat compact run ID",
    requires: "session-compaction",
  },
  listCompactions: {
    summary: "List a session's compactions with their receipts, oldest first.",
    input: z.strictObject({ session_id: SessionId }),
    output: z.object({ compactions: z.array(Compaction) }),
    rpc: "session/compactions",
    http: "GET /sessions/{session_id}/compactions",
    mcp: "meerkat_compactions",
    cli: "rkat compact list ID",
    requires: "session-compaction",
  },
  undoCompaction: {
    summary: "Undo a compaction: the context is what it would be without it; later turns stay.",
    input: z.strictObject({ session_id: SessionId, compaction_id: ExpandInput.compaction_id }),
    output: UndoResult,
    rpc: "session/compact_undo",
    http: "POST /sessions/{session_id}/compactions/{compaction_id}/undo",
    mcp: "meerkat_compact_undo",
    cli: "rkat compact undo ID CID",
    requires: "session-compaction",
  },
  expandCompaction: {
    summary: "Bring turns a compaction took out of the context back into it.",
    input: z.strictObject({ session_id: SessionId, ...ExpandInput }),
    output: ExpandResult,
    rpc: "session/compact_expand",
    http: "POST /sessions/{session_id}/compactions/{compaction_id}/expand",
    mcp: "meerkat_compact_expand",
    cli: "rkat compact expand ID CID",
    requires: "session-compaction",
  },
  pinMessage: {
    summary: "Pin a message: compactions keep it in the context.",
    input: z.strictObject({ session_id: SessionId, seq: positive }),
    output: PinResult,
    rpc: "session/pin",
    http: "PUT /sessions/{session_id}/pins/{seq}",
    cli: "rkat session pin ID SEQ",
    requires: "session-compaction",
  },
  unpinMessage: {
    summary:
      "Take a message's pin away; what only the pin kept in the context leaves it, at the next compaction at the latest.",
    input: z.strictObject({ session_id: SessionId, seq: positive }),
    output: PinResult,
    rpc: "session/unpin",
    http: "DELETE /sessions/{session_id}/pins/{seq}",
    cli: "rkat session unpin ID SEQ",
    requires: "session-compaction",
  },
  searchMemory: {
    summary: "Search what compactions took out of the contexts of this project's sessions.",
    input: MemorySearch,
    output: MemoryResults,
    rpc: "memory/search",
    http: "GET /memory/search",
    mcp: "memory_search",
    cli: "rkat memory search QUERY",
    requires: "memory-store",
  },
  searchHistory: {
    summary: "Search everything that was said in this project's sessions, compacted or not.",
    input: MemorySearch,
    output: MemoryResults,
    rpc: "memory/search_history",
    http: "GET /memory/history",
    mcp: "search_project_history",
    cli: "rkat memory history QUERY",
    requires: "memory-store",
  },
  readMemoryStatus: {
    summary: "Say what memory holds, what is still to be taken in, and how it searches.",
    input: z.strictObject({}),
    output: MemoryStatusReport,
    rpc: "memory/status",
    http: "GET /memory/status",
    mcp: "meerkat_memory_status",
    cli: "rkat memory status",
    requires: "memory-store",
  },
  remember: {
    summary: "Add a memory to an agent's; a compaction that is due with it begins, and nobody waits for it.",
    input: Remember,
    output: Remembered,
    rpc: "agent/remember",
    http: "POST /agents/{agent}/memories",
    mcp: "agent_remember",
    cli: "rkat agent remember NAME TEXT",
    requires: "session-store",
  },
  takeNote: {
    summary: "Keep a private note of an agent, which its context shows when it is relevant.",
    input: TakeNote,
    output: z.object({ notes: z.number().int() }),
    rpc: "agent/note",
    http: "POST /agents/{agent}/notes",
    mcp: "agent_note",
    cli: "rkat agent note NAME TEXT",
    requires: "session-store",
  },
  readAgentContext: {
    summary: "Read what an agent is shown of its life: both summaries, the newest memories, and all of it as a prompt.",
    input: ReadAgentContext,
    output: AgentContext,
    rpc: "agent/context",
    http: "GET /agents/{agent}/context",
    mcp: "agent_context",
    cli: "rkat agent context NAME",
    requires: "session-store",
  },
  compactAgent: {
    summary: "Compact an agent's memories now, whether or not it is due.",
    input: OneAgent,
    output: AgentCompacted,
    rpc: "agent/compact",
    http: "POST /agents/{agent}/compact",
    mcp: "agent_compact",
    cli: "rkat agent compact NAME",
    requires: "session-store",
  },
  readAgentStatus: {
    summary: "Say what an agent remembers: counts, tiers, summaries, the last compaction and the next.",
    input: OneAgent,
    output: AgentStatus,
    rpc: "agent/status",
    http: "GET /agents/{agent}",
    mcp: "agent_status",
    cli: "rkat agent status NAME",
    requires: "session-store",
  },
  listAgents: {
    summary: "List the agents of this project, by name.",
    input: z.strictObject({}),
    output: z.object({ agents: z.array(AgentSummary) }),
    rpc: "agent/list",
    http: "GET /agents",
    mcp: "agent_list",
    cli: "rkat agent list",
    requires: "session-store",
  },
  readEventCursor: {
    summary: "Read the number of a session's newest durable event; 0 when it has none.",
    input: OneScope,
    output: z.object({ contract_version: ContractVersion, cursor: EventCursor }),
    rpc: "events/latest_cursor",
    http: "GET /sessions/{session_id}/events/cursor",
    mcp: "meerkat_events_cursor",
    cli: "rkat session events ID",
    requires: "session-store",
  },
  listEvents: {
    summary: "List a session's durable events after a cursor, oldest first.",
    input: OneScope.extend({
      cursor: EventCursor.optional(),
      limit: positive.max(EVENTS_PAGE_MAX, { error: `write at most ${EVENTS_PAGE_MAX}` }).default(EVENTS_PAGE_MAX),
    }),
    output: EventPage,
    rpc: "events/list_since",
    http: "GET /sessions/{session_id}/events/list",
    mcp: "meerkat_events_list",
    cli: "rkat session events ID",
    requires: "session-store",
  },
  readBlob: {
    summary: "Read a blob whole, such as the full text of a tool output that was cut.",
    input: z.object({ blob_id: z.string().min(1) }),
    output: z.object({ blob_id: z.string(), media_type: z.string(), data: z.base64() }),
    rpc: "blob/get",
    http: "GET /blobs/{blob_id}",
    mcp: "meerkat_blob_get",
    cli: "rkat blob get ID",
  },
  ...CONFIG_OPERATIONS,
  readCapabilities: {
    summary: "Say what this runtime can do and what was left out.",
    input: z.object({}),
    output: Capabilities,
    rpc: "capabilities/get",
    http: "GET /capabilities",
    mcp: "meerkat_capabilities",
    cli: "rkat capabilities",
  },
  readModels: {
    summary: "List the known models with their context window and output limit.",
    input: z.object({}),
    output: ModelsCatalog,
    rpc: "models/catalog",
    http: "GET /models/catalog",
    mcp: "meerkat_models_catalog",
    cli: "rkat models",
  },
} as const satisfies Record<string, Operation>;

export type OperationName = keyof typeof OPERATIONS;
/** What a client may hear happen while it waits for the answer. */
export const HAS_EVENTS: readonly OperationName[] = ["createSession", "startTurn", "resumeSession", "compactSession"];

type Written<S extends z.ZodType> = unknown extends z.input<S> ? z.output<S> : z.input<S>;
/** What a caller writes; where anything may be written, what is read of it. */
export type OperationWritten<N extends OperationName> = Written<(typeof OPERATIONS)[N]["input"]>;
export type OperationInput<N extends OperationName> = z.output<(typeof OPERATIONS)[N]["input"]>;
export type OperationOutput<N extends OperationName> = z.output<(typeof OPERATIONS)[N]["output"]>;
