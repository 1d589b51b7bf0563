"""The servers the tests talk to: the built ones, in an empty home of their own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any, TypeVar

from rkat import Client, Delivery, RkatError, Tool, connect
from rkat.connection import Connecting

ROOT = Path(__file__).resolve().parents[3]
NODE = ROOT / "node_modules" / ".bin" / "node"
CONFIG = '[agent]\nmodel = "offline"\n\n[tools]\noutput_bytes_max = 1024\n'
END_SECONDS_MAX = 60.0
# A server over HTTP has a shell only when it is started with one; what still runs at its end is not waited for.
SHELL = ("--tools", "workspace", "--grace", "0s")

Item = TypeVar("Item")


class Home:
    """A folder with a configuration and the state of one realm."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="rkat-python-"))
        (self.path / ".rkat").mkdir()
        (self.path / ".rkat" / "config.toml").write_text(CONFIG, encoding="utf-8")
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.path)}
        self.flags = ["--realm", "test", "--state-root", str(self.path / "state")]

    def remove(self) -> None:
        """Takes everything away."""
        shutil.rmtree(self.path, ignore_errors=True)

    def rpc(self, **more: Any) -> Connecting:
        """Connects to a JSON-RPC server on this home."""
        args = [str(ROOT / "packages/rkat/dist/rpc.js"), *self.flags, *more.pop("args", [])]
        return connect(command=NODE, args=args, **{"env": self.env, "cwd": self.path, **more})


class RestServer:
    """A REST server as a process."""

    def __init__(self, home: Home, *more: str, port: int = 0) -> None:
        command = [str(NODE), str(ROOT / "packages/rkat/dist/rest.js"), "--port", str(port), "--json", *SHELL, *home.flags, *more]
        self._process = subprocess.Popen(
            command,
            env=home.env,
            cwd=home.path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        line = self._process.stdout.readline()
        if line == "":
            raise RuntimeError(f"the REST server ended: {self._process.stderr.read()}")
        self.url: str = json.loads(line)["url"]

    def end(self) -> None:
        """Ends it and waits until it is gone."""
        self._process.terminate()
        self._process.communicate(timeout=END_SECONDS_MAX)

    def kill(self) -> None:
        """Ends it in the middle of whatever it does."""
        self._process.kill()
        self._process.communicate(timeout=END_SECONDS_MAX)


class OverStdio(unittest.IsolatedAsyncioTestCase):
    """Tests with a client over stdin and stdout."""

    home: Home
    client: Client

    async def asyncSetUp(self) -> None:
        be_quiet()
        self.home = Home()
        self.client = await self.home.rpc()

    async def asyncTearDown(self) -> None:
        await self.client.close()
        self.home.remove()


class OverRest(unittest.IsolatedAsyncioTestCase):
    """Tests with a client over HTTP."""

    home: Home
    server: RestServer
    client: Client

    @classmethod
    def setUpClass(cls) -> None:
        cls.home = Home()
        cls.server = RestServer(cls.home)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.server.end()
        cls.home.remove()

    async def asyncSetUp(self) -> None:
        be_quiet()
        self.client = await connect(url=self.server.url)

    async def asyncTearDown(self) -> None:
        await self.client.close()


def be_quiet() -> None:
    """Spares the log what takes long: a server that starts always does."""
    asyncio.get_running_loop().set_debug(False)


def clock_tool(run: Any) -> Tool:
    """A tool that the offline model calls when it is asked for the time."""
    return Tool("datetime", "Says what time it is.", {"type": "object"}, run)


async def failure_of(case: unittest.TestCase, code: str, work: Awaitable[object]) -> RkatError:
    """Awaits work that must fail, and with which code."""
    with case.assertRaises(RkatError) as raised:
        await work
    case.assertEqual(raised.exception.code, code, str(raised.exception))
    return raised.exception


async def until(events: AsyncIterator[Item], type_: str) -> list[Item]:
    """Reads events up to the first of a type."""
    heard: list[Item] = []
    async for item in events:
        heard.append(item)
        event: Any = item.event if isinstance(item, Delivery) else item
        if event["type"] == type_:
            return heard
    raise AssertionError(f"no {type_} among {heard}")
