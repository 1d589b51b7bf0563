"""Options as the fields of the wire."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from .contract.options import INSIDE, WIRE_NAMES


def wire_fields(options: Mapping[str, Any], known: type, *, of: str, beside: Sequence[str] = ()) -> dict[str, Any]:
    """The wire's fields of options; raises TypeError for one that would be ignored, naming the nearest.

    `beside` are parameters that are no options and could be meant as well.
    """
    names = [*known.__annotations__, *beside]
    _require(options, names, of=of)
    for outer, inside in INSIDE.items():
        inner = options.get(outer)
        if outer in names and isinstance(inner, Mapping):
            _require(inner, list(inside.__annotations__), of=of, within=f"{outer}.")
    return {WIRE_NAMES.get(name, name): value for name, value in given(options).items()}


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that were given: None means that one was not."""
    return {name: value for name, value in fields.items() if value is not None}


def _require(options: Mapping[str, Any], names: Sequence[str], *, of: str, within: str = "") -> None:
    for name in options:
        if name in names:
            continue
        meant = difflib.get_close_matches(str(name).lower(), names, n=1, cutoff=0.5)
        advice = f"did you mean {within}{meant[0]}?" if meant else f"there are {', '.join(names)}"
        raise TypeError(f"{of}() has no option {within}{name}; {advice}")
