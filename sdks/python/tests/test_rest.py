"""What only HTTP has: tokens, addresses, connections that break."""

from __future__ import annotations

import asyncio
import contextlib
import json
import unittest
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

from rkat import RkatError, connect

from .servers import Home, OverRest, RestServer, clock_tool, failure_of, until


class Requests(OverRest):
    """A server that listens."""

    async def test_a_client_that_is_closed_says_so_and_its_turn_goes_on(self) -> None:
        session = await self.client.create_session("Hello", enable_shell=True)
        stream = session.stream("Run `sleep 60`")
        await until(stream, "tool_execution_started")
        await self.client.close()
        await failure_of(self, "CONNECTION_CLOSED", stream.result())
        await failure_of(self, "CONNECTION_CLOSED", session.turn("More."))
        async with connect(url=self.server.url) as again:
            self.assertEqual((await again.read_session(session.id))["state"], "running")
            await again.session(session.id).interrupt()

    async def test_tools_are_refused_where_they_cannot_be_called(self) -> None:
        tools = [clock_tool(lambda arguments: "noon")]
        await failure_of(self, "CAPABILITY_UNAVAILABLE", self.client.create_session("x", tools=tools))
        await failure_of(self, "CAPABILITY_UNAVAILABLE", self.client.register_tools(tools))
        await failure_of(self, "CAPABILITY_UNAVAILABLE", connect(url=self.server.url, tools=tools))

    async def test_what_an_address_cannot_say_is_refused(self) -> None:
        await failure_of(self, "INVALID_PARAMS", self.client.list_sessions(labels={"a=b": "c"}))
        await failure_of(self, "INVALID_PARAMS", self.client.call("session/history", {}))
        await failure_of(self, "METHOD_NOT_FOUND", self.client.call("session/stream_open", {}))

    async def test_a_body_that_is_too_large_is_answered(self) -> None:
        await failure_of(self, "PAYLOAD_TOO_LARGE", self.client.create_session("x" * (17 * 1_024 * 1_024)))

    async def test_an_address_that_is_none_is_named(self) -> None:
        for url in ("127.0.0.1:8080", "ftp://x", "http://", "http://u:p@h", "http://h?x=1", "http://h:99999"):
            await failure_of(self, "INVALID_PARAMS", connect(url=url))
        with self.assertRaisesRegex(RkatError, "leave command"):
            connect(url=self.server.url, command="rkat-rpc")


class Servers(unittest.IsolatedAsyncioTestCase):
    """Servers that come, go and ask for a token."""

    def setUp(self) -> None:
        self.home = Home()
        self.addCleanup(self.home.remove)

    async def test_a_token_is_asked_for_and_given(self) -> None:
        server = RestServer(self.home, "--token", "s3cret")
        self.addCleanup(server.end)
        await failure_of(self, "UNAUTHORIZED", connect(url=server.url))
        async with connect(url=server.url + "/", token="s3cret") as client:
            session = await client.create_session("The port is 7443.")
            events = [event async for event in session.stream("What is the port?")]
            self.assertEqual(events[-1]["type"], "run_completed")
            await until(client.subscribe(session.id, after=0), "run_completed")
        await failure_of(self, "INVALID_PARAMS", connect(url=server.url, token="a b"))

    async def test_a_subscription_goes_on_when_the_server_comes_back(self) -> None:
        server = RestServer(self.home)
        client = await connect(url=server.url)
        session = await client.create_session("The port is 7443.")
        deliveries = client.subscribe(session.id, after=0)
        heard = await until(deliveries, "run_completed")
        waiting = asyncio.ensure_future(deliveries.__anext__())
        server.kill()
        server = await asyncio.to_thread(RestServer, self.home, port=urlsplit(server.url).port or 0)
        self.addCleanup(server.end)
        await session.turn("What is the port?")
        heard += [await waiting, *await until(deliveries, "run_completed")]
        seqs = [delivery.seq for delivery in heard if delivery.seq > 0]
        self.assertEqual(seqs, list(range(seqs[0], seqs[0] + len(seqs))))
        self.assertEqual([delivery.event["type"] for delivery in heard].count("run_completed"), 2)

    async def test_a_server_that_dies_fails_its_turns(self) -> None:
        server = RestServer(self.home)
        client = await connect(url=server.url)
        stream = client.create_session_streaming("Run `sleep 60`", enable_shell=True)
        turn = asyncio.ensure_future(client.create_session("Run `sleep 61`", enable_shell=True))
        await until(stream.__aiter__(), "tool_execution_started")
        while len(await client.list_sessions()) < 2:
            self.assertFalse(turn.done())
        server.kill()
        await failure_of(self, "CONNECTION_CLOSED", stream.result())
        await failure_of(self, "CONNECTION_CLOSED", turn)
        await failure_of(self, "CONNECTION_FAILED", client.create_session("More."))


CAPABILITIES = json.dumps({"contract_version": {"major": 0, "minor": 6, "patch": 1}, "capabilities": []}).encode()


@contextlib.asynccontextmanager
async def fake(*answers: bytes) -> AsyncIterator[str]:
    """A server that gives these answers, byte by byte, whatever it is asked."""
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0)
        await reader.readexactly(length)
        for byte in left.pop(0):
            writer.write(bytes([byte]))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/some/prefix"
    finally:
        server.close()


def plain(body: bytes, status: str = "200 OK") -> bytes:
    """An answer of known length."""
    return b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


def chunked(*pieces: bytes, kind: bytes = b"text/event-stream") -> bytes:
    """An answer in chunks."""
    chunks = b"".join(b"%x;a=b\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    head = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: %s\r\n\r\n"
    return head % kind + chunks


def told(type_: str, data: Any) -> bytes:
    """A server-sent event."""
    return f"event: {type_}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


class Answers(unittest.IsolatedAsyncioTestCase):
    """Answers as they may come through a network."""

    async def hear(self, answer: bytes) -> tuple[list[dict[str, Any]], RkatError | None]:
        """The events of a turn that is answered like this, and what it failed with."""
        async with fake(plain(CAPABILITIES), answer) as url, connect(url=url) as client:
            events: list[dict[str, Any]] = []
            try:
                async for event in client.create_session_streaming("x"):
                    events.append(event)
            except RkatError as error:
                return events, error
            return events, None

    async def test_events_come_in_any_pieces(self) -> None:
        delta = told("text_delta", {"seq": 0, "payload": {"type": "text_delta", "delta": "ü🎉"}})
        bad = told("text_delta", {"seq": 0, "payload": {"type": "text_delta"}})
        result = told("result", {"session_id": "s", "text": "ü", "usage": {}})
        events, error = await self.hear(chunked(b": heartbeat\n\n" + delta[:31], delta[31:] + bad + result, b""))
        self.assertIsNone(error)
        self.assertEqual(events[0], {"type": "text_delta", "delta": "ü🎉"})
        self.assertEqual((events[1]["type"], events[1]["raw"]), ("malformed_event", {"type": "text_delta"}))

    async def test_events_that_break_off_are_told_of(self) -> None:
        started = told("run_started", {"payload": {"type": "run_started", "session_id": "s", "prompt": "x"}})
        for answer in (chunked(started), chunked(started, b"")):
            events, error = await self.hear(answer)
            self.assertEqual(events[0]["type"], "run_started")
            assert error is not None
            self.assertEqual(error.code, "CONNECTION_CLOSED")

    async def test_a_turn_that_fails_after_it_began_has_its_code(self) -> None:
        wire = {"error": "no", "code": "PROVIDER_ERROR", "category": "provider", "message": "no", "details": {"a": 1}}
        _, error = await self.hear(chunked(told("error", wire), b""))
        assert error is not None
        self.assertEqual((error.code, error.category, error.details), ("PROVIDER_ERROR", "provider", {"a": 1}))

    async def test_an_answer_that_is_no_answer_is_shown(self) -> None:
        for answer in (plain(b"<html>Bad Gateway</html>", "502 Bad Gateway"), b"SSH-2.0\r\n\r\n", plain(b"{}")):
            _, error = await self.hear(answer)
            assert error is not None
            self.assertEqual(error.code, "INVALID_RESPONSE")
        _, error = await self.hear(b"")
        assert error is not None
        self.assertEqual(error.code, "CONNECTION_CLOSED")

    async def test_another_contract_is_refused(self) -> None:
        body = json.dumps({"contract_version": {"major": 1, "minor": 6}}).encode()
        async with fake(plain(body)) as url:
            await failure_of(self, "VERSION_MISMATCH", connect(url=url))

    async def test_a_place_where_nobody_listens_is_named(self) -> None:
        async with fake() as url:
            pass
        error = await failure_of(self, "CONNECTION_FAILED", connect(url=url))
        self.assertIn(url, error.message)


if __name__ == "__main__":
    unittest.main()
