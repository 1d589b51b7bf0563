"""JSON as it is sent."""

from __future__ import annotations

import json
from typing import Any

from ..errors import invalid_params


def json_bytes(value: Any, *, what: str) -> bytes:
    """A value as one line of JSON; refuses what JSON cannot say."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as thrown:
        raise invalid_params(f"{what} cannot be written as JSON: {thrown}") from thrown
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        # Half of a surrogate pair has no bytes in UTF-8; as an escape it arrives as it is.
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def require_shallow(value: Any, depth_max: int, *, what: str) -> None:
    """Refuses a value that is nested too deeply for the other side."""
    level = [value]
    for _ in range(depth_max + 1):
        level = [inner for outer in level if isinstance(outer, (dict, list, tuple)) for inner in _inside(outer)]
        if not level:
            return
    raise invalid_params(f"{what} are nested deeper than {depth_max} levels")


def _inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value
