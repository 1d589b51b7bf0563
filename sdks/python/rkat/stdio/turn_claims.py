"""Which request an event belongs to: the wire names the session of an event, not the request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import RkatError
from ..events.delivery import Delivery, Listener
from ..tools import Tool
from ..transport import EVENTFUL


class Claim:
    """A request that may run a turn: who hears it, and the session once that is known."""

    def __init__(self, session_id: str | None, listener: Listener | None, tools: Sequence[Tool]) -> None:
        self.session_id = session_id
        self.listener = listener
        self.tools = tools


class TurnClaims:
    """The turns this connection has asked for. A session has one at a time, so its events are that one's.

    A new session is first heard of by `run_started`. So that it is known whose it is, a creation is sent only when
    the one before has started its turn or was answered.
    """

    def __init__(self) -> None:
        self._by_session: dict[str, Claim] = {}
        self._creating: Claim | None = None
        self._gate = asyncio.Lock()

    async def claim(
        self, method: str, params: Mapping[str, Any], listener: Listener | None, tools: Sequence[Tool]
    ) -> Claim | None:
        """Claims the events of a request that is about to be sent; None for one that has none."""
        if method not in EVENTFUL or params.get("preview") is True:
            return None
        if method == "session/create":
            if params.get("initial_turn") == "deferred":
                return None
            await self._gate.acquire()
            self._creating = Claim(None, listener, tools)
            return self._creating
        session_id = params.get("session_id")
        if not isinstance(session_id, str):
            return None
        claim = Claim(plain_id(session_id), listener, tools)
        if plain_id(session_id) in self._by_session:
            # The server would say the same; until it does, the events of one could be taken for the other's.
            message = f"session {session_id} is already running a turn of this connection"
            raise RkatError("SESSION_BUSY", message)
        self._by_session[plain_id(session_id)] = claim
        return claim

    def release(self, claim: Claim) -> None:
        """The request was answered, or never sent."""
        if self._creating is claim:
            self._creating = None
            self._gate.release()
        if claim.session_id is not None and self._by_session.get(claim.session_id) is claim:
            del self._by_session[claim.session_id]

    def find(self, session_id: str, delivery: Delivery) -> Claim | None:
        """Whose event this is."""
        claim = self._by_session.get(session_id)
        if claim is None and self._creating is not None and delivery.event.get("type") == "run_started":
            claim = self._creating
            claim.session_id = session_id
            self._by_session[session_id] = claim
            self._creating = None
            self._gate.release()
        return claim


def plain_id(session_id: str) -> str:
    """The id in `<uuid>` or `<realm>:<uuid>`: events name the session by the first."""
    return session_id.rpartition(":")[2]
