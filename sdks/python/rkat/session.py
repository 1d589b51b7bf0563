"""A conversation with an agent."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .contract.methods import SessionMethods
from .contract.options import Content, TurnOptions
from .contract.results import EventPage, RewriteResult, RunResult, RunResultUsage, TranscriptRevision
from .errors import invalid_response
from .events.delivery import Listener
from .events.stream import EventStream
from .options import given, wire_fields
from .transport import Transport, scope_of

if sys.version_info >= (3, 11):
    from typing import Unpack
elif TYPE_CHECKING:
    from typing_extensions import Unpack


class Session(SessionMethods):
    """A session by its id; nothing is read until it is used."""

    def __init__(self, transport: Transport, session_id: str, last_result: RunResult | None = None) -> None:
        super().__init__(transport, session_id=session_id)
        self._id = session_id
        self._last_result = last_result

    @property
    def id(self) -> str:
        """The session's id."""
        return self._id

    @property
    def last_result(self) -> RunResult | None:
        """How the newest turn run from here ended; None before the first."""
        return self._last_result

    @property
    def text(self) -> str:
        """The text that turn ended with."""
        return "" if self._last_result is None else self._last_result["text"]

    @property
    def usage(self) -> RunResultUsage | None:
        """Tokens of the whole session after that turn; None before the first."""
        return None if self._last_result is None else self._last_result["usage"]

    @property
    def turns(self) -> int:
        """Calls of the model that turn made."""
        return 0 if self._last_result is None else self._last_result["turns"]

    @property
    def tool_calls(self) -> int:
        """Tool calls that turn made."""
        return 0 if self._last_result is None else self._last_result["tool_calls"]

    @property
    def structured_output(self) -> Any:
        """What that turn came to, as its output_schema describes it; None where nothing of that shape was asked for."""
        return None if self._last_result is None else self._last_result.get("structured_output")

    async def turn(self, prompt: Content, **options: Unpack[TurnOptions]) -> RunResult:
        """Runs a turn and waits for its end; cancelling it interrupts the turn, and what it streamed is kept."""
        return await self._start_turn(prompt, wire_fields(options, TurnOptions, of="turn"), None)

    def stream(self, prompt: Content, **options: Unpack[TurnOptions]) -> EventStream:
        """Runs a turn and lets its events be iterated as they happen."""
        fields = wire_fields(options, TurnOptions, of="stream")
        return EventStream(lambda listener: self._start_turn(prompt, fields, listener))

    async def revision(
        self, revision: str = "current", *, limit: int | None = None, offset: int | None = None
    ) -> TranscriptRevision:
        """The transcript as it was at a revision; without one, as it is, with its revision."""
        return await super().revision(revision, limit=limit, offset=offset)

    async def rewrite(
        self,
        start: int,
        end: int,
        messages: Sequence[Mapping[str, Any]],
        *,
        reason: str = "edit",
        note: str | None = None,
        actor: str | None = None,
        expected_revision: str | None = None,
    ) -> RewriteResult:
        """Puts other messages in the place of those from `start` to before `end`, counted as in `history`."""
        selection = {"type": "message_range", "start": start, "end": end}
        why = _reason(reason, note, actor, expected_revision)
        changed = {"selection": selection, "replacement": list(messages), **why}
        result: RewriteResult = await self._request("session/rewrite_transcript", **changed)
        return result

    async def restore(
        self,
        revision: str,
        *,
        reason: str = "edit",
        note: str | None = None,
        actor: str | None = None,
        expected_revision: str | None = None,
    ) -> RewriteResult:
        """Makes the transcript what it was at a revision; what was said since stays in the log."""
        why = _reason(reason, note, actor, expected_revision)
        result: RewriteResult = await self._request("session/restore_transcript_revision", revision=revision, **why)
        return result

    async def fork(self, message_index: int, replacement: Mapping[str, Any] | None = None) -> Session:
        """A new session of the messages before an index, with a replacement in the place of the one at it."""
        method = "session/fork_at" if replacement is None else "session/fork_replace"
        fork = await self._request(method, message_index=message_index, replacement=replacement)
        return Session(self._transport, fork["session_id"])

    async def events(self, *, after: int = 0, limit: int | None = None) -> EventPage:
        """The durable events after a place, oldest first; `subscribe` of the client goes on with live ones."""
        scope = scope_of(self._id)
        cursor = {"scope": scope, "sequence": after}
        page: EventPage = await self._transport.request(
            "events/list_since", given({"scope": scope, "cursor": cursor, "limit": limit})
        )
        return page

    async def event_cursor(self) -> int:
        """The place of the newest durable event; 0 when there is none."""
        answer = await self._transport.request("events/latest_cursor", {"scope": scope_of(self._id)})
        sequence: int = answer["cursor"]["sequence"]
        return sequence

    async def _start_turn(self, prompt: Content, fields: dict[str, Any], listener: Listener | None) -> RunResult:
        params = {**fields, "session_id": self._id, "prompt": prompt}
        answer = await self._transport.request("turn/start", params, listener=listener)
        self._last_result = run_result(answer)
        return self._last_result


def _reason(kind: str, note: str | None, actor: str | None, expected: str | None) -> dict[str, Any]:
    return {"reason": given({"kind": kind, "note": note}), "actor": actor, "expected_parent_revision": expected}


def run_result(answer: Any) -> RunResult:
    """The answer to a turn; raises INVALID_RESPONSE for what is none."""
    if isinstance(answer, dict) and isinstance(answer.get("text"), str) and isinstance(answer.get("usage"), dict):
        result: RunResult = answer  # type: ignore[assignment]  # Its other fields are the contract's promise.
        return result
    raise invalid_response(f"the server answered a turn with no result: {str(answer)[:200]}")
