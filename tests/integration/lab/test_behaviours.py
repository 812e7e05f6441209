"""Every behaviour on a real broker: a few steps of it have the effect that its report describes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from stafette.errors import ClientNotFound
from stafette.lab.behaviours import find
from stafette.lab.behaviours.one_way import read_counter
from tests.support.behaviour_stage import QUEUES, Stage, at_once, steps
from tests.support.waiting import until

GUARD = 30.0
"""Seconds after which a step that should have ended is not going to."""


# Senders and readers


async def test_alice_stores_a_message_in_each_target_for_anyone(stage: Stage) -> None:
    alice = await stage.enter("alice", targets=3, size=123, priority=9)
    await alice.step()
    seen = [message for queue in QUEUES for message in await stage.director.browse(queue)]
    assert len(seen) == 3
    assert len({message.queue for message in seen}) == 3
    assert {(message.receiver, message.priority, len(message.body)) for message in seen} == {(None, 9, 123)}


async def test_alice_draws_her_queue_anew_and_only_from_her_own(stage: Stage) -> None:
    alice = await stage.enter("alice", queues=list(QUEUES[:3]))
    await steps(alice, 40)
    assert all([await stage.stored(queue) for queue in QUEUES[:3]])
    assert await stage.stored("q-4") == 0


async def test_alice_can_address_the_clients_of_a_group(stage: Stage) -> None:
    bobs = [await stage.enter("bob", number, of=2, queues=["q-1"]) for number in (1, 2)]
    alice = await stage.enter("alice", others={"bob": 2}, receiver="bob", queues=["q-1"])
    await steps(alice, 20)
    counts = [(await bob.client.waiting_queues())[0].messages for bob in bobs]
    assert all(counts)
    assert sum(counts) == 20


async def test_alices_addressing_their_own_group_leave_themselves_out(stage: Stage) -> None:
    first, second = [await stage.enter("alice", number, of=2, receiver="alice") for number in (1, 2)]
    await steps(first, 5)
    assert await first.client.waiting_queues() == []
    assert sum(queue.messages for queue in await second.client.waiting_queues()) == 5


async def test_bob_empties_the_queues_and_does_not_mind_an_empty_one(stage: Stage) -> None:
    await at_once(await stage.enter("alice"), 10)
    bob = await stage.enter("bob")
    async with asyncio.timeout(GUARD):
        while await stage.stored():
            await bob.step()
    await bob.step()
    assert stage.requests()["Receive"] >= 11


async def test_bob_takes_the_highest_priority_first_and_a_batch_at_once(stage: Stage) -> None:
    for priority in (2, 8, 5):
        await stage.director.send("q-1", b"", priority=priority)
    await (await stage.enter("bob", queues=["q-1"], batch=2)).step()
    assert [message.priority for message in await stage.director.browse("q-1")] == [2]


async def test_rick_takes_what_carl_sent_through_their_queue(stage: Stage) -> None:
    carl = await stage.enter("carl", queues=["q-3"])
    rick = await stage.enter("rick", queues=["q-3"], wait=10)
    parked = asyncio.create_task(rick.step())
    await carl.step()
    await parked
    assert await stage.stored() == 0
    await at_once(carl, 5)
    assert await stage.stored("q-3") == 5
    await at_once(rick, 5)
    assert await stage.stored() == 0


async def test_the_consumer_takes_what_the_producer_writes_again_and_again(stage: Stage) -> None:
    producer = await stage.enter("producer", size={"uniform": [10, 1000]})
    consumer = await stage.enter("consumer", batch=2)
    await at_once(producer, 3)
    assert len({message.body for message in await stage.director.browse("q-1")}) == 1
    await consumer.step()
    assert await stage.stored("q-1") == 1
    await steps(consumer, 2)
    assert await stage.stored() == 0


async def test_with_a_retry_delay_a_read_asks_again_instead_of_waiting_in_the_broker(stage: Stage) -> None:
    rick = await stage.enter("rick", retry_delay=0.001, wait=10)
    polling = asyncio.create_task(rick.step())

    def three_reads() -> bool:
        assert len(stage.runtime.core.waiting) == 0
        return stage.requests()["Receive"] >= 3

    await until(three_reads, stage.director.ping)
    await stage.director.send("q-1", b"at last")
    await polling
    assert await stage.stored() == 0


async def test_after_a_look_in_vain_the_retry_delay_passes(stage: Stage) -> None:
    bob = await stage.enter("bob", retry_delay=0.05)
    started = time.monotonic()
    await bob.step()
    assert time.monotonic() - started >= 0.05
    assert stage.requests()["Receive"] == 1


# Relays


async def test_larry_sends_one_message_to_another_and_then_bounces_what_comes(stage: Stage) -> None:
    larrys = [await stage.enter("larry", number, of=3, size=50, priority=3) for number in (1, 2, 3)]
    assert await stage.stored() == 0, "nothing is sent before the load starts"
    for larry in larrys:
        await larry.step()
    assert await stage.stored() == 3
    before = {message.id: message for queue in QUEUES for message in await stage.director.browse(queue)}
    assert before == {}, "none is for anyone"
    for _ in range(10):
        for larry in larrys:
            await larry.step()
    assert await stage.stored() == 3, "what is taken is sent on, and nothing else"
    assert stage.requests()["Send"] > 3 + 10
    taken = [message for larry in larrys for queue in QUEUES for message in await larry.client.receive_many(queue, 10)]
    assert {(message.receiver != message.sender, len(message.body), message.priority) for message in taken} == {
        (True, 50, 3)
    }


async def test_larry_bounces_a_message_as_it_is(stage: Stage) -> None:
    first, second = [await stage.enter("larry", number, of=2) for number in (1, 2)]
    await first.step()
    [queue] = await second.client.waiting_queues()
    body = (await second.client.peek(queue.name)).body
    await steps(second, 2)
    bounced = [message for queue in QUEUES for message in await first.client.receive_many(queue, 10)]
    assert body in [message.body for message in bounced]
    assert len(bounced) == 2


async def test_a_relay_whose_send_is_refused_sends_a_new_message_later(stage: Stage) -> None:
    first = await stage.enter("larry", 1, of=2)
    with pytest.raises(ClientNotFound):
        await first.step()
    second = await stage.enter("larry", 2, of=2)
    await first.step()
    assert len(await second.client.waiting_queues()) == 1


async def test_the_counter_of_a_one_way_message_grows_at_each_relay(stage: Stage) -> None:
    clients = [await stage.enter("one_way", number, of=2, size=100) for number in (1, 2)]
    for client in clients:
        await client.step()
    await clients[0].client.receive("@oneway-1")  # one message is easier to follow than two
    for relay in range(1, 10):
        await clients[relay % 2].step()
        mine = await clients[(relay + 1) % 2].client.peek(f"@oneway-{(relay + 1) % 2 + 1}")
        assert mine is not None
        assert read_counter(mine.body) == relay
        assert len(mine.body) == 100
    assert sorted(client.largest_counter for client in clients) == [7, 8]


async def test_one_way_clients_keep_their_messages_in_circulation(stage: Stage) -> None:
    clients = [await stage.enter("one_way", number, of=5, wait=0) for number in range(1, 6)]
    for _ in range(20):
        await asyncio.gather(*(at_once(client, 2) for client in clients))
    left = [message for client in clients for message in await client.client.receive_many(f"@{client.client.name}", 10)]
    assert len(left) == 5
    assert max(client.largest_counter for client in clients) > 3


# One's own

OWN = """
from stafette.lab.behaviours import Behaviour, Parameters

class Settings(Parameters):
    word: str

class Parrot(Behaviour):
    Parameters = Settings

    async def begin(self):
        await self.client.create_queue("perch")

    async def step(self):
        await self.client.send("perch", self.parameters.word)
"""


async def test_a_class_from_a_file_behaves_like_a_built_in_one(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "parrot.py").write_text(OWN)
    parrot = await stage.enter(find("parrot.py:Parrot", tmp_path), word="hello")
    await parrot.step()
    message = await stage.director.receive("perch")
    assert message is not None
    assert (message.sender, message.text) == ("parrot-1", "hello")
