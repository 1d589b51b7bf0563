"""Tools that run here and are called by a model there."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Tool:
    """Something a model can do. `run` is given the arguments; a sync one runs in a thread, so that it may block.

    It returns a text, a list of content blocks, or any other value JSON can say. What it raises is told to the model.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    run: Callable[[dict[str, Any]], Any]

    def declaration(self) -> dict[str, Any]:
        """The tool as the server is told of it."""
        return {"name": self.name, "description": self.description, "input_schema": dict(self.input_schema)}

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Runs the tool; a failure is an answer, too."""
        try:
            output = await self._run(arguments)
            return {"content": _content(output), "is_error": False}
        except Exception as thrown:
            return {"content": f"{type(thrown).__name__}: {thrown}", "is_error": True}

    async def _run(self, arguments: dict[str, Any]) -> Any:
        if inspect.iscoroutinefunction(self.run):
            return await self.run(arguments)
        output = await asyncio.to_thread(self.run, arguments)
        return await output if inspect.isawaitable(output) else output


def _content(output: Any) -> Any:
    if isinstance(output, str):
        return output
    blocks = isinstance(output, list) and len(output) > 0
    if blocks and all(isinstance(block, dict) and "type" in block for block in output):
        return output
    return json.dumps(output, ensure_ascii=False, allow_nan=False)
