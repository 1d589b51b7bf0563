"""An agent that remembers, for as long as it lives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .contract.options import given
from .contract.results import AgentCompacted, AgentContext, AgentStatus, MemoryResults, Remembered
from .transport import Transport


class Agent:
    """An agent by its name; one is there as soon as it remembers something."""

    def __init__(self, transport: Transport, name: str) -> None:
        self._transport = transport
        self._name = name

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._name

    async def remember(self, content: str, metadata: Mapping[str, Any] | None = None) -> Remembered:
        """Adds a memory; a compaction that is due with it begins, and nobody waits for it."""
        remembered: Remembered = await self._request("agent/remember", content=content, metadata=metadata)
        return remembered

    async def note(self, content: str, title: str | None = None) -> int:
        """Keeps a private note, which the context shows when it is relevant; gives the number of notes."""
        notes: int = (await self._request("agent/note", content=content, title=title))["notes"]
        return notes

    async def context(self, *, immediate: int | None = None) -> AgentContext:
        """Both summaries, the newest memories word for word, and all of it as a prompt."""
        context: AgentContext = await self._request("agent/context", immediate=immediate)
        return context

    async def compact(self) -> AgentCompacted:
        """Compacts the memories now, whether or not it is due."""
        compacted: AgentCompacted = await self._request("agent/compact")
        return compacted

    async def should_compact(self) -> bool:
        """Whether a compaction is due."""
        return (await self.status())["compaction_due"]

    async def status(self) -> AgentStatus:
        """Counts, tiers, summaries, the last compaction and the next."""
        status: AgentStatus = await self._request("agent/status")
        return status

    async def recall(self, query: str, *, limit: int | None = None) -> MemoryResults:
        """Searches all this agent remembers."""
        results: MemoryResults = await self._request("memory/search_history", query=query, limit=limit)
        return results

    async def _request(self, method: str, **params: Any) -> Any:
        return await self._transport.request(method, {"agent": self._name, **given(params)})
