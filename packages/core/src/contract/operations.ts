import { AGENT_OPERATIONS } from "./agent.ts";
import { ACCESS_OPERATIONS, type Audited, type Scope } from "./caller.ts";
import { CAPABILITY_OPERATIONS, type Capability } from "./capability.ts";
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
import { FORGET_OPERATIONS, PRUNE_OPERATIONS } from "./forget.ts";
import { cliFlag, positive } from "./input.ts";
import { MEMORY_OPERATIONS } from "./memory.ts";
import { PORTABLE_OPERATIONS } from "./portable.ts";
import { asks_again, message_index, running_behavior } from "./rewrite.ts";
import { z } from "./schema.ts";
import { CreateSession, DeferredSession, RunResult, SessionId, StartTurn } from "./session.ts";
import {
  ForkedSession,
  ListSessions,
  MessagePage,
  MODEL_CALL_OPERATIONS,
  ReadContext,
  SessionContext,
  SessionHistory,
  SessionInfo,
  SessionPage,
  USAGE_OPERATIONS,
} from "./session-info.ts";
import {
  APPROVAL_OPERATIONS,
  EVENT_OPERATIONS,
  ExternalEvent,
  ExternalEventOutcome,
  GOAL_OPERATIONS,
  INBOX_OPERATIONS,
  InjectContext,
  InjectedContext,
  JOB_OPERATIONS,
  REWRITE_OPERATIONS,
  SESSION_SERVER_OPERATIONS,
} from "./session-operations.ts";
import { SKILL_OPERATIONS } from "./skill.ts";
import { COMMS_OPERATIONS } from "./wire/comms.ts";
import { ResumeTool, RunTool } from "./wire/mcp-tools.ts";
import { SCHEDULE_OPERATIONS } from "./wire/schedule.ts";

/** A row that changes something says whether that is audited; one whose input names no session, what callers see. */
type Operation = Row &
  ({ readonly http: `GET /${string}` } | ({ readonly http: `${Method} /${string}` } & Change)) &
  ({ readonly input: z.ZodType<OfSession> } | { readonly sees: "public" | "own" | "project" });
type Method = "POST" | "PUT" | "PATCH" | "DELETE";
type OfSession = { readonly session_id: string } | { readonly scope: { readonly session_id: string } };

interface Change {
  readonly audited: Audited | false;
  /** The hint for MCP clients: it only adds, or repeating it changes nothing more; without one, it may destroy. */
  readonly effect?: "adds" | "idempotent";
}

interface Row {
  readonly summary: string;
  readonly input: z.ZodType;
  readonly output: z.ZodType;
  /** REST and MCP add the session's id to the output. */
  readonly namesSession?: true;
  readonly rpc: string;
  readonly http: string;
  /** The method of a session or an agent in the SDKs, where it has another name than the operation. */
  readonly method?: string;
  /** Clients of JSON-RPC may send null for a field that they leave out. */
  readonly rpcNulls?: true;
  /** Absent where a person decides, not an agent. */
  readonly mcp?: string;
  /** Absent where `tools/list` always has the tool; the others are called by name, and listed with `--all-tools`. */
  readonly mcpListed?: false;
  /** Whether a memory server has the tool; it runs no turn and shows no session whole. */
  readonly mcpMemory?: true;
  /** The tool's input and summary, where they are not the operation's: of several rows with one tool, in the last. */
  readonly mcpInput?: () => z.ZodType;
  readonly mcpSummary?: string;
  /** The field of the output that is all of the tool's answer. */
  readonly mcpGives?: string;
  readonly cli: string;
  /** The flags that make the command print the output as JSON, where that is not `--json`. */
  readonly cliJson?: readonly string[];
  /** What the caller must be allowed to do. */
  readonly scope: Scope;
  /** What calls a model, and so costs money. The caller may receive the events of a turn or a session's compaction. */
  readonly runs?: "turn" | "compaction" | "agent_compaction";
  /**
   * What a caller with labels sees of an operation that is about no session: the same as every caller, what belongs to
   * sessions with its labels, or nothing, since it is about the whole project.
   */
  readonly sees?: "public" | "own" | "project";
  readonly requires?: Capability;
}

const OneSession = z.object({ session_id: SessionId });
const seq = cliFlag("SEQ", positive.describe("the message, by its seq, as the history has it"));

/** The product: one row per operation. Service, SDK, surfaces and documentation are projections of it. */
export const OPERATIONS = {
  createSession: {
    summary: "Create a session and run its first turn, unless it is deferred.",
    input: CreateSession,
    output: z.union([RunResult, DeferredSession]),
    rpc: "session/create",
    rpcNulls: true,
    http: "POST /sessions",
    mcp: "meerkat_run",
    mcpInput: () => RunTool,
    cli: "rkat run PROMPT",
    cliJson: ["--events", "--stdin=off"],
    scope: "run",
    runs: "turn",
    sees: "own",
    audited: false,
  },
  startTurn: {
    summary: "Run a further turn of a session.",
    input: StartTurn,
    output: RunResult,
    rpc: "turn/start",
    rpcNulls: true,
    http: "POST /sessions/{session_id}/messages",
    mcp: "meerkat_resume",
    cli: "rkat run --resume=ID PROMPT",
    cliJson: ["--events", "--stdin=off"],
    scope: "run",
    runs: "turn",
    audited: false,
  },
  resumeSession: {
    summary: "Run a further turn of a stored session, in this process or after a restart.",
    input: StartTurn,
    output: RunResult,
    rpc: "session/resume",
    http: "POST /sessions/{session_id}/messages",
    mcp: "meerkat_resume",
    mcpInput: () => ResumeTool,
    cli: "rkat resume ID PROMPT",
    cliJson: ["--events", "--stdin=off"],
    scope: "run",
    runs: "turn",
    audited: false,
    requires: "session-store",
  },
  finishTurn: {
    summary: "Finish a turn whose process ended; steps that are in its log are not repeated.",
    input: OneSession.extend({
      turn: positive
        .optional()
        .describe("the turn, by the seq of its run_started: its end is given, also if it runs elsewhere or is over"),
    }),
    output: RunResult,
    rpc: "turn/finish",
    http: "POST /sessions/{session_id}/finish",
    mcp: "meerkat_finish",
    mcpListed: false,
    cli: "rkat resume ID",
    cliJson: ["--events", "--stdin=off"],
    scope: "run",
    runs: "turn",
    audited: false,
    requires: "session-store",
  },
  interruptTurn: {
    summary: "Stop the running turn; an idle session does not change.",
    input: OneSession,
    output: z.object({ interrupted: z.literal(true).describe("that no turn is running") }),
    namesSession: true,
    rpc: "turn/interrupt",
    method: "interrupt",
    http: "POST /sessions/{session_id}/interrupt",
    mcp: "meerkat_interrupt",
    cli: "rkat session interrupt ID",
    scope: "run",
    audited: false,
    effect: "idempotent",
  },
  readSession: {
    summary: "Read the state of a session: model, labels, messages, tokens, cost.",
    input: OneSession,
    output: SessionInfo,
    rpc: "session/read",
    method: "read",
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
    rpcNulls: true,
    http: "GET /sessions",
    mcp: "meerkat_sessions",
    cli: "rkat session list",
    scope: "read",
    sees: "own",
    requires: "session-store",
  },
  readHistory: {
    summary: "Read a session's full transcript, oldest first.",
    input: OneSession.extend(MessagePage),
    output: SessionHistory,
    rpc: "session/history",
    method: "history",
    rpcNulls: true,
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
    namesSession: true,
    rpc: "session/archive",
    method: "archive",
    http: "DELETE /sessions/{session_id}",
    mcp: "meerkat_archive",
    cli: "rkat session delete ID",
    scope: "run",
    audited: { action: "session_archived" },
    requires: "session-store",
  },
  injectContext: {
    summary: "Add a text that the model sees from its next call on, without running a turn.",
    input: InjectContext,
    output: InjectedContext,
    rpc: "session/inject_context",
    method: "inject",
    rpcNulls: true,
    http: "POST /sessions/{session_id}/system_context",
    mcp: "meerkat_inject_context",
    mcpListed: false,
    cli: "rkat session inject ID TEXT",
    scope: "run",
    audited: false,
    effect: "idempotent",
  },
  sendExternalEvent: {
    summary: "Send the model an external event, as data that it sees from its next call on; no turn is run.",
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
    input: OneSession.extend({ message_index, running_behavior, asks_again }),
    output: ForkedSession,
    rpc: "session/fork_at",
    method: "fork",
    http: "POST /sessions/{session_id}/fork",
    mcp: "meerkat_fork",
    cli: "rkat session fork ID --at N",
    scope: "run",
    audited: false,
    effect: "adds",
    requires: "session-store",
  },
  ...INBOX_OPERATIONS,
  ...JOB_OPERATIONS,
  ...GOAL_OPERATIONS,
  ...COMMS_OPERATIONS,
  ...PORTABLE_OPERATIONS,
  ...APPROVAL_OPERATIONS,
  ...SESSION_SERVER_OPERATIONS,
  ...REWRITE_OPERATIONS,
  readContext: {
    summary: "Read the model's context now, or at an earlier call, byte for byte.",
    input: ReadContext,
    output: SessionContext,
    rpc: "session/context",
    method: "context",
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
    method: "compact",
    http: "POST /sessions/{session_id}/compact",
    mcp: "meerkat_compact",
    cli: "rkat compact run ID",
    scope: "run",
    runs: "compaction",
    audited: false,
    effect: "adds",
    requires: "session-compaction",
  },
  listCompactions: {
    summary: "List a session's compactions with their receipts, oldest first.",
    input: z.strictObject({ session_id: SessionId }),
    output: z.object({ compactions: z.array(Compaction).describe("the compactions, oldest first") }),
    rpc: "session/compactions",
    method: "compactions",
    http: "GET /sessions/{session_id}/compactions",
    mcp: "meerkat_compactions",
    cli: "rkat compact list ID",
    scope: "read",
    requires: "session-compaction",
  },
  readSummarySources: {
    summary: "Show which messages each sentence of a compaction's summary comes from, by its names, numbers and words.",
    input: z.strictObject({ session_id: SessionId, compaction_id: ExpandInput.compaction_id }),
    output: SummarySources,
    rpc: "session/summary_sources",
    method: "summarySources",
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
    effect: "adds",
    requires: "session-compaction",
  },
  expandCompaction: {
    summary: "Bring turns that a compaction removed back into the context.",
    input: z.strictObject({ session_id: SessionId, ...ExpandInput }),
    output: ExpandResult,
    rpc: "session/compact_expand",
    http: "POST /sessions/{session_id}/compactions/{compaction_id}/expand",
    mcp: "meerkat_compact_expand",
    cli: "rkat compact expand ID CID",
    scope: "run",
    audited: false,
    effect: "adds",
    requires: "session-compaction",
  },
  pinMessage: {
    summary: "Pin a message: compactions keep it in the context.",
    input: z.strictObject({ session_id: SessionId, seq }),
    output: PinResult,
    rpc: "session/pin",
    method: "pin",
    http: "PUT /sessions/{session_id}/pins/{seq}",
    cli: "rkat session pin ID SEQ",
    scope: "run",
    audited: false,
    requires: "session-compaction",
  },
  unpinMessage: {
    summary:
      "Unpin a message; a message that only its pin kept in the context leaves it, at the next compaction at the latest.",
    input: z.strictObject({ session_id: SessionId, seq }),
    output: PinResult,
    rpc: "session/unpin",
    method: "unpin",
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
    method: "pins",
    http: "GET /sessions/{session_id}/pins",
    cli: "rkat session pins ID",
    scope: "read",
    requires: "session-compaction",
  },
  ...MEMORY_OPERATIONS,
  ...AGENT_OPERATIONS,
  ...FORGET_OPERATIONS,
  ...PRUNE_OPERATIONS,
  ...EVENT_OPERATIONS,
  readBlob: {
    summary: "Read a blob whole, such as the full text of a tool output that was cut.",
    input: z.object({ blob_id: cliFlag("ID", z.string().min(1).describe("the blob, by its id")) }),
    output: z.object({
      blob_id: z.string().describe("the blob's id"),
      media_type: z.string().describe("what it holds, such as text/plain"),
      data: z.base64().describe("the bytes in Base64"),
    }),
    rpc: "blob/get",
    http: "GET /blobs/{blob_id}",
    mcp: "meerkat_blob_get",
    cli: "rkat blob get ID",
    cliJson: [],
    scope: "read",
    sees: "own",
  },
  ...SCHEDULE_OPERATIONS,
  ...CONFIG_OPERATIONS,
  ...SKILL_OPERATIONS,
  ...USAGE_OPERATIONS,
  ...ACCESS_OPERATIONS,
  ...CAPABILITY_OPERATIONS,
} as const satisfies Record<string, Operation>;

export type OperationName = keyof typeof OPERATIONS;
/** The names of the table, in its order. */
export const OPERATION_NAMES = Object.keys(OPERATIONS) as OperationName[]; // The keys of the table are its names.

/** The row of an operation, with the columns that not all rows have. */
export function operationOf(name: OperationName): Row & Partial<Change> {
  return OPERATIONS[name];
}

export type OperationInput<N extends OperationName> = z.output<(typeof OPERATIONS)[N]["input"]>;
export type OperationOutput<N extends OperationName> = z.output<(typeof OPERATIONS)[N]["output"]>;
