"""What a client needs of the wire it speaks over."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

from .contract.operations import CONTRACT_VERSION
from .errors import RkatError
from .events.delivery import Delivery, Listener
from .options import given
from .tools import Tool

# Methods that may run a turn or a compaction, and so have events, take long and can be cancelled.
EVENTFUL = frozenset({"session/create", "turn/start", "session/resume", "session/compact"})


class Transport(Protocol):
    """A way to one server, the same whether a process or an address is behind it."""

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        listener: Listener | None = None,
        tools: Sequence[Tool] = (),
    ) -> Any:
        """Asks for an operation by its JSON-RPC name and gives its answer, in the form JSON-RPC has it.

        The listener has heard every event when this returns. Cancelling it interrupts what it runs at the server.
        """

    def subscribe(self, session_id: str, after: int | None) -> AsyncGenerator[Delivery, None]:
        """A session's events after `after` from its log, then live ones, without a gap and without a repeat."""
        ...

    async def register_tools(self, tools: Sequence[Tool]) -> None:
        """Offers tools to every session of this connection, from its next turn on."""

    async def close(self) -> None:
        """Ends the connection; what is pending fails. Calling it twice does no harm."""


class Handle:
    """Something at a server: what it is asked names it, where it has a name."""

    def __init__(self, transport: Transport, **named: str) -> None:
        self._transport = transport
        self._named = named

    async def _request(self, method: str, /, **fields: Any) -> Any:
        return await self._transport.request(method, {**given(fields), **self._named})


def scope_of(session_id: str) -> dict[str, str]:
    """How a session is named where events are asked for."""
    return {"type": "session", "session_id": session_id}


def require_contract(said: str) -> None:
    """Raises VERSION_MISMATCH unless a server speaks our version of the contract."""
    ours = ".".join(str(part) for part in CONTRACT_VERSION)
    if said.split(".")[:2] != ours.split("."):
        message = f"the server speaks version {said} of the contract and this client {ours}; install matching ones"
        raise RkatError("VERSION_MISMATCH", message)
