"""Events as they are read off the wire: known ones are checked, unknown ones pass as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..contract.events import EVENTS
from .delivery import Delivery, Event

_ENVELOPE = ("event_id", "source", "source_id", "seq", "timestamp_ms", "mob_id")
_REASONS = ("error", "reason", "message", "name")


def describe_event(event: Event) -> str:
    """An event in one line: what its type means, and why or what it is about."""
    kind = str(event.get("type"))
    meaning = EVENTS[kind].meaning if kind in EVENTS else kind.replace("_", " ")
    why = next((event[field] for field in _REASONS if isinstance(event.get(field), str)), None)
    return meaning if why is None else f"{meaning}: {why}"


def delivery_of_hybrid(hybrid: object) -> Delivery:
    """A turn's event over JSON-RPC: the event's fields beside those of its envelope."""
    if not isinstance(hybrid, dict):
        return Delivery(0, 0, _malformed("an event that is no object", hybrid))
    payload = hybrid.get("payload")
    # It is the event once more, unless the event has a field of that name itself.
    if isinstance(payload, dict) and payload.get("type") == hybrid.get("type"):
        return _delivery(hybrid, payload)
    return _delivery(hybrid, {field: value for field, value in hybrid.items() if field not in _ENVELOPE})


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
    row = EVENTS.get(event["type"])
    for field, types in row.required.items() if row is not None else ():
        value = event.get(field)
        # A bool is an int to Python and never a count to the wire.
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            return _malformed(f"{event['type']} without a usable {field}", event)
    return event


def _malformed(reason: str, raw: object) -> Event:
    return {"type": "malformed_event", "reason": reason, "raw": raw}
