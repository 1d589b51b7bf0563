"""Every operation as a method, and every field of an input as an option."""

from __future__ import annotations

import unittest
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rkat import Client, Delivery, RkatError, Tool
from rkat.contract.options import WIRE_NAMES, SearchOptions, SessionOptions, TurnOptions
from rkat.events.delivery import Listener
from rkat.rest.routes import target_of

from .servers import OverRest, OverStdio, failure_of, until

if TYPE_CHECKING:
    Case = unittest.IsolatedAsyncioTestCase
else:
    Case = object


class Recorder:
    """A wire to nowhere that remembers what went over it."""

    params: Mapping[str, Any] = {}

    async def request(
        self, method: str, params: Mapping[str, Any], *, listener: Listener | None = None, tools: Sequence[Tool] = ()
    ) -> Any:
        self.params = params
        return {"session_id": "s", "text": "", "usage": {}}

    async def subscribe(self, session_id: str, after: int | None) -> AsyncGenerator[Delivery, None]:
        nothing: tuple[Delivery, ...] = ()
        for delivery in nothing:
            yield delivery

    async def register_tools(self, tools: Sequence[Tool]) -> None:
        pass

    async def close(self) -> None:
        pass


class Options(unittest.IsolatedAsyncioTestCase):
    """What is given goes out, and what cannot go out is refused."""

    async def test_every_field_of_an_input_reaches_the_wire(self) -> None:
        wire = Recorder()
        client = Client(wire)
        session = client.session("s")
        calls: list[tuple[type, Any, Any]] = [
            (SessionOptions, client.create_session, "keep_alive"),
            (SessionOptions, client.create_deferred_session, "labels"),
            (TurnOptions, session.turn, "clear_provider_params"),
            (SearchOptions, client.search_memory, "as_of_seq"),
        ]
        for options, call, known in calls:
            self.assertIn(known, options.__annotations__)
            for name in options.__annotations__:
                value = {} if name in ("budget_limits", "compaction", "tool_overlay") else name
                await call("x", **{name: value})
                self.assertEqual(wire.params[WIRE_NAMES.get(name, name)], value)
        await session.turn("x", tool_overlay={"allowed_tools": ["a"]})
        self.assertEqual(wire.params["flow_tool_overlay"], {"allowed_tools": ["a"]})

    async def test_a_misspelt_name_is_told_with_the_nearest_also_inside(self) -> None:
        client = Client(Recorder())
        calls: list[tuple[Any, dict[str, Any], str]] = [
            (client.create_session, {"keepalive": True}, "has no option keepalive; did you mean keep_alive?"),
            (client.create_session, {"tool": []}, "has no option tool; did you mean tools?"),
            (client.session("s").turn, {"flow_tool_overlay": {}}, "did you mean tool_overlay?"),
            (client.search_memory, {"as_of": 1}, "did you mean as_of_seq?"),
            (client.agent("ada").recall, {"limits": 1}, "did you mean limit?"),
            (
                client.create_session,
                {"budget_limits": {"max_token": 1}},
                "has no option budget_limits.max_token; did you mean budget_limits.max_tokens?",
            ),
            (
                client.session("s").turn,
                {"tool_overlay": {"block_tools": []}},
                "did you mean tool_overlay.blocked_tools?",
            ),
        ]
        for call, options, sentence in calls:
            with self.assertRaises(TypeError) as raised:
                await call("x", **options)
            self.assertIn(sentence, str(raised.exception))

    async def test_a_session_to_come_may_have_no_prompt(self) -> None:
        wire = Recorder()
        await Client(wire).create_deferred_session(keep_alive=False)
        self.assertEqual(wire.params, {"initial_turn": "deferred", "keep_alive": False})

    async def test_an_agent_searches_its_own_memories(self) -> None:
        wire = Recorder()
        await Client(wire).agent("ada").recall("x", agent="bob")
        self.assertEqual(wire.params, {"query": "x", "agent": "ada"})

    def test_a_name_that_would_lead_elsewhere_is_no_part_of_a_path(self) -> None:
        for name in ("", ".", ".."):
            with self.assertRaisesRegex(RkatError, "INVALID_PARAMS: agent: "):
                target_of("agent/status", {"agent": name})
        self.assertEqual(target_of("agent/status", {"agent": "..a"}).path, "/agents/..a")


class Operations(Case):
    """Methods that are the table's, with the answers of a server."""

    client: Client

    async def test_a_session_that_is_kept_alive_answers_at_once(self) -> None:
        session = await self.client.create_session("The port is 7443.", keep_alive=True)
        self.assertEqual(session.text, "")
        told = (await until(self.client.subscribe(session.id, after=0), "run_completed"))[-1]
        self.assertEqual(told.event["result"], "Noted: the port is 7443.")

    async def test_a_session_is_told_things_without_a_turn(self) -> None:
        session = await self.client.create_session("Hello")
        self.assertEqual(await session.inject("Be kind.", idempotency_key="k"), "staged")
        self.assertEqual(await session.inject("Be kind.", idempotency_key="k"), "duplicate")
        outcome = await session.send_external_event("deploy", payload={"ok": True})
        self.assertEqual(outcome["outcome_type"], "accepted")
        await failure_of(self, "INVALID_PARAMS", session.send_external_event(""))

    async def test_a_session_says_what_it_is_and_what_happened(self) -> None:
        session = await self.client.create_session("The port is 7443.", labels={"team": "blue"})
        self.assertEqual(await session.read(), await self.client.read_session(session.id))
        newest = await session.event_cursor()
        events = (await session.events())["events"]
        self.assertEqual(events[-1]["cursor"]["sequence"], newest)
        self.assertEqual((await session.events(after=newest - 1))["events"], events[-1:])
        self.assertEqual(len((await session.events(limit=2))["events"]), 2)

    async def test_a_pin_says_what_is_pinned(self) -> None:
        session = await self.client.create_session("The port is 7443.")
        seq = (await session.history(limit=1))["messages"][0]["seq"]
        self.assertEqual(await session.pin(seq), {"pinned": True, "seq": seq, "pins": [seq]})
        self.assertEqual(await session.unpin(seq), {"pinned": False, "seq": seq, "pins": []})

    async def test_a_server_is_asked_for_what_belongs_to_no_session(self) -> None:
        await self.client.agent("bea").remember("The sky is green.")
        self.assertIn("bea", [agent["agent"] for agent in await self.client.agents()])
        self.assertIn((await self.client.memory_status())["mode"], ("hybrid", "lexical"))
        before = await self.client.config()
        after = await self.client.patch_config({"agent": {"max_tokens_per_turn": 100}}, before["generation"])
        self.assertEqual(after["generation"], before["generation"] + 1)


class OperationsOverStdio(Operations, OverStdio):
    """Over stdin and stdout."""


class OperationsOverRest(Operations, OverRest):
    """Over HTTP."""


if __name__ == "__main__":
    unittest.main()
