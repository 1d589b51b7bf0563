"""Events on their way to a listener."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

Event: TypeAlias = dict[str, Any]
"""What a session tells: `type` says what, the other fields are those of the wire contract."""


class Delivery(NamedTuple):
    """An event with its place in the session; `seq` is 0 for what is live only and not in the log."""

    seq: int
    timestamp_ms: int
    event: Event


Listener: TypeAlias = Callable[[Delivery], None]
