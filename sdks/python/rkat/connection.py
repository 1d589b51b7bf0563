"""The way to a server."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from types import TracebackType

from .client import Client
from .errors import invalid_params
from .rest.transport import open_rest
from .stdio.transport import open_stdio
from .tools import Tool
from .transport import Transport


class Connecting:
    """A connection to be made: `await` it, or enter it with `async with`."""

    def __init__(self, open_transport: Callable[[], Awaitable[Transport]]) -> None:
        self._open = open_transport
        self._client: Client | None = None

    def __await__(self) -> Generator[object, None, Client]:
        return self._connect().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._connect()
        return self._client

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            await self._client.close()

    async def _connect(self) -> Client:
        return Client(await self._open())


def connect(
    *,
    command: str | os.PathLike[str] | None = None,
    args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    tools: Sequence[Tool] = (),
    url: str | None = None,
    token: str | None = None,
    ssl_context: ssl.SSLContext | None = None,
) -> Connecting:
    """Connects to a server of its own over stdin and stdout, or with `url` to one that listens over HTTP.

    Without `command`, it is MEERKAT_BIN_PATH, `rkat-rpc` on the PATH, or `rkat` with `rpc`.
    """
    if url is None:
        if token is not None or ssl_context is not None:
            raise invalid_params("token and ssl_context are for a server with a url; give the url, too")
        return Connecting(lambda: open_stdio(command, args, env=env, cwd=cwd, tools=tools))
    if command is not None or args or env is not None or cwd is not None:
        raise invalid_params("a server with a url is running already: leave command, args, env and cwd out")
    return Connecting(lambda: open_rest(url, token=token, ssl_context=ssl_context, tools=tools))
