"""A conversation with an agent."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .contract.errors import invalid_response
from .contract.options import TurnOptions, given, turn_fields
from .contract.results import (
    Compaction,
    CompactResult,
    Content,
    ExpandResult,
    RewriteCommit,
    RewriteResult,
    RunResult,
    SessionContext,
    SessionHistory,
    TranscriptRevision,
)
from .events.delivery import Listener
from .events.stream import EventStream
from .transport import Transport

if sys.version_info >= (3, 11):
    from typing import Unpack
elif TYPE_CHECKING:
    from typing_extensions import Unpack


class Session:
    """A session by its id; nothing is read until it is used."""

    def __init__(self, transport: Transport, session_id: str, last_result: RunResult | None = None) -> None:
        self._transport = transport
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

    async def turn(self, prompt: Content, **options: Unpack[TurnOptions]) -> RunResult:
        """Runs a turn and waits for its end; cancelling it interrupts the turn, and what it streamed is kept."""
        return await self._start_turn(prompt, turn_fields(options, of="turn"), None)

    def stream(self, prompt: Content, **options: Unpack[TurnOptions]) -> EventStream:
        """Runs a turn and lets its events be iterated as they happen."""
        fields = turn_fields(options, of="stream")
        return EventStream(lambda listener: self._start_turn(prompt, fields, listener))

    async def interrupt(self) -> None:
        """Stops the running turn, whoever runs it; what it streamed is kept."""
        await self._request("turn/interrupt")

    async def history(self, *, offset: int = 0, limit: int | None = None) -> SessionHistory:
        """The full transcript, oldest first."""
        history: SessionHistory = await self._request("session/history", offset=offset, limit=limit)
        return history

    async def revision(
        self, revision: str = "current", *, offset: int = 0, limit: int | None = None
    ) -> TranscriptRevision:
        """The transcript as it was at a revision; without one, as it is, with its revision."""
        which = {"revision": revision, "offset": offset, "limit": limit}
        read: TranscriptRevision = await self._request("session/transcript_revision", **which)
        return read

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

    async def rewrites(self) -> list[RewriteCommit]:
        """How the transcript was rewritten and restored, oldest first."""
        commits: list[RewriteCommit] = (await self._request("session/transcript_rewrites"))["commits"]
        return commits

    async def fork(self, message_index: int, replacement: Mapping[str, Any] | None = None) -> Session:
        """A new session of the messages before an index, with a replacement in the place of the one at it."""
        method = "session/fork_at" if replacement is None else "session/fork_replace"
        fork = await self._request(method, message_index=message_index, replacement=replacement)
        return Session(self._transport, fork["session_id"])

    async def context(self, *, at_seq: int | None = None) -> SessionContext:
        """What the model is shown now, or was shown at an earlier call."""
        context: SessionContext = await self._request("session/context", at_seq=at_seq)
        return context

    async def compact(self, *, instructions: str | None = None, preview: bool = False) -> CompactResult:
        """Compacts the context now; with `preview`, only says what that would keep, drop and cost."""
        result: CompactResult = await self._request("session/compact", instructions=instructions, preview=preview)
        return result

    async def compactions(self) -> list[Compaction]:
        """Every compaction with its receipt, oldest first."""
        compactions: list[Compaction] = (await self._request("session/compactions"))["compactions"]
        return compactions

    async def undo_compaction(self, compaction_id: str) -> list[str]:
        """Undoes a compaction and those built on it, and gives their ids; later turns stay."""
        answer = await self._request("session/compact_undo", compaction_id=compaction_id)
        undone: list[str] = answer["compaction_ids"]
        return undone

    async def expand_compaction(
        self,
        compaction_id: str,
        *,
        from_seq: int | None = None,
        to_seq: int | None = None,
        max_tokens: int | None = None,
    ) -> ExpandResult:
        """Brings turns a compaction took out back into the context."""
        which = {"compaction_id": compaction_id, "from_seq": from_seq, "to_seq": to_seq, "max_tokens": max_tokens}
        expanded: ExpandResult = await self._request("session/compact_expand", **which)
        return expanded

    async def pin(self, seq: int) -> None:
        """Keeps a message in the context through every compaction."""
        await self._request("session/pin", seq=seq)

    async def unpin(self, seq: int) -> None:
        """Takes a message's pin away."""
        await self._request("session/unpin", seq=seq)

    async def archive(self) -> None:
        """Ends the session: it stays readable and runs no more turns."""
        await self._request("session/archive")

    async def _start_turn(self, prompt: Content, fields: dict[str, Any], listener: Listener | None) -> RunResult:
        params = {**fields, "session_id": self._id, "prompt": prompt}
        answer = await self._transport.request("turn/start", params, listener=listener)
        self._last_result = run_result(answer)
        return self._last_result

    async def _request(self, method: str, **params: Any) -> Any:
        return await self._transport.request(method, {"session_id": self._id, **given(params)})


def _reason(kind: str, note: str | None, actor: str | None, expected: str | None) -> dict[str, Any]:
    return {"reason": given({"kind": kind, "note": note}), "actor": actor, "expected_parent_revision": expected}


def run_result(answer: Any) -> RunResult:
    """The answer to a turn; raises INVALID_RESPONSE for what is none."""
    if isinstance(answer, dict) and isinstance(answer.get("text"), str) and isinstance(answer.get("usage"), dict):
        result: RunResult = answer  # type: ignore[assignment]  # Its other fields are the contract's promise.
        return result
    raise invalid_response(f"the server answered a turn with no result: {str(answer)[:200]}")
