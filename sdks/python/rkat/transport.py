"""What a client needs of the wire it speaks over."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol

from .events.delivery import Delivery, Listener
from .tools import Tool

CONTRACT_VERSION = (0, 6)
"""Major and minor of the wire contract; servers of the same are spoken to."""


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
