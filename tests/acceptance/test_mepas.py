"""mepas: its messaging protocol, its two constraints, and its end-to-end checks.

=====================================  ===============================================================================
theirs                                 ours
=====================================  ===============================================================================
sayHello(name)                         ``connect(url, name=…)``
sayGoodbye                             ``close()``: answered before the connection closes
createQueue, deleteQueue(id)           ``create_queue(name, exclude_own=True)``, ``delete_queue(queue(id).name)``
sendMessage(queue, content)            ``send(queue, content)``: for anyone but the sender
sendMessage(receiver, queue, …)        ``send(queue, content, receiver=…)``
receiveMessage(queue, byArrival)       ``receive(queue, order="arrival")``; theirs "any" is our "priority"
receiveMessage(sender, queue, …)       ``receive(queue, sender=…, order=…)``
readMessage(queue, byArrival)          ``peek(queue, order=…)``
listQueues                             ``waiting_queues()``: those with a message for me
console                                ``clients()``, ``queues()``, ``browse(queue)``
-------------------------------------  -------------------------------------------------------------------------------
check_length: over 2000 characters     ``MessageTooLarge`` (``create_queue(…, max_body=2000)``)
check_cannot_send_to_itself            ``InvalidRequest``
a message one has sent oneself         is never given back: None
an empty Optional                      None
a failed response                      one of ``stafette.errors``
two transactions read one message      cannot happen: see the end-to-end check
=====================================  ===============================================================================
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import stafette.aio
from stafette import errors
from stafette.broker.server import BrokerSettings, running
from stafette.client.aio import Client
from stafette.model import Message
from stafette.protocol import messages as wire
from tests.support.brokers import Connect, StartBroker, drained, got


@pytest.fixture
async def karolos(connect: Connect) -> Client:
    """He makes the queue of all stories: nobody is handed his own messages there, and none is longer than 2000."""
    client = await connect("karolos")
    await client.create_queue("q", exclude_own=True, max_body=2000)
    return client


@pytest.fixture
async def anna(connect: Connect, elsewhere: str) -> Client:
    """She is connected to the other broker."""
    return await connect("anna", elsewhere)


async def test_hello_and_goodbye(connect: Connect, elsewhere: str) -> None:
    karolos = await connect("karolos")
    who = await karolos.client("karolos")
    await karolos.close()
    karolos = await connect("karolos", elsewhere)
    assert (await karolos.client("karolos")).id == who.id
    with pytest.raises(errors.InvalidRequest, match="name"):
        await connect("")


async def test_create_and_delete_a_queue(karolos: Client, anna: Client) -> None:
    made = await anna.create_queue("another", exclude_own=True)
    assert made.exclude_own
    with pytest.raises(errors.QueueExists):
        await karolos.create_queue("another")
    await karolos.delete_queue((await karolos.queue(made.id)).name)
    with pytest.raises(errors.QueueNotFound):
        await anna.send("another", "")


async def test_a_message_for_anyone_is_for_anyone_but_its_sender(karolos: Client, anna: Client) -> None:
    await karolos.send("q", "for anyone else")
    for mine in (
        karolos.receive("q"), karolos.receive("q", order="arrival"), karolos.receive("q", sender="karolos"),
        karolos.receive(sender="karolos"), karolos.peek("q"), karolos.peek("q", order="arrival"), karolos.lease("q"),
    ):  # fmt: skip
        assert await mine is None
    assert await karolos.browse("q") == []
    assert got(await anna.receive("q")).text == "for anyone else"


async def test_own_messages_do_not_hide_those_of_others(karolos: Client, anna: Client) -> None:
    await karolos.send_many([("q", "mine")] * 50)
    await anna.send("q", "hers")
    for order in ("priority", "arrival"):
        assert got(await karolos.peek("q", order=order)).text == "hers"
    assert await drained(karolos, "q") == ["hers"]
    assert len(await drained(anna, "q")) == 50


async def test_a_message_for_a_receiver(karolos: Client, anna: Client, connect: Connect) -> None:
    eleni = await connect("eleni")
    await karolos.send("q", "for anna", receiver="anna")
    assert await eleni.receive("q") is None
    assert got(await anna.receive("q")).receiver == "anna"
    with pytest.raises(errors.ClientNotFound):
        await karolos.send("q", "", receiver="nobody")
    with pytest.raises(errors.QueueNotFound):
        await karolos.send("nowhere", "", receiver="anna")


async def test_nobody_sends_a_message_to_himself(karolos: Client) -> None:
    with pytest.raises(errors.InvalidRequest, match="oneself"):
        await karolos.send("q", "me", receiver="karolos")
    assert (await karolos.queue("q")).messages == 0


async def test_a_message_has_at_most_2000_characters(karolos: Client, anna: Client) -> None:
    with pytest.raises(errors.MessageTooLarge):
        await karolos.send("q", "x" * 2001)
    await karolos.send("q", "x" * 2000)
    assert await drained(anna, "q") == ["x" * 2000]


async def test_receive_from_a_queue_and_from_a_sender_by_arrival(
    karolos: Client, anna: Client, connect: Connect
) -> None:
    eleni = await connect("eleni")
    for number, sender in enumerate((karolos, eleni, karolos, eleni, karolos)):
        await sender.send("q", f"{sender.name} {number}", priority=number + 1)
    assert got(await anna.receive("q", order="arrival")).text == "karolos 0"
    assert got(await anna.receive("q", sender="karolos", order="arrival")).text == "karolos 2"
    assert await drained(anna, "q", order="arrival") == ["eleni 1", "eleni 3", "karolos 4"]
    assert await anna.receive("q", sender="eleni") is None
    with pytest.raises(errors.ClientNotFound):
        await anna.receive("q", sender="nobody")


async def test_read_leaves_the_message_there(karolos: Client, anna: Client) -> None:
    await karolos.send("q", "first", priority=1)
    await karolos.send("q", "second", priority=9)
    for _ in range(2):
        assert got(await anna.peek("q", order="arrival")).text == "first"
        assert got(await anna.peek("q")).text == "second"
    assert len(await anna.browse("q")) == 2


async def test_list_queues_where_a_message_for_me_is(karolos: Client, anna: Client) -> None:
    await karolos.create_queue("r", exclude_own=True)
    assert await anna.waiting_queues() == []
    await karolos.send("q", "for anyone")
    await karolos.send("r", "for anna", receiver="anna")
    assert [(queue.name, queue.messages) for queue in await anna.waiting_queues()] == [("r", 1)]


async def test_a_read_of_the_sender_does_not_hold_up_that_of_another(karolos: Client, connect: Connect) -> None:
    """Both wait on one broker, he first; what he sends is for her."""
    eleni = await connect("eleni")
    his, hers = (asyncio.create_task(client.receive("q", wait=30)) for client in (karolos, eleni))
    await asyncio.gather(karolos.ping(), eleni.ping())
    await karolos.send("q", "for eleni")
    assert got(await hers).text == "for eleni"
    assert not his.done()
    await eleni.send("q", "for karolos")
    assert got(await his).text == "for karolos"


async def test_end_to_end_two_brokers_and_four_clients(brokers: StartBroker, connect: Connect) -> None:
    """Everybody sends to everybody and to anyone: each request has its answer, each message one reader, not its own."""
    nodes = [await brokers(), await brokers()]
    names = ["karolos", "anna", "eleni", "nikos"]
    clients = [await connect(name, nodes[number % 2][1]) for number, name in enumerate(names)]
    await clients[0].create_queue("q", exclude_own=True)
    sent: list[str] = []
    read: list[tuple[str, Message]] = []

    async def live(client: Client) -> None:
        others = [name for name in names if name != client.name]
        for number in range(30):
            receiver = [None, *others][number % 4]
            text = f"{client.name} {number} {receiver}"
            await client.send("q", text, receiver=receiver)
            sent.append(text)
            if message := await client.receive("q", order="arrival"):
                read.append((client.name, message))

    await asyncio.gather(*(live(client) for client in clients))
    for runtime, _ in nodes:  # thirty times a send and a receive, of two clients on each broker
        assert (runtime.core.metrics.answered[wire.Send], runtime.core.metrics.answered[wire.Receive]) == (60, 60)
    for client in clients:
        while message := await client.receive("q"):
            read.append((client.name, message))
    assert Counter(message.text for _, message in read) == Counter(sent)
    assert all(message.receiver in (None, reader) for reader, message in read)
    assert all(message.sender != reader for reader, message in read)


async def test_graceful_termination_answers_what_was_asked(database: str, elsewhere: str) -> None:
    """A broker is told to stop while sends are under way: each is answered or refused, none is in doubt."""
    async with running(BrokerSettings(database=database, port=0)) as (_, port):
        both = f"stafette://127.0.0.1:{port},{elsewhere.removeprefix('stafette://')}"
        karolos = await stafette.aio.connect(both, name="karolos")
        await karolos.create_queue("q")
        sends = [asyncio.create_task(karolos.send("q", str(number))) for number in range(300)]
        waiting = asyncio.create_task(karolos.receive("@karolos", wait=30))
        await karolos.ping()
    outcomes = await asyncio.gather(*sends, return_exceptions=True)
    assert all(isinstance(outcome, list) for outcome in outcomes)
    # He goes on through the other broker under the same name, and so does his read that waits
    await karolos.send("@karolos", "to himself")
    assert got(await waiting).text == "to himself"
    assert await drained(karolos, "q") == [str(number) for number in range(300)]
    await karolos.close()
