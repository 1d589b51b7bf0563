# Generated from src/contract/ by `npm run docs`: change the contract, not this file.
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


class SendExternalEventBlock(TypedDict):
    """`blocks` of `sendExternalEvent`."""

    type: Literal["text"]
    text: str


class SkillRef(TypedDict):
    """`skill_refs` of `SessionOptions`."""

    kind: NotRequired[Literal["structured"]]
    source_uuid: str
    skill_name: str


class BudgetLimitsMaxDuration(TypedDict):
    """`max_duration` of `BudgetLimits`."""

    secs: int
    nanos: NotRequired[int]


class BudgetLimits(TypedDict, total=False):
    """`budget_limits` of `SessionOptions`."""

    max_tokens: int
    max_tool_calls: int
    max_duration: str | BudgetLimitsMaxDuration
    max_duration_secs: float
    max_duration_ms: int


class CompactionSettings(TypedDict, total=False):
    """`compaction` of `SessionOptions`."""

    auto_compact_threshold: int
    recent_turn_budget: int
    max_summary_tokens: int
    min_turns_between_compactions: int


class SessionOptions(TypedDict, total=False):
    """Options of a new session."""

    keep_alive: bool
    skill_refs: Sequence[SkillRef]
    preload_skills: Sequence[SkillRef]
    hooks_override: Mapping[str, Any]
    enable_schedule: bool
    enable_workgraph: bool
    enable_mob: bool
    enable_web_search: bool
    comms_name: str
    peer_meta: Mapping[str, Any]
    auth_binding: Mapping[str, Any]
    model: str
    provider: str
    max_tokens: int
    max_turns: int
    system_prompt: str
    output_schema: Mapping[str, Any]
    structured_output_retries: int
    enable_builtins: bool
    enable_shell: bool
    enable_memory: bool
    tool_preset: Literal["none", "safe", "workspace", "full"]
    tool_filter: Literal["All"] | Mapping[str, Any]
    budget_limits: BudgetLimits
    provider_params: Mapping[str, Any]
    labels: Mapping[str, str]
    additional_instructions: Sequence[str]
    app_context: Any
    shell_env: Mapping[str, str]
    compaction: CompactionSettings


class ToolOverlay(TypedDict, total=False):
    """`tool_overlay` of `TurnOptions`."""

    allowed_tools: Sequence[str]
    blocked_tools: Sequence[str]


class TurnOptions(TypedDict, total=False):
    """Options of one further turn."""

    keep_alive: bool
    skill_refs: Sequence[SkillRef]
    preload_skills: Sequence[SkillRef]
    hooks_override: Mapping[str, Any]
    enable_schedule: bool
    enable_workgraph: bool
    enable_mob: bool
    enable_web_search: bool
    comms_name: str
    peer_meta: Mapping[str, Any]
    auth_binding: Mapping[str, Any]
    initial_turn: Literal["run_immediately", "deferred"]
    max_turns: int
    enable_builtins: bool
    enable_shell: bool
    enable_memory: bool
    tool_preset: Literal["none", "safe", "workspace", "full"]
    tool_filter: Literal["All"] | Mapping[str, Any]
    budget_limits: BudgetLimits
    labels: Mapping[str, str]
    app_context: Any
    shell_env: Mapping[str, str]
    compaction: CompactionSettings
    model: str
    provider: str
    provider_params: Mapping[str, Any]
    clear_provider_params: bool
    tool_overlay: ToolOverlay
    additional_instructions: Sequence[str]
    max_tokens: int
    system_prompt: str
    output_schema: Mapping[str, Any]
    structured_output_retries: int


class SearchOptions(TypedDict, total=False):
    """Options of a search."""

    limit: int
    scope: Literal["project", "session"]
    session_id: str
    agent: str
    as_of_seq: int


WIRE_NAMES: dict[str, str] = {"tool_overlay": "flow_tool_overlay"}
"""Options that are called otherwise on the wire."""


INSIDE: dict[str, type] = {
    "budget_limits": BudgetLimits,
    "compaction": CompactionSettings,
    "tool_overlay": ToolOverlay,
}
"""Options that have names of their own inside."""
