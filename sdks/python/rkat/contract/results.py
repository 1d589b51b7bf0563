# Generated from src/contract/ by `npm run docs`: change the contract, not this file.
"""What the server answers with, in the names of the wire. An answer may have further fields."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if sys.version_info >= (3, 11):
    from typing import NotRequired
elif TYPE_CHECKING:
    from typing_extensions import NotRequired


class RunResultUsage(TypedDict):
    """`usage` of `RunResult`."""

    input_tokens: int
    output_tokens: int
    cache_creation_tokens: NotRequired[int]
    cache_read_tokens: NotRequired[int]
    estimated: NotRequired[Literal[True]]
    total_tokens: int


TerminalCause: TypeAlias = Literal[
    "unknown",
    "hook_denied",
    "hook_failure",
    "llm_failure",
    "tool_failure",
    "structured_output_validation_failed",
    "budget_exhausted",
    "time_budget_exceeded",
    "retry_exhausted",
    "turn_limit_reached",
    "runtime_apply_failure",
    "fatal_failure",
]


class ExtractionError(TypedDict):
    """`extraction_error` of `RunResult`."""

    last_output: str
    attempts: int
    reason: str


class RunResult(TypedDict):
    """What `startTurn` answers."""

    session_id: str
    session_ref: NotRequired[str]
    text: str
    turns: int
    tool_calls: int
    usage: RunResultUsage
    terminal_cause_kind: NotRequired[TerminalCause]
    structured_output: NotRequired[Any]
    extraction_error: NotRequired[ExtractionError]


class Usage(TypedDict):
    """`usage` of `SessionInfo`."""

    input_tokens: int
    output_tokens: int
    cache_creation_tokens: NotRequired[int]
    cache_read_tokens: NotRequired[int]
    estimated: NotRequired[Literal[True]]


class CompactionCadence(TypedDict):
    """`session_compaction_cadence` of `SessionInfo`."""

    session_boundary_index: int
    last_compaction_boundary_index: NotRequired[int]
    last_compaction_attempt_boundary_index: NotRequired[int]


class SessionInfo(TypedDict):
    """What `readSession` answers."""

    session_id: str
    session_ref: NotRequired[str]
    created_at: int
    updated_at: int
    message_count: int
    total_tokens: int
    is_active: bool
    state: Literal["idle", "running", "interrupted", "archived"]
    model: str
    provider: str
    usage: NotRequired[Usage]
    last_assistant_text: NotRequired[str]
    session_compaction_cadence: NotRequired[CompactionCadence]
    labels: NotRequired[dict[str, str]]


class SessionSummary(TypedDict):
    """What `listSessions` answers."""

    session_id: str
    session_ref: NotRequired[str]
    created_at: int
    updated_at: int
    message_count: int
    total_tokens: int
    is_active: bool
    state: Literal["idle", "running", "interrupted", "archived"]
    model: str
    title: str
    labels: NotRequired[dict[str, str]]


class SessionHistory(TypedDict):
    """What `readHistory` answers."""

    session_id: str
    session_ref: NotRequired[str]
    message_count: int
    offset: int
    limit: NotRequired[int]
    has_more: bool
    messages: list[dict[str, Any]]


class ExternalEventOutcome(TypedDict):
    """What `sendExternalEvent` answers."""

    outcome_type: Literal["accepted", "deduplicated", "rejected"]
    input_id: NotRequired[str]
    existing_id: NotRequired[str]
    reason: NotRequired[str]


class ForkedSession(TypedDict):
    """What `forkSession` answers."""

    source_session_id: str
    session_id: str
    session_ref: NotRequired[str]
    message_count: int


class RewriteCommitSelection(TypedDict):
    """`selection` of `RewriteCommit`."""

    type: Literal["message_range"]
    start: int
    end: int


class RewriteCommitReason(TypedDict):
    """`reason` of `RewriteCommit`."""

    kind: str
    note: NotRequired[str]


class RewriteCommitCommittedAt(TypedDict):
    """`committed_at` of `RewriteCommit`."""

    secs_since_epoch: int
    nanos_since_epoch: int


class RewriteCommit(TypedDict):
    """`commit` of `RewriteResult`."""

    parent_revision: str
    revision: str
    selection: RewriteCommitSelection
    original_span_digest: str
    replacement_digest: str
    messages_before: int
    messages_after: int
    reason: RewriteCommitReason
    actor: NotRequired[str]
    committed_at: RewriteCommitCommittedAt


class RewriteResult(TypedDict):
    """What `rewriteTranscript` answers."""

    session_id: str
    session_ref: NotRequired[str]
    parent_revision: str
    revision: str
    message_count: int
    commit: RewriteCommit


class TranscriptRevision(TypedDict):
    """What `readRevision` answers."""

    session_id: str
    session_ref: NotRequired[str]
    message_count: int
    offset: int
    limit: NotRequired[int]
    has_more: bool
    messages: list[dict[str, Any]]
    revision: str
    head_revision: str


class ContextPart(TypedDict):
    """`parts` of `SessionContext`."""

    kind: str
    seqs: list[int]
    estimated_tokens: int


class SessionContext(TypedDict):
    """What `readContext` answers."""

    messages: list[dict[str, Any]]
    estimated_tokens: int
    sha256: str
    parts: list[ContextPart]
    tool_tokens: int
    context_window: NotRequired[int]
    auto_compact_threshold: NotRequired[int]


class SeqRange(TypedDict):
    """`discarded` of `CompactResultCompaction`."""

    from_seq: int
    to_seq: int


ReceiptItemKind: TypeAlias = Literal[
    "path",
    "identifier",
    "url",
    "number",
    "command",
    "rule",
    "ask",
]


class ReceiptItem(TypedDict):
    """`items` of `Receipt`."""

    kind: ReceiptItemKind
    text: str
    seq: int
    status: Literal["in_summary", "in_tail", "pinned", "recoverable", "lost"]


class ReceiptInvented(TypedDict):
    """`invented` of `Receipt`."""

    kind: str
    text: str
    sentence: str


class ReceiptPruned(TypedDict):
    """`pruned` of `Receipt`."""

    seq: int
    tool_use_id: str
    tokens: int


class Receipt(TypedDict):
    """`receipt` of `CompactResultCompaction`."""

    total: int
    in_summary: int
    in_tail: int
    pinned: int
    recoverable: int
    lost: int
    found_by_search: int
    items: list[ReceiptItem]
    invented: list[ReceiptInvented]
    invented_cut: bool
    pruned: list[ReceiptPruned]


class CompactResultCompactionCost(TypedDict):
    """`cost` of `CompactResultCompaction`."""

    input_tokens: int
    max_output_tokens: int


class CompactResultCompaction(TypedDict):
    """`compaction` of `CompactResult`."""

    compaction_id: str
    created_at: str
    strategy: str
    trigger: Literal["threshold", "overflow", "manual"]
    summary_by: Literal["model", "curator", "extractive", "none"]
    model: str
    notes: list[str]
    instructions: NotRequired[str]
    summary: str
    summary_tokens: int
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    discarded: list[SeqRange]
    superseded: NotRequired[str]
    reshape: Literal["as_is", "without_reasoning", "text_only"]
    receipt: Receipt
    usage: Usage
    cadence: CompactionCadence
    seq: int
    kept: list[SeqRange]
    undone: bool
    expanded: list[SeqRange]
    cost: NotRequired[CompactResultCompactionCost]


class CompactResult(TypedDict):
    """What `compactSession` answers."""

    compacted: bool
    reason: NotRequired[str]
    compaction: NotRequired[CompactResultCompaction]


class Compaction(TypedDict):
    """What `listCompactions` answers."""

    compaction_id: str
    created_at: str
    strategy: str
    trigger: Literal["threshold", "overflow", "manual"]
    summary_by: Literal["model", "curator", "extractive", "none"]
    model: str
    notes: list[str]
    instructions: NotRequired[str]
    summary: str
    summary_tokens: int
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    discarded: list[SeqRange]
    superseded: NotRequired[str]
    reshape: Literal["as_is", "without_reasoning", "text_only"]
    receipt: Receipt
    usage: Usage
    cadence: CompactionCadence
    seq: int
    kept: list[SeqRange]
    undone: bool
    expanded: list[SeqRange]


class ExpandResult(TypedDict):
    """What `expandCompaction` answers."""

    expanded: list[SeqRange]
    left_out: list[SeqRange]
    messages: int
    estimated_tokens: int


class PinResult(TypedDict):
    """What `pinMessage` answers."""

    pinned: bool
    seq: int
    pins: list[int]


class MemoryHit(TypedDict):
    """`results` of `MemoryResults`."""

    content: str
    score: float
    session_id: str
    turn: int
    seq: int
    role: str
    kind: str
    created_at: str
    agent: NotRequired[str]
    origin: str


class MemoryResults(TypedDict):
    """What `searchMemory` answers."""

    results: list[MemoryHit]
    mode: Literal["hybrid", "lexical"]


class MemoryStatusReport(TypedDict):
    """What `readMemoryStatus` answers."""

    entries: int
    pending: int
    sessions_behind: int
    embedder: str
    index: str
    bytes: int
    mode: Literal["hybrid", "lexical"]
    problem: NotRequired[str]


class Remembered(TypedDict):
    """What `remember` answers."""

    count: int
    compaction_due: bool


class AgentContextImmediate(TypedDict):
    """`immediate` of `AgentContext`."""

    seq: int
    content: str
    created_at: str
    metadata: NotRequired[dict[str, Any]]


class AgentContext(TypedDict):
    """What `readAgentContext` answers."""

    longterm_summary: NotRequired[str]
    recent_summary: NotRequired[str]
    immediate: list[AgentContextImmediate]
    prompt: str


class AgentCompacted(TypedDict):
    """What `compactAgent` answers."""

    compacted: bool
    reason: NotRequired[str]
    longterm_summary: NotRequired[str]
    recent_summary: NotRequired[str]


class AgentStatus(TypedDict):
    """What `readAgentStatus` answers."""

    agent: str
    count: int
    notes: int
    immediate_window: int
    recent_window: int
    immediate_count: int
    recent_summary: NotRequired[str]
    recent_range: NotRequired[SeqRange]
    longterm_summary: NotRequired[str]
    longterm_range: NotRequired[SeqRange]
    compactions: int
    last_compaction_at: NotRequired[str]
    next_compaction_at: int
    compaction_due: bool
    compaction_running: bool
    last_error: NotRequired[str]


class AgentSummary(TypedDict):
    """What `listAgents` answers."""

    agent: str
    count: int
    created_at: str
    updated_at: str


class ContractVersion(TypedDict):
    """`contract_version` of `ReadEventCursorResult`."""

    major: float
    minor: float
    patch: float


class EventCursorScope(TypedDict):
    """`scope` of `EventCursor`."""

    type: Literal["session"]
    session_id: str


class EventCursor(TypedDict):
    """`cursor` of `ReadEventCursorResult`."""

    scope: EventCursorScope
    sequence: int


class ReadEventCursorResult(TypedDict):
    """What `readEventCursor` answers."""

    contract_version: ContractVersion
    cursor: EventCursor


class EventPageEvent(TypedDict):
    """`events` of `EventPage`."""

    event_id: str
    cursor: EventCursor
    timestamp_ms: int
    source: EventCursorScope
    session_id: str
    payload: dict[str, Any]


class EventPage(TypedDict):
    """What `listEvents` answers."""

    contract_version: ContractVersion
    scope: EventCursorScope
    from_cursor: EventCursor
    latest_cursor: EventCursor
    events: list[EventPageEvent]
    has_more: bool


class ReadBlobResult(TypedDict):
    """What `readBlob` answers."""

    blob_id: str
    media_type: str
    data: str


class ConfigEnvelope(TypedDict):
    """What `readConfig` answers."""

    realm_id: NotRequired[str]
    instance_id: NotRequired[str]
    backend: NotRequired[str]
    resolved_paths: NotRequired[dict[str, str]]
    config: dict[str, Any]
    generation: int
    restart_required: NotRequired[list[str]]


class CapabilityRow(TypedDict):
    """`capabilities` of `Capabilities`."""

    id: str
    description: str
    status: Literal["Available"] | dict[str, Any]


class Capabilities(TypedDict):
    """What `readCapabilities` answers."""

    contract_version: ContractVersion
    capabilities: list[CapabilityRow]


class CatalogModelProfile(TypedDict):
    """`profile` of `CatalogModel`."""

    model_family: str
    supports_temperature: bool
    supports_thinking: bool
    supports_reasoning: bool
    vision: bool
    image_tool_results: bool
    inline_video: bool
    params_schema: dict[str, Any]


class CatalogModel(TypedDict):
    """`models` of `ModelsCatalogProvider`."""

    id: str
    display_name: str
    tier: Literal["recommended", "supported"]
    context_window: NotRequired[int]
    max_output_tokens: NotRequired[int]
    server_id: NotRequired[str]
    profile: NotRequired[CatalogModelProfile]


class ModelsCatalogProvider(TypedDict):
    """`providers` of `ModelsCatalog`."""

    provider: str
    default_model_id: str
    models: list[CatalogModel]


class ModelsCatalog(TypedDict):
    """What `readModels` answers."""

    contract_version: ContractVersion
    providers: list[ModelsCatalogProvider]
