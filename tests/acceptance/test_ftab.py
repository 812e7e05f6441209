"""FTaB Messaging: its client, server and database interfaces, operation by operation.

==============================================  =====================================================================
theirs                                          ours
==============================================  =====================================================================
Client.Connect                                  ``connect(url, name=…)``: registers the first time, identifies later
Client.Disconnect                               ``close()``
Client.SendMessage to queues, for a receiver    ``send([…], body, receiver=…, priority=…, context=…)``
Client.SendMessage to queues                    ``send([…], body, …)``
Client.CreateQueue, DeleteQueue                 ``create_queue(name)``, ``delete_queue(name)``
Client.GetWaitingQueues                         ``waiting_queues()``
Client.ViewMessageFromQueue, to look or remove  ``peek(queue, order=…)``, ``receive(queue, order=…)``
Client.ViewMessageFromSender                    ``peek(sender=…, order=…)``, ``receive(sender=…, order=…)``
Message's getters                               fields of ``Message``; its context 0 is our None
RetrieveClients, FetchClient; is online         ``clients()``, ``client(name)``; ``broker`` is not None
CreateClient, ChangeClientStatus                ``connect()``, ``close()``
RetrieveMessage, DeleteMessage, CreateMessage   ``peek``, ``receive``, ``send``
RetrieveQueues, with counts                     ``queues()``, ``Queue.messages``
GetQueuesWithMessages                           ``waiting_queues()``
GetAllMessages (console)                        ``browse(queue)`` of each of ``queues()``
Create, Destroy                                 ``stafette db migrate``, ``db reset`` (tests/integration/test_cli_db)
----------------------------------------------  ---------------------------------------------------------------------
FullServerException, FULL_SERVER                ``ServerFull``
AlreadyOnlineException, USER_ONLINE             ``AlreadyOnline``
QueueInexistentException, QUEUE_NOT_EXISTS      ``QueueNotFound``
ClientInexistentException, NO_CLIENT            ``ClientNotFound``
QueueNotEmptyException, QUEUE_NOT_EMPTY         ``QueueNotEmpty``
QueueAEException, QUEUE_EXISTS                  ``QueueExists``
NO_MESSAGE, NO_QUEUE                            None, an empty list
EXCEPTION; a priority or size out of range      ``InvalidRequest``, ``MessageTooLarge``
CreateMessageException                          ``InternalError``: not to be had on demand
==============================================  =====================================================================

Its load is people: Larry bounces messages through random queues, Alice only sends, Bob only pops, Tola and Maruja
exchange requests and responses, Carl produces what Rick consumes.
"""

from __future__ import annotations

import asyncio

import pytest

from stafette import errors
from stafette.client.aio import Client
from tests.support.brokers import Connect, StartBroker, drained, got


@pytest.fixture
async def larry(connect: Connect) -> Client:
    return await connect("larry")


@pytest.fixture
async def bob(connect: Connect, elsewhere: str) -> Client:
    """He is connected to the other broker."""
    return await connect("bob", elsewhere)


# Connect, Disconnect


async def test_connect_registers_a_client_and_finds_it_again_later(connect: Connect, elsewhere: str) -> None:
    larry = await connect("larry")
    first = await larry.client("larry")
    await larry.close()
    later = await (await connect("larry", elsewhere)).client("larry")
    assert (later.id, later.name, later.registered_at) == (first.id, "larry", first.registered_at)
    assert later.last_seen_at > first.last_seen_at


async def test_connect_to_a_full_server(brokers: StartBroker, connect: Connect, elsewhere: str) -> None:
    _, small = await brokers(clients=1)
    larry = await connect("larry", small)
    with pytest.raises(errors.ServerFull):
        await connect("alice", small)
    await connect("alice", elsewhere)  # it is the one broker that is full, not the system
    await larry.close()
    await connect("larry", small)


async def test_connect_while_already_online(connect: Connect, elsewhere: str, larry: Client) -> None:
    for url in ({}, {"url": elsewhere}):
        with pytest.raises(errors.AlreadyOnline):
            await connect("larry", **url)
    assert (await larry.client("larry")).broker is not None, "the first session is not disturbed"


async def test_disconnect_frees_the_name_everywhere(connect: Connect, elsewhere: str, bob: Client) -> None:
    larry = await connect("larry")
    await larry.close()
    assert (await bob.client("larry")).broker is None
    await connect("larry", elsewhere)


# SendMessage


async def test_send_with_a_receiver_to_several_queues(larry: Client, bob: Client, connect: Connect) -> None:
    rick = await connect("rick")
    for queue in ("red", "blue"):
        await larry.create_queue(queue)
    ids = await larry.send(["red", "blue"], "for bob", receiver="bob", priority=3, context=42)
    assert [await rick.receive("red"), await rick.receive("blue")] == [None, None], "it is for Bob alone"
    messages = [got(await bob.receive("red")), got(await bob.receive("blue"))]
    assert [message.id for message in messages] == ids
    assert {(message.receiver, message.priority, message.context) for message in messages} == {("bob", 3, 42)}


async def test_send_without_a_receiver_to_several_queues(larry: Client, bob: Client, connect: Connect) -> None:
    rick = await connect("rick")
    for queue in ("red", "blue"):
        await larry.create_queue(queue)
    await larry.send(["red", "blue"], "for anyone")
    # Each queue has the message once, and taking it from the one leaves it in the other.
    assert await drained(bob, "red") == ["for anyone"]
    assert await drained(rick, "blue") == ["for anyone"]


async def test_send_to_a_queue_that_does_not_exist_sends_to_none(larry: Client, bob: Client) -> None:
    await larry.create_queue("red")
    for queues in (["red", "nowhere"], ["nowhere", "red"], ["nowhere"]):
        for receiver in (None, "bob"):
            with pytest.raises(errors.QueueNotFound, match="nowhere"):
                await larry.send(queues, "lost", receiver=receiver)
    assert await drained(bob, "red") == []


async def test_send_to_a_receiver_that_does_not_exist(larry: Client) -> None:
    await larry.create_queue("red")
    with pytest.raises(errors.ClientNotFound, match="maruja"):
        await larry.send("red", "lost", receiver="maruja")
    assert (await larry.queue("red")).messages == 0


async def test_priorities_go_from_1_to_10_and_bodies_to_2000_characters(larry: Client, bob: Client) -> None:
    await larry.create_queue("red", max_body=2000)
    for priority in (0, 11, -1):
        with pytest.raises(errors.InvalidRequest, match="between 1 and 10"):
            await larry.send("red", "", priority=priority)
    with pytest.raises(errors.MessageTooLarge, match="2001"):
        await larry.send("red", "x" * 2001)
    await larry.send("red", "x" * 2000, priority=1)
    await larry.send("red", "", priority=10)
    assert await drained(bob, "red") == ["", "x" * 2000]


# CreateQueue, DeleteQueue


async def test_create_and_delete_a_queue(larry: Client, bob: Client) -> None:
    await larry.create_queue("red")
    with pytest.raises(errors.QueueExists):
        await bob.create_queue("red")
    await bob.delete_queue("red")
    for name in ("red", "never was"):
        with pytest.raises(errors.QueueNotFound):
            await larry.delete_queue(name)
    await bob.create_queue("red")


async def test_only_an_empty_queue_is_deleted(larry: Client, bob: Client) -> None:
    await larry.create_queue("red")
    await larry.send("red", "still here")
    with pytest.raises(errors.QueueNotEmpty):
        await bob.delete_queue("red")
    assert await drained(bob, "red") == ["still here"]
    await bob.delete_queue("red")


# GetWaitingQueues


async def test_get_waiting_queues_names_those_with_messages_for_me(larry: Client, bob: Client) -> None:
    for queue in ("red", "blue", "green"):
        await larry.create_queue(queue)
    assert await bob.waiting_queues() == []
    await larry.send(["red", "blue"], "for bob", receiver="bob")
    await larry.send("green", "for anyone")
    await larry.send("green", "for larry", receiver="larry")
    assert {queue.name for queue in await bob.waiting_queues()} == {"red", "blue"}
    await bob.receive("red")
    assert {queue.name for queue in await bob.waiting_queues()} == {"blue"}


# ViewMessageFromQueue, ViewMessageFromSender


async def test_view_from_a_queue_looks_or_removes_by_priority_or_time(larry: Client, bob: Client) -> None:
    await larry.create_queue("red")
    for text, priority in (("early", 2), ("urgent", 9), ("late", 2)):
        await larry.send("red", text, priority=priority)
    # By priority unless told otherwise; looking leaves it there
    assert [got(await bob.peek("red")).text for _ in range(2)] == ["urgent", "urgent"]
    assert got(await bob.peek("red", order="arrival")).text == "early"
    assert got(await bob.receive("red", order="arrival")).text == "early"
    assert await drained(bob, "red") == ["urgent", "late"]
    assert [await bob.peek("red"), await bob.receive("red")] == [None, None]


async def test_view_from_a_sender_looks_or_removes_by_priority_or_time(
    larry: Client, bob: Client, connect: Connect
) -> None:
    carl = await connect("carl")
    for queue in ("red", "blue"):
        await larry.create_queue(queue)
    await carl.send("red", "of carl", priority=10)
    await larry.send("red", "early", priority=2)
    await larry.send("blue", "urgent", priority=9, receiver="bob")
    await larry.send("blue", "not for bob", priority=10, receiver="carl")
    assert got(await bob.peek(sender="larry")).text == "urgent"
    assert got(await bob.peek(sender="larry", order="arrival")).text == "early"
    removed = [got(await bob.receive(sender="larry", order="arrival")) for _ in range(2)]
    assert [(message.text, message.queue) for message in removed] == [("early", "red"), ("urgent", "blue")]
    assert [await bob.peek(sender="larry"), await bob.receive(sender="larry")] == [None, None]


async def test_view_of_what_does_not_exist(larry: Client) -> None:
    for order in ("priority", "arrival"):
        for view in (larry.peek, larry.receive):
            with pytest.raises(errors.QueueNotFound, match="nowhere"):
                await view("nowhere", order=order)
            with pytest.raises(errors.ClientNotFound, match="nobody"):
                await view(sender="nobody", order=order)


async def test_a_message_tells_all_about_itself(larry: Client, bob: Client) -> None:
    await larry.create_queue("red")
    [first] = await larry.send("red", "grüezi", priority=8, context=7, receiver="bob")
    [second] = await larry.send("red", "")
    message, bare = await bob.receive_many("red", 2)
    assert (message.id, message.queue, message.sender, message.receiver) == (first, "red", "larry", "bob")
    assert (message.priority, message.context, message.text) == (8, 7, "grüezi")
    assert (bare.id, bare.receiver, bare.context, bare.text) == (second, None, None, "")
    assert bare.arrived_at >= message.arrived_at


# The database's and the console's view


async def test_the_console_sees_clients_queues_and_messages(larry: Client, bob: Client, connect: Connect) -> None:
    await (await connect("alice")).close()
    for queue in ("red", "blue"):
        await larry.create_queue(queue)
    await larry.send(["red", "blue"], "twice")
    await larry.send("red", "once", priority=9)

    assert {client.name: client.broker is not None for client in await bob.clients()} == {
        "alice": False,
        "bob": True,
        "larry": True,
    }
    assert len({client.id for client in await bob.clients()}) == 3
    with pytest.raises(errors.ClientNotFound):
        await bob.client("nobody")

    counts = {queue.name: queue.messages for queue in await bob.queues() if queue.owner is None}
    assert counts == {"red": 2, "blue": 1}
    everything = [message.text for queue in counts for message in await bob.browse(queue)]
    assert sorted(everything) == ["once", "twice", "twice"]


# Its people


async def test_larry_and_the_others_bounce_messages_between_brokers(larry: Client, bob: Client) -> None:
    for queue in ("red", "blue"):
        await larry.create_queue(queue)
    await larry.send("red", "0", receiver="bob")
    for _ in range(5):  # what one receives goes back to its sender, with a count, through the other queue
        for here, there in ((bob, "blue"), (larry, "red")):
            [waiting] = await here.waiting_queues()
            message = got(await here.receive(waiting.name))
            await here.send(there, str(int(message.text) + 1), receiver=message.sender)
    assert await drained(bob, "red") == ["10"]


async def test_alice_only_sends_and_bob_only_pops(connect: Connect, bob: Client) -> None:
    alice = await connect("alice")
    queues = [f"queue {number}" for number in range(5)]
    for queue in queues:
        await alice.create_queue(queue)
    for count in range(1, 6):
        await alice.send(queues[:count], "x" * 400 * count)
    assert [len(await drained(bob, queue)) for queue in queues] == [5, 4, 3, 2, 1]


async def test_tola_asks_and_maruja_responds_through_one_queue(connect: Connect, elsewhere: str) -> None:
    tola, maruja = await connect("tola"), await connect("maruja", elsewhere)
    await tola.create_queue("pair")
    for context in range(1, 4):
        response = asyncio.create_task(tola.receive("pair", sender="maruja", context=context, wait=30))
        await tola.send("pair", f"question {context}", receiver="maruja", context=context)
        question = got(await maruja.receive("pair", wait=30))
        await maruja.send("pair", f"re: {question.text}", receiver=question.sender, context=question.context)
        assert got(await response).text == f"re: question {context}"


async def test_what_carl_produces_rick_consumes(connect: Connect, elsewhere: str) -> None:
    carl, rick = await connect("carl"), await connect("rick", elsewhere)
    await carl.create_queue("belt")
    consuming = asyncio.create_task(asyncio.wait_for(_consume(rick, 30), 30))
    for number in range(30):
        await carl.send("belt", str(number))
    assert await consuming == [str(number) for number in range(30)]
    assert await rick.peek("belt") is None


async def _consume(reader: Client, count: int) -> list[str]:
    return [got(await reader.receive("belt", wait=30)).text for _ in range(count)]
