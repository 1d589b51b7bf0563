"""Parts that need no server."""

from __future__ import annotations

import asyncio
import unittest
from collections.abc import AsyncIterator
from unittest import mock

from rkat import Delivery, RkatError, describe_event
from rkat.contract.json_text import json_bytes
from rkat.events import buffer as event_buffer
from rkat.events.buffer import EventBuffer
from rkat.rest.routes import target_of
from rkat.rest.server_sent_events import read_events


def live(number: int) -> Delivery:
    """An event that is not in the log."""
    return Delivery(0, 0, {"type": "text_delta", "delta": str(number)})


class Buffers(unittest.IsolatedAsyncioTestCase):
    """Readers that lag."""

    async def test_live_events_beyond_the_bound_are_dropped_and_that_is_told(self) -> None:
        buffer = EventBuffer()
        for number in range(5_000):
            buffer.put(live(number))
        buffer.put(Delivery(7, 0, {"type": "run_completed"}))
        buffer.end()
        heard: list[Delivery] = []
        while (delivery := await buffer.next()) is not None:
            heard.append(delivery)
        self.assertEqual(len(heard), 4_096 + 2)
        self.assertIn("904 live events were dropped", heard[-2].event["reason"])
        self.assertEqual(heard[-1].seq, 7)

    async def test_a_reader_that_never_comes_is_told_where_to_go_on(self) -> None:
        buffer = EventBuffer()
        with mock.patch.object(event_buffer, "DURABLE_EVENTS_MAX", 3):
            for seq in range(1, 9):
                buffer.put(Delivery(seq, 0, {"type": "turn_started"}))
        self.assertEqual([await buffer.next() and 1 for _ in range(3)], [1, 1, 1])
        with self.assertRaisesRegex(RkatError, "STREAM_OVERFLOW"):
            await buffer.next()

    async def test_a_second_reader_is_refused(self) -> None:
        buffer = EventBuffer()
        first = asyncio.ensure_future(buffer.next())
        await asyncio.sleep(0)
        with self.assertRaisesRegex(RkatError, "someone reads these already"):
            await buffer.next()
        buffer.end()
        self.assertIsNone(await first)


class Events(unittest.TestCase):
    """Events in words."""

    def test_an_event_is_described_by_what_its_type_means_and_why(self) -> None:
        self.assertEqual(describe_event({"type": "run_failed", "error": "no key"}), "a turn has failed: no key")
        self.assertEqual(describe_event({"type": "a_new_one"}), "a new one")


class Wire(unittest.IsolatedAsyncioTestCase):
    """What is written and read."""

    async def test_server_sent_events_are_cut_the_same_however_they_come(self) -> None:
        text = ': hi\r\nevent: a\r\nid: 3\r\ndata: {"x":\r\ndata: "ü"}\r\n\r\nevent: no data\n\ndata:1\n\n'.encode()

        async def pieces(size: int) -> AsyncIterator[bytes]:
            for start in range(0, len(text), size):
                yield text[start : start + size]

        for size in range(1, len(text) + 1):
            events = [tuple(event) async for event in read_events(pieces(size))]
            self.assertEqual(events, [("a", {"x": "ü"}), ("message", 1)])

    def test_an_operation_is_spread_over_path_query_and_body(self) -> None:
        scope = {"type": "session", "session_id": "a/b"}
        cursor = {"scope": scope, "sequence": 3}
        events = target_of("events/list_since", {"scope": scope, "cursor": cursor, "limit": 5})
        self.assertEqual(events, ("GET", "/sessions/a%2Fb/events/list?cursor=3&limit=5", None))
        listed = target_of("session/list", {"labels": {"a": "b=c", "ü": "d e"}, "limit": None})
        self.assertEqual(listed, ("GET", "/sessions?label=a%3Db%3Dc&label=%C3%BC%3Dd+e", None))
        search = target_of("memory/search", {"query": "x", "scope": "session"})
        self.assertEqual(search, ("GET", "/memory/search?query=x&scope=session", None))
        self.assertEqual(target_of("session/pin", {"session_id": "a", "seq": 4}), ("PUT", "/sessions/a/pins/4", {}))
        self.assertEqual(target_of("turn/start", {"session_id": "a", "prompt": "x"})[2], {"prompt": "x"})

    def test_half_of_a_surrogate_pair_is_sent_as_an_escape(self) -> None:
        self.assertEqual(json_bytes({"a": "ü"}, what="x"), '{"a":"ü"}'.encode())
        self.assertEqual(json_bytes({"a": "\ud83c"}, what="x"), b'{"a":"\\ud83c"}')
        for value in (float("nan"), {1, 2}, b"x"):
            with self.assertRaisesRegex(RkatError, "cannot be written as JSON"):
                json_bytes(value, what="x")


if __name__ == "__main__":
    unittest.main()
