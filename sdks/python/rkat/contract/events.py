# Generated from packages/core/src/contract/ by `npm run docs`: change the contract, not this file.
"""The table of events: what each means, and the fields that it always has."""

from __future__ import annotations

from typing import NamedTuple


class EventRow(NamedTuple):
    """A row of the table."""

    meaning: str
    required: dict[str, tuple[type, ...]]


EVENTS: dict[str, EventRow] = {
    "run_started": EventRow(
        "a turn has begun",
        {
            "session_id": (str,),
            "prompt": (str, list),
        },
    ),
    "run_completed": EventRow(
        "a turn has ended",
        {
            "session_id": (str,),
            "result": (str,),
            "usage": (dict,),
            "extraction_required": (bool,),
        },
    ),
    "message_queued": EventRow(
        "a message waits in the session's inbox",
        {
            "session_id": (str,),
            "message_id": (str,),
            "when_busy": (str,),
        },
    ),
    "message_delivered": EventRow(
        "a message of the inbox reaches the model",
        {
            "session_id": (str,),
            "message_id": (str,),
        },
    ),
    "message_removed": EventRow(
        "a message of the inbox does not reach the model",
        {
            "session_id": (str,),
            "message_id": (str,),
        },
    ),
    "goal_judged": EventRow(
        "the condition of the goal was judged",
        {
            "session_id": (str,),
            "goal_id": (str,),
            "met": (bool,),
            "reason": (str,),
        },
    ),
    "goal_ended": EventRow(
        "the goal starts no further turns",
        {
            "session_id": (str,),
            "goal_id": (str,),
            "phase": (str,),
            "reason": (str,),
        },
    ),
    "message_refused": EventRow(
        "a message to another session was refused",
        {
            "session_id": (str,),
            "to": (str,),
            "reason": (str,),
            "why": (str,),
        },
    ),
    "turn_adopted": EventRow(
        "another process continues the turn",
        {
            "session_id": (str,),
            "attempt": (int,),
            "from_seq": (int,),
            "reason": (str,),
            "superseded": (bool,),
        },
    ),
    "extraction_succeeded": EventRow(
        "a structured result was extracted",
        {
            "session_id": (str,),
        },
    ),
    "extraction_failed": EventRow(
        "no structured result could be extracted",
        {
            "session_id": (str,),
            "last_output": (str,),
            "attempts": (int,),
            "reason": (str,),
        },
    ),
    "run_failed": EventRow(
        "a turn has failed",
        {
            "session_id": (str,),
            "error_class": (str,),
            "error": (str,),
        },
    ),
    "hook_started": EventRow(
        "a hook begins",
        {
            "hook_id": (str,),
            "point": (str,),
        },
    ),
    "hook_completed": EventRow(
        "a hook has ended",
        {
            "hook_id": (str,),
            "point": (str,),
            "duration_ms": (int,),
        },
    ),
    "hook_failed": EventRow(
        "a hook has failed",
        {
            "hook_id": (str,),
            "point": (str,),
            "error": (str,),
        },
    ),
    "hook_denied": EventRow(
        "a hook has refused the step",
        {
            "hook_id": (str,),
            "point": (str,),
            "reason_code": (str,),
            "message": (str,),
        },
    ),
    "turn_started": EventRow(
        "a model call begins",
        {
            "turn_number": (int,),
        },
    ),
    "reasoning_delta": EventRow(
        "a piece of the model's reasoning; live only",
        {
            "delta": (str,),
        },
    ),
    "reasoning_complete": EventRow(
        "the model has finished a block of reasoning",
        {
            "content": (str,),
        },
    ),
    "text_delta": EventRow(
        "a piece of the model's text; live only",
        {
            "delta": (str,),
        },
    ),
    "text_complete": EventRow(
        "the model has finished a text",
        {
            "content": (str,),
        },
    ),
    "server_tool_content": EventRow(
        "a tool of the provider's has answered",
        {
            "name": (str,),
        },
    ),
    "assistant_image_appended": EventRow(
        "the model has made an image",
        {
            "image": (dict,),
        },
    ),
    "tool_call_requested": EventRow(
        "the model calls a tool",
        {
            "id": (str,),
            "name": (str,),
            "args": (dict,),
        },
    ),
    "tool_result_received": EventRow(
        "the model receives the result of a tool",
        {
            "id": (str,),
            "name": (str,),
            "is_error": (bool,),
        },
    ),
    "turn_completed": EventRow(
        "a model call has ended",
        {
            "stop_reason": (str,),
            "usage": (dict,),
        },
    ),
    "tool_execution_started": EventRow(
        "a tool begins",
        {
            "id": (str,),
            "name": (str,),
        },
    ),
    "tool_execution_completed": EventRow(
        "a tool has ended",
        {
            "id": (str,),
            "name": (str,),
            "result": (str,),
            "is_error": (bool,),
            "duration_ms": (int,),
        },
    ),
    "tool_execution_timed_out": EventRow(
        "a tool has timed out",
        {
            "id": (str,),
            "name": (str,),
            "timeout_ms": (int,),
        },
    ),
    "tool_approval_requested": EventRow(
        "the turn waits for approval of tool calls",
        {
            "session_id": (str,),
            "approval_id": (str,),
            "calls": (list,),
            "expires_at": (str,),
        },
    ),
    "tool_approval_answered": EventRow(
        "tool calls were approved or denied",
        {
            "session_id": (str,),
            "approval_id": (str,),
            "decision": (str,),
            "calls": (list,),
            "remember": (str,),
        },
    ),
    "compaction_started": EventRow(
        "a compaction begins",
        {
            "input_tokens": (int,),
            "estimated_history_tokens": (int,),
            "message_count": (int,),
        },
    ),
    "compaction_completed": EventRow(
        "the context was compacted",
        {
            "summary_tokens": (int,),
            "messages_before": (int,),
            "messages_after": (int,),
        },
    ),
    "compaction_prepared": EventRow(
        "a summary was made behind a turn, for when the context has to be compacted",
        {
            "compaction_id": (str,),
            "summary_tokens": (int,),
            "messages_before": (int,),
            "messages_after": (int,),
            "usage": (dict,),
        },
    ),
    "compaction_dropped": EventRow(
        "a compaction that was prepared, or was to be, is not made",
        {
            "reason": (str,),
        },
    ),
    "compaction_failed": EventRow(
        "the context stays as it was",
        {
            "error": (str,),
        },
    ),
    "native_compaction_refused": EventRow(
        "a provider refused its own compaction; the summary is sent instead",
        {
            "compaction_id": (str,),
            "provider": (str,),
            "error": (str,),
        },
    ),
    "context_evicted": EventRow(
        "tool output became one line each, which recall_output shows whole; no model was asked",
        {
            "compaction_id": (str,),
            "outputs": (int,),
            "superseded": (int,),
            "failed": (int,),
            "large": (int,),
            "tokens_before": (int,),
            "tokens_after": (int,),
        },
    ),
    "budget_warning": EventRow(
        "a budget is nearly used up",
        {
            "budget_type": (str,),
            "used": (int,),
            "limit": (int,),
            "percent": (int, float,),
        },
    ),
    "retrying": EventRow(
        "a model call has failed and is made again",
        {
            "attempt": (int,),
            "max_attempts": (int,),
            "error": (str,),
            "delay_ms": (int,),
        },
    ),
    "skills_resolved": EventRow(
        "skills were loaded",
        {
            "skills": (list,),
            "injection_bytes": (int,),
        },
    ),
    "skill_resolution_failed": EventRow(
        "a skill was not found",
        {
            "reason": (dict,),
            "reference": (str,),
            "error": (str,),
        },
    ),
    "interaction_complete": EventRow(
        "what a caller asked for is done",
        {
            "interaction_id": (str,),
            "result": (str,),
        },
    ),
    "interaction_callback_pending": EventRow(
        "a tool of the caller's is waited for",
        {
            "interaction_id": (str,),
            "tool_name": (str,),
        },
    ),
    "interaction_failed": EventRow(
        "what a caller asked for has failed",
        {
            "interaction_id": (str,),
            "error": (str,),
        },
    ),
    "sub_agent_started": EventRow(
        "a task was delegated to a sub-agent",
        {
            "call_id": (str,),
            "agent": (str,),
            "child_id": (str,),
            "task": (str,),
        },
    ),
    "sub_agent_event": EventRow(
        "something happened in a sub-agent's session; live only, and not every delta",
        {
            "call_id": (str,),
            "agent": (str,),
            "child_id": (str,),
            "depth": (int,),
            "event": (dict,),
        },
    ),
    "sub_agent_completed": EventRow(
        "a sub-agent has ended",
        {
            "call_id": (str,),
            "agent": (str,),
            "child_id": (str,),
            "status": (str,),
            "usage": (dict,),
            "tool_calls": (int,),
        },
    ),
    "stream_truncated": EventRow(
        "a subscriber was too slow and has missed events",
        {
            "reason": (str,),
        },
    ),
    "tool_config_changed": EventRow(
        "the tools of a server have changed",
        {
            "payload": (dict,),
        },
    ),
    "background_job_completed": EventRow(
        "a job in the background has ended",
        {
            "job_id": (str,),
            "display_name": (str,),
            "terminal_status": (str,),
            "detail": (str,),
        },
    ),
    "transcript_rewrite_committed": EventRow(
        "the transcript was rewritten or restored",
        {
            "session_id": (str,),
            "record": (dict,),
        },
    ),
}
