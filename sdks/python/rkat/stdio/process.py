"""A server of our own as a process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence

from ..errors import RkatError, invalid_response

_log = logging.getLogger("rkat")

LINE_BYTES_MAX = 64 * 1_024 * 1_024
STDERR_BYTES_MAX = 8 * 1_024
STDERR_LINES_SHOWN = 5
# An idle server is gone this soon after its input ended; one that runs turns is asked to end them.
IDLE_END_SECONDS = 1.0
TERMINATE_SECONDS = 5.0
EXIT_SECONDS = 5.0


class ServerProcess:
    """A process that is spoken to in lines."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._process = process
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._name = name
        self._said = bytearray()
        self._sending = asyncio.Lock()
        self._listening = asyncio.ensure_future(self._keep_stderr())

    async def lines(self) -> AsyncIterator[bytes]:
        """Every line of its output until that ends."""
        while True:
            try:
                line = await self._stdout.readline()
            except ValueError as thrown:
                raise invalid_response(f"{self._name} sent a line of more than {LINE_BYTES_MAX} bytes") from thrown
            if line == b"":
                return
            if line.strip() != b"":
                yield line

    async def send(self, line: bytes) -> None:
        """Sends a line whole; waits while the server does not read. A server that is gone is told of by `lines`."""
        try:
            self._stdin.write(line + b"\n")
            async with self._sending:
                await self._stdin.drain()
        except ConnectionError:
            return  # The end of its output follows, with the reason.

    def post(self, line: bytes) -> None:
        """Sends a short line without waiting for anything."""
        self._stdin.write(line + b"\n")

    async def obituary(self) -> str:
        """Why its output ended, in a sentence: the exit code and what it said last."""
        try:
            code = await asyncio.wait_for(self._process.wait(), EXIT_SECONDS)
        except asyncio.TimeoutError:
            return f"{self._name} closed its output"
        await asyncio.wait({self._listening}, timeout=EXIT_SECONDS)
        how = f"ended with exit code {code}" if code >= 0 else f"was ended by {_signal_name(-code)}"
        lines = [line.strip() for line in self._said.decode("utf-8", "replace").splitlines() if line.strip()]
        if not lines:
            return f"{self._name} {how} and said nothing"
        return f"{self._name} {how}; it last said: {' | '.join(lines[-STDERR_LINES_SHOWN:])}"

    async def close(self) -> None:
        """Ends its input, then asks it to end, then ends it."""
        self._stdin.close()
        for seconds, end in ((IDLE_END_SECONDS, self._process.terminate), (TERMINATE_SECONDS, self._process.kill)):
            if await self._exits_within(seconds):
                break
            with contextlib.suppress(ProcessLookupError):  # It has just ended by itself.
                end()
        await self._process.wait()
        self._listening.cancel()

    async def _exits_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._process.wait(), seconds)
        except asyncio.TimeoutError:
            return False
        return True

    async def _keep_stderr(self) -> None:
        while chunk := await self._stderr.read(STDERR_BYTES_MAX):
            self._said += chunk
            del self._said[:-STDERR_BYTES_MAX]
            _log.info("%s: %s", self._name, chunk.decode("utf-8", "replace").rstrip())


async def start_process(
    command: Sequence[str], *, env: Mapping[str, str], cwd: str | os.PathLike[str] | None
) -> ServerProcess:
    """Starts a server; raises CONNECTION_FAILED when it cannot be."""
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(env), cwd=cwd, limit=LINE_BYTES_MAX
        )
    except OSError as thrown:
        raise RkatError("CONNECTION_FAILED", f"{command[0]} cannot be started: {thrown}") from thrown
    return ServerProcess(process, os.path.basename(command[0]))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
