# Generated from packages/core/src/contract/ by `npm run docs`: change the contract, not this file.
"""The results of the server, in the names of the wire. A result may have further fields."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if sys.version_info >= (3, 11):
    from typing import NotRequired
elif TYPE_CHECKING:
    from typing_extensions import NotRequired


class Cost(TypedDict):
    """`cost` of `RunResultUsage`."""

    amount: float
    """The amount, as a decimal number."""
    currency: Literal["USD"]
    """The currency."""
    partial: NotRequired[Literal[True]]
    """Some calls have no known price, so this is a minimum."""


class RunResultUsage(TypedDict):
    """`usage` of `RunResult`."""

    input_tokens: int
    """Input tokens."""
    output_tokens: int
    """Output tokens."""
    cache_creation_tokens: NotRequired[int]
    """Input tokens written to the provider's cache."""
    cache_read_tokens: NotRequired[int]
    """Input tokens read from the provider's cache."""
    reasoning_tokens: NotRequired[int]
    """Reasoning tokens among the output; absent where the provider reports none."""
    estimated: NotRequired[Literal[True]]
    """A part of it is an estimate: providers report no usage for a call that was cut off."""
    cost: NotRequired[Cost]
    """What it cost by the prices of its time; absent where no price is known."""
    total_tokens: int
    """Input and output tokens together."""


class Usage(TypedDict):
    """`usage` of `Delegated`."""

    input_tokens: int
    """Input tokens."""
    output_tokens: int
    """Output tokens."""
    cache_creation_tokens: NotRequired[int]
    """Input tokens written to the provider's cache."""
    cache_read_tokens: NotRequired[int]
    """Input tokens read from the provider's cache."""
    reasoning_tokens: NotRequired[int]
    """Reasoning tokens among the output; absent where the provider reports none."""
    estimated: NotRequired[Literal[True]]
    """A part of it is an estimate: providers report no usage for a call that was cut off."""
    cost: NotRequired[Cost]
    """What it cost by the prices of its time; absent where no price is known."""


class Delegated(TypedDict):
    """The usage of the session's sub-agents, which its budgets include; absent without sub-agents."""

    usage: Usage
    """The tokens they used."""
    tool_calls: int
    """The tool calls they made."""


class PendingCall(TypedDict):
    """`pending_calls` of `RunResult`."""

    id: str
    """The call's id; its result has it as tool_use_id."""
    name: str
    """The tool it calls."""
    args: dict[str, Any]
    """The arguments."""


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
    """The last answer of the model."""
    attempts: int
    """The number of attempts."""
    reason: str
    """What does not match."""


GoalPhase: TypeAlias = Literal[
    "active",
    "reached",
    "budget",
    "no_progress",
    "paused",
    "failed",
    "interrupted",
    "cancelled",
]


class GoalState(TypedDict):
    """`goal` of `RunResult`."""

    goal_id: str
    """Its id."""
    until: dict[str, Any]
    """The condition: {command} or {sentence}."""
    max_turns: int
    """The limit of turns."""
    max_cost: NotRequired[float]
    """The limit in US dollars."""
    max_duration_ms: NotRequired[float]
    """The limit of time, in milliseconds."""
    phase: GoalPhase
    """Active, or how it ended: reached · budget, a limit was met · no_progress, the same judgement three times and
    nothing new done · paused, its caller may not run turns now · failed · interrupted · cancelled.
    """
    turns: int
    """Its turns so far."""
    reason: NotRequired[str]
    """Why it ended, or the newest judgement; absent before the first."""


class RunResult(TypedDict):
    """What `startTurn` answers."""

    session_id: str
    """The session's id."""
    session_ref: NotRequired[str]
    """The id with its realm, unique across realms."""
    text: str
    """The last answer of the model."""
    turns: int
    """Model calls of the turn."""
    tool_calls: int
    """Tool calls of the turn."""
    usage: RunResultUsage
    """The tokens the turn used."""
    delegated: NotRequired[Delegated]
    """The usage of the session's sub-agents, which its budgets include; absent without sub-agents."""
    turn_cost: NotRequired[Cost]
    """What the turn cost, its compactions included, while usage.cost is the session's; absent where no price is known.
    """
    pending_calls: NotRequired[list[PendingCall]]
    """The calls of client_tools with which the turn ended; a turn with their tool_results continues it."""
    terminal_cause_kind: NotRequired[TerminalCause]
    """Why the turn ended early; absent if the model ended it."""
    structured_output: NotRequired[Any]
    """The result that matches output_schema."""
    extraction_error: NotRequired[ExtractionError]
    """Why there is no structured_output although one was requested."""
    goal: NotRequired[GoalState]
    """How the goal of the turn ended; the rest is about its last turn."""


SessionInfoState: TypeAlias = Literal[
    "idle",
    "running",
    "waiting",
    "interrupted",
    "failed",
    "archived",
]


class SessionInfoBudget(TypedDict):
    """`budgets` of `SessionInfo`."""

    type: Literal["tokens", "time", "tool_calls", "cost"]
    """What is limited."""
    limit: float
    """The limit: tokens, milliseconds of a turn, calls, or US dollars."""
    used: NotRequired[float]
    """How much of it is used; absent for time, which starts anew with each turn."""


class SessionInfoUnfinishedTurn(TypedDict):
    """`unfinished_turn` of `SessionInfo`."""

    since: str
    """When its last entry was written."""
    attempt: int
    """The number of processes that have run it."""
    missing: NotRequired[list[str]]
    """What this process lacks to continue the turn; absent if it lacks nothing."""


class CompactionCadence(TypedDict):
    """`session_compaction_cadence` of `SessionInfo`."""

    session_boundary_index: int
    """Boundaries (moments before a model call) the session has seen."""
    last_compaction_boundary_index: NotRequired[int]
    """The boundary at which it was last compacted."""
    last_compaction_attempt_boundary_index: NotRequired[int]
    """The boundary at which a compaction was last tried, failed or not."""


class SessionInfo(TypedDict):
    """What `readSession` answers."""

    session_id: str
    """The session's id."""
    session_ref: NotRequired[str]
    """The id with its realm, unique across realms."""
    created_at: int
    """When it was created, in seconds of Unix time."""
    updated_at: int
    """When it last changed, in seconds of Unix time."""
    message_count: int
    """Messages of its transcript."""
    total_tokens: int
    """Input and output tokens of all its model calls."""
    cost: NotRequired[Cost]
    """What all its model calls cost; absent where no price is known."""
    is_active: bool
    """Whether it runs a turn."""
    state: SessionInfoState
    """waiting: for approval of tool calls; interrupted: its process ended within a turn, which another process can
    finish; failed: its last turn ended with an error.
    """
    model: str
    """Its model."""
    labels: NotRequired[dict[str, str]]
    """Its labels."""
    provider: str
    """The provider of the model."""
    title: str
    """The beginning of the user's first message; empty before."""
    usage: NotRequired[Usage]
    """The tokens by kind; absent for sessions of versions that did not record it."""
    delegated: NotRequired[Delegated]
    """The usage of the session's sub-agents, which its budgets include; absent without sub-agents."""
    budgets: NotRequired[list[SessionInfoBudget]]
    """Its limits; absent without any, and for sessions of versions that did not record them."""
    unfinished_turn: NotRequired[SessionInfoUnfinishedTurn]
    """The turn whose process ended before it did; turn/finish continues it; absent where there is none."""
    goal: NotRequired[GoalState]
    """Its newest goal; absent where there was none."""
    last_assistant_text: NotRequired[str]
    """The last text of the assistant."""
    session_compaction_cadence: NotRequired[CompactionCadence]
    """When it was compacted, in its own boundaries."""


class SessionSummary(TypedDict):
    """What `listSessions` answers."""

    session_id: str
    """The session's id."""
    session_ref: NotRequired[str]
    """The id with its realm, unique across realms."""
    created_at: int
    """When it was created, in seconds of Unix time."""
    updated_at: int
    """When it last changed, in seconds of Unix time."""
    message_count: int
    """Messages of its transcript."""
    total_tokens: int
    """Input and output tokens of all its model calls."""
    cost: NotRequired[Cost]
    """What all its model calls cost; absent where no price is known."""
    is_active: bool
    """Whether it runs a turn."""
    state: SessionInfoState
    """waiting: for approval of tool calls; interrupted: its process ended within a turn, which another process can
    finish; failed: its last turn ended with an error.
    """
    model: str
    """Its model."""
    labels: NotRequired[dict[str, str]]
    """Its labels."""
    goal_phase: NotRequired[GoalPhase]
    """Active, or how it ended: reached · budget, a limit was met · no_progress, the same judgement three times and
    nothing new done · paused, its caller may not run turns now · failed · interrupted · cancelled.
    """
    title: str
    """The beginning of the user's first message; empty before."""


class SessionHistory(TypedDict):
    """What `readHistory` answers."""

    session_id: str
    """The session's id."""
    session_ref: NotRequired[str]
    """The id with its realm, unique across realms."""
    message_count: int
    """Messages of the whole transcript."""
    offset: int
    """How many of the oldest were skipped."""
    limit: NotRequired[int]
    """The requested maximum."""
    has_more: bool
    """Whether newer ones follow."""
    messages: list[dict[str, Any]]
    """The messages, oldest first."""


class ExternalEventOutcome(TypedDict):
    """What `sendExternalEvent` answers."""

    outcome_type: Literal["accepted", "deduplicated", "rejected"]
    """deduplicated: the event was there already; rejected: its key was used for another."""
    input_id: NotRequired[str]
    """The id of the event that was accepted."""
    existing_id: NotRequired[str]
    """The id of the event that was there already."""
    reason: NotRequired[str]
    """Why it was rejected."""


class ForkedSession(TypedDict):
    """What `forkSession` answers."""

    source_session_id: str
    """The session it was made of."""
    session_id: str
    """The session's id."""
    session_ref: NotRequired[str]
    """The id with its realm, unique across realms."""
    message_count: int
    """The number of messages the new session begins with."""


class InboxSource(TypedDict):
    """`source` of `ReadInbox`."""

    type: Literal["user", "job", "goal", "session", "schedule"]
    """User, or what sent it on its own."""
    id: NotRequired[str]
    """The id of that job, goal, session or schedule."""
    name: NotRequired[str]
    """The comms_name of that session."""


class ReadInbox(TypedDict):
    """What `readInbox` answers."""

    message_id: str
    """The message, by its id."""
    when_busy: Literal["reject", "queue", "steer", "interrupt"]
    """How it was sent: steer and interrupt go before queue."""
    source: InboxSource
    """Who sent it."""
    text: str
    """The beginning of its text."""
    queued_at: str
    """When it was queued, as ISO 8601."""


ListJobStatus: TypeAlias = Literal[
    "running",
    "completed",
    "failed",
    "timed_out",
    "cancelled",
    "unknown",
]


class ListJob(TypedDict):
    """What `listJobs` answers."""

    job_id: str
    """The job's id."""
    command: str
    """The command, without its secrets."""
    status: ListJobStatus
    """How it goes or has ended; unknown: that cannot be told, or not on this machine."""
    started_at_unix: int
    """When it was started, in seconds since 1970."""
    host: NotRequired[str]
    """The machine it runs on, if that is another one."""


class CommsReceipt(TypedDict):
    """What `sendComms` answers."""

    kind: Literal["peer_message_sent", "peer_request_sent", "peer_response_sent", "input_accepted"]
    """What was sent."""
    envelope_id: NotRequired[str]
    """The message's id in the other session's inbox."""
    acked: NotRequired[Literal[True]]
    """Of a message: that it is in the log of the other session."""
    interaction_id: NotRequired[str]
    """Of a request or input: the same id, for clients that look here."""
    request_id: NotRequired[str]
    """Of a request: what its responses name as in_reply_to."""
    in_reply_to: NotRequired[str]
    """Of a response: the request."""
    stream_reserved: NotRequired[Literal[False]]
    """Of a request or input: that no stream was reserved."""


class ListPeerAddress(TypedDict):
    """`address` of `ListPeer`."""

    transport: Literal["inproc"]
    """That it is in the realm."""
    endpoint: str
    """Its name."""


class ListPeerCapabilitiesExtensions(TypedDict, total=False):
    """`extensions` of `ListPeerCapabilities`."""


class ListPeerCapabilities(TypedDict):
    """`capabilities` of `ListPeer`."""

    version: Literal[1]
    """Of this table."""
    extensions: ListPeerCapabilitiesExtensions
    """None."""


class PeerMeta(TypedDict, total=False):
    """`meta` of `ListPeer`."""

    description: str
    """What it does."""
    labels: dict[str, str]
    """Labels they see."""


class ListPeer(TypedDict):
    """What `listPeers` answers."""

    peer_id: str
    """The session's id: what a message is addressed to."""
    name: str
    """Its comms_name, which several sessions may have."""
    address: ListPeerAddress
    """For clients that look for one."""
    source: Literal["inproc"]
    """That it is a session of this realm."""
    sendable_kinds: list[Literal["peer_message", "peer_request", "peer_response", "input"]]
    """What can be sent to it."""
    capabilities: ListPeerCapabilities
    """Nothing further."""
    reachability: Literal["reachable"]
    """A message is kept until it can be read."""
    last_unreachable_reason: None
    """Always null."""
    meta: PeerMeta
    """What it says of itself."""


class PortableEntry(TypedDict):
    """`entries` of `ExportSessionResult`."""

    seq: int
    """Its first seq."""
    span: int
    """The number of seqs it takes."""
    timestamp_ms: int
    """Its time, in milliseconds of Unix time."""
    body: dict[str, Any]
    """Its content by kind, as stored in the log."""


class ExportSessionResult(TypedDict):
    """What `exportSession` answers."""

    session_id: str
    """The session's id."""
    entries: list[PortableEntry]
    """Its log from there on, oldest first."""
    last_seq: int
    """The last seq of the log."""
    next_after: NotRequired[int]
    """The `after` of the next page; absent on the last."""
    blob_ids: list[str]
    """The blobs named by these entries, to be read one by one."""


class ImportSessionResult(TypedDict):
    """What `importSession` answers."""

    session_id: str
    """The session's id here: its own, or another where its own was taken."""
    last_seq: int
    """The last seq that is there now."""
    complete: bool
    """Whether the import is complete."""


class ImportHistoryResult(TypedDict):
    """What `importHistory` answers."""

    session_id: str
    """The session's id here, the same for every import of the conversation."""
    messages: int
    """The messages of the conversation that are there now."""
    added: int
    """Of them, those that this call added."""
    replaced: int
    """Messages of an earlier import that are different now; the log keeps the earlier ones."""
    compactions: int
    """The compactions that this call added."""
    skipped: NotRequired[str]
    """Why nothing was added, although the conversation has more messages."""


class ExportAgentResult(TypedDict):
    """What `exportAgent` answers."""

    agent: str
    """Its name."""
    entries: list[PortableEntry]
    """Its log from there on, oldest first."""
    last_seq: int
    """The last seq of the log."""
    next_after: NotRequired[int]
    """The `after` of the next page; absent on the last."""


class AskedCallQuestion(TypedDict):
    """`question` of `AskedCall`."""

    server: str
    """The MCP server that asks."""
    message: str
    """The server's text, which is data: rkat does not vouch for it."""
    schema: dict[str, Any]
    """The JSON schema of the answer, an object of plain fields."""


class AskedCall(TypedDict):
    """`calls` of `ListApproval`."""

    id: str
    """The call's id."""
    name: str
    """The tool it calls."""
    args: dict[str, Any]
    """The arguments of the call."""
    why: str
    """Why it needs approval."""
    always: NotRequired[list[str]]
    """The rules that allowing it for the session or the project would add; absent if none is safe."""
    question: NotRequired[AskedCallQuestion]
    """Only for a call that runs: what its MCP server asks the user."""


class ListApproval(TypedDict):
    """What `listApprovals` answers."""

    session_id: str
    """The session's id."""
    session_ref: NotRequired[str]
    """The id with its realm, unique across realms."""
    approval_id: str
    """The id of the approval request."""
    calls: list[AskedCall]
    """The calls that wait."""
    asked_at: str
    """When approval was requested, as ISO 8601."""
    expires_at: str
    """Until when it can be answered; then it counts as denied."""


class AnswerApprovalResult(TypedDict):
    """What `answerApproval` answers."""

    session_id: str
    """The session's id."""
    session_ref: NotRequired[str]
    """The id with its realm, unique across realms."""
    answered: Literal[True]
    """That the answer is stored."""
    waiting_calls: int
    """Calls of the turn that still wait."""


class AddMcpServerResult(TypedDict):
    """What `addMcpServer` answers."""

    session_id: str
    """The session's id."""
    operation: Literal["add", "remove", "reload"]
    """What was asked for."""
    server_name: NotRequired[str]
    """The server; absent for all."""
    status: Literal["staged"]
    """Stored, and holds from the next turn on."""
    persisted: Literal[False]
    """That no file was written."""
    applied_at_turn: int
    """The number of that turn."""


class RewriteCommitSelection(TypedDict):
    """`selection` of `RewriteCommit`."""

    type: Literal["message_range"]
    """How messages are selected; there is one way."""
    start: int
    """The first message to replace, counted from 0 as the history has them."""
    end: int
    """The first message after them to keep."""


class RewriteCommitReason(TypedDict):
    """`reason` of `RewriteCommit`."""

    kind: str
    """The reason, as a short name."""
    note: NotRequired[str]
    """A longer explanation."""


class SystemTime(TypedDict):
    """`committed_at` of `RewriteCommit`."""

    secs_since_epoch: int
    """Whole seconds of Unix time."""
    nanos_since_epoch: int
    """And nanoseconds."""


class RewriteCommit(TypedDict):
    """`commit` of `RewriteResult`."""

    parent_revision: str
    """The revision before."""
    revision: str
    """The revision after."""
    selection: RewriteCommitSelection
    """Which messages were replaced."""
    original_span_digest: str
    """The hash of what was there."""
    replacement_digest: str
    """The hash of what is there now."""
    messages_before: int
    """Messages of the transcript before."""
    messages_after: int
    """Messages of the transcript after."""
    reason: RewriteCommitReason
    """Why it was changed."""
    actor: NotRequired[str]
    """Who did it."""
    committed_at: SystemTime
    """When it was done."""


class RewriteResult(TypedDict):
    """What `rewriteTranscript` answers."""

    session_id: str
    """The session's id."""
    session_ref: NotRequired[str]
    """The id with its realm, unique across realms."""
    parent_revision: str
    """The revision before, to restore it by."""
    revision: str
    """The revision now."""
    message_count: int
    """Messages of the transcript now."""
    commit: RewriteCommit
    """The recorded commit."""


class TranscriptRevision(TypedDict):
    """What `readRevision` answers."""

    session_id: str
    """The session's id."""
    session_ref: NotRequired[str]
    """The id with its realm, unique across realms."""
    message_count: int
    """Messages of the whole transcript."""
    offset: int
    """How many of the oldest were skipped."""
    limit: NotRequired[int]
    """The requested maximum."""
    has_more: bool
    """Whether newer ones follow."""
    messages: list[dict[str, Any]]
    """The messages, oldest first."""
    revision: str
    """The revision that was read."""
    head_revision: str
    """The revision of the transcript as it is now."""


class ContextPart(TypedDict):
    """`parts` of `SessionContext`."""

    kind: str
    """System, summary, work_state (the end of the summary's message), agents_md, pinned, expanded or turn."""
    seqs: list[int]
    """The first and the last seq of its messages."""
    estimated_tokens: int
    """Its estimated tokens."""


SessionContextKindKind: TypeAlias = Literal[
    "system",
    "summary",
    "work_state",
    "agents_md",
    "pinned",
    "expanded",
    "turn",
    "tool_output",
    "evicted",
    "memory",
]


class SessionContextKind(TypedDict):
    """`kinds` of `SessionContext`."""

    kind: SessionContextKindKind
    """What it is; of the turns, tool_output is what tools gave, evicted the lines that stand for what they gave, memory
    what was recalled by them.
    """
    tokens: int
    """Its estimated tokens."""


class SessionContextEvicted(TypedDict):
    """`evicted` of `SessionContext`."""

    outputs: int
    """Tool outputs of which one line is shown each."""
    tokens: int
    """Their estimated tokens in the log."""


class SessionContext(TypedDict):
    """What `readContext` answers."""

    messages: list[dict[str, Any]]
    """The messages that the model sees, in order."""
    estimated_tokens: int
    """Its estimated tokens."""
    sha256: str
    """The hash of it, as recorded with the call when it was made."""
    parts: list[ContextPart]
    """What the context is made of, in the order of the messages."""
    kinds: list[SessionContextKind]
    """What fills it, each kind once; together it is estimated_tokens."""
    evicted: NotRequired[SessionContextEvicted]
    """Tool outputs that the context shows as one line each; recall_output returns them whole; absent without any."""
    forgotten: NotRequired[list[int]]
    """Seqs of messages that were erased since, in whole or in part: the recorded hash is of the original."""
    tools: list[str]
    """The names of the tools its next turn is offered here, as far as servers are connected."""
    tool_tokens: int
    """The estimated tokens of the tools' descriptions in every request."""
    context_window: NotRequired[int]
    """Tokens the model can see at once, when that is known."""
    auto_compact_threshold: NotRequired[int]
    """The size at which the context is compacted, by its threshold or because that is cheaper than continuing; absent
    without session-compaction.
    """
    next_call_cost: NotRequired[float]
    """What the next call pays for this context and the tools, about, in US dollars; absent without a price."""


class ModelCallsCall(TypedDict):
    """`calls` of `ModelCalls`."""

    seq: int
    """Its number in the session's log; readContext shows with at_seq what it was shown."""
    turn: int
    """Its turn, from 1."""
    at: str
    """When it was created, in RFC 3339."""
    model: str
    """The model that was called."""
    tokens: int
    """The estimated tokens of its context; the sum of the parts."""
    tool_tokens: int
    """The estimated tokens of its tools' descriptions; for calls of versions that did not record it, of the session's
    current tools.
    """
    parts: list[SessionContextKind]
    """What filled the context, each kind once."""
    context_window: NotRequired[int]
    """Tokens the model can see at once, when that is known."""
    threshold: NotRequired[int]
    """The size at which the context is compacted; absent without session-compaction."""
    usage: NotRequired[Usage]
    """Its usage, including failed attempts; absent if the provider reports none."""
    cost: NotRequired[Cost]
    """What that cost; absent where no price is known."""


class ModelCallsCompaction(TypedDict):
    """`compactions` of `ModelCalls`."""

    seq: int
    """Its number in the session's log."""
    compaction_id: str
    """Its id."""
    tokens_before: int
    """The estimated tokens of the context."""
    tokens_after: int
    """The estimated tokens after it."""
    trigger: NotRequired[Literal["threshold", "overflow", "manual", "eviction"]]
    """Why it was made, where the server reports it; eviction: only tool output became one line each."""
    undone: bool
    """Whether it was undone since."""


class ModelCalls(TypedDict):
    """What `listModelCalls` answers."""

    calls: list[ModelCallsCall]
    """The calls, oldest first."""
    compactions: list[ModelCallsCompaction]
    """The compactions among these calls, oldest first; each is in one page."""
    next_before_seq: NotRequired[int]
    """before_seq of the page of older calls; absent where there are none."""


class SeqRange(TypedDict):
    """`discarded` of `CompactResultCompaction`."""

    from_seq: int
    """The seq of the first message."""
    to_seq: int
    """The seq of the last message, which is in."""


ReceiptViewItemKind: TypeAlias = Literal[
    "path",
    "identifier",
    "url",
    "number",
    "command",
    "rule",
    "ask",
    "work_state",
]


class ReceiptViewItem(TypedDict):
    """`items` of `ReceiptView`."""

    kind: ReceiptViewItemKind
    """What it is; work_state: a fact about the work, such as a failed command."""
    text: str
    """The specific, word for word."""
    seq: int
    """The message that said it."""
    status: Literal["in_summary", "in_tail", "pinned", "recoverable", "lost"]
    """Where it is now."""


class ReceiptViewInvented(TypedDict):
    """`invented` of `ReceiptView`."""

    kind: str
    """What it is."""
    text: str
    """What was invented."""
    sentence: str
    """The sentence that contains it."""


class ReceiptViewPruned(TypedDict):
    """`pruned` of `ReceiptView`."""

    seq: int
    """The message that holds it."""
    tool_use_id: str
    """The call it answers."""
    tokens: int
    """Its estimated tokens."""


class ReceiptView(TypedDict):
    """`receipt` of `CompactResultCompaction`."""

    total: int
    """Specifics that were removed from the context."""
    in_summary: int
    """Of them, those in the summary."""
    in_tail: int
    """Of them, those in the turns that stayed."""
    pinned: int
    """Of them, those in a pinned message."""
    recoverable: int
    """Of them, those only in the log and memory."""
    lost: int
    """Of them, those that cannot be found any more."""
    found_by_search: int
    """Of the recoverable, those a search of memory found, before it was compacted."""
    items: list[ReceiptViewItem]
    """At most 1,000 of them, what is lost first; the counts are of all."""
    invented: list[ReceiptViewInvented]
    """Content of the summary that is in none of its sources."""
    invented_cut: bool
    """Whether the sentences that hold it were cut from the summary."""
    unverified: NotRequired[list[str]]
    """Sentences of the summary whose claims nothing proved, at most 100; older receipts have none."""
    doubtful: NotRequired[list[str]]
    """Of the unverified, those that a source excludes or whose words no source has; older receipts have none."""
    pruned: list[ReceiptViewPruned]
    """Tool results that stand in the context as a reference only; the log has them whole."""
    verdict: str
    """What it comes to, in a few sentences: what is lost, recoverable and not checked."""


class CompactResultCompactionRule(TypedDict):
    """`rules` of `CompactResultCompaction`."""

    seq: int
    """The entry of the newest message that says it."""
    text: str
    """The rule, word for word."""
    follows: bool
    """Whether it follows the summary: not where the summary has it word for word, nor where there is no room."""


class CompactResultCompactionQuoted(TypedDict):
    """`quoted` of `CompactResultCompaction`."""

    seq: int
    """The message of a tool that says it."""
    text: str
    """The sentence of the summary."""


class WorkState(TypedDict):
    """`work_state` of `CompactResultCompaction`."""

    lines: list[CompactResultCompactionQuoted]
    """The facts that follow the summary, the most relevant first."""
    left_out: int
    """How many more facts did not fit."""


class CompactResultCompactionEvicted(TypedDict):
    """`evicted` of `CompactResultCompaction`."""

    outputs: int
    """Tool outputs that became one line each."""
    superseded: int
    """Of them, those that the same call returned again later."""
    failed: int
    """Of them, those of calls of earlier turns that failed."""
    large: int
    """Of them, those that were old and large."""
    up_to_seq: int
    """The message that holds the last of them; what is up to it is not evicted from again."""


class Judgement(TypedDict):
    """`judged` of `CompactResultCompaction`."""

    supported: int
    """Sentences of the summary that its source says."""
    contradicted: int
    """Sentences whose source says otherwise."""
    unverified: int
    """Sentences that the judge could not decide."""
    usage: Usage
    """The usage of judging; included in the usage of the compaction."""


class CompactResultCompactionNative(TypedDict):
    """`native` of `CompactResultCompaction`."""

    provider: str
    """Whose it is."""
    model: str
    """The model it is for."""
    bytes: int
    """How large it is, as JSON."""
    usage: Usage
    """Its usage; included in the usage of the compaction."""
    refused: bool
    """Whether the provider refused it since, so that the summary is sent."""


class Economy(TypedDict):
    """`economy` of `CompactResultCompaction`."""

    saves: float
    """The expected saving in later calls."""
    costs: float
    """The cost of the summary, and of caching the remaining context again."""
    currency: Literal["USD"]
    """The currency of both."""
    calls: int
    """Model calls that are expected to follow."""
    cache: Literal["warm", "cold"]
    """Whether the provider still had the context in its cache."""


class CompactResultCompactionPrepared(TypedDict):
    """`prepared` of `CompactResultCompaction`."""

    seq: int
    """The entry since which it was ready."""
    at: str
    """When it was made ready, in RFC 3339."""


class CompactResultCompactionCost(TypedDict):
    """`cost` of `CompactResultCompaction`."""

    input_tokens: int
    """Tokens the model would be shown."""
    max_output_tokens: int
    """The longest summary it might write."""


class CompactResultCompaction(TypedDict):
    """`compaction` of `CompactResult`."""

    compaction_id: str
    """Its id."""
    created_at: str
    """When it was created, in RFC 3339."""
    strategy: str
    """How the context was rebuilt: summary, cascade of two, or eviction of tool output alone."""
    trigger: Literal["threshold", "overflow", "manual", "eviction"]
    """threshold: it grew; overflow: it no longer fits the model; manual: it was asked; eviction: before any of these.
    """
    summary_by: Literal["model", "curator", "extractive", "none"]
    """What wrote the summary: a model; extractive: sentences of the conversation; none: only results were pruned."""
    model: str
    """The model that was called."""
    notes: list[str]
    """Anything out of the ordinary: why the summary is extractive, what was kept less of."""
    instructions: NotRequired[str]
    """What the summary must not omit."""
    summary: str
    """The summary of the removed messages."""
    summary_tokens: int
    """The estimated tokens of the summary."""
    messages_before: int
    """Messages of the context before."""
    messages_after: int
    """Messages of the context after."""
    tokens_before: int
    """The estimated tokens of the context."""
    tokens_after: int
    """How large it is after, about; of a preview, with a summary of the usual length."""
    discarded: list[SeqRange]
    """The removed messages."""
    superseded: NotRequired[str]
    """The earlier compaction whose summary this one's replaces."""
    reshape: Literal["as_is", "without_reasoning", "text_only"]
    """How far the kept messages had to be simplified for every provider to accept them."""
    receipt: ReceiptView
    """Where the removed specifics are now."""
    rules: NotRequired[list[CompactResultCompactionRule]]
    """Rules of the user that left the context, oldest first; those that follow stand below the summary."""
    quoted: NotRequired[list[CompactResultCompactionQuoted]]
    """Instructions that the summary took from the output of tools alone, which follow it as quotations; absent without
    any.
    """
    work_state: NotRequired[WorkState]
    """The state of the work, which follows the summary; absent without any."""
    evicted: NotRequired[CompactResultCompactionEvicted]
    """Of an eviction: what it removed, and why."""
    judged: NotRequired[Judgement]
    """What a judge found in the summary; only where one was asked."""
    native: NotRequired[CompactResultCompactionNative]
    """The provider's own compaction, which is kept beside the summary."""
    usage: Usage
    """The usage of the summary."""
    economy: NotRequired[Economy]
    """Whether it pays; absent where no price of the model is known."""
    prepared: NotRequired[CompactResultCompactionPrepared]
    """That its summary was prepared in the background, before it was needed."""
    waited_ms: NotRequired[int]
    """How long the turn waited for the summary; only of sessions whose compactions are prepared."""
    cadence: CompactionCadence
    """When it was, in the session's own boundaries."""
    seq: int
    """Its number in the session's log."""
    kept: list[SeqRange]
    """The messages that stayed as they were."""
    undone: bool
    """Whether it was undone."""
    expanded: list[SeqRange]
    """What was brought back into the context since."""
    cost: NotRequired[CompactResultCompactionCost]
    """Of a preview: the expected usage."""


class CompactResult(TypedDict):
    """What `compactSession` answers."""

    compacted: bool
    """Whether it was compacted."""
    reason: NotRequired[str]
    """Why nothing was compacted."""
    compaction: NotRequired[CompactResultCompaction]
    """The compaction, or its preview."""


class Compaction(TypedDict):
    """What `listCompactions` answers."""

    compaction_id: str
    """Its id."""
    created_at: str
    """When it was created, in RFC 3339."""
    strategy: str
    """How the context was rebuilt: summary, cascade of two, or eviction of tool output alone."""
    trigger: Literal["threshold", "overflow", "manual", "eviction"]
    """threshold: it grew; overflow: it no longer fits the model; manual: it was asked; eviction: before any of these.
    """
    summary_by: Literal["model", "curator", "extractive", "none"]
    """What wrote the summary: a model; extractive: sentences of the conversation; none: only results were pruned."""
    model: str
    """The model that was called."""
    notes: list[str]
    """Anything out of the ordinary: why the summary is extractive, what was kept less of."""
    instructions: NotRequired[str]
    """What the summary must not omit."""
    summary: str
    """The summary of the removed messages."""
    summary_tokens: int
    """The estimated tokens of the summary."""
    messages_before: int
    """Messages of the context before."""
    messages_after: int
    """Messages of the context after."""
    tokens_before: int
    """The estimated tokens of the context."""
    tokens_after: int
    """How large it is after, about; of a preview, with a summary of the usual length."""
    discarded: list[SeqRange]
    """The removed messages."""
    superseded: NotRequired[str]
    """The earlier compaction whose summary this one's replaces."""
    reshape: Literal["as_is", "without_reasoning", "text_only"]
    """How far the kept messages had to be simplified for every provider to accept them."""
    receipt: ReceiptView
    """Where the removed specifics are now."""
    rules: NotRequired[list[CompactResultCompactionRule]]
    """Rules of the user that left the context, oldest first; those that follow stand below the summary."""
    quoted: NotRequired[list[CompactResultCompactionQuoted]]
    """Instructions that the summary took from the output of tools alone, which follow it as quotations; absent without
    any.
    """
    work_state: NotRequired[WorkState]
    """The state of the work, which follows the summary; absent without any."""
    evicted: NotRequired[CompactResultCompactionEvicted]
    """Of an eviction: what it removed, and why."""
    judged: NotRequired[Judgement]
    """What a judge found in the summary; only where one was asked."""
    native: NotRequired[CompactResultCompactionNative]
    """The provider's own compaction, which is kept beside the summary."""
    usage: Usage
    """The usage of the summary."""
    economy: NotRequired[Economy]
    """Whether it pays; absent where no price of the model is known."""
    prepared: NotRequired[CompactResultCompactionPrepared]
    """That its summary was prepared in the background, before it was needed."""
    waited_ms: NotRequired[int]
    """How long the turn waited for the summary; only of sessions whose compactions are prepared."""
    cadence: CompactionCadence
    """When it was, in the session's own boundaries."""
    seq: int
    """Its number in the session's log."""
    kept: list[SeqRange]
    """The messages that stayed as they were."""
    undone: bool
    """Whether it was undone."""
    expanded: list[SeqRange]
    """What was brought back into the context since."""


class ReadSummarySource(TypedDict):
    """What `readSummarySources` answers."""

    text: str
    """The sentence, bullet or row, as it stands in the summary."""
    seqs: list[int]
    """The messages it comes from, by their seqs, the likeliest first; at most 4."""
    origin: NotRequired[Literal["user", "model", "import", "tool"]]
    """The least trusted origin of these messages: user, model, import or tool; absent without messages."""
    doubt: NotRequired[Literal["invented", "doubtful"]]
    """invented: it says what no source says; doubtful: a source excludes it, or none has its words."""


class ExpandResult(TypedDict):
    """What `expandCompaction` answers."""

    expanded: list[SeqRange]
    """The messages that were brought back."""
    left_out: list[SeqRange]
    """Those that were asked for and did not fit max_tokens."""
    messages: int
    """Messages of the context now."""
    estimated_tokens: int
    """Its estimated tokens now."""


class PinResult(TypedDict):
    """What `pinMessage` answers."""

    pinned: bool
    """Whether the message is pinned now."""
    seq: int
    """The message, by its seq."""
    pins: list[int]
    """Every pinned message, by its seq."""


class MemoryHitWhy(TypedDict):
    """`why` of `MemoryHit`."""

    words: float
    """0 to 1: how much of the query its words cover; 1 for the exact passage."""
    meaning: float
    """0 to 1: its similarity in meaning; 0 without vectors."""
    neighbours: float
    """0 to 1: how much better the messages right before or after it answer."""


class MemoryHitAround(TypedDict):
    """`around` of `MemoryHit`."""

    session_id: NotRequired[str]
    """The session it was said in, where that is not the hit's."""
    agent: NotRequired[str]
    """The agent whose memory it is, where that is not the hit's."""
    seq: int
    """Its number in the session's log."""
    role: str
    """The speaker: user, assistant or tool."""
    kind: str
    """What it is, such as text or tool_result."""
    created_at: str
    """Its time, in RFC 3339."""
    content: str
    """What was said, word for word; a quotation as the hit is."""


class MemoryHit(TypedDict):
    """`results` of `MemoryResults`."""

    content: str
    """The message, word for word; of a long one, the part that answers best."""
    score: float
    """0 to 1: how sure it answers; useful ones are above 0.7."""
    session_id: str
    """The session of the message."""
    turn: int
    """The turn of the message, or the number of an agent's memory."""
    seq: int
    """Its number in the session's log."""
    role: str
    """The speaker: user, assistant or tool."""
    kind: str
    """What it is, such as text or tool_result."""
    created_at: str
    """Its time, in RFC 3339."""
    agent: NotRequired[str]
    """The agent whose memory it is."""
    origin: str
    """The speaker, and that it is a quotation: data, not instructions."""
    why: NotRequired[MemoryHitWhy]
    """With explain: what brought it where it stands."""
    around: NotRequired[list[MemoryHitAround]]
    """What was said right before and after it, and what answers next best, in any session, in the order it was said;
    nothing stands twice in an answer.
    """
    mode: NotRequired[Literal["hybrid", "lexical"]]
    """Only where it is lexical: found by words alone."""
    vectors_pending: NotRequired[bool]
    """True while vectors are still being made or the embedder is loading: asked again later, more may be found by
    meaning.
    """
    in_context: NotRequired[bool]
    """With explain: whether its session's context shows it now; false of what an agent remembers."""


class MemoryResults(TypedDict):
    """What `searchMemory` answers."""

    results: list[MemoryHit]
    """What was found, the best first."""
    mode: Literal["hybrid", "lexical"]
    """lexical: by words alone, because there are no vectors yet, no embedder, or none that answered within a second."""
    vectors_pending: NotRequired[bool]
    """True while vectors are still being made or the embedder is loading: asked again later, more may be found by
    meaning.
    """


class MemoryStatusReport(TypedDict):
    """What `readMemoryStatus` answers."""

    entries: int
    """Chunks that can be found."""
    pending: int
    """Chunks that have no vector yet."""
    by_words: NotRequired[int]
    """Chunks that need none: what tools say in names and numbers is found by its words."""
    sessions_behind: int
    """Sessions whose log is not fully indexed."""
    embedder: str
    """The embedder; none without one, loading until it is ready."""
    index: str
    """How vectors are searched."""
    bytes: int
    """The bytes of memory on disk."""
    mode: Literal["hybrid", "lexical"]
    """lexical: by words alone, because there are no vectors yet, no embedder, or none that answered within a second."""
    problem: NotRequired[str]
    """Why the embedder cannot be used, or what last failed."""


class Remembered(TypedDict):
    """What `remember` answers."""

    count: int
    """How many memories the agent has now."""
    compaction_due: bool
    """Whether a compaction became due, which then runs in the background."""


class AgentContextImmediate(TypedDict):
    """`immediate` of `AgentContext`."""

    seq: int
    """Its number; the first is 1."""
    content: str
    """The memory, word for word."""
    created_at: str
    """When it was added, in RFC 3339."""
    metadata: NotRequired[dict[str, Any]]
    """The facts kept with it."""


class AgentContext(TypedDict):
    """What `readAgentContext` answers."""

    longterm_summary: NotRequired[str]
    """The summary of all older memories."""
    recent_summary: NotRequired[str]
    """The summary of the memories before the newest."""
    immediate: list[AgentContextImmediate]
    """The newest memories, oldest first."""
    prompt: str
    """All of it as a text for a model."""


class AgentCompacted(TypedDict):
    """What `compactAgent` answers."""

    compacted: bool
    """Whether it was compacted."""
    reason: NotRequired[str]
    """Why not."""
    longterm_summary: NotRequired[str]
    """The summary of all older memories."""
    recent_summary: NotRequired[str]
    """The summary of the memories before the newest."""


class AgentStatus(TypedDict):
    """What `readAgentStatus` answers."""

    agent: str
    """Its name."""
    count: int
    """The number of memories."""
    notes: int
    """The number of private notes."""
    immediate_window: int
    """The configured number of memories that are shown word for word."""
    recent_window: int
    """The configured number of memories of the short-term summary."""
    immediate_count: int
    """Memories no summary covers: what a context shows word for word."""
    longterm_summary: NotRequired[str]
    """The summary of all older memories."""
    recent_summary: NotRequired[str]
    """The summary of the memories before the newest."""
    recent_range: NotRequired[SeqRange]
    """The memories that the short-term summary covers."""
    longterm_range: NotRequired[SeqRange]
    """The memories that the long-term summary covers."""
    compactions: int
    """How often its memories were compacted."""
    last_compaction_at: NotRequired[str]
    """When that was last, in RFC 3339."""
    next_compaction_at: int
    """The number of memories at which the next compaction is due."""
    compaction_due: bool
    """Whether one is due."""
    compaction_running: bool
    """Whether one is running."""
    last_error: NotRequired[str]
    """Why the last compaction failed; absent when it did not."""


class AgentHistorySummaryReceipt(TypedDict):
    """`receipt` of `AgentHistorySummary`."""

    total: int
    """Specifics of its sources."""
    in_summary: int
    """Of them, those in the summary."""
    in_tail: int
    """Of them, those the other summary or a memory that is still shown says."""
    recoverable: int
    """Of them, those only in the log and memory."""
    lost: int
    """Of them, those that cannot be found any more."""
    invented: int
    """Content that is in none of its sources."""
    unverified: int
    """Sentences of it whose claims nothing proved."""
    verdict: str
    """What it comes to, in a few sentences."""


class LongtermQuality(TypedDict):
    """`quality` of `AgentHistorySummary`."""

    sources: int
    """Specifics of its sources."""
    kept: int
    """Of them, those in the summary."""
    attainable: int
    """Of them, those that sentences of what it was made of say in the same room."""
    invented: int
    """Sentences that say what none of its sources says and were not cut."""
    shrinkage: float
    """Its length divided by that of its sources."""
    quality: float
    """What is kept of what could be, multiplied over all steps since it was last held against the short-term summaries.
    """


class Remaking(TypedDict):
    """`remaking` of `AgentHistorySummary`."""

    outcome: Literal["remade", "not_needed", "not_better", "failed"]
    """remade: it was made anew of them and that one stands; not_needed: it keeps what can be kept of them; not_better:
    made anew it would keep no more; failed: it could not be made anew.
    """
    quality_before: float
    """The quality that had it held against them."""
    summaries: int
    """short-term summaries it was held against."""
    specifics: int
    """Specifics of theirs."""
    kept_before: int
    """Of them, those it said before."""
    kept_remade: NotRequired[int]
    """Of them, those it says when made anew."""
    steps: int
    """Calls of the model that it took."""
    reason: NotRequired[str]
    """Why it failed."""


AgentHistorySummary = TypedDict(
    "AgentHistorySummary",
    {
        # Its number in the agent's log; both summaries of a compaction have the same.
        "seq": int,
        # When it was created, in RFC 3339.
        "created_at": str,
        # recent: the short-term summary; longterm: the long-term one.
        "tier": Literal["recent", "longterm"],
        # The number of the first memory that it covers.
        "from": int,
        # The number of the last, which is in.
        "to": int,
        # The summary itself.
        "summary": str,
        # What wrote it: a model; extractive: sentences of its sources.
        "by": Literal["model", "extractive"],
        # Its receipt in numbers; absent for summaries of versions without receipts.
        "receipt": NotRequired[AgentHistorySummaryReceipt],
        # Of a long-term summary: its quality, compared with its sources.
        "quality": NotRequired[LongtermQuality],
        # Of a long-term summary, the attempt to make it anew; absent without one.
        "remaking": NotRequired[Remaking],
    },
)
"""`summaries` of `AgentHistory`."""


class AgentHistory(TypedDict):
    """What `readAgentHistory` answers."""

    summaries: list[AgentHistorySummary]
    """The summaries, newest first."""
    next_before_seq: NotRequired[int]
    """before_seq of the page of older ones; absent where there are none."""


AgentReceiptRecent = TypedDict(
    "AgentReceiptRecent",
    {
        # The number of the first memory that it covers.
        "from": int,
        # The number of the last, which is in.
        "to": int,
        # The summary itself.
        "summary": str,
        # What wrote it: a model; extractive: sentences of its sources.
        "by": Literal["model", "extractive"],
        # What became of the specifics of what it sums up, each with the number of the memory that said it; in_tail: said by the other summary or by a memory that is still shown; absent of compactions of before there were receipts.
        "receipt": NotRequired[ReceiptView],
    },
)
"""`recent` of `AgentReceipt`."""


class AgentReceipt(TypedDict):
    """What `readAgentReceipt` answers."""

    seq: int
    """The compaction's number in the agent's log."""
    created_at: str
    """When it was created, in RFC 3339."""
    at_count: int
    """How many memories there were when it became due."""
    forced: bool
    """Whether it was requested."""
    model: NotRequired[str]
    """The model that was called; absent without one."""
    usage: Usage
    """Its usage."""
    notes: list[str]
    """Anything out of the ordinary: what was refused, why a summary is extractive."""
    recent: AgentReceiptRecent
    """The short-term summary, of memories."""
    longterm: NotRequired[AgentReceiptRecent]
    """The long-term summary, of both summaries before; absent the first time."""
    quality: NotRequired[LongtermQuality]
    """The quality of the long-term summary, compared with its sources."""
    remaking: NotRequired[Remaking]
    """The attempt to make the long-term summary anew; absent without one."""


class AgentSummary(TypedDict):
    """What `listAgents` answers."""

    agent: str
    """Its name."""
    count: int
    """How many memories it has."""
    created_at: str
    """When it first remembered something, in RFC 3339."""
    updated_at: str
    """When it last remembered something, in RFC 3339."""


class ForgetResultLog(TypedDict):
    """`logs` of `ForgetResult`."""

    session_id: NotRequired[str]
    """The session."""
    agent: NotRequired[str]
    """Or the agent."""
    schedule_id: NotRequired[str]
    """Or the schedule; it is deleted, unless only an earlier definition of it is erased."""
    all: bool
    """Whether all of it is erased."""
    messages: int
    """Erased messages, memories, notes and definitions of schedules."""
    cut: int
    """Summaries that lost sentences."""
    holes: list[SeqRange]
    """The shortened entries."""


class ForgetResultGoing(TypedDict):
    """`going` of `ForgetResult`."""

    session_id: NotRequired[str]
    """The session it is of."""
    agent: NotRequired[str]
    """The agent whose memory or note it is."""
    schedule_id: NotRequired[str]
    """The schedule whose definition it is."""
    seq: int
    """Its number in the log."""
    kind: str
    """What it is."""
    at: str
    """Its time, in RFC 3339."""
    excerpt: NotRequired[str]
    """Its beginning; only in a dry run."""


ForgetReceiptTarget: TypeAlias = Literal[
    "session",
    "sessions",
    "message",
    "messages",
    "agent",
    "memory",
    "text",
]


class ForgetReceiptScanElsewhere(TypedDict):
    """`elsewhere` of `ForgetReceiptScan`."""

    place: str
    """The file or table."""
    form: str
    """How it is written there."""


class ForgetReceiptScan(TypedDict):
    """`scan` of `ForgetReceipt`."""

    texts: int
    """Texts that were searched for."""
    places: int
    """Files and tables that were scanned."""
    bytes: int
    """Bytes that were scanned."""
    matches: int
    """Places that still contain one of them."""
    elsewhere: list[ForgetReceiptScanElsewhere]
    """Those places, at most 100."""


class ForgetReceiptQuotedIn(TypedDict):
    """`quoted_in` of `ForgetReceipt`."""

    session_id: NotRequired[str]
    """The session it is of."""
    agent: NotRequired[str]
    """Or the agent."""
    schedule_id: NotRequired[str]
    """Or the schedule."""
    seq: int
    """Its number in the log."""


class ForgetReceiptBackup(TypedDict):
    """`backups` of `ForgetReceipt`."""

    place: str
    """Where it is."""
    at: str
    """When it was made."""


class ForgetReceipt(TypedDict):
    """`receipt` of `ForgetResult`."""

    version: Literal[1]
    """Of this shape."""
    forgetting_id: str
    """Its id."""
    at: str
    """When it was done, in RFC 3339."""
    target: ForgetReceiptTarget
    """What was to be erased."""
    by: NotRequired[str]
    """The name of the caller."""
    logs: list[ForgetResultLog]
    """The sessions, agents and schedules with erased content."""
    blobs: int
    """Files kept beside the logs that were removed."""
    settings: NotRequired[int]
    """Settings of the realm's own configuration that contain the text and are removed."""
    scan: ForgetReceiptScan
    """The result of a scan of all stored bytes."""
    quoted_in: list[ForgetReceiptQuotedIn]
    """Other messages that contain the same text and were not to be erased, at most 100."""
    backups: list[ForgetReceiptBackup]
    """Known back-ups of before, which still hold it until they are brought up to date or deleted."""


class Signed(TypedDict):
    """`signed` of `ForgetResult`."""

    receipt: str
    """The receipt as it was signed, as JSON."""
    signature: str
    """Of those bytes, by Ed25519, in Base64."""
    public_key: str
    """The key it is checked with."""


class ForgetResult(TypedDict):
    """What `forget` answers."""

    dry_run: bool
    """Whether nothing was changed."""
    logs: list[ForgetResultLog]
    """The sessions, agents and schedules with erased content, or that would have it."""
    going: list[ForgetResultGoing]
    """The messages, memories, notes and definitions of schedules to erase, at most 1,000."""
    more: int
    """Of them, those that are not listed."""
    settings: NotRequired[int]
    """Settings of the realm's own configuration that contain the text and are removed."""
    receipt: NotRequired[ForgetReceipt]
    """Of an erasure: what was done and what was found afterwards."""
    signed: NotRequired[Signed]
    """The same with its signature."""


class ListForgettingsResultForgetting(TypedDict):
    """`forgettings` of `ListForgettingsResult`."""

    receipt: str
    """The receipt as it was signed, as JSON."""
    signature: str
    """Of those bytes, by Ed25519, in Base64."""
    public_key: str
    """The key it is checked with."""
    valid: bool
    """Whether the signature is valid."""


class ListForgettingsResult(TypedDict):
    """What `listForgettings` answers."""

    forgettings: list[ListForgettingsResultForgetting]
    """Oldest first."""
    unfinished: int
    """Erasures in progress."""


class PruneResultSession(TypedDict):
    """`sessions` of `PruneResult`."""

    session_id: str
    """The session."""
    title: NotRequired[str]
    """Its beginning; only in a dry run."""
    updated_at: str
    """When it last changed, in RFC 3339."""
    rule: str
    """The rule: `sessions`, or its label."""
    kept_for: str
    """How long the rule keeps, such as 90d."""


class PruneResult(TypedDict):
    """What `prune` answers."""

    dry_run: bool
    """Whether nothing was changed."""
    sessions: list[PruneResultSession]
    """The sessions that were erased, or would be, oldest first."""
    more: int
    """Further sessions that are due; they are erased the next time."""
    busy: int
    """Sessions that are due, but run a turn or are locked; they are erased later."""
    receipt: NotRequired[ForgetReceipt]
    """What was done and found afterwards; absent if nothing was erased."""
    signed: NotRequired[Signed]
    """The same with its signature."""


class ContractVersion(TypedDict):
    """The version of the wire contract."""

    major: float
    """Changes when clients would break."""
    minor: float
    """Must be the client's, too."""
    patch: float
    """Changes without consequence."""


class EventCursorScope(TypedDict):
    """`scope` of `EventCursor`."""

    type: Literal["session"]
    """Of one session; there is nothing else."""
    session_id: str
    """The session, by its id."""


class EventCursor(TypedDict):
    """`cursor` of `ReadEventCursorResult`."""

    scope: EventCursorScope
    """Whose events are meant."""
    sequence: int
    """The number of the last event that was seen."""


class ReadEventCursorResult(TypedDict):
    """What `readEventCursor` answers."""

    contract_version: ContractVersion
    """The version of the wire contract."""
    cursor: EventCursor
    """The place of the newest event."""


class EventPageEvent(TypedDict):
    """`events` of `EventPage`."""

    event_id: str
    """The event's own id."""
    cursor: EventCursor
    """The place of the event."""
    timestamp_ms: int
    """When it happened, in milliseconds of Unix time."""
    source: EventCursorScope
    """What the event comes from."""
    session_id: str
    """The session's id."""
    payload: dict[str, Any]
    """The event itself."""


class EventPage(TypedDict):
    """What `listEvents` answers."""

    contract_version: ContractVersion
    """The version of the wire contract."""
    scope: EventCursorScope
    """Whose events are meant."""
    from_cursor: EventCursor
    """The place after which the page begins."""
    latest_cursor: EventCursor
    """The place of the newest event there is."""
    events: list[EventPageEvent]
    """The events, oldest first."""
    has_more: bool
    """Whether newer ones follow."""


class PortableBlob(TypedDict):
    """What `readBlob` answers."""

    blob_id: str
    """The blob's id."""
    media_type: str
    """What it holds, such as text/plain."""
    data: str
    """The bytes in Base64."""


class ScheduleTrigger(TypedDict):
    """`trigger` of `Schedule`."""

    type: str
    """Its kind."""


class Schedule(TypedDict):
    """What `createSchedule` answers."""

    name: NotRequired[str]
    """What people call it."""
    description: NotRequired[str]
    """What it is for."""
    trigger: ScheduleTrigger
    """When it is due, as it was given."""
    target: ScheduleTrigger
    """What it does, as it was given."""
    misfire_policy: dict[str, Any]
    """Of times that passed while no server ran: run_once, the default, runs the last; skip runs none that is 30 s late;
    catch_up_within runs each of the last window_seconds.
    """
    overlap_policy: Literal["skip_if_running", "allow_concurrent", "queue", "interrupt"]
    """When it is due while it runs or its session is busy: skip_if_running, the default; queue runs once afterwards;
    interrupt ends what runs; allow_concurrent starts another.
    """
    missing_target_policy: Literal["mark_misfired", "skip"]
    """How an occurrence ends whose session is gone; mark_misfired by default."""
    max_cost_per_day: NotRequired[float]
    """What its turns may cost a day, in US dollars."""
    labels: dict[str, str]
    """Labels to find it by, and of the sessions it makes."""
    schedule_id: str
    """The schedule's id."""
    phase: Literal["active", "paused", "deleted"]
    """active: it runs; paused: it does not until it is resumed; deleted: never again."""
    phase_reason: NotRequired[str]
    """Why it was paused, if not by request."""
    revision: int
    """Grows with every change of what it is."""
    next_due_at_utc: NotRequired[str]
    """When it is due next; absent if never again."""
    next_occurrence_ordinal: int
    """The number of the next occurrence."""
    running: int
    """Occurrences that have not ended."""
    caller: NotRequired[str]
    """The name of the token with whose rights it acts."""
    cost_today: NotRequired[float]
    """What its turns have cost since midnight, UTC, in US dollars."""
    created_at_utc: str
    """When it was made."""
    updated_at_utc: str
    """When it last changed, or was due."""


OccurrencePhase: TypeAlias = Literal[
    "pending",
    "awaiting_completion",
    "completed",
    "skipped",
    "misfired",
    "delivery_failed",
]


class Occurrence(TypedDict):
    """What `listOccurrences` answers."""

    occurrence_id: str
    """The occurrence's id: of a schedule and a time, always the same."""
    schedule_id: str
    """The schedule's id."""
    schedule_revision: int
    """The revision of the schedule."""
    occurrence_ordinal: int
    """Its number."""
    phase: OccurrencePhase
    """pending: it is due next; awaiting_completion: it runs; any other: it has ended."""
    due_at_utc: str
    """When it is, or was, due."""
    missed_since_utc: NotRequired[str]
    """The first of the times before it that passed without a run."""
    claimed_at_utc: NotRequired[str]
    """When a server took it."""
    completed_at_utc: NotRequired[str]
    """When it ended."""
    failure_class: NotRequired[Literal["target_missing", "target_busy", "runtime_rejected", "internal_error"]]
    """Why it did not complete."""
    failure_detail: NotRequired[str]
    """The same in a sentence."""
    session_id: NotRequired[str]
    """The session it ran in."""
    cost: NotRequired[float]
    """What its turn cost, in US dollars."""


class ConfigEnvelope(TypedDict):
    """What `readConfig` answers."""

    realm_id: NotRequired[str]
    """The realm's id."""
    instance_id: NotRequired[str]
    """The process's own id."""
    backend: NotRequired[str]
    """What the realm is kept in."""
    resolved_paths: NotRequired[dict[str, str]]
    """Where the realm's files are."""
    config: dict[str, Any]
    """What holds, by the keys of the file, defaults filled in; it can be written back."""
    generation: int
    """How often the realm's own layer has changed."""
    restart_required: NotRequired[list[str]]
    """Keys that have changed and wait for the next start of this process."""


class SkillRowKey(TypedDict):
    """`key` of `SkillRow`."""

    source_uuid: str
    """The source it comes from."""
    skill_name: str
    """Its name there."""


class SkillRowSource(TypedDict):
    """`source` of `SkillRow`."""

    source_uuid: str
    """The source it comes from."""
    display_name: str
    """Its name for people."""
    transport_kind: Literal["embedded", "filesystem", "git", "http", "stdio"]
    """How it is reached."""
    fingerprint: str
    """Changes when the skill does."""
    status: Literal["active", "disabled", "retired"]
    """Whether it is used."""


class SkillRow(TypedDict):
    """What `listSkills` answers."""

    key: SkillRowKey
    """Its key across sources."""
    name: str
    """Its name."""
    description: str
    """Its description."""
    scope: str
    """Where it holds: builtin, user, project, or code that composed the runtime."""
    source: SkillRowSource
    """Where it comes from."""
    is_active: bool
    """Whether sessions have it."""
    shadowed_by: NotRequired[SkillRowKey]
    """The nearer skill of the same name, which sessions have in its place."""


class SkillText(TypedDict):
    """What `readSkill` answers."""

    key: SkillRowKey
    """Its key across sources."""
    name: str
    """Its name."""
    description: str
    """Its description."""
    scope: str
    """Where it holds: builtin, user, project, or code that composed the runtime."""
    source: SkillRowSource
    """Where it comes from."""
    is_active: bool
    """Whether sessions have it."""
    shadowed_by: NotRequired[SkillRowKey]
    """The nearer skill of the same name, which sessions have in its place."""
    body: str
    """The skill itself as a text, or the file that was asked for."""
    files: NotRequired[list[str]]
    """The files beside it, by their names, where there are any."""
    allowed_tools: NotRequired[list[str]]
    """Calls that need no approval while it is loaded, as patterns of rules."""


class UsageReportGroup(TypedDict):
    """`groups` of `UsageReport`."""

    key: str
    """The model, the label as key=value, the day, or the token; empty for none."""
    calls: int
    """Model calls; a compaction counts as one, whatever it took."""
    usage: Usage
    """The tokens of those calls, and what they cost."""


class UsageReportTotal(TypedDict):
    """`total` of `UsageReport`."""

    calls: int
    """Model calls; a compaction counts as one, whatever it took."""
    usage: Usage
    """The tokens of those calls, and what they cost."""


class UsageReport(TypedDict):
    """What `readUsage` answers."""

    by: Literal["model", "label", "day", "token"]
    """What usage is grouped by."""
    since: NotRequired[str]
    """The first day that is counted; absent for all days."""
    groups: list[UsageReportGroup]
    """The most expensive first, days in order; a session with two labels is counted under both."""
    total: UsageReportTotal
    """All of it, each call once."""


Scope: TypeAlias = Literal[
    "read",
    "run",
    "tools",
    "approve",
    "config",
    "admin",
]


class ReadAccessResult(TypedDict):
    """What `readAccess` answers."""

    name: NotRequired[str]
    """The name of the token; absent for the user of the process."""
    scopes: list[Scope]
    """What the caller may do."""
    labels: dict[str, str]
    """It sees only sessions with these labels."""


class CapabilityRow(TypedDict):
    """`capabilities` of `Capabilities`."""

    id: str
    """Its name."""
    description: str
    """What it is."""
    status: Literal["Available"] | dict[str, Any]
    """Whether it is there, and if not, why."""


class Capabilities(TypedDict):
    """What `readCapabilities` answers."""

    contract_version: ContractVersion
    """The version of the wire contract."""
    capabilities: list[CapabilityRow]
    """Everything the wire contract knows of."""


class ModelPricesAbove(TypedDict):
    """`above` of `ModelPrices`."""

    input: float
    """A million tokens of input."""
    cached_input: NotRequired[float]
    """Of those, tokens that were read from the cache; without it, as input."""
    cache_write: NotRequired[float]
    """Of those, tokens that were put into the cache; without it, as input."""
    output: float
    """A million tokens of output."""
    input_tokens: int
    """The input tokens above which they apply."""


class ModelPrices(TypedDict):
    """`prices` of `CatalogModel`."""

    input: float
    """A million tokens of input."""
    cached_input: NotRequired[float]
    """Of those, tokens that were read from the cache; without it, as input."""
    cache_write: NotRequired[float]
    """Of those, tokens that were put into the cache; without it, as input."""
    output: float
    """A million tokens of output."""
    currency: Literal["USD"]
    """The currency."""
    above: NotRequired[ModelPricesAbove]
    """The prices of a call with a longer input."""
    as_of: NotRequired[str]
    """The day they were read, as 2026-11-16."""
    cache_minutes: NotRequired[float]
    """How long the provider keeps what it has cached; without it, 5."""
    source: NotRequired[str]
    """Their source."""


class CatalogModelProfile(TypedDict):
    """`profile` of `CatalogModel`."""

    model_family: str
    """The family it belongs to, such as claude or gpt-5."""
    supports_temperature: bool
    """Whether it accepts a temperature."""
    supports_thinking: bool
    """Whether it supports thinking."""
    supports_reasoning: bool
    """Whether it accepts a reasoning effort."""
    vision: bool
    """Whether it accepts images in a prompt."""
    image_tool_results: bool
    """Whether it accepts images in tool results."""
    inline_video: bool
    """Whether it accepts videos in a prompt."""
    params_schema: dict[str, Any]
    """A JSON schema of the provider's own parameters."""


class CatalogModel(TypedDict):
    """`models` of `ModelsCatalogProvider`."""

    id: str
    """Its id."""
    display_name: str
    """Its name for people."""
    tier: Literal["recommended", "supported"]
    """recommended: used when only its provider is named."""
    context_window: NotRequired[int]
    """The context window in tokens; absent if unknown."""
    max_output_tokens: NotRequired[int]
    """The maximum output tokens; absent if unknown."""
    prices: NotRequired[ModelPrices]
    """Its prices in US dollars; absent if unknown."""
    server_id: NotRequired[str]
    """The server under [self_hosted.servers] that serves it."""
    profile: NotRequired[CatalogModelProfile]
    """Its profile; absent for your own models."""


class ModelsCatalogProvider(TypedDict):
    """`providers` of `ModelsCatalog`."""

    provider: str
    """Its name."""
    default_model_id: str
    """The model that is used when only the provider is named."""
    models: list[CatalogModel]
    """Its models."""


class ModelsCatalog(TypedDict):
    """What `readModels` answers."""

    contract_version: ContractVersion
    """The version of the wire contract."""
    providers: list[ModelsCatalogProvider]
    """The providers with their models."""
