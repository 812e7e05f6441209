"""The system of 2015 without a name: its stored functions and its kinds of packets.

=======================================  =============================================================================
theirs                                   ours
=======================================  =============================================================================
create_queue; creator and time kept      ``create_queue(name)``; ``Queue.creator``, ``Queue.created_at``
delete_queue                             ``delete_queue(name, force=True)``: theirs goes with what it holds
send_message_broadcast                   ``send(queue, text)``: anyone may read it, one gets it
send_message_to_receiver                 ``send(queue, text, receiver=…)``
delete_message_from_queue                ``receive(queue, order="arrival")``: removes the topmost, the earliest
peek_message_from_queue                  ``peek(queue, order="arrival")``
peek_message_from_sender                 ``peek(sender=…, order="arrival")``
query_queues_for_receiver                ``waiting_queues()``
FRONTEND request and response            ``echo(payload)``: through the broker without the database
---------------------------------------  -----------------------------------------------------------------------------
SEND_OK, SEND_WRONG                      ids; ``QueueNotFound``, ``ClientNotFound``
TEXT, EMPTY                              a ``Message``; None
CREATE_QUEUE, DELETE_QUEUE response      a ``Queue``, nothing; ``QueueExists``, ``QueueNotFound``
QUERY_QUEUES response                    a list, perhaps empty
INVALID type, 0                          ``InvalidRequest``
=======================================  =============================================================================

Its clients have numbers for names, and each does one kind of thing.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest

from stafette import errors
from stafette.client.aio import Client
from stafette.protocol import messages as wire
from tests.support.brokers import Connect, StartBroker, drained, got
from tests.support.protocol_client import raw_answers


@pytest.fixture
async def sender(connect: Connect) -> Client:
    return await connect("1")


@pytest.fixture
async def receiver(connect: Connect, elsewhere: str) -> Client:
    """It is connected to the other broker."""
    return await connect("2", elsewhere)


async def test_create_queue_keeps_creator_and_time(sender: Client, receiver: Client) -> None:
    made = await sender.create_queue("q")
    later = await receiver.create_queue("r")
    seen = await receiver.queue("q")
    assert (seen.id, seen.name, seen.creator, seen.created_at) == (made.id, "q", "1", made.created_at)
    assert (later.creator, later.created_at > made.created_at) == ("2", True)
    with pytest.raises(errors.QueueExists):
        await receiver.create_queue("q")


async def test_delete_queue_takes_its_messages_along(sender: Client, receiver: Client) -> None:
    await sender.create_queue("q")
    await sender.send("q", "goes with it")
    await receiver.delete_queue("q", force=True)
    with pytest.raises(errors.QueueNotFound):
        await receiver.delete_queue("q", force=True)
    await sender.create_queue("q")
    assert await receiver.peek("q") is None


async def test_a_broadcast_can_be_read_by_all_and_removed_by_one(
    sender: Client, receiver: Client, connect: Connect
) -> None:
    third = await connect("3")
    await sender.create_queue("q")
    assert await sender.send("q", "to all")
    assert {got(await client.peek("q")).text for client in (sender, receiver, third)} == {"to all"}
    removed = await asyncio.gather(*(client.receive("q") for client in (sender, receiver, third)))
    assert [message.text for message in removed if message] == ["to all"]


async def test_a_message_to_a_receiver_is_for_it_alone(sender: Client, receiver: Client, connect: Connect) -> None:
    third = await connect("3")
    await sender.create_queue("q")
    await sender.send("q", "to two", receiver="2")
    for other in (sender, third):
        assert await other.peek("q") is None
        assert await other.peek(sender="1") is None
        assert await other.receive("q") is None
    assert got(await receiver.receive("q")).text == "to two"


async def test_a_send_that_is_wrong(sender: Client) -> None:
    with pytest.raises(errors.QueueNotFound):
        await sender.send("nowhere", "")
    await sender.create_queue("q")
    with pytest.raises(errors.ClientNotFound):
        await sender.send("q", "", receiver="99")


async def test_peek_and_delete_give_the_topmost_which_is_the_earliest(sender: Client, receiver: Client) -> None:
    await sender.create_queue("q")
    for number in range(5):
        await sender.send("q", str(number), priority=number + 1)
    for number in range(5):
        assert got(await receiver.peek("q", order="arrival")).text == str(number)
        assert got(await receiver.receive("q", order="arrival")).text == str(number)
    assert await receiver.peek("q", order="arrival") is None
    assert await receiver.receive("q", order="arrival") is None


async def test_peek_from_a_sender_looks_through_all_queues(sender: Client, receiver: Client, connect: Connect) -> None:
    third = await connect("3")
    for queue in ("q", "r"):
        await sender.create_queue(queue)
    await third.send("q", "of three")
    await sender.send("r", "of one, first")
    await sender.send("q", "of one, second")
    for _ in range(2):
        assert got(await receiver.peek(sender="1", order="arrival")).text == "of one, first"
    assert await receiver.peek(sender="2") is None


async def test_query_queues_for_a_receiver(sender: Client, receiver: Client) -> None:
    for queue in ("q", "r", "s"):
        await sender.create_queue(queue)
    assert await receiver.waiting_queues() == []
    await sender.send("q", "to all")
    await sender.send("r", "to two", receiver="2")
    await sender.send("s", "to one", receiver="1")
    assert [queue.name for queue in await receiver.waiting_queues()] == ["r"]


async def test_two_who_delete_at_once_get_two_messages(sender: Client, receiver: Client) -> None:
    await sender.create_queue("q")
    for round_ in range(20):
        await sender.send_many([("q", f"{round_} a"), ("q", f"{round_} b")])
        here, there = await asyncio.gather(sender.receive("q"), receiver.receive("q"))
        assert {got(here).text, got(there).text} == {f"{round_} a", f"{round_} b"}


async def test_the_broker_alone_echoes_without_the_database(brokers: StartBroker, connect: Connect) -> None:
    runtime, url = await brokers()
    client = await connect("1", url)
    before = sum(runtime.core.metrics.batch_requests.counts)
    payloads = [bytes([number]) * number for number in range(256)]
    assert await asyncio.gather(*(client.echo(payload) for payload in payloads)) == payloads
    assert sum(runtime.core.metrics.batch_requests.counts) == before


async def test_a_packet_of_an_invalid_type_is_refused(broker: str, sender: Client) -> None:
    hello = wire.encode(wire.Hello(1, wire.VERSION, "0"))
    invalid = msgspec.msgpack.encode([0, 2, "what is this"])
    welcome, refused, echoed = await raw_answers(broker, hello, invalid, wire.encode(wire.Echo(3, b"still here")))
    assert isinstance(welcome, wire.Welcome)
    assert isinstance(refused, wire.Failed)
    assert (refused.id, refused.code, refused.group) == (2, errors.InvalidRequest.code, "caller")
    assert echoed == wire.Echoed(3, b"still here")
    await sender.ping()


async def test_its_mix_of_peeks_queries_sends_and_deletes(connect: Connect, broker: str, elsewhere: str) -> None:
    """A quarter of the clients each, half of them on either broker; what was sent is deleted once or still there."""
    clients = [await connect(str(number), broker if number % 2 else elsewhere) for number in range(8)]
    await clients[0].create_queue("q")
    deleted: list[str] = []

    async def sends(client: Client) -> None:
        for number in range(25):
            await client.send("q", f"{client.name}-{number}")

    async def deletes(client: Client) -> None:
        popped = [await client.receive("q", order="arrival") for _ in range(25)]
        deleted.extend(message.text for message in popped if message)

    async def peeks(client: Client) -> None:
        for _ in range(25):
            await client.peek("q", order="arrival")

    async def queries(client: Client) -> None:
        for _ in range(25):
            assert await client.waiting_queues() == []

    kinds = (sends, deletes, peeks, queries)
    await asyncio.gather(*(kinds[number // 2](client) for number, client in enumerate(clients)))
    left = await drained(clients[0], "q")
    assert Counter(deleted + left) == Counter(f"{sender}-{number}" for sender in (0, 1) for number in range(25))
