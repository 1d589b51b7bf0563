"""A session's events over HTTP, through connections that break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

from ..errors import RkatError, error_of_wire, invalid_response
from ..events.delivery import Delivery
from ..events.reading import delivery_of_envelope
from ..transport import scope_of
from .exchange import HttpWire, closed_error, read_answer
from .server_sent_events import read_events

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]

# The server says something every 15 s, if only that it is there.
SILENCE_SECONDS_MAX = 60.0
RECONNECTS_MAX = 10
WAIT_SECONDS_FIRST = 0.1
WAIT_SECONDS_MAX = 5.0
_BROKEN = ("CONNECTION_FAILED", "CONNECTION_CLOSED")


async def follow(wire: HttpWire, ask: Ask, session_id: str, after: int | None) -> AsyncGenerator[Delivery, None]:
    """The events after `after`, then live ones; after a break it goes on behind the last one that was seen."""
    seen = await _latest(ask, session_id) if after is None else after
    breaks = 0
    while True:
        broken = RkatError("CONNECTION_CLOSED", f"{wire.origin.url} ended the events of session {session_id}")
        try:
            async with aclosing(_listen(wire, session_id, seen)) as deliveries:
                async for delivery in deliveries:
                    if delivery is None:
                        return
                    breaks = 0
                    seen = delivery.seq or seen
                    yield delivery
        except RkatError as error:
            if error.code not in _BROKEN:
                raise
            broken = error
        if wire.is_closed:
            raise closed_error()
        breaks += 1
        if breaks > RECONNECTS_MAX:
            raise broken
        await asyncio.sleep(min(WAIT_SECONDS_FIRST * 2.0**breaks, WAIT_SECONDS_MAX))


async def _latest(ask: Ask, session_id: str) -> int | None:
    """Where the events end now, to go on from after a break; None where none are kept."""
    try:
        answer = await ask("events/latest_cursor", {"scope": scope_of(session_id)})
    except RkatError as error:
        if error.code != "SESSION_PERSISTENCE_DISABLED":
            raise
        return None
    sequence: int = answer["cursor"]["sequence"]
    return sequence


async def _listen(wire: HttpWire, session_id: str, seen: int | None) -> AsyncGenerator[Delivery | None, None]:
    """The events of one connection until the server ends it; None when no more can come, since it is archived."""
    headers = {"Accept": "text/event-stream", **({} if seen is None else {"Last-Event-ID": str(seen)})}
    path = f"/sessions/{quote(session_id, safe='')}/events"
    url = wire.origin.url
    async with wire.exchange("GET", path, headers, None) as response:
        if response.status == 503:
            raise RkatError("CONNECTION_CLOSED", f"{url} is ending or has no room for another reader")
        if response.status != 200 or not response.is_event_stream:
            await read_answer(response, url)
            raise invalid_response(f"{url} answered with no event stream")
        async for event in read_events(_watched(response.body, url)):
            if event.type == "done":
                if isinstance(event.data, dict) and event.data.get("archived") is True:
                    yield None
                return
            if event.type == "error":
                raise error_of_wire(event.data, said_by="the event stream")
            if event.type != "session_loaded":
                yield delivery_of_envelope(event.data)


async def _watched(body: AsyncIterator[bytes], url: str) -> AsyncIterator[bytes]:
    """The pieces of a body, unless none comes for too long."""
    while True:
        try:
            yield await asyncio.wait_for(body.__anext__(), SILENCE_SECONDS_MAX)
        except StopAsyncIteration:
            return
        except asyncio.TimeoutError as thrown:
            message = f"{url} said nothing for {SILENCE_SECONDS_MAX:g} s"
            raise RkatError("CONNECTION_CLOSED", message) from thrown
