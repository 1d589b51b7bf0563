"""The answer to a request."""

from __future__ import annotations

import json
from typing import Any

from ..contract.errors import error_of_wire, invalid_response
from .exchange import Response

BODY_BYTES_MAX = 256 * 1_024 * 1_024


async def read_answer(response: Response, url: str) -> Any:
    """The JSON of an answer; raises the error it tells of."""
    body = bytearray()
    async for piece in response.body:
        body += piece
        if len(body) > BODY_BYTES_MAX:
            raise invalid_response(f"{url} sent an answer of more than {BODY_BYTES_MAX} bytes")
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as thrown:
        said = bytes(body[:200]).decode("utf-8", "replace")
        raise invalid_response(f"{url} answered {response.status} with no JSON: {said}") from thrown
    if response.status != 200:
        raise error_of_wire(answer, said_by=f"{url} ({response.status})")
    return answer
