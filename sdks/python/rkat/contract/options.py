# Generated from packages/core/src/contract/ by `npm run docs`: change the contract, not this file.
"""Options of calls, under the names of the wire."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if sys.version_info >= (3, 11):
    from typing import NotRequired
elif TYPE_CHECKING:
    from typing_extensions import NotRequired


Content: TypeAlias = str | Sequence[Mapping[str, Any]]
"""A text, or a list of content blocks such as `{"type": "text", "text": …}`."""


class TextBlock(TypedDict):
    """`blocks` of `sendExternalEvent`."""

    type: Literal["text"]
    """A text."""
    text: str
    """The text itself."""


class PortableEntry(TypedDict):
    """`entries` of `importSession`."""

    seq: int
    """Its first seq."""
    span: int
    """The number of seqs it takes."""
    timestamp_ms: int
    """Its time, in milliseconds of Unix time."""
    body: Mapping[str, Any]
    """Its content by kind, as stored in the log."""


class PortableBlob(TypedDict):
    """`blobs` of `importSession`."""

    blob_id: str
    """The blob's id, which is the hash of its bytes."""
    media_type: str
    """What it holds, such as text/plain."""
    data: str
    """The bytes in Base64."""


class ImportHistoryCompaction(TypedDict):
    """`compactions` of `importHistory`."""

    at: int
    """How many messages of the conversation came before it."""
    summary: str
    """The summary that the other program continued with."""
    keeps: NotRequired[int]
    """How many of the last messages before it stayed in its context."""
    created_at: NotRequired[str]
    """When it was made; without it, the time of the message before it."""
    model: NotRequired[str]
    """The model that wrote the summary."""
    trigger: NotRequired[Literal["threshold", "manual"]]
    """threshold: the context was full; manual: it was asked for."""


class CheckedServer(TypedDict):
    """The server: a command to start, or a url."""

    name: str
    """The prefix of its tools: mcp__NAME__TOOL."""
    command: NotRequired[str]
    """The program to start."""
    args: NotRequired[Sequence[str]]
    """The program's arguments."""
    env: NotRequired[Mapping[str, str]]
    """The program's variables; ${NAME} in a value is a variable of the runtime."""
    url: NotRequired[str]
    """The address of a server that is no program."""
    headers: NotRequired[Mapping[str, str]]
    """Sent with each request; ${NAME} in a value is a variable of the runtime."""
    transport: NotRequired[Literal["stdio", "streamable-http", "sse"]]
    """Stdio for a command; streamable-http, the default, or sse for a url."""
    connect_timeout_secs: NotRequired[float]
    """Seconds to connect in; 10 by default."""


class ForgetMessage(TypedDict):
    """`messages` of `forget`."""

    session_id: str
    """The session, by its id."""
    seq: int
    """The message, by its seq."""


class CreateScheduleEvery(TypedDict):
    """`every` of `createSchedule`."""

    secs: int
    """Whole seconds."""
    nanos: NotRequired[int]
    """And nanoseconds."""


class BudgetLimits(TypedDict, total=False):
    """Limits of the sessions it makes, so of one run in a session of its own."""

    max_tokens: int
    """Tokens of the whole session, input and output."""
    max_duration: str | CreateScheduleEvery
    """Time for the turn, such as 30s, 5m, 1h30m."""
    max_tool_calls: int
    """Tool calls of the session."""
    max_duration_secs: float
    """The same in seconds."""
    max_duration_ms: int
    """The same in milliseconds."""
    max_cost: float
    """What the session may cost, in US dollars, such as 0.5."""


class SkillRef(TypedDict):
    """`skill_refs` of `SessionOptions`."""

    kind: NotRequired[Literal["structured"]]
    """The form of the reference; there is one."""
    source_uuid: NotRequired[str]
    """The source of the skill, as skills/list names it; without it, the one that sessions have."""
    skill_name: str
    """The name of the skill there."""


HookPoint: TypeAlias = Literal[
    "run_started",
    "run_completed",
    "run_failed",
    "pre_llm_request",
    "post_llm_response",
    "pre_tool_execution",
    "post_tool_execution",
    "turn_boundary",
    "session_created",
    "session_archived",
    "pre_compaction",
    "post_compaction",
]


class HookEntryRuntime(TypedDict):
    """`runtime` of `HookEntry`."""

    type: Literal["command"]
    """The kind of hook; a configuration has only commands."""
    command: str
    """The program, by its name or its path from the project's folder."""
    args: NotRequired[Sequence[str]]
    """Its arguments; no shell interprets them."""
    env: NotRequired[Mapping[str, str]]
    """Further variables; it also gets those of the process, without its secrets."""


class HookEntry(TypedDict):
    """`entries` of `HooksOverride`."""

    id: str
    """Its name in events."""
    enabled: NotRequired[bool]
    """Whether it is called."""
    point: HookPoint
    """Where it is called."""
    mode: NotRequired[Literal["foreground", "background"]]
    """Whether the turn waits for it."""
    capability: NotRequired[Literal["observe", "guardrail", "rewrite"]]
    """What its answer can do: nothing, refuse, or refuse and rewrite."""
    priority: NotRequired[int]
    """Lower runs first; equal priorities run in their order."""
    failure_policy: NotRequired[Literal["fail_open", "fail_closed"]]
    """Whether its failure refuses the step; by default yes, except for an observer."""
    timeout_ms: NotRequired[int]
    """Its timeout; without it, hooks.default_timeout_ms."""
    tools: NotRequired[Sequence[str]]
    """Of a point about tools: only for tools of these names, in which * stands for any signs."""
    runtime: HookEntryRuntime
    """The command."""


class HooksOverride(TypedDict, total=False):
    """`hooks_override` of `SessionOptions`."""

    entries: Sequence[HookEntry]
    """Hooks for this turn alone."""
    disable: Sequence[str]
    """Ids of hooks that are not called in this turn."""


class ClientTool(TypedDict):
    """`client_tools` of `SessionOptions`."""

    name: str
    """The tool's name."""
    description: NotRequired[str]
    """Its description for the model."""
    input_schema: NotRequired[Mapping[str, Any]]
    """A JSON schema of its arguments."""


class PermissionRules(TypedDict, total=False):
    """`permissions` of `SessionOptions`."""

    allow: Sequence[str]
    """Calls that run without approval."""
    ask: Sequence[str]
    """Calls that need approval."""
    deny: Sequence[str]
    """Calls that are refused; these rules win over the others."""
    otherwise: Literal["allow", "ask"]
    """What happens to shell and patch calls without a matching rule; by default, allow."""


class Goal(TypedDict):
    """`goal` of `SessionOptions`."""

    until: Mapping[str, Any]
    """The condition: {command} or {sentence}."""
    max_turns: NotRequired[int]
    """Turns, the first one included."""
    max_cost: NotRequired[float]
    """US dollars for its turns and judgements, such as 0.5."""
    max_duration: NotRequired[str | CreateScheduleEvery]
    """Time from its beginning on, such as 30m, 2h."""


class PeerMeta(TypedDict, total=False):
    """`peer_meta` of `SessionOptions`."""

    description: str
    """What it does."""
    labels: Mapping[str, str]
    """Labels they see."""


class CompactionSettings(TypedDict, total=False):
    """`compaction` of `SessionOptions`."""

    auto_compact_threshold: int
    """Compact a new session's context when it grows to this; without it, when that is cheaper than continuing, and at
    80 % of the window (without a price at most 100,000 tokens).
    """
    recent_turn_budget: int
    """Turns that stay word for word; without it, 4."""
    max_summary_tokens: int
    """The longest summary, in tokens; without it, 4096, or a quarter of the threshold of a small model."""
    work_state_tokens: int
    """The largest work state behind a summary, in tokens; 0 for none; without it, 600, or a tenth of a small threshold.
    """
    min_turns_between_compactions: int
    """Model calls between two compactions; without it, 3."""
    evict: bool
    """Whether a new session's tool output leaves the context before anything is summarised; it does unless false."""
    evict_at: float
    """Evict from this share of the threshold on; without it, 0.6."""
    policy: Literal["threshold", "economy"]
    """Retired; threshold: a new session's context is compacted at its threshold alone; economy: with a threshold, when
    that pays.
    """
    prepare: bool
    """Prepare summaries of a new session in the background, before they are needed; the policy economy does unless
    false.
    """
    prepare_at: float
    """The share of the threshold at which a summary is prepared; without it, 0.8."""


class SessionOptions(TypedDict, total=False):
    """Options of a new session."""

    keep_alive: bool
    """Of a new session: respond at once and run its first turn in the background; any session takes further turns."""
    skill_refs: Sequence[SkillRef]
    """A skill to load before the prompt, by its name or source_uuid:name."""
    preload_skills: Sequence[SkillRef]
    """Skills to load before the first prompt, of those skills/list names."""
    enable_schedule: bool
    """Leave it out, or let it ask for nothing: there are no tools for schedules; schedule/create makes one."""
    enable_workgraph: bool
    """Leave it out, or let it ask for nothing: there are no work graphs."""
    enable_mob: bool
    """Leave it out, or let it ask for nothing: there are no mobs."""
    enable_web_search: bool
    """Leave it out, or let it ask for nothing: there is no web search of the provider's; an MCP server may bring one.
    """
    auth_binding: Mapping[str, Any]
    """Leave it out, or let it ask for nothing: keys come from the environment of the runtime alone."""
    hooks_override: HooksOverride
    """Hooks for this turn alone, {entries, disable}, besides and instead of those configured; see docs/hooks.md."""
    idempotency_key: str
    """Identifies the request: the same one again, at any server of the realm, gets the end of the same turn."""
    model: str
    """The model, such as claude-sonnet-5-5, ollama/llama3.2, offline; see rkat models."""
    provider: str
    """The provider: anthropic, openai, gemini, self_hosted, offline."""
    system_prompt: str
    """The system prompt."""
    additional_instructions: Sequence[str]
    """Further instructions, below the system prompt."""
    provider_params: Mapping[str, Any]
    """Parameters for the provider, such as its temperature, as it names them."""
    max_tokens: int
    """Output tokens of one model call."""
    output_schema: Mapping[str, Any]
    """A JSON schema the result must match; the result is JSON then."""
    client_tools: Sequence[ClientTool]
    """Tools that the client runs: a turn that calls one ends with pending_calls, and a turn with tool_results continues
    it; those of a turn replace earlier ones.
    """
    permissions: PermissionRules
    """Rules of the session on its tools' calls, besides those of the configuration; see docs/permissions.md."""
    structured_output_retries: int
    """How often an answer that does not match output_schema is requested again, 0 to 10; 2 by default."""
    goal: Goal
    """Further turns after this one until a condition holds or a limit is met: {until, max_turns, max_cost,
    max_duration}.
    """
    comms_name: str
    """Its name for messages of other sessions; see docs/inbox.md."""
    peer_meta: PeerMeta
    """What they are told."""
    max_turns: int
    """Model calls in the turn."""
    budget_limits: BudgetLimits
    """Limits of the session; the turn that reaches one ends gracefully and its text is kept."""
    history: Sequence[Mapping[str, Any]]
    """Earlier messages that the session begins with; they may end with calls that wait for tool_results."""
    tool_preset: Literal["none", "safe", "workspace", "full"]
    """None · safe, the default of rkat run: time, tasks, memory · workspace: and files, shell · full: all there are."""
    enable_builtins: bool
    """The built-in tools, whatever the preset says: time, tasks, patches."""
    enable_shell: bool
    """The shell, whatever the preset says."""
    enable_files: bool
    """read_file, search_files and edit_file, in a session that has file tools; rkat run and chat set it."""
    enable_memory: bool
    """Search of earlier messages, also with the preset none or with [tools] memory = false."""
    enable_agents: bool
    """The tool agent, which delegates a task to a sub-agent in its own session; see docs/sub-agents.md."""
    memory_scope: Literal["project", "session"]
    """What its agent can recall: messages of the project, or of this session only; without it, as configured."""
    tool_filter: Literal["All"] | Mapping[str, Any]
    """Which of the tools are offered: "All", or those of a list, or all others."""
    labels: Mapping[str, str]
    """Labels of the session, to find it by."""
    app_context: Any
    """Data stored with the session."""
    shell_env: Mapping[str, str]
    """Environment variables for commands of the shell tool."""
    compaction: CompactionSettings
    """Compaction settings of this session that differ from the configuration."""


class TurnOptionsToolResult(TypedDict):
    """`tool_results` of `TurnOptions`."""

    tool_use_id: str
    """The call it answers, as the pending calls name it."""
    content: str | Sequence[Mapping[str, Any]]
    """The result."""
    is_error: NotRequired[bool]
    """Whether it failed."""


class TurnOptionsChangeSettings(TypedDict, total=False):
    """`change_settings` of `TurnOptions`."""

    system_prompt: str | None
    max_tokens: int | None
    output_schema: Mapping[str, Any] | None
    structured_output_retries: int | None
    tool_preset: Literal["none", "safe", "workspace", "full"]
    """None · safe, the default of rkat run: time, tasks, memory · workspace: and files, shell · full: all there are."""
    enable_memory: bool
    """Search of earlier messages, also with the preset none or with [tools] memory = false."""
    enable_agents: bool
    """The tool agent, which delegates a task to a sub-agent in its own session; see docs/sub-agents.md."""
    tool_filter: Literal["All"] | Mapping[str, Any]
    """Which of the tools are offered: "All", or those of a list, or all others."""


class ToolOverlay(TypedDict, total=False):
    """`tool_overlay` of `TurnOptions`."""

    allowed_tools: Sequence[str]
    """Offer only the tools named so."""
    blocked_tools: Sequence[str]
    """Do not offer the tools named so."""


class TurnOptions(TypedDict, total=False):
    """Options of one further turn."""

    keep_alive: bool
    """Of a new session: respond at once and run its first turn in the background; any session takes further turns."""
    skill_refs: Sequence[SkillRef]
    """A skill to load before the prompt, by its name or source_uuid:name."""
    preload_skills: Sequence[SkillRef]
    """Skills to load before the first prompt, of those skills/list names."""
    enable_schedule: bool
    """Leave it out, or let it ask for nothing: there are no tools for schedules; schedule/create makes one."""
    enable_workgraph: bool
    """Leave it out, or let it ask for nothing: there are no work graphs."""
    enable_mob: bool
    """Leave it out, or let it ask for nothing: there are no mobs."""
    enable_web_search: bool
    """Leave it out, or let it ask for nothing: there is no web search of the provider's; an MCP server may bring one.
    """
    auth_binding: Mapping[str, Any]
    """Leave it out, or let it ask for nothing: keys come from the environment of the runtime alone."""
    hooks_override: HooksOverride
    """Hooks for this turn alone, {entries, disable}, besides and instead of those configured; see docs/hooks.md."""
    idempotency_key: str
    """Identifies the request: the same one again, at any server of the realm, gets the end of the same turn."""
    comms_name: str
    """Set when the session was created; a turn may repeat it unchanged."""
    peer_meta: PeerMeta
    """Set when the session was created; a turn may repeat it unchanged."""
    initial_turn: Literal["run_immediately", "deferred"]
    """Set when the session was created; a turn may repeat it unchanged."""
    max_turns: int
    """Set when the session was created; a turn may repeat it unchanged."""
    budget_limits: BudgetLimits
    """Set when the session was created; a turn may repeat it unchanged."""
    history: Sequence[Mapping[str, Any]]
    """Set when the session was created; a turn may repeat it unchanged."""
    tool_preset: Literal["none", "safe", "workspace", "full"]
    """Set when the session was created; a turn may repeat it unchanged."""
    enable_builtins: bool
    """Set when the session was created; a turn may repeat it unchanged."""
    enable_shell: bool
    """Set when the session was created; a turn may repeat it unchanged."""
    enable_files: bool
    """Set when the session was created; a turn may repeat it unchanged."""
    enable_memory: bool
    """Set when the session was created; a turn may repeat it unchanged."""
    enable_agents: bool
    """Set when the session was created; a turn may repeat it unchanged."""
    memory_scope: Literal["project", "session"]
    """Set when the session was created; a turn may repeat it unchanged."""
    tool_filter: Literal["All"] | Mapping[str, Any]
    """Set when the session was created; a turn may repeat it unchanged."""
    labels: Mapping[str, str]
    """Set when the session was created; a turn may repeat it unchanged."""
    app_context: Any
    """Set when the session was created; a turn may repeat it unchanged."""
    shell_env: Mapping[str, str]
    """Set when the session was created; a turn may repeat it unchanged."""
    compaction: CompactionSettings
    """Set when the session was created; a turn may repeat it unchanged."""
    model: str
    """The model, such as claude-sonnet-5-5, ollama/llama3.2, offline; see rkat models."""
    provider: str
    """The provider: anthropic, openai, gemini, self_hosted, offline."""
    system_prompt: str
    """The system prompt."""
    additional_instructions: Sequence[str]
    """Further instructions, below the system prompt."""
    provider_params: Mapping[str, Any]
    """Parameters for the provider, such as its temperature, as it names them."""
    max_tokens: int
    """Output tokens of one model call."""
    output_schema: Mapping[str, Any]
    """A JSON schema the result must match; the result is JSON then."""
    client_tools: Sequence[ClientTool]
    """Tools that the client runs: a turn that calls one ends with pending_calls, and a turn with tool_results continues
    it; those of a turn replace earlier ones.
    """
    permissions: PermissionRules
    """Rules of the session on its tools' calls, besides those of the configuration; see docs/permissions.md."""
    structured_output_retries: int
    """How often an answer that does not match output_schema is requested again, 0 to 10; 2 by default."""
    goal: Goal
    """Further turns after this one until a condition holds or a limit is met: {until, max_turns, max_cost,
    max_duration}.
    """
    tool_results: Sequence[TurnOptionsToolResult]
    """The results of all pending_calls of the turn before; the prompt may be empty then."""
    turn_output_schema: Mapping[str, Any]
    """A JSON schema the result of this turn alone must match, also on a session that has run."""
    clear_provider_params: bool
    """Remove the session's provider_params first."""
    change_settings: TurnOptionsChangeSettings
    """Settings that change from this turn on, also of a session that has run; null removes a setting."""
    when_busy: Literal["reject", "queue", "steer", "interrupt"]
    """While the session is busy: reject, the default · queue, run after · steer, show it to the running turn ·
    interrupt it, then run.
    """
    after_seq: int
    """Run only if this is the session's last seq; otherwise refuse; for clients that must not be overtaken."""
    tool_overlay: ToolOverlay
    """Which of the session's tools this turn has."""


class SearchOptions(TypedDict, total=False):
    """Options of a search."""

    limit: int
    """The maximum number of hits: 5 by default, 20 at most."""
    scope: Literal["project", "session"]
    """Session searches session_id only; without it, the configuration decides."""
    session_id: str
    """Search this session only."""
    agent: str
    """Search the memories of this agent only."""
    trusted_only: bool
    """Leave out the output of tools, and summaries, which may repeat it."""
    explain: bool
    """Include why each hit was found, and whether it is in its session's context."""
    token_budget: int
    """The tokens for hits and the messages around them, about; hits first; 1200 by default."""
    as_of_seq: int
    """With a session: ignore messages after this seq."""


WIRE_NAMES: dict[str, str] = {"tool_overlay": "flow_tool_overlay"}
"""Options that are called otherwise on the wire."""


INSIDE: dict[str, type] = {
    "hooks_override": HooksOverride,
    "permissions": PermissionRules,
    "goal": Goal,
    "peer_meta": PeerMeta,
    "budget_limits": BudgetLimits,
    "compaction": CompactionSettings,
    "change_settings": TurnOptionsChangeSettings,
    "tool_overlay": ToolOverlay,
}
"""Options that have names of their own inside."""
