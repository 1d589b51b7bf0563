"""Compaction, memory, agents and blobs, the same over both wires."""

from __future__ import annotations

import re
import unittest
from typing import TYPE_CHECKING

from rkat import Client, Session

from .servers import OverRest, OverStdio, failure_of

if TYPE_CHECKING:
    Case = unittest.IsolatedAsyncioTestCase
else:
    Case = object


class Memory(Case):
    """What outlives a context."""

    client: Client

    async def talk(self) -> Session:
        """A session with something to compact."""
        session = await self.client.create_session(
            "The deploy key is in vault/prod.", compaction={"recent_turn_budget": 1}, enable_memory=True
        )
        for number in range(4):
            await session.turn(f"The code of room {number} is {number}77.")
        return session

    async def test_a_context_is_compacted_expanded_and_undone(self) -> None:
        session = await self.talk()
        before = await session.context()
        preview = await session.compact(preview=True)
        self.assertFalse(preview["compacted"])
        self.assertIn("cost", preview.get("compaction", {}))
        done = await session.compact(instructions="Keep the codes.")
        assert "compaction" in done
        compaction_id = done["compaction"]["compaction_id"]
        self.assertTrue(done["compacted"])
        self.assertEqual([row["compaction_id"] for row in await session.compactions()], [compaction_id])
        self.assertLess(len((await session.context())["messages"]), len(before["messages"]))
        expanded = await session.expand_compaction(compaction_id, max_tokens=10_000)
        self.assertEqual(expanded["left_out"], [])
        self.assertEqual(await session.undo_compaction(compaction_id), [compaction_id])
        self.assertEqual((await session.context())["messages"], before["messages"])
        await failure_of(self, "SESSION_NOT_FOUND", session.undo_compaction("nope"))

    async def test_a_pinned_message_stays_in_the_context(self) -> None:
        session = await self.talk()
        first = (await session.history(limit=1))["messages"][0]
        await session.pin(first["seq"])
        await session.compact()
        self.assertIn(first["seq"], [message["seq"] for message in (await session.context())["messages"]])
        await session.unpin(first["seq"])

    async def test_a_transcript_is_rewritten_restored_and_forked(self) -> None:
        session = await self.client.create_session("The key is in vault/prod.")
        before = await session.revision()
        self.assertEqual([message["role"] for message in before["messages"]], ["user", "block_assistant"])
        message = {"role": "user", "content": "There is no key."}
        done = await session.rewrite(0, 1, [message], note="a slip", expected_revision=before["revision"])
        self.assertEqual((await session.history(limit=1))["messages"][0]["content"], "There is no key.")
        self.assertEqual([commit["reason"] for commit in await session.rewrites()], [done["commit"]["reason"]])
        await failure_of(self, "INVALID_PARAMS", session.rewrite(0, 9, []))
        await failure_of(self, "SESSION_NOT_FOUND", session.revision("sha256:" + "0" * 64))
        restored = await session.restore(before["revision"])
        self.assertEqual(restored["parent_revision"], done["revision"])
        self.assertEqual((await session.history())["messages"], before["messages"])
        fork = await session.fork(0, {"type": "message", "message": message})
        self.assertEqual((await fork.history())["messages"][0]["content"], "There is no key.")

    async def test_an_earlier_context_can_be_read(self) -> None:
        session = await self.talk()
        scope = {"type": "session", "session_id": session.id}
        events = (await self.client.call("listEvents", {"scope": scope, "limit": 20}))["events"]
        calls = [row["cursor"]["sequence"] for row in events if row["payload"]["type"] == "turn_started"]
        contexts = [await session.context(at_seq=seq) for seq in calls[:2]]
        self.assertEqual([len(context["messages"]) for context in contexts], [1, 3])

    async def test_what_left_the_context_is_found_again(self) -> None:
        session = await self.talk()
        await session.compact()
        found = await self.client.search_memory("deploy key", session_id=session.id, limit=3)
        self.assertIn("vault/prod", found["results"][0]["content"])
        other = await self.client.create_session("The lighthouse keeper is Grace.")
        found = await self.client.search_memory("lighthouse keeper", everything=True, limit=1)
        self.assertEqual(found["results"][0]["session_id"], other.id)
        self.assertEqual(len(found["results"]), 1)

    async def test_an_agent_remembers(self) -> None:
        ada = self.client.agent("ada-é")
        remembered = await ada.remember("The sky was green today.", {"place": "harbour"})
        self.assertEqual(remembered, {"count": 1, "compaction_due": False})
        self.assertEqual(await ada.note("Buy a new lamp.", "Shopping"), 1)
        self.assertIn("green", (await ada.context(immediate=5))["prompt"])
        self.assertFalse(await ada.should_compact())
        self.assertEqual((await ada.status())["count"], 1)
        self.assertIsInstance((await ada.compact())["compacted"], bool)
        self.assertIn("green", (await ada.recall("colour of the sky", limit=1))["results"][0]["content"])
        await failure_of(self, "INVALID_PARAMS", self.client.agent("../x").status())

    async def test_a_blob_is_read_whole(self) -> None:
        session = await self.client.create_session("Run `seq 1 3000`", enable_shell=True)
        shown = str((await session.history())["messages"][-2]["results"][0]["content"])
        named = re.search(r"blob (\S+)", shown)
        self.assertIsNotNone(named, shown)
        blob = await self.client.read_blob(named[1] if named else "")
        self.assertTrue(blob.media_type.startswith("text/plain"))
        self.assertIn(b"1\\n2\\n3\\n", blob.data)
        self.assertGreater(len(blob.data), 3_000)


class MemoryOverStdio(Memory, OverStdio):
    """Over stdin and stdout."""


class MemoryOverRest(Memory, OverRest):
    """Over HTTP."""


if __name__ == "__main__":
    unittest.main()
