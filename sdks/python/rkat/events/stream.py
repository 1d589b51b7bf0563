"""The events of one turn, live."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from ..contract.results import RunResult
from ..errors import RkatError
from .buffer import EventBuffer
from .delivery import Event, Listener

if TYPE_CHECKING:
    from ..session import Session


class EventStream:
    """The events of one turn, which has begun. Iterating is optional: the turn goes on, listened to or not.

    The iteration ends with the turn, and raises what the turn failed with once its events have been given. Cancelling
    the task that iterates, or that waits for the result, interrupts the turn.
    """

    def __init__(self, start: Callable[[Listener], Awaitable[RunResult]]) -> None:
        self._buffer = EventBuffer()
        self._task = asyncio.ensure_future(self._run(start))

    async def _run(self, start: Callable[[Listener], Awaitable[RunResult]]) -> RunResult:
        try:
            return await start(self._buffer.put)
        finally:
            self._buffer.end()

    def __aiter__(self) -> AsyncIterator[Event]:
        # Whoever leaves in the middle has left its end, too; asyncio would complain of a failure nobody asked about.
        self._task.add_done_callback(_mark_told)
        return self

    async def __anext__(self) -> Event:
        try:
            delivery = await self._buffer.next()
        except asyncio.CancelledError:
            await self.cancel()
            raise
        if delivery is not None:
            return delivery.event
        await self.result()
        raise StopAsyncIteration

    async def result(self) -> RunResult:
        """How the turn ended; raises what it failed with."""
        try:
            await asyncio.wait({self._task})
        except asyncio.CancelledError:
            await self.cancel()
            raise
        if self._task.cancelled():
            raise RkatError("REQUEST_CANCELLED", "the turn was cancelled from here")
        return self._task.result()

    async def cancel(self) -> None:
        """Interrupts the turn and waits for its end; what it streamed is kept."""
        self._task.add_done_callback(_mark_told)
        self._task.cancel()
        await asyncio.wait({self._task})


def _mark_told(task: asyncio.Future[RunResult]) -> None:
    if not task.cancelled():
        task.exception()


class SessionStream:
    """The events of a new session's first turn, and the session once that has ended."""

    def __init__(self, events: EventStream, opened: Callable[[RunResult], Session]) -> None:
        self._events = events
        self._opened = opened
        self._session: Session | None = None

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events.__aiter__()

    async def result(self) -> RunResult:
        """How the first turn ended; raises what it failed with."""
        return await self._events.result()

    async def session(self) -> Session:
        """The session, when its first turn has ended."""
        result = await self._events.result()
        self._session = self._session or self._opened(result)
        return self._session

    async def cancel(self) -> None:
        """Interrupts the turn and waits for its end; the session is archived."""
        await self._events.cancel()
