"""Server-sent events as they are read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from ..errors import invalid_response

EVENT_BYTES_MAX = 64 * 1_024 * 1_024


class ServerSentEvent(NamedTuple):
    """One event: its name, and what its data say."""

    type: str
    data: Any


async def read_events(body: AsyncIterator[bytes]) -> AsyncIterator[ServerSentEvent]:
    """The events of a body; comments and fields nobody asked for are left out."""
    name, data = "message", b""
    async for line in _lines(body):
        if line == b"":
            if data != b"":
                yield ServerSentEvent(name, _parse(name, data))
            name, data = "message", b""
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"event":
            name = value.decode("utf-8", "replace")
        elif field == b"data":
            data = value if data == b"" else data + b"\n" + value


async def _lines(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Cuts at line ends alone: bytes of one letter may come apart."""
    pieces: list[bytes] = []
    held = 0
    async for piece in body:
        *ends, rest = piece.split(b"\n")
        for end in ends:
            yield (b"".join(pieces) + end).rstrip(b"\r")
            pieces, held = [], 0
        pieces.append(rest)
        held += len(rest)
        if held > EVENT_BYTES_MAX:
            raise invalid_response(f"the server sent an event of more than {EVENT_BYTES_MAX} bytes")


def _parse(name: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as thrown:
        raise invalid_response(f"the data of the event {name} are no JSON: {data[:200]!r}") from thrown
