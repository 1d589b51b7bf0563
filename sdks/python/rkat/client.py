"""The calls of a server's runtime, the same over every wire."""

from __future__ import annotations

import base64
import binascii
import difflib
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from .agent import Agent
from .contract.methods import ClientMethods
from .contract.operations import OPERATIONS
from .contract.options import Content, SearchOptions, SessionOptions
from .contract.results import MemoryResults, RunResult, SessionInfo, SessionSummary
from .errors import RkatError, invalid_params, invalid_response
from .events.delivery import Delivery, Listener
from .events.stream import EventStream, SessionStream
from .options import given, wire_fields
from .session import Session, run_result
from .tools import Tool

if sys.version_info >= (3, 11):
    from typing import Unpack
elif TYPE_CHECKING:
    from typing_extensions import Unpack


class Blob(NamedTuple):
    """Content kept by reference, such as the full text of a tool output that was cut."""

    media_type: str
    data: bytes


class Client(ClientMethods):
    """A connection to a server where sessions run; `connect` makes one."""

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def create_session(
        self, prompt: Content, *, tools: Sequence[Tool] = (), **options: Unpack[SessionOptions]
    ) -> Session:
        """Creates a session and runs its first turn; cancelling it archives what was begun."""
        fields = _session_fields(options, of="create_session")
        result = await self._create(prompt, fields, tools)
        return Session(self._transport, result["session_id"], result)

    def create_session_streaming(
        self, prompt: Content, *, tools: Sequence[Tool] = (), **options: Unpack[SessionOptions]
    ) -> SessionStream:
        """The same, with the events of the first turn to iterate."""
        fields = _session_fields(options, of="create_session_streaming")
        events = EventStream(lambda listener: self._create(prompt, fields, tools, listener))
        return SessionStream(events, lambda result: Session(self._transport, result["session_id"], result))

    async def create_deferred_session(
        self, prompt: Content | None = None, *, tools: Sequence[Tool] = (), **options: Unpack[SessionOptions]
    ) -> Session:
        """Creates a session whose first turn is still to come; a prompt is delivered together with that turn's."""
        fields = _session_fields(options, of="create_deferred_session")
        params = {**fields, **given({"prompt": prompt}), "initial_turn": "deferred"}
        answer = await self._transport.request("session/create", params, tools=tools)
        if not isinstance(answer, dict) or not isinstance(answer.get("session_id"), str):
            raise invalid_response("the server did not name the session it made")
        return Session(self._transport, answer["session_id"])

    def session(self, session_id: str) -> Session:
        """A handle on a session by its id; nothing is read until it is used."""
        if not isinstance(session_id, str) or session_id == "":
            raise invalid_params("session_id: give the id of a session")
        return Session(self._transport, session_id)

    async def read_session(self, session_id: str) -> SessionInfo:
        """What a session is and how far it got."""
        return await self.session(session_id).read()

    async def each_session(
        self, *, labels: Mapping[str, str] | None = None, page: int = 100
    ) -> AsyncGenerator[SessionSummary, None]:
        """Every session with these labels, the one that changed last first, asked for `page` at a time.

        None comes twice; one that changes meanwhile moves to the front, and may be missed.
        """
        cursor: str | None = None
        while True:
            answer = await self._request("session/list", limit=page, labels=labels, cursor=cursor)
            for session in answer["sessions"]:
                yield session
            cursor = answer.get("next_cursor")
            if cursor is None:
                return

    async def search_memory(
        self, query: str, *, everything: bool = False, **options: Unpack[SearchOptions]
    ) -> MemoryResults:
        """Searches what compactions took out of contexts; with `everything`, all that was said in the project."""
        fields = wire_fields(options, SearchOptions, of="search_memory", beside=["everything"])
        scope = {"scope": "session"} if "session_id" in fields else {}
        method = "memory/search_history" if everything else "memory/search"
        results: MemoryResults = await self._request(method, query=query, **{**scope, **fields})
        return results

    def agent(self, name: str) -> Agent:
        """A handle on an agent by its name."""
        return Agent(self._transport, name)

    async def read_blob(self, blob_id: str) -> Blob:
        """Content kept by reference, whole."""
        answer = await self._request("blob/get", blob_id=blob_id)
        try:
            return Blob(answer["media_type"], base64.b64decode(answer["data"], validate=True))
        except (KeyError, TypeError, binascii.Error) as thrown:
            raise invalid_response(f"the blob {blob_id} came in no usable form: {thrown}") from thrown

    def subscribe(self, session_id: str, after: int | None = None) -> AsyncGenerator[Delivery, None]:
        """A session's events: those after `after` from its log, then live ones, without a gap and without a repeat.

        Without `after`, those from the first step of the iteration on. It goes on until it is left.
        """
        return self._transport.subscribe(session_id, after)

    async def register_tools(self, tools: Sequence[Tool]) -> None:
        """Offers tools to every session of this connection, from its next turn on; over stdio only."""
        await self._transport.register_tools(tools)

    async def call(
        self, operation: str, params: Mapping[str, Any] | None = None, *, on_event: Listener | None = None
    ) -> Any:
        """Any operation, by its name in the table (`injectContext`) or on the wire (`session/inject_context`)."""
        return await self._transport.request(_rpc_method(operation), params or {}, listener=on_event)

    async def close(self) -> None:
        """Ends the connection; what is pending fails. Calling it twice does no harm."""
        await self._transport.close()

    async def _create(
        self,
        prompt: Content,
        fields: Mapping[str, Any],
        tools: Sequence[Tool],
        listener: Listener | None = None,
    ) -> RunResult:
        params = {**fields, "prompt": prompt}
        return run_result(await self._transport.request("session/create", params, listener=listener, tools=tools))


def _session_fields(options: Mapping[str, Any], *, of: str) -> dict[str, Any]:
    return wire_fields(options, SessionOptions, of=of, beside=["tools"])


def _rpc_method(name: str) -> str:
    """The JSON-RPC method of an operation, which may be given under either name."""
    if name in OPERATIONS:
        return OPERATIONS[name].rpc
    if "/" in name:
        return name
    known = [*OPERATIONS, *(row.rpc for row in OPERATIONS.values())]
    meant = difflib.get_close_matches(name, known, n=1)
    advice = f"did you mean {meant[0]}?" if meant else f"there are {', '.join(OPERATIONS)}"
    raise RkatError("METHOD_NOT_FOUND", f"there is no operation {name}; {advice}")
