"""The tools of a connection, and which of them a call means."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from ..events.delivery import Event
from ..tools import Tool

# The server waits 30 s for a tool; past this nobody would hear the answer.
OWNER_SECONDS_MAX = 25.0


class ToolCalls:
    """Answers `tool/execute`. A session's own tools win over registered ones of the same name.

    A server of another make may not name the session that calls. Where several tools share a name then, it is the one
    whose turn was heard to ask for it.
    """

    def __init__(self) -> None:
        self._registered: dict[str, Tool] = {}
        self._own: dict[str, dict[str, Tool]] = {}
        self._askers: dict[str, set[str]] = {}
        self._heard = asyncio.Event()

    def register(self, tools: Sequence[Tool]) -> None:
        """Offers tools to every session."""
        self._registered.update({tool.name: tool for tool in tools})

    def keep(self, session_id: str, tools: Sequence[Tool]) -> None:
        """Remembers the tools a session was created with."""
        if tools:
            self._own[session_id] = {tool.name: tool for tool in tools}

    def share(self, source_id: str, fork_id: str) -> None:
        """A fork has the tools of its source."""
        if source_id in self._own:
            self._own[fork_id] = self._own[source_id]

    def forget(self, session_id: str) -> None:
        """The session runs no more turns."""
        self._own.pop(session_id, None)

    def hear(self, session_id: str, event: Event) -> None:
        """Takes note of who asks for which call."""
        if event.get("type") != "tool_call_requested":
            return
        self._askers.setdefault(event["id"], set()).add(session_id)
        self._heard.set()
        self._heard = asyncio.Event()

    def end_turn(self, session_id: str) -> None:
        """The session asks for nothing any more."""
        for tool_use_id in [key for key, askers in self._askers.items() if session_id in askers]:
            self._askers[tool_use_id].discard(session_id)
            if not self._askers[tool_use_id]:
                del self._askers[tool_use_id]

    async def execute(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Runs the tool that is meant; a call that cannot be served is an error the model is told."""
        name, tool_use_id, arguments = params.get("name"), params.get("tool_use_id"), params.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return _refusal("the call has no usable name or arguments")
        tool = await self._find(name, str(tool_use_id), _session_of(params))
        return await tool.execute(arguments) if isinstance(tool, Tool) else _refusal(tool)

    async def _find(self, name: str, tool_use_id: str, session_id: object) -> Tool | str:
        own = [tools[name] for tools in self._own.values() if name in tools]
        registered = self._registered.get(name)
        alike = [*own, *([] if registered is None else [registered])]
        if not alike:
            return f"the client has no tool {name}"
        if not isinstance(session_id, str):
            if all(tool is alike[0] for tool in alike):
                return alike[0]
            askers = await self._askers_of(tool_use_id)
            if len(askers) != 1:
                return f"several sessions of the client have a tool {name}, and it is not known which one calls"
            (session_id,) = askers
        return self._own.get(session_id, {}).get(name) or registered or f"the client has no tool {name} here"

    async def _askers_of(self, tool_use_id: str) -> set[str]:
        # The event that names the session may be written a moment after the call.
        try:
            await asyncio.wait_for(self._until_asked(tool_use_id), OWNER_SECONDS_MAX)
        except asyncio.TimeoutError:
            return set()
        return set(self._askers.get(tool_use_id, set()))

    async def _until_asked(self, tool_use_id: str) -> None:
        while tool_use_id not in self._askers:
            await self._heard.wait()


def _refusal(reason: str) -> dict[str, Any]:
    return {"content": reason, "is_error": True}


def _session_of(params: Mapping[str, Any]) -> object:
    """The session that asks; servers of other makes may not say."""
    source = params.get("source")
    return source.get("session_id") if isinstance(source, dict) else None
