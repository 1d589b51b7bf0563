"""What stands between who tells events and who reads them."""

from __future__ import annotations

import asyncio
from collections import deque

from ..errors import RkatError, invalid_params
from .delivery import Delivery

# Live events beyond this are dropped, and the reader is told; durable ones are kept up to the second bound.
LIVE_EVENTS_MAX = 4_096
DURABLE_EVENTS_MAX = 65_536


class EventBuffer:
    """Events in order for one reader, who may lag; whoever tells them never waits."""

    def __init__(self) -> None:
        self._deliveries: deque[Delivery] = deque()
        self._dropped = 0
        self._has_ended = False
        self._error: BaseException | None = None
        self._waiting: asyncio.Future[None] | None = None

    def put(self, delivery: Delivery) -> None:
        """Takes an event in; after the end it is dropped."""
        if self._has_ended:
            return
        if delivery.seq == 0 and len(self._deliveries) >= LIVE_EVENTS_MAX:
            self._dropped += 1
            return
        if len(self._deliveries) >= DURABLE_EVENTS_MAX:
            reason = f"nobody read {DURABLE_EVENTS_MAX} events; subscribe again after the last one that was read"
            self.end(RkatError("STREAM_OVERFLOW", reason))
            return
        self._tell_dropped(delivery.timestamp_ms)
        self._deliveries.append(delivery)
        self._wake()

    def end(self, error: BaseException | None = None) -> None:
        """Ends the reading once what is held has been read, with an error where there is one."""
        if self._has_ended:
            return
        self._tell_dropped(0)
        self._has_ended = True
        self._error = error
        self._wake()

    async def next(self) -> Delivery | None:
        """The next event; None at the end."""
        if self._waiting is not None:
            raise invalid_params("the events are read once, and someone reads these already; use subscribe")
        while not self._deliveries:
            if self._error is not None:
                raise self._error
            if self._has_ended:
                return None
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        return self._deliveries.popleft()

    def _tell_dropped(self, timestamp_ms: int) -> None:
        if self._dropped == 0:
            return
        reason = f"the reader lagged behind: {self._dropped} live events were dropped"
        self._dropped = 0
        self._deliveries.append(Delivery(0, timestamp_ms, {"type": "stream_truncated", "reason": reason}))

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
