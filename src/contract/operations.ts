import { z } from "zod";
import { AGENT_OPERATIONS } from "./agent-operations.ts";
import { APPROVAL_OPERATIONS } from "./approval-operations.ts";
import type { Audited, Scope } from "./caller.ts";
import { ACCESS_OPERATIONS } from "./caller.ts";
import { Capabilities, type Capability, ContractVersion, ModelsCatalog } from "./capability.ts";
import {
  Compaction,
  CompactNow,
  CompactResult,
  ExpandInput,
  ExpandResult,
  PinResult,
  SummarySources,
  UndoResult,
} from "./compaction.ts";
import { CONFIG_OPERATIONS } from "./config.ts";
import { EventCursor, EventPage, ListEvents, OneScope } from "./event-page.ts";
import { FORGET_OPERATIONS } from "./forget.ts";
import { ExternalEvent, ExternalEventOutcome, InjectContext, InjectedContext } from "./inject.ts";
import { positive, written } from "./input.ts";
import { MemoryResults, MemorySearch, MemoryStatusReport } from "./memory.ts";
import { MODEL_CALL_OPERATIONS } from "./model-call.ts";
import { PORTABLE_OPERATIONS } from "./portable.ts";
import { PRUNE_OPERATIONS } from "./prune.ts";
import { message_index, running_behavior } from "./rewrite.ts";
import { REWRITE_OPERATIONS } from "./rewrite-operations.ts";
import { CreateSession, DeferredSession, RunResult, SessionId, StartTurn } from "./session.ts";
import { ReadContext, SessionContext } from "./session-context.ts";
import { ForkedSession, MessagePage, SessionHistory, SessionInfo } from "./session-info.ts";
import { ListSessions, SessionPage } from "./session-list.ts";
import { SKILL_OPERATIONS } from "./skill.ts";
import { USAGE_OPERATIONS } from "./usage.ts";

type Operation = Row &
  ({ readonly http: `GET /${string}` } | { readonly http: `${Change} /${string}`; readonly audited: Audited | false });
type Change = "POST" | "PUT" | "PATCH" | "DELETE";

interface Row {
  readonly summary: string;
  readonly input: z.ZodType;
  readonly output: z.ZodType;
  readonly rpc: string;
  /** Absent where a person decides, not an agent. */
  readonly mcp?: string;
  /** Absent where `tools/list` always has the tool; the others are called by name, and listed with `--all-tools`. */
  readonly mcpListed?: false;
  readonly cli: string;
  /** What whoever asks must be allowed to do. */
  readonly scope: Scope;
  readonly requires?: Capability;
}

const OneSession = z.object({ session_id: SessionId });
const seq = written("SEQ", positive.describe("the message, by its seq, as the history has it"));

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
    scope: "run",
    audited: false,
  },
  startTurn: {
    summary: "Run a further turn of a session.",
    input: StartTurn,
    output: RunResult,
    rpc: "turn/start",
    http: "POST /sessions/{session_id}/messages",
    mcp: "meerkat_resume",
    cli: "rkat run --resume=ID PROMPT",
    scope: "run",
    audited: false,
  },
  resumeSession: {
    summary: "Run a further turn of a stored session, in this process or after a restart.",
    input: StartTurn,
    output: RunResult,
    rpc: "session/resume",
    http: "POST /sessions/{session_id}/messages",
    mcp: "meerkat_resume",
    cli: "rkat resume ID PROMPT",
    scope: "run",
    audited: false,
    requires: "session-store",
  },
  interruptTurn: {
    summary: "Stop the running turn; a session that is idle is left as it is.",
    input: OneSession,
    output: z.object({ interrupted: z.literal(true).describe("that no turn is running") }),
    rpc: "turn/interrupt",
    http: "POST /sessions/{session_id}/interrupt",
    mcp: "meerkat_interrupt",
    cli: "rkat session interrupt ID",
    scope: "run",
    audited: false,
  },
  readSession: {
    summary: "Read what a session is and how far it got.",
    input: OneSession,
    output: SessionInfo,
    rpc: "session/read",
    http: "GET /sessions/{session_id}",
    mcp: "meerkat_read",
    cli: "rkat session show ID",
    scope: "read",
    requires: "session-store",
  },
  listSessions: {
    summary: "List sessions, newest first; labels must all match.",
    input: ListSessions,
    output: SessionPage,
    rpc: "session/list",
    http: "GET /sessions",
    mcp: "meerkat_sessions",
    cli: "rkat session list",
    scope: "read",
    requires: "session-store",
  },
  readHistory: {
    summary: "Read a session's full transcript, oldest first.",
    input: OneSession.extend(MessagePage),
    output: SessionHistory,
    rpc: "session/history",
    http: "GET /sessions/{session_id}/history",
    mcp: "meerkat_history",
    cli: "rkat session show ID --history",
    scope: "read",
    requires: "session-store",
  },
  archiveSession: {
    summary: "Archive a session: it stays readable and runs no more turns.",
    input: OneSession,
    output: z.object({ archived: z.literal(true).describe("that it runs no more turns") }),
    rpc: "session/archive",
    http: "DELETE /sessions/{session_id}",
    mcp: "meerkat_archive",
    cli: "rkat session delete ID",
    scope: "run",
    audited: { action: "session_archived" },
    requires: "session-store",
  },
  injectContext: {
    summary: "Add a text the model is shown from its next call on, without running a turn.",
    input: InjectContext,
    output: InjectedContext,
    rpc: "session/inject_context",
    http: "POST /sessions/{session_id}/system_context",
    mcp: "meerkat_inject_context",
    mcpListed: false,
    cli: "rkat session inject ID TEXT",
    scope: "run",
    audited: false,
  },
  sendExternalEvent: {
    summary: "Tell the model of an event from outside, as data it is shown from its next call on; no turn is run.",
    input: ExternalEvent,
    output: ExternalEventOutcome,
    rpc: "session/external_event",
    http: "POST /sessions/{session_id}/external-events",
    mcp: "meerkat_external_event",
    mcpListed: false,
    cli: "rkat session event ID TYPE [JSON]",
    scope: "run",
    audited: false,
  },
  forkSession: {
    summary: "Make a new session of the messages before an index; the source stays as it is.",
    input: OneSession.extend({ message_index, running_behavior }),
    output: ForkedSession,
    rpc: "session/fork_at",
    http: "POST /sessions/{session_id}/fork",
    mcp: "meerkat_fork",
    cli: "rkat session fork ID --at N",
    scope: "run",
    audited: false,
    requires: "session-store",
  },
  ...PORTABLE_OPERATIONS,
  ...APPROVAL_OPERATIONS,
  ...REWRITE_OPERATIONS,
  readContext: {
    summary: "Read what the model is shown now, or was shown at an earlier call, byte for byte.",
    input: ReadContext,
    output: SessionContext,
    rpc: "session/context",
    http: "GET /sessions/{session_id}/context",
    mcp: "meerkat_context",
    cli: "rkat session context ID",
    scope: "read",
    requires: "session-store",
  },
  ...MODEL_CALL_OPERATIONS,
  compactSession: {
    summary: "Compact a session's context now, or preview what that would keep, drop and cost.",
    input: z.strictObject({ session_id: SessionId, ...CompactNow }),
    output: CompactResult,
    rpc: "session/compact",
    http: "POST /sessions/{session_id}/compact",
    mcp: "meerkat_compact",
    cli: "rkat compact run ID",
    scope: "run",
    audited: false,
    requires: "session-compaction",
  },
  listCompactions: {
    summary: "List a session's compactions with their receipts, oldest first.",
    input: z.strictObject({ session_id: SessionId }),
    output: z.object({ compactions: z.array(Compaction).describe("the compactions, oldest first") }),
    rpc: "session/compactions",
    http: "GET /sessions/{session_id}/compactions",
    mcp: "meerkat_compactions",
    cli: "rkat compact list ID",
    scope: "read",
    requires: "session-compaction",
  },
  readSummarySources: {
    summary: "Say which messages each sentence of a compaction's summary comes from, by its names, numbers and words.",
    input: z.strictObject({ session_id: SessionId, compaction_id: ExpandInput.compaction_id }),
    output: SummarySources,
    rpc: "session/summary_sources",
    http: "GET /sessions/{session_id}/compactions/{compaction_id}/sources",
    mcp: "meerkat_summary_sources",
    mcpListed: false,
    cli: "rkat compact sources ID CID",
    scope: "read",
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
    scope: "run",
    audited: { action: "compaction_undone", counts: ["compaction_ids"] },
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
    scope: "run",
    audited: false,
    requires: "session-compaction",
  },
  pinMessage: {
    summary: "Pin a message: compactions keep it in the context.",
    input: z.strictObject({ session_id: SessionId, seq }),
    output: PinResult,
    rpc: "session/pin",
    http: "PUT /sessions/{session_id}/pins/{seq}",
    cli: "rkat session pin ID SEQ",
    scope: "run",
    audited: false,
    requires: "session-compaction",
  },
  unpinMessage: {
    summary:
      "Take a message's pin away; what only the pin kept in the context leaves it, at the next compaction at the latest.",
    input: z.strictObject({ session_id: SessionId, seq }),
    output: PinResult,
    rpc: "session/unpin",
    http: "DELETE /sessions/{session_id}/pins/{seq}",
    cli: "rkat session unpin ID SEQ",
    scope: "run",
    audited: false,
    requires: "session-compaction",
  },
  listPins: {
    summary: "List a session's pinned messages by their seqs.",
    input: z.strictObject({ session_id: SessionId }),
    output: PinResult.pick({ pins: true }),
    rpc: "session/pins",
    http: "GET /sessions/{session_id}/pins",
    cli: "rkat session pins ID",
    scope: "read",
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
    scope: "read",
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
    scope: "read",
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
    scope: "read",
    requires: "memory-store",
  },
  ...AGENT_OPERATIONS,
  ...FORGET_OPERATIONS,
  ...PRUNE_OPERATIONS,
  readEventCursor: {
    summary: "Read the number of a session's newest durable event; 0 when it has none.",
    input: OneScope,
    output: z.object({
      contract_version: ContractVersion,
      cursor: EventCursor.describe("the place of the newest event"),
    }),
    rpc: "events/latest_cursor",
    http: "GET /sessions/{session_id}/events/cursor",
    mcp: "meerkat_events_cursor",
    mcpListed: false,
    cli: "rkat session events ID",
    scope: "read",
    requires: "session-store",
  },
  listEvents: {
    summary: "List a session's durable events after a cursor, oldest first.",
    input: ListEvents,
    output: EventPage,
    rpc: "events/list_since",
    http: "GET /sessions/{session_id}/events/list",
    mcp: "meerkat_events_list",
    mcpListed: false,
    cli: "rkat session events ID",
    scope: "read",
    requires: "session-store",
  },
  readBlob: {
    summary: "Read a blob whole, such as the full text of a tool output that was cut.",
    input: z.object({ blob_id: written("ID", z.string().min(1).describe("the blob, by its id")) }),
    output: z.object({
      blob_id: z.string().describe("the blob's id"),
      media_type: z.string().describe("what it holds, such as text/plain"),
      data: z.base64().describe("the bytes in Base64"),
    }),
    rpc: "blob/get",
    http: "GET /blobs/{blob_id}",
    mcp: "meerkat_blob_get",
    cli: "rkat blob get ID",
    scope: "read",
  },
  ...CONFIG_OPERATIONS,
  ...SKILL_OPERATIONS,
  ...USAGE_OPERATIONS,
  ...ACCESS_OPERATIONS,
  readCapabilities: {
    summary: "Say what this runtime can do and what was left out.",
    input: z.object({}),
    output: Capabilities,
    rpc: "capabilities/get",
    http: "GET /capabilities",
    mcp: "meerkat_capabilities",
    cli: "rkat capabilities",
    scope: "read",
  },
  readModels: {
    summary: "List the known models with their context window and output limit.",
    input: z.object({}),
    output: ModelsCatalog,
    rpc: "models/catalog",
    http: "GET /models/catalog",
    mcp: "meerkat_models_catalog",
    cli: "rkat models",
    scope: "read",
  },
} as const satisfies Record<string, Operation>;

export type OperationName = keyof typeof OPERATIONS;
export type OperationInput<N extends OperationName> = z.output<(typeof OPERATIONS)[N]["input"]>;
export type OperationOutput<N extends OperationName> = z.output<(typeof OPERATIONS)[N]["output"]>;
