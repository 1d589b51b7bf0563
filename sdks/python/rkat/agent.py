"""An agent that remembers, for as long as it lives."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .contract.methods import AgentMethods
from .contract.options import SearchOptions
from .contract.results import MemoryResults
from .options import wire_fields
from .transport import Transport

if sys.version_info >= (3, 11):
    from typing import Unpack
elif TYPE_CHECKING:
    from typing_extensions import Unpack


class Agent(AgentMethods):
    """An agent by its name; one is there as soon as it remembers something."""

    def __init__(self, transport: Transport, name: str) -> None:
        super().__init__(transport, agent=name)
        self._name = name

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._name

    async def should_compact(self) -> bool:
        """Whether a compaction is due."""
        return (await self.status())["compaction_due"]

    async def recall(self, query: str, **options: Unpack[SearchOptions]) -> MemoryResults:
        """Searches all this agent remembers."""
        fields = wire_fields(options, SearchOptions, of="recall")
        results: MemoryResults = await self._request("memory/search_history", query=query, **fields)
        return results
