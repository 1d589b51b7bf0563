"""Sessions and turns, the same over both wires."""

from __future__ import annotations

import asyncio
import unittest
from typing import TYPE_CHECKING

from rkat import Client, RkatError

from .servers import OverRest, OverStdio, failure_of, until

if TYPE_CHECKING:
    Case = unittest.IsolatedAsyncioTestCase
else:
    Case = object


class Sessions(Case):
    """What every client of a session can rely on."""

    client: Client

    async def test_a_session_is_created_and_runs_turns(self) -> None:
        session = await self.client.create_session("The port is 7443.", labels={"team": "blue"})
        self.assertEqual(session.text, "Noted: the port is 7443.")
        result = await session.turn("What is the port?")
        self.assertEqual(result["text"], "You told me: “The port is 7443”.")
        self.assertEqual(session.text, result["text"])
        self.assertIs(session.last_result, result)
        self.assertEqual((result["session_id"], result["turns"], result["tool_calls"]), (session.id, 1, 0))
        self.assertEqual((session.usage, session.turns, session.tool_calls), (result["usage"], 1, 0))
        self.assertIsNone(session.structured_output)
        usage = result["usage"]
        self.assertEqual(usage["total_tokens"], usage["input_tokens"] + usage["output_tokens"])

    async def test_a_stream_gives_the_events_and_then_the_result(self) -> None:
        session = await self.client.create_session("The port is 7443.")
        stream = session.stream("What is the port?")
        events = [event async for event in stream]
        self.assertEqual((events[0]["type"], events[-1]["type"]), ("run_started", "run_completed"))
        said = "".join(event["delta"] for event in events if event["type"] == "text_delta")
        self.assertEqual(said, "You told me: “The port is 7443”.")
        self.assertEqual(set(events[0]), {"type", "session_id", "prompt"})
        self.assertEqual((await stream.result())["text"], said)
        self.assertEqual(session.text, said)

    async def test_a_new_session_can_be_heard_from_its_first_event_on(self) -> None:
        stream = self.client.create_session_streaming("The port is 7443.")
        events = [event async for event in stream]
        session = await stream.session()
        self.assertEqual(events[0], {"type": "run_started", "session_id": session.id, "prompt": "The port is 7443."})
        self.assertEqual(events[-1]["result"], session.text)
        self.assertEqual((await session.turn("What is the port?"))["turns"], 1)

    async def test_a_stream_need_not_be_read(self) -> None:
        session = await self.client.create_session("Hello")
        self.assertEqual((await session.stream("The port is 1.").result())["text"], "Noted: the port is 1.")

    async def test_a_deferred_session_takes_its_prompt_along(self) -> None:
        session = await self.client.create_deferred_session("The port is 7443.")
        self.assertIsNone(session.last_result)
        self.assertEqual((session.text, session.usage, session.turns, session.tool_calls), ("", None, 0, 0))
        result = await session.turn("What is the port?", max_tokens=1_000, system_prompt="Be brief.")
        self.assertIn("7443", result["text"])

    async def test_sessions_are_listed_read_and_archived(self) -> None:
        blue = await self.client.create_session("One.", labels={"team": "blue", "ä b": "c d&=ü"})
        red = await self.client.create_session("Two.", labels={"team": "red"})
        newest = await self.client.list_sessions(limit=2)
        self.assertEqual([row["session_id"] for row in newest], [red.id, blue.id])
        found = await self.client.list_sessions(labels={"team": "blue", "ä b": "c d&=ü"})
        self.assertEqual([row["session_id"] for row in found], [blue.id])
        self.assertEqual(len(await self.client.list_sessions(limit=1, offset=1)), 1)
        each = [row["session_id"] async for row in self.client.each_session(page=1)]
        self.assertEqual(each[:2], [red.id, blue.id])
        self.assertEqual(len(set(each)), len(each))
        info = await self.client.read_session(blue.id)
        self.assertEqual((info["session_id"], info["model"], info["message_count"]), (blue.id, "offline", 2))
        self.assertIsInstance(info["created_at"], int)
        self.assertEqual(info["created_at"], found[0]["created_at"])
        await blue.archive()
        await failure_of(self, "SESSION_NOT_FOUND", blue.turn("More."))
        self.assertEqual((await blue.history())["message_count"], 2)

    async def test_history_comes_in_pages(self) -> None:
        session = await self.client.create_session("The port is 7443.")
        whole = await session.history()
        self.assertEqual([message["role"] for message in whole["messages"]], ["user", "block_assistant"])
        page = await session.history(offset=1, limit=1)
        self.assertEqual(page["messages"], whole["messages"][1:])
        self.assertFalse(page["has_more"])

    async def test_an_interrupt_ends_the_turn_and_keeps_what_was_done(self) -> None:
        stream = self.client.create_session_streaming("Run `sleep 60`", enable_shell=True)
        events = await until(stream.__aiter__(), "tool_execution_started")
        session = self.client.session(events[0]["session_id"])
        await failure_of(self, "SESSION_BUSY", session.turn("And?"))
        await session.interrupt()
        error = await failure_of(self, "REQUEST_CANCELLED", stream.result())
        self.assertEqual(error.category, "request")
        self.assertEqual(error.details["session_id"], session.id)
        rest: list[str] = []
        with self.assertRaises(RkatError):
            async for event in stream:
                rest.append(event["type"])
        self.assertEqual(rest[-1], "run_failed")
        self.assertEqual((await session.turn("The port is 1."))["text"], "Noted: the port is 1.")

    async def test_cancelling_the_task_that_waits_cancels_the_turn(self) -> None:
        session = await self.client.create_session("Hello", enable_shell=True)
        turn = asyncio.ensure_future(session.turn("Run `sleep 60`"))
        while (await self.client.read_session(session.id))["state"] != "running":
            self.assertFalse(turn.done())
        turn.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await turn
        self.assertEqual((await session.turn("The port is 1."))["text"], "Noted: the port is 1.")

    async def test_cancelling_the_task_that_iterates_cancels_the_turn(self) -> None:
        session = await self.client.create_session("Hello", enable_shell=True)
        stream = session.stream("Run `sleep 60`")
        started = asyncio.Event()

        async def read() -> None:
            async for event in stream:
                if event["type"] == "tool_execution_started":
                    started.set()

        reading = asyncio.ensure_future(read())
        await started.wait()
        reading.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await reading
        await failure_of(self, "REQUEST_CANCELLED", stream.result())
        self.assertEqual((await self.client.read_session(session.id))["state"], "idle")

    async def test_a_cancelled_creation_is_archived(self) -> None:
        stream = self.client.create_session_streaming("Run `sleep 60`", enable_shell=True)
        events = await until(stream.__aiter__(), "tool_execution_started")
        await stream.cancel()
        info = await self.client.read_session(events[0]["session_id"])
        self.assertEqual(info["state"], "archived")

    async def test_thirty_turns_at_once_each_hear_their_own(self) -> None:
        async def talk(number: int) -> None:
            stream = self.client.create_session_streaming(f"The port is {number}.", labels={"of": "thirty"})
            events = [event async for event in stream]
            session = await stream.session()
            self.assertEqual(events[0]["prompt"], f"The port is {number}.")
            self.assertEqual(events[0]["session_id"], session.id)
            said = "".join(event["delta"] for event in events if event["type"] == "text_delta")
            self.assertEqual(said, f"Noted: the port is {number}.")
            self.assertIn(str(number), (await session.turn("What is the port?"))["text"])

        await asyncio.gather(*(talk(1_000 + number) for number in range(30)))
        self.assertEqual(len(await self.client.list_sessions(labels={"of": "thirty"})), 30)

    async def test_of_two_turns_of_a_session_one_is_refused(self) -> None:
        session = await self.client.create_session("Hello", enable_shell=True)
        stream = session.stream("Run `sleep 60`")
        await until(stream.__aiter__(), "tool_execution_started")
        await failure_of(self, "SESSION_BUSY", session.turn("The port is 2."))
        await stream.cancel()

    async def test_any_text_arrives_as_it_was_written(self) -> None:
        prompt = "端口是7443。 ü 🎉 \u2028 \r\n \t \x00 e\u0301 end\x7f"
        session = await self.client.create_session(prompt)
        self.assertEqual((await session.history())["messages"][0]["content"], prompt)
        events = [event async for event in session.stream(prompt)]
        self.assertEqual(events[0]["prompt"], prompt)

    async def test_a_prompt_of_five_megabytes_is_sent_and_heard(self) -> None:
        prompt = "The port is 7443. " + "ü123456789" * 480_000
        self.assertGreater(len(prompt.encode()), 5_000_000)
        stream = self.client.create_session_streaming(prompt, model="offline")
        event = await stream.__aiter__().__anext__()
        self.assertEqual(event["prompt"], prompt)
        await stream.cancel()

    async def test_errors_have_the_codes_of_the_table(self) -> None:
        nobody = self.client.session("01990000-0000-7000-8000-000000000000")
        error = await failure_of(self, "SESSION_NOT_FOUND", nobody.history())
        self.assertEqual(error.category, "session")
        self.assertIn(nobody.id, error.message)
        await failure_of(self, "INVALID_PARAMS", self.client.session("no-uuid").history())
        await failure_of(self, "INVALID_PARAMS", self.client.create_session(""))
        await failure_of(self, "INVALID_PARAMS", self.client.create_session("x", max_tokens=-1))
        await failure_of(self, "INVALID_PARAMS", self.client.create_session("x", app_context=float("nan")))
        await failure_of(self, "METHOD_NOT_FOUND", self.client.call("nope/nope"))
        await failure_of(self, "METHOD_NOT_FOUND", self.client.call("readSesion"))
        with self.assertRaisesRegex(RkatError, "INVALID_PARAMS"):
            async for _ in self.client.create_session_streaming("x", max_turns=-1):
                self.fail("nothing was begun")

    async def test_a_misspelt_option_is_named_with_the_nearest(self) -> None:
        with self.assertRaisesRegex(TypeError, "did you mean enable_memory"):
            await self.client.create_session("x", enable_memry=True)  # type: ignore[call-arg]
        session = await self.client.create_session("x")
        with self.assertRaisesRegex(TypeError, "did you mean model"):
            session.stream("x", modell="offline")  # type: ignore[call-arg]

    async def test_every_other_operation_can_be_called_by_either_name(self) -> None:
        session = await self.client.create_session("Hello")
        injected = {"session_id": session.id, "text": "Be kind."}
        self.assertIn((await self.client.call("injectContext", injected))["status"], ("applied", "staged"))
        fork = await self.client.call("session/fork_at", {"session_id": session.id, "message_index": 1})
        self.assertEqual(fork["source_session_id"], session.id)
        self.assertEqual((await self.client.call("runtime/health"))["status"], "ok")
        listed = await self.client.call("skills/list")
        self.assertEqual([skill["name"] for skill in listed["skills"]], ["memory-retrieval"])

    async def test_the_server_says_what_it_can_do(self) -> None:
        capabilities = await self.client.capabilities()
        self.assertEqual(capabilities["contract_version"]["minor"], 6)
        rows = {row["id"]: row["status"] for row in capabilities["capabilities"]}
        self.assertEqual(rows["session_store"], "Available")
        self.assertIn("offline", [provider["provider"] for provider in (await self.client.models())["providers"]])


class SessionsOverStdio(Sessions, OverStdio):
    """Over stdin and stdout."""


class SessionsOverRest(Sessions, OverRest):
    """Over HTTP."""


if __name__ == "__main__":
    unittest.main()
