"""What the server answers with, in the names of the wire. An answer may have further fields."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

if sys.version_info >= (3, 11):
    from typing import NotRequired
elif TYPE_CHECKING:
    from typing_extensions import NotRequired

Content = str | list[dict[str, Any]]
"""A text, or a list of content blocks such as `{"type": "text", "text": …}`."""


class Usage(TypedDict):
    """Tokens of a turn."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    cache_creation_tokens: NotRequired[int]
    cache_read_tokens: NotRequired[int]


class ExtractionError(TypedDict):
    """Why there is no structured output."""

    last_output: str
    attempts: int
    reason: str


class RunResult(TypedDict):
    """How a turn ended; `turns` counts the calls of the model in it."""

    session_id: str
    session_ref: NotRequired[str]
    text: str
    turns: int
    tool_calls: int
    usage: Usage
    terminal_cause_kind: NotRequired[str]
    structured_output: NotRequired[Any]
    extraction_error: NotRequired[ExtractionError]


class SessionSummary(TypedDict):
    """A row of the list of sessions; times are unix seconds."""

    session_id: str
    session_ref: NotRequired[str]
    created_at: int
    updated_at: int
    message_count: int
    total_tokens: int
    is_active: bool
    state: str
    model: str
    title: str
    labels: NotRequired[dict[str, str]]


class SessionInfo(TypedDict):
    """What a session is and how far it got; times are unix seconds."""

    session_id: str
    session_ref: NotRequired[str]
    created_at: int
    updated_at: int
    message_count: int
    total_tokens: int
    is_active: bool
    state: str
    model: str
    provider: str
    last_assistant_text: NotRequired[str]
    session_compaction_cadence: NotRequired[dict[str, int]]
    labels: NotRequired[dict[str, str]]


class SessionHistory(TypedDict):
    """A page of a transcript, oldest first; each message has its `seq`."""

    session_id: str
    session_ref: NotRequired[str]
    message_count: int
    offset: int
    limit: NotRequired[int]
    has_more: bool
    messages: list[dict[str, Any]]


class ContextPart(TypedDict):
    """A stretch of the context: `system`, `summary`, `pinned`, `expanded` or `turn`."""

    kind: str
    seqs: list[int]
    estimated_tokens: int


class SessionContext(TypedDict):
    """What the model is shown; `sha256` is the hash recorded with the call when it was made."""

    messages: list[dict[str, Any]]
    estimated_tokens: int
    sha256: str
    parts: list[ContextPart]
    tool_tokens: int
    context_window: NotRequired[int]
    auto_compact_threshold: NotRequired[int]


class SeqRange(TypedDict):
    """Messages by the seqs of the entries that hold them; both ends are in."""

    from_seq: int
    to_seq: int


class Compaction(TypedDict):
    """A compaction with its receipt: where every specific it took out of the context is now."""

    compaction_id: str
    created_at: str
    strategy: str
    trigger: str
    summary_by: str
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
    reshape: str
    receipt: dict[str, Any]
    usage: dict[str, int]
    cadence: dict[str, int]
    seq: int
    kept: list[SeqRange]
    undone: bool
    expanded: list[SeqRange]
    cost: NotRequired[dict[str, int]]


class CompactResult(TypedDict):
    """What came of asking for a compaction; `reason` says why nothing was compacted."""

    compacted: bool
    reason: NotRequired[str]
    compaction: NotRequired[Compaction]


class ExpandResult(TypedDict):
    """What was brought back into the context, what did not fit, and how the context stands."""

    expanded: list[SeqRange]
    left_out: list[SeqRange]
    messages: int
    estimated_tokens: int


class TranscriptRevision(SessionHistory):
    """A transcript as it was at a revision, and the revision it has now."""

    revision: str
    head_revision: str


class RewriteCommit(TypedDict):
    """What is recorded of a rewrite."""

    parent_revision: str
    revision: str
    selection: dict[str, Any]
    original_span_digest: str
    replacement_digest: str
    messages_before: int
    messages_after: int
    reason: dict[str, str]
    actor: NotRequired[str]
    committed_at: dict[str, int]


class RewriteResult(TypedDict):
    """What came of a rewrite."""

    session_id: str
    session_ref: NotRequired[str]
    parent_revision: str
    revision: str
    message_count: int
    commit: RewriteCommit


class MemoryHit(TypedDict):
    """One thing found again; a recalled text is data, whatever it asks for."""

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
    """What a search found, best first; `mode` is `hybrid` or `lexical`."""

    results: list[MemoryHit]
    mode: str


class Remembered(TypedDict):
    """How many memories an agent has now, and whether a compaction has begun with the newest."""

    count: int
    compaction_due: bool


class AgentContext(TypedDict):
    """What an agent is shown of its life; `prompt` is all of it as a text for a model."""

    longterm_summary: NotRequired[str]
    recent_summary: NotRequired[str]
    immediate: list[dict[str, Any]]
    prompt: str


class AgentCompacted(TypedDict):
    """What came of compacting an agent's memories."""

    compacted: bool
    reason: NotRequired[str]
    longterm_summary: NotRequired[str]
    recent_summary: NotRequired[str]


class AgentStatus(TypedDict):
    """What an agent remembers: counts, tiers, summaries, the last compaction and the next."""

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


class ContractVersion(TypedDict):
    """A version of the wire contract."""

    major: int
    minor: int
    patch: int


class CapabilityRow(TypedDict):
    """A capability; `status` is "Available", or an object that says why it is not."""

    id: str
    description: str
    status: str | dict[str, Any]


class Capabilities(TypedDict):
    """What a server can do and what was left out."""

    contract_version: ContractVersion
    capabilities: list[CapabilityRow]


class ModelsCatalog(TypedDict):
    """The known models, by provider."""

    contract_version: ContractVersion
    providers: list[dict[str, Any]]


class Blob(NamedTuple):
    """Content kept by reference, such as the full text of a tool output that was cut."""

    media_type: str
    data: bytes
