"""The event streams a connection has open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from ..errors import RkatError, error_of_wire, invalid_params, invalid_response
from ..events.buffer import EventBuffer
from ..events.delivery import Delivery
from ..events.reading import delivery_of_envelope, delivery_of_row
from ..transport import scope_of

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]

PAGE_EVENTS = 1_000


class Streams:
    """Hands the frames of streams to whoever opened them."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._open: dict[str, EventBuffer] = {}
        # Frames may come before the answer that names their stream.
        self._early: dict[str, EventBuffer] = {}
        self._opening = 0
        self._closing: set[asyncio.Future[None]] = set()

    def hear(self, method: str, params: Mapping[str, Any]) -> None:
        """Takes `session/stream_event` and `session/stream_end`."""
        stream_id = str(params.get("stream_id"))
        buffer = self._open.get(stream_id)
        if buffer is None:
            if self._opening == 0:
                return  # The tail of a stream that was closed.
            buffer = self._early.setdefault(stream_id, EventBuffer())
        if method == "session/stream_event":
            buffer.put(delivery_of_envelope(params.get("event")))
        elif params.get("outcome") == "terminal_error":
            buffer.end(error_of_wire(params.get("error"), said_by="the event stream"))
        else:
            buffer.end()

    def fail(self, error: RkatError) -> None:
        """The connection has ended."""
        for buffer in [*self._open.values(), *self._early.values()]:
            buffer.end(error)

    async def subscribe(self, session_id: str, after: int | None) -> AsyncGenerator[Delivery, None]:
        """The events after `after` from the log, then live ones, without a gap and without a repeat."""
        before = 0 if after is None else await self._latest(session_id)
        if after is not None and after > before:
            raise invalid_params(f"after: the events of session {session_id} end at {before}")
        stream_id, buffer = await self._begin(session_id)
        try:
            seen = after or 0
            if after is not None:
                async for delivery in self._replay(session_id, after):
                    seen = delivery.seq
                    yield delivery
            # What was appended while the stream opened may come by it once more. Until the stream has got that far,
            # what is live only could be older than what was just given.
            is_settled = after is None or seen <= before
            while (live := await buffer.next()) is not None:
                is_settled = is_settled or live.seq >= seen
                if not is_settled or 0 < live.seq <= seen:
                    continue
                seen = max(seen, live.seq)
                yield live
        finally:
            del self._open[stream_id]
            await self._close(stream_id)

    async def _begin(self, session_id: str) -> tuple[str, EventBuffer]:
        self._opening += 1
        opening = asyncio.ensure_future(self._ask("session/stream_open", {"session_id": session_id}))
        try:
            stream_id = _stream_id(await asyncio.shield(opening))
            buffer = self._early.pop(stream_id, None) or EventBuffer()
            self._open[stream_id] = buffer
            return stream_id, buffer
        except asyncio.CancelledError:
            opening.add_done_callback(self._close_late)
            raise
        finally:
            self._opening -= 1
            if self._opening == 0:
                self._early.clear()

    def _close_late(self, opening: asyncio.Future[Any]) -> None:
        """A stream that opens after its reader has left is closed."""
        if not opening.cancelled() and opening.exception() is None:
            closing = asyncio.ensure_future(self._close(_stream_id(opening.result())))
            # The loop alone would let it be collected half done.
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _close(self, stream_id: str) -> None:
        try:
            await self._ask("session/stream_close", {"stream_id": stream_id})
        except RkatError as error:
            # A connection that has ended has closed its streams.
            if error.code != "CONNECTION_CLOSED":
                raise

    async def _latest(self, session_id: str) -> int:
        answer = await self._ask("events/latest_cursor", {"scope": scope_of(session_id)})
        return _sequence(answer)

    async def _replay(self, session_id: str, after: int) -> AsyncIterator[Delivery]:
        has_more = True
        while has_more:
            cursor = {"scope": scope_of(session_id), "sequence": after}
            page = await self._ask(
                "events/list_since", {"scope": scope_of(session_id), "cursor": cursor, "limit": PAGE_EVENTS}
            )
            rows = [delivery_of_row(row) for row in page.get("events", [])]
            for delivery in rows:
                yield delivery
            has_more = page.get("has_more") is True and len(rows) > 0
            after = rows[-1].seq if rows else after


def _sequence(answer: Any) -> int:
    cursor = answer.get("cursor") if isinstance(answer, dict) else None
    sequence = cursor.get("sequence") if isinstance(cursor, dict) else None
    if isinstance(sequence, int):
        return sequence
    raise invalid_response("the server did not say where the session's events end")


def _stream_id(answer: Any) -> str:
    stream_id = answer.get("stream_id") if isinstance(answer, dict) else None
    if isinstance(stream_id, str):
        return stream_id
    raise invalid_response("the server opened a stream without naming it")
