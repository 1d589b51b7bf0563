# Generated from packages/core/src/contract/ by `npm run docs`: change the contract, not this file.
"""The server's table of errors."""

from __future__ import annotations

from typing import NamedTuple


class ErrorRow(NamedTuple):
    """What a code means."""

    category: str
    meaning: str


ERRORS: dict[str, ErrorRow] = {
    "SESSION_NOT_FOUND": ErrorRow("session", "no session has this id, or it was archived and cannot run turns"),
    "SESSION_BUSY": ErrorRow("session", "the session is running a turn; wait for it or interrupt it"),
    "SESSION_NOT_RUNNING": ErrorRow("session", "the operation needs a running turn and there is none"),
    "DUPLICATE_INPUT": ErrorRow("session", "the same input was already accepted"),
    "REQUEST_CANCELLED": ErrorRow(
        "request", "the request was cancelled or its turn interrupted; what was streamed is kept"
    ),
    "SESSION_STORE_ERROR": ErrorRow("session", "the store could not read or write; nothing was acknowledged"),
    "PROVIDER_ERROR": ErrorRow("provider", "the model provider failed, after retries where they could help"),
    "BUDGET_EXHAUSTED": ErrorRow("budget", "a budget ran out; the session stays usable"),
    "HOOK_DENIED": ErrorRow("hook", "a hook refused the step"),
    "AGENT_ERROR": ErrorRow("agent", "the turn failed for another reason"),
    "CAPABILITY_UNAVAILABLE": ErrorRow("capability", "this runtime was composed without the capability"),
    "SESSION_PERSISTENCE_DISABLED": ErrorRow("capability", "the operation needs `session-store`, which is absent"),
    "SESSION_COMPACTION_DISABLED": ErrorRow("capability", "the operation needs `session-compaction`, which is absent"),
    "MEMORY_STORE_DISABLED": ErrorRow("capability", "the operation needs `memory-store`, which is absent"),
    "SKILL_NOT_FOUND": ErrorRow("skill", "no skill has this name"),
    "SKILL_RESOLUTION_FAILED": ErrorRow("skill", "the skill exists but could not be loaded"),
    "SCHEDULE_NOT_FOUND": ErrorRow("session", "no schedule has this id"),
    "SUPERVISOR_ROTATION_INCOMPLETE": ErrorRow("session", "reserved by the wire contract"),
    "UNAUTHORIZED": ErrorRow("request", "the bearer token is missing or wrong"),
    "FORBIDDEN_ORIGIN": ErrorRow("request", "the request's Host or Origin is not allowed"),
    "PERMISSION_DENIED": ErrorRow(
        "permission", "more is asked for than this server, or the configuration's file, allows"
    ),
    "DUPLICATE_REQUEST_ID": ErrorRow("request", "a request with this id is running"),
    "PAYLOAD_TOO_LARGE": ErrorRow("request", "the request is larger than the limit it names"),
    "COMPACTION_THRESHOLD_UNREACHABLE": ErrorRow(
        "validation", "the threshold lies below what a compaction always keeps"
    ),
    "METHOD_NOT_FOUND": ErrorRow("validation", "there is no such operation"),
    "INVALID_PARAMS": ErrorRow("validation", "an input is missing or wrong; the message names the field"),
    "INTERNAL_ERROR": ErrorRow("internal", "a defect of rkat itself"),
}
