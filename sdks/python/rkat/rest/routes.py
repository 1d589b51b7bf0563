"""An operation as a request of HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from ..contract.operations import OPERATIONS
from ..errors import RkatError, invalid_params

# What a server tells of itself has no row: it is no operation on a session.
_HOST_ROUTES = {
    "runtime/host_info": "GET /runtime/host_info",
    "runtime/capabilities": "GET /runtime/capabilities",
    "runtime/health": "GET /runtime/health",
    "skills/list": "GET /skills",
}
_ROUTES = {**{row.rpc: row.http for row in OPERATIONS.values()}, **_HOST_ROUTES}
_WITH_BODY = ("POST", "PUT", "PATCH")


class Target(NamedTuple):
    """Where a request goes, and what it brings; None where there is no body."""

    method: str
    path: str
    body: dict[str, Any] | None


def target_of(rpc: str, params: Mapping[str, Any]) -> Target:
    """The request of an operation: fields of its path, then its query or its body."""
    if rpc not in _ROUTES:
        raise RkatError("METHOD_NOT_FOUND", f"there is no {rpc} over HTTP")
    method, _, pattern = _ROUTES[rpc].partition(" ")
    fields = _flat(params)
    places = re.findall(r"\{(\w+)\}", pattern)
    path = re.sub(r"\{(\w+)\}", lambda place: _segment(place[1], fields), pattern)
    rest = {name: value for name, value in fields.items() if name not in places and value is not None}
    if method in _WITH_BODY:
        return Target(method, path, rest)
    query = urlencode([pair for name, value in rest.items() for pair in _pairs(name, value)])
    return Target(method, f"{path}?{query}" if query else path, None)


def _flat(params: Mapping[str, Any]) -> dict[str, Any]:
    """A session's events are named by a scope and a cursor; an address has a field for each."""
    fields = dict(params)
    scope, cursor = fields.get("scope"), fields.get("cursor")
    if isinstance(scope, dict):
        del fields["scope"]
        fields["session_id"] = scope.get("session_id")
    if isinstance(cursor, dict):
        fields["cursor"] = cursor.get("sequence")
    return fields


def _segment(name: str, fields: Mapping[str, Any]) -> str:
    value = fields.get(name)
    if value is None or value == "":
        raise invalid_params(f"{name}: it is missing")
    if value in (".", ".."):
        # A path takes dots for a way up.
        raise invalid_params(f"{name}: {value} is none")
    return quote(str(value), safe="")


def _pairs(name: str, value: Any) -> list[tuple[str, str]]:
    if name == "labels" and isinstance(value, Mapping):
        unsayable = next((key for key in value if "=" in key), None)
        if unsayable is not None:
            raise invalid_params(f"labels: over HTTP a key cannot hold =, as {unsayable} does")
        return [("label", f"{key}={label}") for key, label in value.items()]
    if isinstance(value, bool):
        return [(name, "true" if value else "false")]
    return [(name, str(value))]
