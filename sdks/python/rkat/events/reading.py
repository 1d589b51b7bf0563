"""Events as they are read off the wire: known ones are checked, unknown ones pass as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .delivery import Delivery, Event

_ENVELOPE = ("event_id", "source", "source_id", "seq", "timestamp_ms", "mob_id")
_TEXT, _COUNT, _NUMBER, _FLAG, _MAP, _LIST = (str,), (int,), (int, float), (bool,), (dict,), (list,)
_CONTENT = (str, list)

# The fields without which an event of this type means nothing.
_REQUIRED: dict[str, dict[str, tuple[type, ...]]] = {
    "run_started": {"session_id": _TEXT, "prompt": _CONTENT},
    "run_completed": {"session_id": _TEXT, "result": _TEXT, "usage": _MAP},
    "extraction_failed": {"session_id": _TEXT, "last_output": _TEXT, "attempts": _COUNT, "reason": _TEXT},
    "run_failed": {"session_id": _TEXT, "error_class": _TEXT, "error": _TEXT},
    "hook_started": {"hook_id": _TEXT, "point": _TEXT},
    "hook_completed": {"hook_id": _TEXT, "point": _TEXT, "duration_ms": _COUNT},
    "hook_failed": {"hook_id": _TEXT, "point": _TEXT, "error": _TEXT},
    "hook_denied": {"hook_id": _TEXT, "point": _TEXT, "reason_code": _TEXT, "message": _TEXT},
    "turn_started": {"turn_number": _COUNT},
    "reasoning_delta": {"delta": _TEXT},
    "reasoning_complete": {"content": _TEXT},
    "text_delta": {"delta": _TEXT},
    "text_complete": {"content": _TEXT},
    "tool_call_requested": {"id": _TEXT, "name": _TEXT, "args": _MAP},
    "tool_result_received": {"id": _TEXT, "name": _TEXT, "is_error": _FLAG},
    "turn_completed": {"stop_reason": _TEXT, "usage": _MAP},
    "tool_execution_started": {"id": _TEXT, "name": _TEXT},
    "tool_execution_completed": {"id": _TEXT, "name": _TEXT, "result": _TEXT},
    "tool_execution_timed_out": {"id": _TEXT, "name": _TEXT, "timeout_ms": _COUNT},
    "compaction_started": {"input_tokens": _COUNT, "estimated_history_tokens": _COUNT, "message_count": _COUNT},
    "compaction_completed": {"summary_tokens": _COUNT, "messages_before": _COUNT, "messages_after": _COUNT},
    "compaction_failed": {"error": _TEXT},
    "context_evicted": {"compaction_id": _TEXT, "outputs": _COUNT, "tokens_before": _COUNT, "tokens_after": _COUNT},
    "budget_warning": {"budget_type": _TEXT, "used": _COUNT, "limit": _COUNT, "percent": _NUMBER},
    "retrying": {"attempt": _COUNT, "max_attempts": _COUNT, "error": _TEXT, "delay_ms": _COUNT},
    "skills_resolved": {"skills": _LIST, "injection_bytes": _COUNT},
    "skill_resolution_failed": {"reference": _TEXT, "error": _TEXT},
    "interaction_complete": {"interaction_id": _TEXT, "result": _TEXT},
    "interaction_failed": {"interaction_id": _TEXT, "error": _TEXT},
    "stream_truncated": {"reason": _TEXT},
    "tool_config_changed": {"payload": _MAP},
    "background_job_completed": {
        "job_id": _TEXT,
        "display_name": _TEXT,
        "terminal_status": _TEXT,
        "detail": _TEXT,
    },
}


def delivery_of_hybrid(hybrid: object) -> Delivery:
    """A turn's event over JSON-RPC: the event's fields beside those of its envelope."""
    if not isinstance(hybrid, dict):
        return Delivery(0, 0, _malformed("an event that is no object", hybrid))
    event = {field: value for field, value in hybrid.items() if field not in _ENVELOPE}
    payload = event.get("payload")
    # Unless the event has a field of that name itself, it is the event once more.
    if isinstance(payload, dict) and payload.get("type") == event.get("type"):
        del event["payload"]
    return _delivery(hybrid, event)


def delivery_of_envelope(envelope: object) -> Delivery:
    """An event of a stream: an envelope with the event under `payload`."""
    if not isinstance(envelope, dict):
        return Delivery(0, 0, _malformed("an envelope that is no object", envelope))
    return _delivery(envelope, envelope.get("payload"))


def delivery_of_row(row: object) -> Delivery:
    """An event of a page of the log, whose place is its cursor."""
    if not isinstance(row, dict):
        return Delivery(0, 0, _malformed("a row that is no object", row))
    cursor = row.get("cursor")
    sequence = cursor.get("sequence") if isinstance(cursor, dict) else None
    return _delivery({**row, "seq": sequence}, row.get("payload"))


def _delivery(place: Mapping[str, Any], event: object) -> Delivery:
    seq, timestamp_ms = place.get("seq"), place.get("timestamp_ms")
    return Delivery(
        seq if isinstance(seq, int) else 0,
        timestamp_ms if isinstance(timestamp_ms, int) else 0,
        _checked(event),
    )


def _checked(event: object) -> Event:
    """The event as it is, or `malformed_event` with what came and what is wrong with it; nothing is repaired."""
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        return _malformed("an event without a type", event)
    for field, types in _REQUIRED.get(event["type"], {}).items():
        value = event.get(field)
        # A bool is an int to Python and never a count to the wire.
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            return _malformed(f"{event['type']} without a usable {field}", event)
    return event


def _malformed(reason: str, raw: object) -> Event:
    return {"type": "malformed_event", "reason": reason, "raw": raw}
