"""Reads that wait: what wakes them besides a send through their own broker, and what it costs that they wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import asyncpg
import pytest

import stafette.aio
from stafette.broker import notifications
from stafette.broker.runtime import Runtime
from stafette.client.aio import Client
from stafette.database.messages import ReadRequest, SendRequest
from stafette.database.store import Store
from stafette.model import Ask, Draft, Message, QueueOptions, Selection
from tests.support.brokers import Connect, StartBroker
from tests.support.waiting import A_DAY, TIMEOUT_SECONDS, until

SEND = "SELECT stafette.send('bob', $1, $2, delay => $3)"


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Connects clients to a test's own broker; there is no other, whose notifications would wake reads too."""
    async with AsyncExitStack() as stack:

        async def start(name: str, url: str) -> Client:
            return await stack.enter_async_context(await stafette.aio.connect(url, name=name))

        yield start


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that learn of a message only when they are notified."""
    monkeypatch.setattr(notifications, "POLL_SECONDS", A_DAY)


@pytest.fixture
def polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that look for messages all the time."""
    monkeypatch.setattr(notifications, "POLL_SECONDS", 0.01)


async def parked(runtime: Runtime, reads: int, database: str) -> None:
    """Wait until reads are parked, the other brokers and applications are told, and the reads have looked again."""
    connection = await asyncpg.connect(database)
    core = runtime.core

    async def settled() -> bool:
        announced = await connection.fetchval("SELECT count(*) FROM stafette.parked")
        return bool(
            len(core.waiting) == reads
            and announced >= len(core.waiting.queues)
            and core.interests.announced >= core.waiting.queues
            and not core.dispatcher.outstanding
        )

    await until(settled)
    await connection.close()


# A send in SQL


@pytest.mark.usefixtures("no_polls")
@pytest.mark.parametrize("queue", ["jobs", "@alice"])
async def test_a_send_in_sql_wakes_a_read(brokers: StartBroker, connect: Connect, database: str, queue: str) -> None:
    runtime, url = await brokers()
    alice, _ = await connect("alice", url), await connect("bob", url)
    await alice.create_queue("jobs")
    application = await asyncpg.connect(database)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        receiving = asyncio.create_task(alice.receive(queue, wait=A_DAY))
        await parked(runtime, 1, database)
        async with application.transaction():
            await application.execute(SEND, queue, b"from an application", None)
            await alice.ping()
            assert not receiving.done()
        message = await receiving
    assert message is not None
    assert message.body == b"from an application"
    await application.close()


@pytest.mark.usefixtures("no_polls")
async def test_a_commit_wakes_a_read_that_began_to_wait_after_the_send(
    brokers: StartBroker, connect: Connect, database: str
) -> None:
    runtime, url = await brokers()
    alice, _ = await connect("alice", url), await connect("bob", url)
    await alice.create_queue("jobs")
    application = await asyncpg.connect(database)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        async with application.transaction():
            for body in (b"1", b"2"):
                await application.execute(SEND, "jobs", body, None)
            receiving = asyncio.create_task(alice.receive("jobs", wait=A_DAY))
            await parked(runtime, 1, database)
        assert await receiving
    assert not await application.fetchval("SELECT count(*) FROM stafette.sql_sends")
    await application.close()


@pytest.mark.usefixtures("no_polls")
async def test_a_send_in_sql_wakes_a_read_that_names_no_queue(
    brokers: StartBroker, connect: Connect, database: str
) -> None:
    runtime, url = await brokers()
    alice, _ = await connect("alice", url), await connect("bob", url)
    await alice.create_queue("jobs")
    application = await asyncpg.connect(database)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        receiving = asyncio.create_task(alice.receive(sender="bob", wait=A_DAY))
        await parked(runtime, 1, database)
        await application.execute(SEND, "jobs", b"", None)
        assert await receiving
    await application.close()


@pytest.mark.usefixtures("no_polls")
async def test_a_send_in_sql_notifies_nobody_when_nobody_waits_for_it(
    brokers: StartBroker, connect: Connect, database: str
) -> None:
    runtime, url = await brokers()
    alice, _ = await connect("alice", url), await connect("bob", url)
    await alice.create_queue("jobs")
    await alice.create_queue("others")
    receiving = asyncio.create_task(alice.receive("others", wait=A_DAY))
    await parked(runtime, 1, database)
    application = await asyncpg.connect(database)
    heard: asyncio.Queue[str] = asyncio.Queue()
    channel = f"stafette_bell_{runtime.broker_id}"
    await application.add_listener(channel, lambda *payload: heard.put_nowait(str(payload[-1])))
    await application.execute(SEND, "jobs", b"", None)
    await application.execute(SEND, "others", b"", 3600.0)  # not ready yet
    await application.execute(f"NOTIFY {channel}, 'the end'")
    async with asyncio.timeout(TIMEOUT_SECONDS):
        assert await heard.get() == "the end"
    assert not receiving.done()
    receiving.cancel()
    await asyncio.gather(receiving, return_exceptions=True)
    application.terminate()


# Without a notification


READS: dict[str, Callable[[Client], Awaitable[Message | None]]] = {
    "queue": lambda alice: alice.receive("jobs", wait=A_DAY),
    "queue by arrival": lambda alice: alice.receive("jobs", order="arrival", wait=A_DAY),
    "sender": lambda alice: alice.receive(sender="bob", wait=A_DAY),
    "context": lambda alice: alice.receive(context=7, wait=A_DAY),
    "all": lambda alice: alice.receive("jobs", sender="bob", context=7, wait=A_DAY),
    "peek": lambda alice: alice.peek("jobs", wait=A_DAY),
}


@pytest.mark.usefixtures("polls")
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("receiver", [None, "alice"])
async def test_a_message_of_which_no_notification_came_is_handed_out(
    brokers: StartBroker, connect: Connect, database: str, read: str, receiver: str | None
) -> None:
    runtime, url = await brokers()
    alice, bob = await connect("alice", url), await connect("bob", url)
    await alice.create_queue("jobs")
    sender = (await bob.client("bob")).id
    async with asyncio.timeout(TIMEOUT_SECONDS):
        receiving = asyncio.ensure_future(READS[read](alice))
        await parked(runtime, 1, database)
        await runtime.store.messages.send([SendRequest(sender, Draft(("jobs",), b"", receiver, context=7))])
        assert await receiving


@pytest.mark.usefixtures("polls")
async def test_reads_for_which_nothing_is_ready_cost_one_query_however_many_they_are(
    brokers: StartBroker, connect: Connect, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    polled: list[int] = []
    runtime, url = await brokers()
    alice, bob = await connect("alice", url), await connect("bob", url)
    for number in range(20):
        await alice.create_queue(f"jobs {number}")
    await bob.send("jobs 0", b"for nobody here", receiver="bob")
    reads = [asyncio.create_task(alice.receive(f"jobs {number % 20}", wait=A_DAY)) for number in range(100)]
    await parked(runtime, 100, database)
    ask = runtime.store.messages.ready

    async def counted(asks: list[Ask]) -> list[Ask]:
        polled.append(len(asks))
        return await ask(asks)

    monkeypatch.setattr(runtime.store.messages, "ready", counted)

    async def no_read_was_tried_during_five_polls() -> bool:
        polls, batches = len(polled), sum(runtime.core.metrics.batch_requests.counts)
        await until(lambda: len(polled) > polls + 5, bob.ping)
        return sum(runtime.core.metrics.batch_requests.counts) == batches

    await until(no_read_was_tried_during_five_polls)
    assert polled[-1] == 20
    for task in reads:
        task.cancel()
    await asyncio.gather(*reads, return_exceptions=True)


# The query


ASKS = [
    Ask(client, queue, sender, context)
    for client in (1, 2)
    for queue in (None, "jobs", "others", "@alice", "@bob")
    for sender in (None, "alice", "bob")
    for context in (None, 7, 8)
    if queue or sender or context
]


@pytest.mark.parametrize("receiver", [None, "alice", "bob"])
@pytest.mark.parametrize("queue", ["jobs", "others", "@alice"])
@pytest.mark.parametrize("sender", [1, 2])
async def test_an_ask_is_ready_whenever_a_read_would_get_something(
    store: Store, queue: str, sender: int, receiver: str | None
) -> None:
    """And for most it is not otherwise."""
    alice = await store.clients.register("alice")
    bob = await store.clients.register("bob")
    assert (alice.id, bob.id) == (1, 2)
    await store.queues.create(alice.id, "jobs")
    await store.queues.create(alice.id, "others", QueueOptions(exclude_own=True))
    assert await store.messages.ready(ASKS) == []
    await store.messages.send([SendRequest(sender, Draft((queue,), b"", receiver, context=7))])
    ready = set(await store.messages.ready(ASKS))
    answers = await store.messages.peek(
        [ReadRequest(ask.client, Selection(ask.queue, ask.sender, ask.context)) for ask in ASKS]
    )
    gets = {ask for ask, answer in zip(ASKS, answers, strict=True) if isinstance(answer, list) and answer}
    assert gets <= ready
    assert not [ask for ask in ready if ask.context == 8 or ask.queue not in (None, queue)]


async def test_an_ask_for_what_is_gone_is_ready_so_that_the_read_learns_it(store: Store) -> None:
    await store.clients.register("alice")
    gone = [Ask(1, "jobs", None, None), Ask(1, None, "nobody", None)]
    assert await store.messages.ready([*gone, Ask(1, "@alice", None, None)]) == gone
