"""Requests over HTTP."""

from __future__ import annotations

import asyncio
import ssl
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any

from ..contract.json_text import json_bytes
from ..errors import RkatError, error_of_wire, invalid_response
from ..events.delivery import Delivery, Listener
from ..events.reading import delivery_of_envelope
from ..tools import Tool
from ..transport import EVENTFUL, require_contract
from .exchange import HttpWire, Response, closed_error, origin_of, read_answer
from .routes import Target, target_of
from .server_sent_events import read_events
from .subscription import follow

# How long a cancelled request may take to end at the server before nobody waits for that any longer.
CANCEL_SECONDS_MAX = 5.0
CANCEL_STEP_SECONDS = 0.05
# A compaction that was begun over HTTP is not taken back.
_CANCELLABLE = EVENTFUL - {"session/compact"}


class RestTransport:
    """A server that listens somewhere; each request has a connection of its own."""

    def __init__(self, wire: HttpWire) -> None:
        self._wire = wire

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        listener: Listener | None = None,
        tools: Sequence[Tool] = (),
    ) -> Any:
        """Sends a request and waits for its answer; cancelling it cancels the turn it runs."""
        if tools:
            raise _no_tools()
        if self._wire.is_closed:
            raise closed_error()
        target = target_of(method, params)
        request_id = uuid.uuid4().hex if method in _CANCELLABLE else None
        asking = asyncio.ensure_future(self._ask(target, request_id, listener))
        try:
            await asyncio.wait({asking})
        except asyncio.CancelledError:
            await self._leave(asking, request_id)
            raise
        return _in_rpc_form(method, asking.result())

    def subscribe(self, session_id: str, after: int | None) -> AsyncGenerator[Delivery, None]:
        """A session's events: those after `after`, then live ones; a connection that breaks is made again."""
        return follow(self._wire, self.request, session_id, after)

    async def register_tools(self, tools: Sequence[Tool]) -> None:
        """Refused: a server that listens cannot call back."""
        if tools:
            raise _no_tools()

    async def close(self) -> None:
        """Nothing more is asked; what is pending fails here and goes on at the server."""
        self._wire.close()

    async def _ask(self, target: Target, request_id: str | None, listener: Listener | None) -> Any:
        accept = "application/json" if listener is None else "text/event-stream, application/json"
        named = {} if request_id is None else {"X-Meerkat-Request-Id": request_id}
        body = None if target.body is None else json_bytes(target.body, what="the fields of the request")
        headers = {"Accept": accept, **named}
        async with self._wire.exchange(target.method, target.path, headers, body) as response:
            if listener is not None and response.status == 200 and response.is_event_stream:
                return await _hear(response, listener)
            return await read_answer(response, self._wire.origin.url)

    async def _leave(self, asking: asyncio.Future[Any], request_id: str | None) -> None:
        """Cancels at the server what was begun there, then lets go of the connection."""
        try:
            if request_id is not None:
                await asyncio.wait_for(self._cancel(asking, request_id), CANCEL_SECONDS_MAX)
        except (asyncio.TimeoutError, RkatError):
            pass  # Whoever cancels is told of its own cancellation, and of nothing else.
        finally:
            asking.cancel()
            asking.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _cancel(self, asking: asyncio.Future[Any], request_id: str) -> None:
        target = Target("POST", f"/requests/{request_id}/cancel", {})
        while not asking.done():
            try:
                await self._ask(target, None, None)
                await asyncio.wait({asking})
            except RkatError as error:
                if error.code != "METHOD_NOT_FOUND":
                    raise
                # The request is on its way and not known yet.
                await asyncio.wait({asking}, timeout=CANCEL_STEP_SECONDS)


async def open_rest(
    url: str, *, token: str | None, ssl_context: ssl.SSLContext | None, tools: Sequence[Tool]
) -> RestTransport:
    """Finds out whether a server of our contract listens there, and lets us in."""
    transport = RestTransport(HttpWire(origin_of(url, token, ssl_context)))
    await transport.register_tools(tools)
    answer = await transport.request("capabilities/get", {})
    version = answer.get("contract_version") if isinstance(answer, dict) else None
    if not isinstance(version, dict):
        raise invalid_response(f"{url} did not say which contract it speaks")
    require_contract(f"{version.get('major')}.{version.get('minor')}")
    return transport


async def _hear(response: Response, listener: Listener) -> Any:
    """Tells a turn's events as they come, and gives its answer."""
    session_id = None
    async for event in read_events(response.body):
        if event.type == "result":
            return event.data
        if event.type == "error":
            raise error_of_wire(event.data, said_by="the turn")
        delivery = delivery_of_envelope(event.data)
        session_id = session_id or delivery.event.get("session_id")
        listener(delivery)
    message = "the events broke off before the turn ended; it goes on at the server"
    raise RkatError("CONNECTION_CLOSED", message, details=session_id and {"session_id": session_id})


def _in_rpc_form(method: str, answer: Any) -> Any:
    """Reading a session is the one answer with another form: its times are texts."""
    if method != "session/read" or not isinstance(answer, dict):
        return answer
    return {**answer, **{name: _unix_seconds(answer.get(name)) for name in ("created_at", "updated_at")}}


def _unix_seconds(time: Any) -> Any:
    if not isinstance(time, str):
        return time
    try:
        return int(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp())
    except ValueError as thrown:
        raise invalid_response(f"the server wrote a time as {time}") from thrown


def _no_tools() -> RkatError:
    message = "tools are called over stdin and stdout, which HTTP has not: connect with a command instead of a url"
    return RkatError("CAPABILITY_UNAVAILABLE", message)
