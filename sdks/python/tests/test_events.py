"""Subscriptions, the same over both wires."""

from __future__ import annotations

import asyncio
import unittest
from typing import TYPE_CHECKING

from rkat import Client, Delivery, RkatError

from .servers import OverRest, OverStdio, failure_of, until

if TYPE_CHECKING:
    Case = unittest.IsolatedAsyncioTestCase
else:
    Case = object


def durable(deliveries: list[Delivery]) -> list[Delivery]:
    """Those that are in the log."""
    return [delivery for delivery in deliveries if delivery.seq > 0]


class Subscriptions(Case):
    """What every subscriber can rely on."""

    client: Client

    async def test_a_subscription_replays_and_goes_on_live_without_gap_or_repeat(self) -> None:
        session = await self.client.create_session("The port is 7443.")
        await session.turn("What is the port?")
        replayed = asyncio.Event()

        async def read() -> list[Delivery]:
            heard: list[Delivery] = []
            ends = 0
            async for delivery in self.client.subscribe(session.id, after=0):
                heard.append(delivery)
                ends += delivery.event["type"] == "run_completed"
                if ends == 2:
                    replayed.set()
                if ends == 4:
                    break
            return heard

        reading = asyncio.ensure_future(read())
        await replayed.wait()
        await session.turn("The host is alpha.")
        await session.turn("What is the host?")
        heard = await reading
        seqs = [delivery.seq for delivery in durable(heard)]
        self.assertEqual(seqs, list(range(seqs[0], seqs[0] + len(seqs))))
        live = [delivery for delivery in heard if delivery.seq == 0]
        self.assertIn("text_delta", {delivery.event["type"] for delivery in live})

    async def test_a_subscriber_that_comes_while_turns_run_misses_nothing_durable(self) -> None:
        session = await self.client.create_session("Hello")

        async def talk() -> None:
            for number in range(12):
                await session.turn(f"The port is {number}.")

        async def read() -> list[int]:
            heard: list[int] = []
            ends = 0
            async for delivery in self.client.subscribe(session.id, after=0):
                heard.extend([delivery.seq] if delivery.seq else [])
                ends += delivery.event["type"] == "run_completed"
                if ends == 13:
                    break
            return heard

        talking = asyncio.ensure_future(talk())
        all_heard = await asyncio.gather(*(read() for _ in range(4)))
        await talking
        for heard in all_heard:
            self.assertEqual(heard, list(range(heard[0], heard[0] + len(heard))))
        self.assertEqual(len({tuple(heard) for heard in all_heard}), 1)

    async def test_from_the_middle_only_what_follows_is_given(self) -> None:
        session = await self.client.create_session("The port is 7443.")
        whole = await until(self.client.subscribe(session.id, after=0), "run_completed")
        middle = whole[len(whole) // 2].seq
        rest = await until(self.client.subscribe(session.id, after=middle), "run_completed")
        self.assertEqual(durable(rest), [delivery for delivery in durable(whole) if delivery.seq > middle])

    async def test_without_a_place_only_what_is_to_come_is_given(self) -> None:
        session = await self.client.create_session("The port is 7443.")
        last = (await until(self.client.subscribe(session.id, after=0), "run_completed"))[-1].seq
        reading = asyncio.ensure_future(until(self.client.subscribe(session.id), "run_completed"))
        # A turn that begins before the stream is open is missed, so turns are run until one is heard.
        while not reading.done():
            await session.turn("What is the port?")
            await asyncio.sleep(0)
        self.assertTrue(all(delivery.seq > last for delivery in durable(await reading)))

    async def test_a_session_that_is_not_there_has_no_events(self) -> None:
        nobody = "01990000-0000-7000-8000-000000000000"
        for after in (None, 0):
            deliveries = self.client.subscribe(nobody, after=after)
            await failure_of(self, "SESSION_NOT_FOUND", deliveries.__anext__())

    async def test_a_place_that_is_not_reached_yet_is_refused(self) -> None:
        session = await self.client.create_session("Hello")
        await failure_of(self, "INVALID_PARAMS", self.client.subscribe(session.id, after=1_000).__anext__())

    async def test_a_subscription_ends_with_its_client(self) -> None:
        session = await self.client.create_session("Hello")
        deliveries = self.client.subscribe(session.id, after=0)
        await until(deliveries, "run_completed")
        waiting = asyncio.ensure_future(deliveries.__anext__())
        await asyncio.sleep(0)
        await self.client.close()
        with self.assertRaisesRegex(RkatError, "the client was closed"):
            await waiting


class SubscriptionsOverStdio(Subscriptions, OverStdio):
    """Over stdin and stdout."""


class SubscriptionsOverRest(Subscriptions, OverRest):
    """Over HTTP."""


if __name__ == "__main__":
    unittest.main()
