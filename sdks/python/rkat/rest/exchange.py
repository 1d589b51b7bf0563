"""One request of HTTP/1.1 and its response, on a connection of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ..errors import RkatError, error_of_wire, invalid_params, invalid_response

CONNECT_SECONDS_MAX = 10.0
HEAD_BYTES_MAX = 64 * 1_024
PIECE_BYTES = 64 * 1_024
BODY_BYTES_MAX = 256 * 1_024 * 1_024


@dataclass(frozen=True)
class Origin:
    """An address, and what is shown there to be let in."""

    url: str
    host: str
    port: int
    authority: str
    prefix: str
    tls: ssl.SSLContext | None
    token: str | None


def origin_of(url: str, token: str | None, ssl_context: ssl.SSLContext | None) -> Origin:
    """The server a url names; refuses one that is no address of HTTP."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as thrown:
        raise invalid_params(f"url: {url} is no address: {thrown}") from thrown
    if parts.scheme not in ("http", "https") or not host:
        raise invalid_params(f"url: write it like http://127.0.0.1:8080, not {url}")
    if parts.username is not None or parts.query or parts.fragment:
        raise invalid_params("url: give an address alone, and the token as token")
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token and token):
        raise invalid_params("token: it must be visible characters without blanks")
    tls = (ssl_context or ssl.create_default_context()) if parts.scheme == "https" else None
    return Origin(
        url=url.rstrip("/"),
        host=host,
        port=port or (443 if tls is not None else 80),
        authority=parts.netloc,
        prefix=parts.path.rstrip("/"),
        tls=tls,
        token=token,
    )


class Response:
    """The head of a response, and its body as it comes."""

    def __init__(self, status: int, headers: Mapping[str, str], body: AsyncIterator[bytes]) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def is_event_stream(self) -> bool:
        """Whether the body is a stream of events."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/event-stream"


class HttpWire:
    """The connections to one server, each for one request."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.is_closed = False
        self._writers: set[asyncio.StreamWriter] = set()

    @contextlib.asynccontextmanager
    async def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncIterator[Response]:
        """Sends a request and gives the response; leaving it closes the connection."""
        reader, writer = await _connect(self.origin)
        self._writers.add(writer)
        if self.is_closed:
            writer.transport.abort()
        sending = asyncio.ensure_future(_send(writer, _head(self.origin, method, path, headers, body), body))
        try:
            status, fields = await self._read_head(reader)
            yield Response(status, fields, self._read_body(reader, status, fields))
        finally:
            sending.cancel()
            self._writers.discard(writer)
            # The answer was read or is not wanted: there is nothing to wait for but the end of the socket.
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def close(self) -> None:
        """Breaks every connection."""
        self.is_closed = True
        for writer in self._writers:
            writer.transport.abort()

    async def _read_head(self, reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
        try:
            status, fields = 100, {"": ""}
            while 100 <= status < 200:
                status, fields = _parse_head(await reader.readuntil(b"\r\n\r\n"), self.origin)
            return status, fields
        except (asyncio.IncompleteReadError, OSError) as thrown:
            raise self._broken("it closed the connection without an answer") from thrown
        except asyncio.LimitOverrunError as thrown:
            message = f"{self.origin.url} answered with headers of more than {HEAD_BYTES_MAX} bytes"
            raise invalid_response(message) from thrown

    async def _read_body(
        self, reader: asyncio.StreamReader, status: int, fields: Mapping[str, str]
    ) -> AsyncIterator[bytes]:
        try:
            if "chunked" in fields.get("transfer-encoding", "").lower():
                async for piece in _chunks(reader):
                    yield piece
            elif status not in (204, 304):
                length = fields.get("content-length")
                async for piece in _pieces(reader, None if length is None else int(length)):
                    yield piece
        except (asyncio.IncompleteReadError, OSError) as thrown:
            raise self._broken("its answer broke off") from thrown
        except (ValueError, asyncio.LimitOverrunError) as thrown:
            raise invalid_response(f"{self.origin.url} sent a body that cannot be read: {thrown}") from thrown

    def _broken(self, why: str) -> RkatError:
        if self.is_closed:
            return closed_error()
        return RkatError("CONNECTION_CLOSED", f"the connection to {self.origin.url} broke: {why}")


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


def closed_error() -> RkatError:
    """What is told to whoever asks through a client that was closed."""
    return RkatError("CONNECTION_CLOSED", "the client was closed")


async def _connect(origin: Origin) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection(origin.host, origin.port, ssl=origin.tls, limit=HEAD_BYTES_MAX),
            CONNECT_SECONDS_MAX,
        )
    except asyncio.TimeoutError as thrown:
        message = f"{origin.url} did not accept a connection within {CONNECT_SECONDS_MAX:g} s"
        raise RkatError("CONNECTION_FAILED", message) from thrown
    except OSError as thrown:
        raise RkatError("CONNECTION_FAILED", f"{origin.url} cannot be reached: {thrown}") from thrown
    # A turn may be silent for minutes; a peer that vanished must still be noticed.
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return reader, writer


def _head(origin: Origin, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    fields = {"Host": origin.authority, "Connection": "close", "User-Agent": "rkat-python", **headers}
    if origin.token is not None:
        fields["Authorization"] = f"Bearer {origin.token}"
    if body is not None:
        fields["Content-Type"] = "application/json"
        fields["Content-Length"] = str(len(body))
    lines = [f"{method} {origin.prefix}{path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


async def _send(writer: asyncio.StreamWriter, head: bytes, body: bytes | None) -> None:
    # Beside the reading: a server may refuse a body before it has read all of it.
    with contextlib.suppress(OSError):
        writer.write(head + (body or b""))
        await writer.drain()


def _parse_head(head: bytes, origin: Origin) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
        raise invalid_response(f"{origin.url} does not speak HTTP/1.1: {first[:100]}")
    pairs = [line.partition(":") for line in lines]
    return int(words[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        async for piece in _pieces(reader, size):
            yield piece
        await reader.readexactly(2)


async def _pieces(reader: asyncio.StreamReader, length: int | None) -> AsyncIterator[bytes]:
    """So many bytes as they come, or all until the end."""
    left = length
    while left is None or left > 0:
        piece = await reader.read(PIECE_BYTES if left is None else min(PIECE_BYTES, left))
        if piece == b"":
            if left is not None:
                raise asyncio.IncompleteReadError(b"", left)
            return
        left = None if left is None else left - len(piece)
        yield piece
