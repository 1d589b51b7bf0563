"""What only a server of one's own has: callback tools, a process that can die, a handshake."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import unittest
from contextlib import aclosing
from pathlib import Path
from typing import Any
from unittest import mock

from rkat import RkatError, connect
from rkat.stdio import process as server_process
from rkat.stdio.binary import server_command

from .servers import Home, OverStdio, clock_tool, failure_of, until

NOON = {"date": "2026-01-02", "time": "12:00:00", "timezone": "UTC", "weekday": "Friday"}


class CallbackTools(OverStdio):
    """Tools that run here."""

    async def test_a_tool_may_be_sync_or_async(self) -> None:
        async def later(arguments: dict[str, Any]) -> dict[str, str]:
            await asyncio.sleep(0)
            return NOON

        for run in (later, lambda arguments: NOON):
            session = await self.client.create_session("What time is it?", tools=[clock_tool(run)])
            self.assertIn("date: 2026-01-02\ntime: 12:00:00\ntimezone: UTC\nweekday: Friday", session.text)
            self.assertEqual((await session.turn("What time is it?"))["tool_calls"], 1)

    async def test_what_a_tool_raises_is_told_to_the_model(self) -> None:
        def broken(arguments: dict[str, Any]) -> str:
            raise LookupError("no clock here")

        session = await self.client.create_session("What time is it?", tools=[clock_tool(broken)])
        self.assertIn("LookupError: no clock here", session.text)

    async def test_a_registered_tool_serves_every_session(self) -> None:
        session = await self.client.create_session("Hello")
        await self.client.register_tools([clock_tool(lambda arguments: NOON)])
        self.assertIn("12:00:00", (await session.turn("What time is it?"))["text"])

    async def test_sessions_with_tools_of_one_name_each_call_their_own(self) -> None:
        async def talk(number: int) -> None:
            async def run(arguments: dict[str, Any]) -> dict[str, str]:
                await asyncio.sleep(0)
                return {**NOON, "time": f"time-{number}"}

            prompt = f"The port is {number}. What time is it?"
            session = await self.client.create_session(prompt, tools=[clock_tool(run)])
            self.assertIn(f"time: time-{number}\n", session.text)
            fork = await self.client.call("forkSession", {"session_id": session.id, "message_index": 1})
            again = await self.client.session(fork["session_id"]).turn(f"Now {number}! What time is it?")
            self.assertIn(f"time: time-{number}\n", again["text"])

        await asyncio.gather(*(talk(100 + number) for number in range(20)))

    async def test_tools_can_be_brought_along(self) -> None:
        async with self.home.rpc(tools=[clock_tool(lambda arguments: NOON)]) as client:
            self.assertIn("12:00:00", (await client.create_session("What time is it?")).text)


class Connection(OverStdio):
    """One server, one client."""

    async def test_a_session_can_be_named_with_its_realm(self) -> None:
        session = await self.client.create_session("Hello")
        events = [event async for event in self.client.session(f"test:{session.id}").stream("The port is 1.")]
        self.assertEqual(events[-1]["result"], "Noted: the port is 1.")

    async def test_subscriptions_that_are_left_are_closed(self) -> None:
        session = await self.client.create_session("Hello")
        for _ in range(260):  # More than the server opens at once.
            async with aclosing(self.client.subscribe(session.id)) as deliveries:
                waiting = asyncio.ensure_future(deliveries.__anext__())
                await asyncio.sleep(0)
                waiting.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waiting

    async def test_what_the_server_could_not_answer_is_refused_here(self) -> None:
        deep: list[Any] = []
        for _ in range(200):
            deep = [deep]
        await failure_of(self, "INVALID_PARAMS", self.client.create_session("x", app_context=deep))
        long = "x" * (65 * 1_024 * 1_024)
        await failure_of(self, "PAYLOAD_TOO_LARGE", self.client.create_session(long))
        self.assertEqual((await self.client.call("runtime/health"))["status"], "ok")

    async def test_a_closed_client_says_so(self) -> None:
        session = await self.client.create_session("Hello", enable_shell=True)
        stream = session.stream("Run `sleep 60`")
        await until(stream, "tool_execution_started")
        await self.client.close()
        await self.client.close()
        await failure_of(self, "CONNECTION_CLOSED", stream.result())
        await failure_of(self, "CONNECTION_CLOSED", session.turn("More."))
        async with self.home.rpc() as again:
            self.assertEqual((await again.read_session(session.id))["state"], "idle")

    async def test_a_server_that_dies_fails_everything_in_one_sentence(self) -> None:
        session = await self.client.create_session("Hello")
        subscription = self.client.subscribe(session.id)
        waiting = asyncio.ensure_future(subscription.__anext__())
        deadly = self.client.create_session("Run `kill -9 $PPID`", enable_shell=True)
        sleeping = self.client.create_session("Run `sleep 60`", enable_shell=True)
        for outcome in await asyncio.gather(deadly, sleeping, waiting, return_exceptions=True):
            self.assertIsInstance(outcome, RkatError)
            self.assertRegex(str(outcome), "^CONNECTION_CLOSED: node was ended by SIGKILL")
        await failure_of(self, "CONNECTION_CLOSED", session.turn("More."))


def fake(script: str, *args: str) -> dict[str, Any]:
    """A server that is a few lines of Python."""
    helper = "import json, sys\nsay = lambda **frame: print(json.dumps({'jsonrpc': '2.0', **frame}), flush=True)\n"
    greeting = (
        "def answer(line):\n"
        "    request = json.loads(line)\n"
        "    say(id=request['id'], result={'contract_version': '0.6.99'})\n"
        "    return request\n"
    )
    return {"command": sys.executable, "args": ["-c", helper + greeting + script, *args]}


class Handshakes(unittest.IsolatedAsyncioTestCase):
    """Servers that are not as they should be."""

    async def test_the_last_words_and_the_exit_code_are_told(self) -> None:
        script = "print('one\\ntwo\\nthe disk is full', file=sys.stderr)\nsys.exit(31)"
        error = await failure_of(self, "CONNECTION_CLOSED", connect(**fake(script)))
        self.assertRegex(error.message, r"ended with exit code 31; it last said: one \| two \| the disk is full$")

    async def test_a_server_of_another_contract_is_refused(self) -> None:
        script = "say(id=json.loads(input())['id'], result={'contract_version': '0.7.0'})\nsys.stdin.read()"
        error = await failure_of(self, "VERSION_MISMATCH", connect(**fake(script)))
        self.assertIn("0.7.0", error.message)

    async def test_what_is_no_json_is_shown(self) -> None:
        error = await failure_of(self, "INVALID_RESPONSE", connect(**fake("print('Hello!', flush=True)\ninput()")))
        self.assertIn("Hello!", error.message)

    async def test_a_malformed_event_is_seen_as_one(self) -> None:
        script = (
            "answer(input()); answer(input())\n"
            "request = json.loads(input())\n"
            "event = lambda event: say(method='session/event', params={'session_id': 's', 'event': event})\n"
            "event({'type': 'run_started', 'session_id': 's', 'prompt': 'x', 'seq': 1})\n"
            "event({'type': 'text_delta', 'delat': 'x'})\n"
            "event({'type': 'a_new_one', 'x': 1})\n"
            "event({'type': 'tool_config_changed', 'payload': {'type': 'x'}, 'source': 's'})\n"
            "say(id=request['id'], result={'session_id': 's', 'text': '', 'usage': {}})\n"
            "sys.stdin.read()"
        )
        async with connect(**fake(script)) as client:
            events = [event async for event in client.create_session_streaming("x")]
        malformed = {
            "type": "malformed_event",
            "reason": "text_delta without a usable delta",
            "raw": {"type": "text_delta", "delat": "x"},
        }
        changed = {"type": "tool_config_changed", "payload": {"type": "x"}}
        self.assertEqual(events[1:], [malformed, {"type": "a_new_one", "x": 1}, changed])

    async def test_a_server_that_will_not_end_is_ended(self) -> None:
        script = (
            "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "answer(input()); answer(input())\nwhile True: time.sleep(60)"
        )
        with mock.patch.multiple(server_process, IDLE_END_SECONDS=0.05, TERMINATE_SECONDS=0.05):
            client = await connect(**fake(script))
            asking = asyncio.ensure_future(client.call("runtime/health"))
            await asyncio.sleep(0)
            await client.close()
        await failure_of(self, "CONNECTION_CLOSED", asking)

    async def test_a_program_that_cannot_be_run_is_named(self) -> None:
        await failure_of(self, "BINARY_NOT_FOUND", connect(command="no-such-program"))
        await failure_of(self, "BINARY_NOT_FOUND", connect(env={"PATH": "/nowhere"}))
        with self.assertRaisesRegex(RkatError, "give the url"):
            connect(token="x")


class Resolution(unittest.TestCase):
    """Which program is started."""

    def test_the_argument_comes_first_then_the_environment_then_the_path(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("rkat-rpc", "rkat", "other"):
                program = Path(folder) / name
                program.write_text("#!/bin/sh\n", encoding="utf-8")
                program.chmod(0o755)
            env = {"PATH": folder, "MEERKAT_BIN_PATH": "other"}

            def at(name: str) -> str:
                return os.path.join(folder, name)

            self.assertEqual(server_command("rkat-rpc", ["--realm", "a"], env), (at("rkat-rpc"), "--realm", "a"))
            self.assertEqual(server_command(None, [], env), (at("other"),))
            self.assertEqual(server_command(None, [], {"PATH": folder}), (at("rkat-rpc"),))
            (Path(folder) / "rkat-rpc").unlink()
            rpc = server_command(None, ["--realm", "a"], {"PATH": folder})
            self.assertEqual(rpc, (at("rkat"), "rpc", "--realm", "a"))
            with self.assertRaisesRegex(RkatError, "MEERKAT_BIN_PATH: gone"):
                server_command(None, [], {"PATH": folder, "MEERKAT_BIN_PATH": "gone"})


class Homes(unittest.IsolatedAsyncioTestCase):
    """What outlives a server."""

    async def test_a_session_goes_on_in_the_next_server(self) -> None:
        home = Home()
        try:
            async with await home.rpc() as first:
                session_id = (await first.create_session("The port is 7443.")).id
            async with home.rpc() as second:
                self.assertIn("7443", (await second.session(session_id).turn("What is the port?"))["text"])
        finally:
            home.remove()


if __name__ == "__main__":
    unittest.main()
