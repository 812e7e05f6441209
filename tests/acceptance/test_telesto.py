"""Telesto: its packets, its client's methods and its fourteen error codes (`test_telesto_errors.py`).

=====================================  ===============================================================================
theirs                                 ours
=====================================  ===============================================================================
Ping, ping                             ``ping()``, after the hello; theirs is allowed before
RegisterClient, connect(name, mode)    ``connect(url, name=…, mode=…)``
IdentifyClient, connect(id)            ``connect(url, name=…)``: a client is identified by its name
DeleteClient                           ``delete_client(name)``
CreateQueue, DeleteQueue               ``create_queue(name)``, ``delete_queue(name, force=True)``
GetQueueId, getQueueByName             ``queue(name)``
GetQueueName, getQueueById             ``queue(id)``
GetQueues, GetActiveQueues             ``queues()``, ``waiting_queues()``
GetMessages, readMessages              ``browse(queue)``
PutMessage to one queue, to several    ``send(queue, …)``, ``send([…], …)``: to all or none
 for a client not yet registered       ``send(…, receiver=…, allow_unknown=True)``
ReadMessage by priority, by time       ``receive(queue, sender=…, order=…)``, with ``wait`` the blocking one
ReadResponse                           ``receive(queue, context=…)``
sendRequestResponseMessage             ``request(queue, …)`` and ``reply(message, …)``
read-only mode                         ``mode="read-only"``: it looks; theirs may also take
-------------------------------------  -------------------------------------------------------------------------------
INTERNAL_ERROR                         ``InternalError`` (code 300)
IO_ERROR                               ``Unavailable``
UNEXPECTED_PACKET                      ``InvalidRequest``, before the hello ``NotAuthenticated``
UNIQUE_CONSTRAINT                      ``QueueExists``, ``AlreadyOnline``, ``KeyConflict``
QUEUE_NAME_NOT_UNIQUE                  ``QueueExists``
CLIENT_NAME_NOT_UNIQUE                 ``AlreadyOnline``; ``NotAuthenticated`` if the name has a secret
CLIENT_NOT_EXISTING                    ``ClientNotFound``
QUEUE_NOT_EXISTING                     ``QueueNotFound``
REQUIRED_PARAMETER_MISSING             ``InvalidRequest``
CLIENT_MODE_PERMISSION_VIOLATION       ``PermissionDenied``
NO_ACTIVE_QUEUES_EXISTING              an empty list
NO_QUEUES_EXISTING                     a list with nothing but personal queues
NO_MESSAGES_IN_QUEUE                   an empty list
NO_MESSAGES_RETRIEVED                  None
=====================================  ===============================================================================

Its three groups are ours: "unexpected" is ours or try again, "client error" is the caller's, and what only notifies the
client is not an error at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from stafette import errors
from stafette.client.aio import Client
from stafette.database.messages import Messages, ReadRequest
from stafette.model import Message, Order
from tests.support.brokers import Connect, drained, got


@pytest.fixture
async def dominic(connect: Connect) -> Client:
    return await connect("dominic")


@pytest.fixture
async def simon(connect: Connect, elsewhere: str) -> Client:
    """He is connected to the other broker."""
    return await connect("simon", elsewhere)


# Setup


async def test_ping_measures_the_way_there_and_back(dominic: Client) -> None:
    loop = asyncio.get_running_loop()
    before = loop.time()
    seconds = await dominic.ping()
    assert 0 < seconds <= loop.time() - before


async def test_register_and_identify_with_a_mode_for_life(connect: Connect, elsewhere: str) -> None:
    reader = await connect("reader", mode="read-only")
    registered = await reader.client("reader")
    assert registered.mode == "read-only"
    await reader.close()
    # Given the same name again, it is the same client, and no mode it asks for gives it more than it had
    again = await connect("reader", elsewhere, mode="full")
    assert (await again.client("reader")).id == registered.id
    with pytest.raises(errors.PermissionDenied):
        await again.create_queue("q")


async def test_delete_client(connect: Connect, dominic: Client, simon: Client) -> None:
    await dominic.create_queue("q")
    with pytest.raises(errors.AlreadyOnline):
        await dominic.delete_client("simon")
    await simon.send("q", "what it sent stays")
    await dominic.send(["q", "@simon"], "what waited for it goes", receiver="simon")
    await simon.close()
    await dominic.delete_client("simon")
    for gone in (dominic.client("simon"), dominic.personal_queue("simon"), dominic.delete_client("simon")):
        with pytest.raises(errors.ClientNotFound):
            await gone
    assert [message.sender for message in await dominic.browse("q")] == ["simon"]
    anew = await connect("simon")
    assert await drained(anew, "q") == ["what it sent stays"]
    assert await anew.waiting_queues() == []


async def test_a_client_deletes_itself_and_is_gone(connect: Connect, dominic: Client) -> None:
    await (await connect("guest")).delete_client("guest")
    with pytest.raises(errors.ClientNotFound):
        await dominic.client("guest")


# Queues


async def test_queues_are_made_found_listed_and_deleted(dominic: Client, simon: Client) -> None:
    assert [queue for queue in await simon.queues() if not queue.owner] == []
    made = {name: await dominic.create_queue(name) for name in ("a", "b")}
    with pytest.raises(errors.QueueExists):
        await simon.create_queue("a")
    assert await simon.queue("a") == await simon.queue(made["a"].id) == made["a"]
    assert [queue for queue in await simon.queues() if not queue.owner] == [made["a"], made["b"]]
    await dominic.send("a", "goes with it")
    await simon.delete_queue("a", force=True)
    for gone in (simon.queue("a"), simon.queue(made["a"].id), simon.delete_queue("a", force=True)):
        with pytest.raises(errors.QueueNotFound):
            await gone


async def test_active_queues_hold_messages_for_me(dominic: Client, simon: Client) -> None:
    for name in ("a", "b"):
        await dominic.create_queue(name)
    await dominic.send("a", "for anyone")
    assert await simon.waiting_queues() == []
    await dominic.send("b", "for simon", receiver="simon")
    assert [queue.name for queue in await simon.waiting_queues()] == ["b"]


async def test_all_messages_of_a_queue_without_removing_any(dominic: Client, simon: Client) -> None:
    await dominic.create_queue("q")
    assert await simon.browse("q") == []
    await dominic.send_many([("q", "x" * 2000)] * 150)  # more than a packet of theirs could carry
    page = await simon.browse("q", limit=100)
    rest = await simon.browse("q", after=page[-1].id)
    assert (len(page), len(rest)) == (100, 50)
    assert (await simon.queue("q")).messages == 150
    with pytest.raises(errors.QueueNotFound):
        await simon.browse("nowhere")


# Messages


async def test_put_a_message_into_several_queues_or_none(dominic: Client, simon: Client) -> None:
    for name in ("a", "b"):
        await dominic.create_queue(name)
    ids = await dominic.send(["a", "b"], "both", context=3, priority=10)
    assert len(set(ids)) == 2
    with pytest.raises(errors.QueueNotFound):
        await dominic.send(["a", "nowhere", "b"], "none")
    assert [await drained(simon, name) for name in ("a", "b")] == [["both"], ["both"]]


async def test_put_a_message_for_a_client_that_registers_later(
    connect: Connect, dominic: Client, elsewhere: str
) -> None:
    await dominic.create_queue("q")
    with pytest.raises(errors.ClientNotFound):
        await dominic.send("q", "", receiver="markus")
    await dominic.send("q", "welcome", receiver="markus", allow_unknown=True)
    with pytest.raises(errors.ClientNotFound):
        await dominic.client("markus")
    markus = await connect("markus", elsewhere)
    assert [queue.name for queue in await markus.waiting_queues()] == ["q"]
    assert got(await markus.receive("q")).text == "welcome"


@pytest.mark.parametrize(
    ("order", "expected"),
    [("priority", ["highest", "early low", "late low"]), ("arrival", ["early low", "highest", "late low"])],
)
async def test_read_by_priority_or_by_time(dominic: Client, simon: Client, order: Order, expected: list[str]) -> None:
    await dominic.create_queue("q")
    for text, priority in (("early low", 1), ("highest", 10), ("late low", 1)):
        await dominic.send("q", text, priority=priority)
    await simon.send("q", "of simon", priority=5)
    assert [got(await simon.receive("q", sender="dominic", order=order)).text for _ in expected] == expected
    assert await simon.receive("q", sender="dominic", order=order) is None
    assert await drained(simon, "q", order=order) == ["of simon"]


async def test_a_blocking_read_waits_for_its_message(dominic: Client, simon: Client) -> None:
    await dominic.create_queue("q")
    reading = [
        asyncio.create_task(simon.receive("q", wait=30)),
        asyncio.create_task(simon.receive("q", sender="dominic", context=8, wait=30)),
    ]
    await simon.ping()
    assert not any(task.done() for task in reading)
    await dominic.send("q", "the queue", receiver="simon")
    assert got(await reading[0]).text == "the queue"
    assert not reading[1].done()
    await dominic.send("q", "the context", receiver="simon", context=8)
    assert got(await reading[1]).text == "the context"


async def test_a_blocking_read_is_not_held_up_by_those_that_wait_for_something_else(
    dominic: Client, connect: Connect
) -> None:
    await dominic.create_queue("q")
    readers = [await connect(name) for name in ("simon", "markus", "gustavo")]
    before = [
        asyncio.create_task(readers[0].peek("q", wait=30)),
        asyncio.create_task(readers[1].receive("q", sender="gustavo", wait=30)),
        asyncio.create_task(readers[1].receive("q", context=8, wait=30)),
    ]
    await asyncio.gather(*(reader.ping() for reader in readers))
    reading = asyncio.create_task(readers[2].receive("q", wait=30))
    await readers[2].ping()
    await dominic.send("q", "for anyone")
    assert got(await reading).text == "for anyone"
    await dominic.send("q", "with a context", context=8)
    assert got(await before[2]).text == "with a context"
    await readers[2].send("q", "of gustavo")
    assert got(await before[1]).text == "of gustavo"


@pytest.mark.parametrize("where", ["on one broker", "through two"])
async def test_a_blocking_read_does_not_miss_what_comes_at_any_moment(
    dominic: Client, connect: Connect, broker: str, elsewhere: str, where: str
) -> None:
    reader = await connect("reader", broker if where == "on one broker" else elsewhere)
    for number in range(24):
        await dominic.create_queue(f"queue {number}")
        reading = asyncio.create_task(reader.receive(f"queue {number}", wait=10))
        for _ in range(number % 4):
            await reader.ping()
        await dominic.send(f"queue {number}", "at last")
        assert got(await reading).text == "at last"


async def test_a_blocking_read_does_not_miss_what_comes_while_it_looks(
    dominic: Client, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database has told it that there is nothing, but before it is put to wait there is something."""
    await dominic.create_queue("q")
    other, reader = await connect("other"), await connect("reader")
    waiting = asyncio.create_task(other.receive("q", sender="other", wait=10))
    await dominic.send("@other", "the other's read has been put to wait, and all brokers know")
    assert await other.receive("@other", wait=10)

    looked, sent = asyncio.Event(), asyncio.Event()
    receive = Messages.receive

    async def slow(
        self: Messages, asks: Sequence[ReadRequest], **options: Any
    ) -> list[list[Message] | errors.StafetteError]:
        answers = await receive(self, asks, **options)
        looked.set()
        await sent.wait()
        return answers

    monkeypatch.setattr(Messages, "receive", slow)
    reading = asyncio.create_task(reader.receive("q", wait=10))
    await looked.wait()
    await dominic.send("q", "at last")
    sent.set()
    assert got(await reading).text == "at last"
    assert not waiting.done()


async def test_request_and_response_in_one_call(dominic: Client, simon: Client) -> None:
    await dominic.create_queue("prices")

    async def serve() -> None:
        question = got(await simon.receive("prices", wait=30))
        await simon.reply(question, f"{question.text}: 42")

    serving = asyncio.create_task(serve())
    answer = await dominic.request("prices", "CHF")
    await serving
    assert (answer.text, answer.sender) == ("CHF: 42", "simon")


async def test_read_a_response_by_its_context(dominic: Client, simon: Client) -> None:
    await dominic.create_queue("q")
    await dominic.send("q", "question", receiver="simon", context=77)
    question = got(await simon.receive("q"))
    await simon.send("q", "noise", receiver="dominic")
    await simon.send("q", "answer", receiver="dominic", context=question.context)
    assert got(await dominic.receive("q", context=77)).text == "answer"
    assert await dominic.receive("q", context=77) is None
