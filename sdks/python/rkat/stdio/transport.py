"""Requests over JSON-RPC: one object a line, many at once."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from ..contract.json_text import json_bytes, require_shallow
from ..errors import RkatError, error_of_wire, invalid_response
from ..events.delivery import Delivery, Listener
from ..events.reading import delivery_of_hybrid
from ..tools import Tool
from ..transport import require_contract
from .binary import server_command
from .process import LINE_BYTES_MAX, ServerProcess, start_process
from .streams import Streams
from .tool_calls import ToolCalls
from .turn_claims import Claim, TurnClaims, plain_id

_log = logging.getLogger("rkat")

# How long a cancelled request may take to end at the server before nobody waits for that any longer.
CANCEL_SECONDS_MAX = 5.0
# A program that is no server may read and say nothing.
HANDSHAKE_SECONDS_MAX = 60.0
# The server reads 128 levels, of which the frame and its params take two.
DEPTH_MAX = 126


class StdioTransport:
    """A connection to a server of our own."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process
        self._ids = itertools.count(1)
        self._pending: dict[int, tuple[asyncio.Future[Any], Claim | None]] = {}
        self._claims = TurnClaims()
        self._tools = ToolCalls()
        self._streams = Streams(self.request)
        self._working: set[asyncio.Future[None]] = set()
        self._ended: RkatError | None = None
        self._reading = asyncio.ensure_future(self._read())
        self._closing: asyncio.Future[None] | None = None

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        listener: Listener | None = None,
        tools: Sequence[Tool] = (),
    ) -> Any:
        """Sends a request and waits for its answer; cancelling it cancels the request at the server."""
        external = {"external_tools": [tool.declaration() for tool in tools]} if tools else {}
        claim = await self._claims.claim(method, params, listener, tools)
        answer = await self._ask(method, {**params, **external}, claim)
        self._note(method, params, answer, tools)
        return answer

    def subscribe(self, session_id: str, after: int | None) -> AsyncGenerator[Delivery, None]:
        """A session's events: those after `after`, then live ones."""
        return self._streams.subscribe(session_id, after)

    async def register_tools(self, tools: Sequence[Tool]) -> None:
        """Offers tools to every session of this connection."""
        self._tools.register(tools)
        await self.request("tools/register", {"tools": [tool.declaration() for tool in tools]})

    async def close(self) -> None:
        """Ends the server; what is pending fails."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._fail(RkatError("CONNECTION_CLOSED", "the client was closed"))
        await self._process.close()
        for work in [*self._working, self._reading]:
            work.cancel()

    async def _ask(self, method: str, params: Mapping[str, Any], claim: Claim | None) -> Any:
        request_id = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            line = self._line_of(request_id, method, params)
        except BaseException:
            self._release(claim)
            raise
        self._pending[request_id] = (answer, claim)
        try:
            await self._process.send(line)
            # Not the future itself: cancelled, it could not be answered any more.
            await asyncio.wait({answer})
        except asyncio.CancelledError:
            await self._cancel(request_id, answer)
            raise
        return answer.result()

    def _line_of(self, request_id: int, method: str, params: Mapping[str, Any]) -> bytes:
        if self._ended is not None:
            raise _again(self._ended)
        # What the server cannot read it cannot answer under its id, so it is refused here.
        require_shallow(params, DEPTH_MAX, what=f"the params of {method}")
        frame = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        line = json_bytes(frame, what=f"the params of {method}")
        if len(line) > LINE_BYTES_MAX:
            message = f"the params of {method} are longer than the {LINE_BYTES_MAX} bytes of a line"
            raise RkatError("PAYLOAD_TOO_LARGE", message)
        return line

    async def _cancel(self, request_id: int, answer: asyncio.Future[Any]) -> None:
        answer.add_done_callback(lambda done: done.exception())  # Whoever asked has left.
        frame = {"jsonrpc": "2.0", "method": "cancel", "params": {"request_id": request_id}}
        self._process.post(json_bytes(frame, what="a cancellation"))
        await asyncio.wait({answer}, timeout=CANCEL_SECONDS_MAX)

    def _note(self, method: str, params: Mapping[str, Any], answer: Any, tools: Sequence[Tool]) -> None:
        """What an answer means for the tools of sessions."""
        session_id = answer.get("session_id") if isinstance(answer, dict) else None
        if method == "session/create" and isinstance(session_id, str):
            self._tools.keep(session_id, tools)
        elif method in ("session/fork_at", "session/fork_replace") and isinstance(session_id, str):
            self._tools.share(plain_id(str(params.get("session_id"))), session_id)
        elif method == "session/archive":
            self._tools.forget(plain_id(str(params.get("session_id"))))

    async def _read(self) -> None:
        try:
            async for line in self._process.lines():
                # Once it has failed nobody listens; it is read on so that the server can end.
                if self._ended is None:
                    self._take(line)
            self._fail(RkatError("CONNECTION_CLOSED", await self._process.obituary()))
        except RkatError as error:
            self._fail(error)
        except Exception as thrown:
            # Unread, everything pending would wait for ever.
            self._fail(RkatError("INVALID_RESPONSE", f"what the server sent cannot be taken: {thrown!r}"))
            raise

    def _take(self, line: bytes) -> None:
        try:
            frame = json.loads(line)
        except (ValueError, RecursionError) as thrown:
            raise invalid_response(f"the server printed what is no JSON: {line[:200]!r}") from thrown
        if not isinstance(frame, dict):
            raise invalid_response(f"the server printed what is no frame: {line[:200]!r}")
        method, params = frame.get("method"), frame.get("params")
        if method is None:
            self._answered(frame)
        elif not isinstance(params, dict):
            raise invalid_response(f"the server sent {method} without params")
        elif "id" in frame:
            self._begin_work(frame["id"], str(method), params)
        else:
            self._hear(str(method), params)

    def _answered(self, frame: dict[str, Any]) -> None:
        request_id = frame.get("id")
        answer, claim = self._pending.pop(request_id, (None, None)) if isinstance(request_id, int) else (None, None)
        if answer is None:
            # Only what could not be read as a request is answered without its id.
            raise invalid_response(f"the server answered what was not asked: {str(frame)[:200]}")
        self._release(claim)
        if answer.done():
            return
        if "error" in frame:
            answer.set_exception(_error_of(frame["error"]))
        else:
            answer.set_result(frame.get("result"))

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        if method in ("session/stream_event", "session/stream_end"):
            self._streams.hear(method, params)
            return
        session_id = params.get("session_id")
        if method != "session/event" or not isinstance(session_id, str):
            _log.warning("the server sent the notification %s, which is not known", method)
            return
        delivery = delivery_of_hybrid(params.get("event"))
        claim = self._claims.find(session_id, delivery)
        if claim is None:
            _log.warning("an event of session %s belongs to no request: %s", session_id, delivery.event.get("type"))
            return
        if delivery.event["type"] == "run_started":
            self._tools.keep(session_id, claim.tools)
        self._tools.hear(session_id, delivery.event)
        if claim.listener is not None:
            claim.listener(delivery)

    def _begin_work(self, request_id: Any, method: str, params: dict[str, Any]) -> None:
        work = asyncio.ensure_future(self._serve(request_id, method, params))
        self._working.add(work)
        work.add_done_callback(self._working.discard)

    async def _serve(self, request_id: Any, method: str, params: dict[str, Any]) -> None:
        """Answers a request of the server."""
        frame: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id}
        if method == "tool/execute":
            frame["result"] = await self._tools.execute(params)
        else:
            frame["error"] = {"code": -32601, "message": f"the client has no method {method}"}
        await self._process.send(json_bytes(frame, what=f"the answer to {method}"))

    def _release(self, claim: Claim | None) -> None:
        if claim is None:
            return
        self._claims.release(claim)
        if claim.session_id is not None:
            self._tools.end_turn(claim.session_id)

    def _fail(self, error: RkatError) -> None:
        """Nothing can be asked any more; whatever was is told why."""
        if self._ended is not None:
            return
        self._ended = error
        self._streams.fail(error)
        for answer, claim in self._pending.values():
            self._release(claim)
            if not answer.done():
                answer.set_exception(_again(error))
        self._pending.clear()


def _again(error: RkatError) -> RkatError:
    """One for each who is told: a raised error keeps the trace of whoever caught it."""
    return RkatError(error.code, error.message, category=error.category, details=error.details)


async def open_stdio(
    command: str | os.PathLike[str] | None,
    args: Sequence[str],
    *,
    env: Mapping[str, str] | None,
    cwd: str | os.PathLike[str] | None,
    tools: Sequence[Tool],
) -> StdioTransport:
    """Starts a server and shakes hands with it."""
    environment = os.environ if env is None else env
    process = await start_process(server_command(command, args, environment), env=environment, cwd=cwd)
    transport = StdioTransport(process)
    try:
        _require_version(await asyncio.wait_for(transport.request("initialize", {}), HANDSHAKE_SECONDS_MAX))
        await transport.request("capabilities/get", {})
        if tools:
            await transport.register_tools(tools)
    except asyncio.TimeoutError:
        await transport.close()
        message = f"the server did not answer within {HANDSHAKE_SECONDS_MAX:.0f} s; is it one that speaks JSON-RPC?"
        raise RkatError("CONNECTION_FAILED", message) from None
    except BaseException:
        await transport.close()
        raise
    return transport


def _require_version(hello: Any) -> None:
    said = hello.get("contract_version") if isinstance(hello, dict) else None
    if not isinstance(said, str):
        raise invalid_response("the server did not say which contract it speaks")
    require_contract(said)


def _error_of(error: Any) -> RkatError:
    """JSON-RPC's error; its `data` is the error of the table."""
    data = error.get("data") if isinstance(error, dict) else None
    if isinstance(data, dict) and "code" in data:
        return error_of_wire(data, said_by="the server")
    if isinstance(error, dict):
        return RkatError(str(error.get("code")), str(error.get("message")), category="internal", details=data)
    return error_of_wire(error, said_by="the server")
