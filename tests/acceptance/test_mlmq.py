"""mlmq: its client interface, method by method, and how it behaves under load.

======================================  ==============================================================================
theirs                                  ours
======================================  ==============================================================================
init                                    ``connect(url, name=…)``
isConnected                             ``ping()``: answers, or ``Unavailable``
close                                   ``close()``
register                                the first ``connect`` under a name
createQueue, deleteQueue                ``create_queue(name)``; ``delete_queue(name)``, the name by ``queue(id)``
lookup of a queue by name               ``queue(name)``
lookupClient                            ``client(name)``
lookupClientQueue                       ``personal_queue(client)``
sendMessage to one queue, to several    ``send(queue, raw, priority=…)``, ``send([…], raw, …)``
sendMessageToClient                     ``send("@client", raw, …)``
sendRequestToClient, a context back     ``send("@client", raw, context=…)``; ``request`` issues the context itself
sendResponseToClient                    ``reply(message, raw)``, or ``send("@client", raw, context=…)``
queuesWithPendingMessages               ``waiting_queues(limit)``, the personal queue among them with its count
peekMessage, dequeueMessage, by a       ``peek``, ``receive`` with queue, sender, context and order
 query of queue, sender, context
--------------------------------------  ------------------------------------------------------------------------------
null: no such client or queue           ``ClientNotFound``, ``QueueNotFound``
null: no such message                   None
MlmqException as an error response      one of ``stafette.errors``
IOException, no connection              ``Unavailable``
a request times out at the client       ``RequestTimeout``
a dropped request                       ``Overloaded``, as an answer (see also the faults of the originals)
a name or queue that is there already   identified by its name; ``QueueExists``
======================================  ==============================================================================

Its load: OneWayClients relay a message whose counter grows, PairedClients exchange requests and responses,
PublicQueueProducers and PublicQueueConsumers share a queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

import stafette.aio
from stafette import errors
from stafette.broker.server import BrokerSettings, running
from stafette.client.aio import Client
from tests.support.brokers import Connect, StartBroker, drained, got, when_it_works


@pytest.fixture
async def one(connect: Connect) -> Client:
    return await connect("one")


@pytest.fixture
async def two(connect: Connect, elsewhere: str) -> Client:
    """It is connected to the other broker."""
    return await connect("two", elsewhere)


@asynccontextmanager
async def slow_database(url: str) -> AsyncIterator[None]:
    """As long as this lasts, sends are not answered."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("BEGIN; LOCK TABLE stafette.catalog_lock IN EXCLUSIVE MODE")
        yield
    finally:
        await connection.close()


# The connection


async def test_init_is_connected_close(database: str) -> None:
    async with running(BrokerSettings(database=database, port=0)) as (_, port):
        url = f"stafette://127.0.0.1:{port}"
        client = await stafette.aio.connect(url, name="one")
        assert await client.ping() >= 0
        await client.close()
        with pytest.raises(errors.StafetteError, match="closed"):
            await client.ping()
    with pytest.raises(errors.Unavailable, match="check that it runs"):
        await stafette.aio.connect(url, name="one")


async def test_register_gives_a_client_an_id_and_a_personal_queue(one: Client, two: Client) -> None:
    mine, other = await two.client("one"), await two.client("two")
    assert (mine.name, other.name, mine.id != other.id) == ("one", "two", True)
    queues = {queue.name: queue.owner for queue in await one.queues()}
    assert queues == {"@one": "one", "@two": "two"}


# Queues


async def test_create_look_up_and_delete_a_queue(one: Client, two: Client) -> None:
    made = await one.create_queue("public")
    assert (await two.queue("public")).id == made.id
    with pytest.raises(errors.QueueExists):
        await two.create_queue("public")
    await two.delete_queue((await two.queue(made.id)).name)
    for gone in ("public", made.id):
        with pytest.raises(errors.QueueNotFound):
            await one.queue(gone)
    with pytest.raises(errors.QueueNotFound):
        await one.delete_queue("public")


async def test_look_up_a_client_and_its_queue(one: Client, two: Client) -> None:
    assert (await one.client("two")).name == "two"
    queue = await one.personal_queue("two")
    assert (queue.name, queue.owner) == ("@two", "two")
    assert (await two.personal_queue()).id == queue.id
    for look_up in (one.client, one.personal_queue):
        with pytest.raises(errors.ClientNotFound):
            await look_up("nobody")


# Sending


async def test_send_raw_content_to_one_queue_and_to_several(one: Client, two: Client) -> None:
    raw = bytes(range(256)) * 8
    for queue in ("a", "b", "c"):
        await one.create_queue(queue)
    await one.send("a", raw[:2000], priority=1)
    await one.send(["a", "b", "c"], raw[:1000], priority=10)
    assert [message.body for message in await two.receive_many("a", 9)] == [raw[:1000], raw[:2000]]
    assert [got(await two.receive(queue)).body for queue in ("b", "c")] == [raw[:1000]] * 2


async def test_send_what_cannot_be_sent(one: Client) -> None:
    await one.create_queue("small", max_body=2000)
    with pytest.raises(errors.MessageTooLarge):
        await one.send("small", bytes(2001))
    for priority in (0, 11):
        with pytest.raises(errors.InvalidRequest):
            await one.send("small", b"", priority=priority)
    with pytest.raises(errors.QueueNotFound):
        await one.send(["small", "nowhere"], b"")
    with pytest.raises(errors.InvalidRequest):
        await one.send([], b"")
    assert (await one.queue("small")).messages == 0


async def test_send_to_a_client_privately(one: Client, two: Client) -> None:
    await one.send("@two", b"private", priority=9)
    message = got(await two.receive("@two"))
    assert (message.body, message.sender, message.receiver) == (b"private", "one", "two")
    with pytest.raises(errors.QueueNotFound):
        await one.send("@nobody", b"")


async def test_request_and_response_find_each_other_by_their_context(one: Client, two: Client) -> None:
    for context, priority in ((1001, 1), (1002, 10)):
        await one.send("@two", f"request {context}", context=context, priority=priority)
    for _ in range(2):  # the later request is the more urgent, and responded to first
        request = got(await two.receive("@two", sender="one"))
        await two.reply(request, request.text.replace("request", "response"))
    assert got(await one.receive("@one", context=1001)).text == "response 1001"
    assert await one.receive("@one", context=1001) is None
    last = got(await one.receive("@one", context=1002))
    assert (last.text, last.sender, last.priority) == ("response 1002", "two", 10)


async def test_the_system_issues_contexts_itself(one: Client, two: Client) -> None:
    answers = asyncio.gather(*(one.request("@two", str(number)) for number in range(10)))
    requests = [got(await two.receive("@two", wait=30)) for _ in range(10)]
    assert len({request.context for request in requests}) == 10
    for request in reversed(requests):
        await two.reply(request, f"re: {request.text}")
    assert [answer.text for answer in await answers] == [f"re: {number}" for number in range(10)]


# Pending messages


async def test_queues_with_pending_messages_are_counted_up_to_a_limit(one: Client, two: Client) -> None:
    for number in range(3):
        await one.create_queue(f"public {number}")
        await one.send_many([{"queue": f"public {number}", "body": b"", "receiver": "two"}] * (number + 1))
    await one.send_many([("@two", b"")] * 7)
    await one.send("public 0", b"for anyone")
    pending = {queue.name: queue.messages for queue in await two.waiting_queues()}
    assert pending == {"@two": 7, "public 0": 1, "public 1": 2, "public 2": 3}
    assert [queue.name for queue in await two.waiting_queues(2)] == ["@two", "public 2"]
    assert await one.waiting_queues() == []
    with pytest.raises(errors.InvalidRequest):
        await two.waiting_queues(0)


# Reading


async def test_peek_and_dequeue_by_queue_sender_and_context(one: Client, two: Client, connect: Connect) -> None:
    three = await connect("three")
    for queue in ("a", "b"):
        await one.create_queue(queue)
    sends = (
        (one, "a", "of one in a", 1, None),
        (one, "b", "of one in b", 2, 7),
        (three, "a", "of three in a", 3, 7),
        (three, "b", "of three in b", 4, None),
    )
    for sender, queue, text, priority, context in sends:
        await sender.send(queue, text, priority=priority, context=context)

    assert got(await two.peek("a")).text == "of three in a"
    assert got(await two.peek("a", order="arrival")).text == "of one in a"
    assert got(await two.peek(sender="one")).text == "of one in b"
    assert got(await two.peek("a", sender="one")).text == "of one in a"
    assert got(await two.peek(context=7)).text == "of three in a"
    assert got(await two.peek(context=7, sender="one")).text == "of one in b"
    assert await two.peek("a", sender="one", context=7) is None

    assert got(await two.receive("b", context=7)).text == "of one in b"
    assert got(await two.receive("b", sender="three")).text == "of three in b"
    assert got(await two.receive(context=7)).text == "of three in a"
    assert got(await two.receive(sender="one")).text == "of one in a"
    for nothing in (two.receive("a"), two.receive("b"), two.receive(sender="one"), two.receive(context=7)):
        assert await nothing is None


async def test_a_query_that_makes_no_sense(one: Client) -> None:
    for read in (one.peek, one.receive):
        with pytest.raises(errors.InvalidRequest, match="a queue, a sender or a context"):
            await read()
        with pytest.raises(errors.QueueNotFound):
            await read("nowhere")
        with pytest.raises(errors.ClientNotFound):
            await read(sender="nobody")


async def test_two_who_dequeue_at_once_never_get_the_same(one: Client, two: Client) -> None:
    await one.create_queue("public")
    await one.send_many([("public", str(number)) for number in range(40)])
    pairs = [await asyncio.gather(one.receive("public"), two.receive("public")) for _ in range(20)]
    assert {got(message).text for pair in pairs for message in pair} == {str(number) for number in range(40)}


# Time and load


async def test_a_request_that_is_not_answered_in_time(connect: Connect, database: str) -> None:
    hasty = await connect("hasty", timeout=1.0)
    await hasty.create_queue("public")
    async with slow_database(database):
        with pytest.raises(errors.RequestTimeout):
            await hasty.send("public", b"late")
    await when_it_works(hasty.ping, errors.RequestTimeout)  # the connection is as good as before
    with pytest.raises(errors.RequestTimeout, match="no reply to the request"):
        await hasty.request("public", b"anyone?", timeout=0.05)


async def test_load_that_is_too_much_is_shed_with_an_answer(
    brokers: StartBroker, connect: Connect, database: str
) -> None:
    _, url = await brokers(in_flight=8)
    clients = [await connect(f"client {number}", url) for number in range(20)]
    await clients[0].create_queue("public")
    async with slow_database(database):
        sends = [asyncio.create_task(client.send("public", client.name)) for client in clients]
        refused, waiting = await asyncio.wait(sends, return_when=asyncio.FIRST_COMPLETED)
        while len(refused) < 12:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            refused |= done
    assert {type(send.exception()) for send in refused} == {errors.Overloaded}
    await asyncio.gather(*waiting)
    assert (len(refused), (await clients[0].queue("public")).messages) == (12, 8)


# Its clients


async def test_one_way_clients_relay_a_growing_counter(connect: Connect, broker: str, elsewhere: str) -> None:
    clients = [await connect(f"relay {number}", (broker, elsewhere)[number % 2]) for number in range(4)]

    async def relay(number: int) -> None:
        for _ in range(3):
            message = got(await clients[number].receive(f"@relay {number}", wait=30))
            await clients[number].send(f"@relay {(number + 1) % 4}", str(int(message.text) + 1))

    await clients[3].send("@relay 0", "0")
    await asyncio.gather(*(relay(number) for number in range(4)))
    assert await drained(clients[0], "@relay 0") == ["12"]


async def test_paired_clients_request_and_respond(one: Client, two: Client) -> None:
    async def respond() -> None:
        for _ in range(10):
            request = got(await two.receive("@two", wait=30))
            await two.reply(request, request.text.upper())

    responding = asyncio.create_task(respond())
    texts = [(await one.request("@two", f"request {number}")).text for number in range(10)]
    await responding
    assert texts == [f"REQUEST {number}" for number in range(10)]


async def test_producers_and_consumers_share_a_public_queue(connect: Connect, broker: str, elsewhere: str) -> None:
    producers = [await connect(f"producer {number}", broker) for number in range(2)]
    consumers = [await connect(f"consumer {number}", elsewhere) for number in range(2)]
    await producers[0].create_queue("public")

    async def consume(client: Client) -> list[str]:
        return [got(await client.receive("public", wait=30)).text for _ in range(20)]

    consuming = [asyncio.create_task(consume(client)) for client in consumers]
    for number in range(20):
        await asyncio.gather(*(producer.send("public", f"{producer.name} {number}") for producer in producers))
    consumed = [text for texts in await asyncio.gather(*consuming) for text in texts]
    assert sorted(consumed) == sorted(f"{producer.name} {number}" for producer in producers for number in range(20))
