"""Options of sessions and turns, under the names of the wire."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict


class BudgetLimits(TypedDict, total=False):
    """What a turn may use; a duration is "30s", or seconds and nanoseconds."""

    max_tokens: int
    max_tool_calls: int
    max_duration: str | dict[str, int]
    max_duration_secs: float
    max_duration_ms: int


class CompactionSettings(TypedDict, total=False):
    """How a session is compacted, instead of the configuration's way."""

    auto_compact_threshold: int
    recent_turn_budget: int
    max_summary_tokens: int
    min_turns_between_compactions: int


class ToolOverlay(TypedDict, total=False):
    """Which tools one turn may use."""

    allowed_tools: Sequence[str]
    blocked_tools: Sequence[str]


class SessionOptions(TypedDict, total=False):
    """Options of a new session."""

    model: str
    provider: str
    system_prompt: str
    additional_instructions: Sequence[str]
    max_tokens: int
    max_turns: int
    budget_limits: BudgetLimits
    enable_builtins: bool
    enable_shell: bool
    enable_memory: bool
    tool_preset: Literal["none", "safe", "workspace", "full"]
    tool_filter: Literal["All"] | Mapping[str, Sequence[str]]
    output_schema: Mapping[str, Any]
    structured_output_retries: int
    provider_params: Mapping[str, Any]
    labels: Mapping[str, str]
    app_context: Any
    shell_env: Mapping[str, str]
    compaction: CompactionSettings


class TurnOptions(TypedDict, total=False):
    """Options of one further turn; the last four only for the first turn of a deferred session."""

    model: str
    provider: str
    provider_params: Mapping[str, Any]
    clear_provider_params: bool
    additional_instructions: Sequence[str]
    tool_overlay: ToolOverlay
    max_tokens: int
    system_prompt: str
    output_schema: Mapping[str, Any]
    structured_output_retries: int


_SESSION_NAMES = tuple(SessionOptions.__annotations__)
_TURN_NAMES = tuple(TurnOptions.__annotations__)


def session_fields(options: Mapping[str, Any], *, of: str) -> dict[str, Any]:
    """The wire's fields of a new session; an option that would be ignored is refused."""
    _require_names(options, (*_SESSION_NAMES, "tools"), of=of)
    return given(options)


def turn_fields(options: Mapping[str, Any], *, of: str) -> dict[str, Any]:
    """The wire's fields of a turn; an option that would be ignored is refused."""
    _require_names(options, _TURN_NAMES, of=of)
    fields = given(options)
    if "tool_overlay" in fields:
        fields["flow_tool_overlay"] = fields.pop("tool_overlay")
    return fields


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that were given: None means that one was not."""
    return {name: value for name, value in fields.items() if value is not None}


def _require_names(options: Mapping[str, Any], names: Sequence[str], *, of: str) -> None:
    for name in options:
        if name in names:
            continue
        meant = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
        advice = f"did you mean {meant[0]}?" if meant else f"there are {', '.join(names)}"
        raise TypeError(f"{of}() has no option {name}; {advice}")
