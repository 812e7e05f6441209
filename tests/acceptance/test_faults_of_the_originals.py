"""What the four originals do wrong when they are run today, each as a story in which Stafette does not.

=====================================================  ===============================================================
seen there                                             here
=====================================================  ===============================================================
FTaB: a fifth of the pops deliver a message twice      each message is popped once, through any number of brokers
Telesto: a fifth of the pops find nothing, falsely     no pop is empty while there are messages
Telesto: "time order" is newest first                  earliest first
Telesto: pop time grows with what is stored            what a pop touches stays the same (tests/integration/test_plans)
mepas: 64 idle clients cost a whole core, dead or not  idle clients ask the database nothing (`test_idle_clients.py`)
mlmq: requests are dropped under load, clients hang    each request is answered, some with Overloaded
mlmq: anyone can empty another's private queue         private is private
mlmq, mepas: a database restart means a restart        Unavailable for a moment, then it goes on
FTaB: clients that died stay online and are refused    the name of a lost connection, or a lost broker, is free
=====================================================  ===============================================================
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import stafette.aio
from stafette import errors
from stafette.broker import notifications
from stafette.broker.maintenance.heartbeat import Heartbeat
from stafette.broker.runtime import Runtime
from stafette.broker.server import BrokerSettings, running
from stafette.client.aio import Client
from stafette.database import schema
from stafette.database.embedded import EmbeddedPostgres
from tests.support.brokers import Connect, StartBroker, drained, got, when_it_works
from tests.support.protocol_client import ProtocolClient
from tests.support.waiting import A_DAY, TIMEOUT_SECONDS, until

READERS = 16

# Each way of popping takes its own way through the database.
WAYS: dict[str, dict[str, Any]] = {
    "by priority": {},
    "by arrival": {"order": "arrival"},
    "by sender": {"sender": "alice"},
    "by context": {"context": 1},
}


@pytest.fixture
async def alice(connect: Connect) -> Client:
    client = await connect("alice")
    await client.create_queue("jobs")
    return client


@pytest.fixture
async def readers(connect: Connect, broker: str, elsewhere: str) -> list[Client]:
    """Half of them are connected to either broker."""
    return [await connect(f"reader {number}", (broker, elsewhere)[number % 2]) for number in range(READERS)]


async def put(sender: Client, count: int) -> list[str]:
    """Send so many messages with various priorities; returns their texts in the order sent."""
    texts = [str(number) for number in range(count)]
    await sender.send_many(
        [{"queue": "jobs", "body": text, "priority": int(text) % 10 + 1, "context": 1} for text in texts]
    )
    return texts


# No duplicate


@pytest.mark.parametrize("way", WAYS)
async def test_each_message_is_popped_once(alice: Client, readers: list[Client], way: str) -> None:
    sent = await put(alice, 400)

    async def pop_all(reader: Client) -> list[str]:
        return await drained(reader, "jobs", **WAYS[way])

    popped = await asyncio.gather(*map(pop_all, readers))
    assert Counter(text for texts in popped for text in texts) == Counter(sent)


async def test_each_message_is_leased_by_one_at_a_time(alice: Client, readers: list[Client]) -> None:
    sent = await put(alice, 200)
    done: list[str] = []

    async def work(reader: Client) -> None:
        while lease := await reader.lease("jobs"):
            done.append(lease.message.text)
            await lease.ack()

    await asyncio.gather(*map(work, readers))
    assert Counter(done) == Counter(sent)


# No false empty


@pytest.mark.parametrize("way", WAYS)
async def test_no_pop_is_empty_while_there_are_messages(alice: Client, readers: list[Client], way: str) -> None:
    pops = 15
    await put(alice, READERS * pops)
    popped = await asyncio.gather(
        *(reader.receive("jobs", **WAYS[way]) for _ in range(pops) for reader in readers),
    )
    assert popped.count(None) == 0
    assert await readers[0].receive("jobs") is None


# Earliest first


async def test_time_order_is_earliest_first(alice: Client, readers: list[Client]) -> None:
    sent = await put(alice, 100)
    assert got(await readers[0].peek("jobs", order="arrival")).text == sent[0]
    assert await drained(readers[0], "jobs", order="arrival") == sent


async def test_time_order_holds_for_each_of_many_readers(alice: Client, readers: list[Client]) -> None:
    await put(alice, 200)

    async def pop_all(reader: Client) -> list[int]:
        return [int(text) for text in await drained(reader, "jobs", order="arrival")]

    popped = await asyncio.gather(*map(pop_all, readers))
    assert sum(map(len, popped)) == 200
    assert all(numbers == sorted(numbers) for numbers in popped)


async def test_equal_priority_is_earliest_first(alice: Client, readers: list[Client]) -> None:
    sent = await put(alice, 100)
    assert await drained(readers[1], "jobs") == sorted(sent, key=lambda text: (-(int(text) % 10), int(text)))


# An answer instead of a drop


async def test_overload_is_answered_request_by_request(brokers: StartBroker, connect: Connect) -> None:
    runtime, url = await brokers(in_flight=40, in_flight_per_client=100)
    clients = [await connect(f"client {number}", url) for number in range(8)]
    await clients[0].create_queue("jobs")
    asked = [client.send("jobs", client.name) for _ in range(100) for client in clients]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    stored = [outcome for outcome in outcomes if isinstance(outcome, list)]
    refused = [outcome for outcome in outcomes if isinstance(outcome, errors.Overloaded)]
    assert len(stored) + len(refused) == len(asked) == 800
    assert len(refused) == runtime.core.admission.refusals["Overloaded"] > 0
    assert len(stored) >= 40
    assert (await clients[0].queue("jobs")).messages == len(stored), "refused means that nothing has happened"
    # And when it is over, it is over
    for client in clients:
        await client.send("jobs", "as before")


# Private is private


async def test_nobody_else_gets_at_what_is_mine(connect: Connect, elsewhere: str, alice: Client) -> None:
    bob, mallory = await connect("bob"), await connect("mallory", elsewhere)
    await bob.send("@alice", "in her queue", context=5)
    await bob.send("jobs", "addressed to her", receiver="alice", context=5)

    for theft in (
        mallory.receive("@alice"), mallory.receive("@alice", sender="bob"), mallory.receive("@alice", context=5),
        mallory.receive("@alice", wait=1), mallory.receive_many("@alice", 10), mallory.peek("@alice"),
        mallory.peek("@alice", order="arrival"), mallory.browse("@alice"), mallory.lease("@alice"),
        mallory.purge("@alice"), mallory.delete_queue("@alice"), mallory.delete_queue("@alice", force=True),
    ):  # fmt: skip
        with pytest.raises(errors.PermissionDenied):
            await theft
    for order in ("priority", "arrival"):
        for look in (mallory.receive, mallory.peek, mallory.lease):
            for wish in ({"queue": "jobs"}, {"sender": "bob"}, {"queue": "jobs", "sender": "bob"}, {"context": 5}):
                assert await look(**wish, order=order) is None
    assert await mallory.browse("jobs") == []
    assert await mallory.waiting_queues() == []
    with pytest.raises(errors.AlreadyOnline):
        await connect("alice", elsewhere)
    with pytest.raises(errors.AlreadyOnline):
        await mallory.delete_client("alice")
    with pytest.raises(errors.PermissionDenied):
        await bob.send("@alice", "", receiver="mallory")

    assert {queue.name: queue.messages for queue in await alice.waiting_queues()} == {"@alice": 1, "jobs": 1}
    assert [message.text for message in await alice.receive_many(None, 9, sender="bob", order="arrival")] == [
        "in her queue",
        "addressed to her",
    ]


async def test_the_sender_cannot_take_back_what_is_mine(connect: Connect, alice: Client) -> None:
    bob = await connect("bob")
    await bob.send(["@alice", "jobs"], "for her", receiver="alice", context=5)
    for wish in ({"queue": "jobs"}, {"sender": "bob"}, {"context": 5}):
        assert await bob.receive(**wish) is None
    assert len(await alice.receive_many(None, 9, context=5)) == 2


async def test_a_read_that_waits_is_not_given_what_is_mine(connect: Connect, alice: Client) -> None:
    bob, mallory = await connect("bob"), await connect("mallory")
    waits = [
        asyncio.create_task(mallory.receive("jobs", wait=A_DAY)),
        asyncio.create_task(mallory.receive(sender="bob", wait=A_DAY)),
        asyncio.create_task(mallory.receive(context=5, wait=A_DAY)),
    ]
    await mallory.ping()
    for queue in ("@alice", "jobs"):
        await bob.send(queue, "for her", receiver="alice", context=5)
    assert await drained(alice, "jobs") == await drained(alice, "@alice") == ["for her"]
    await mallory.ping()
    assert not any(wait.done() for wait in waits)
    await mallory.close()
    for outcome in await asyncio.gather(*waits, return_exceptions=True):
        assert isinstance(outcome, errors.StafetteError)


# Recovery without a restart


async def test_it_goes_on_after_a_database_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "POLL_SECONDS", 0.2)  # a notification may be lost with the database
    postgres = EmbeddedPostgres(tmp_path)
    await asyncio.to_thread(postgres.start)
    try:
        await schema.migrate(postgres.url)
        settings = BrokerSettings(database=postgres.url, port=0)
        async with (
            running(settings) as (_, here),
            running(settings) as (broker, there),
            await stafette.aio.connect(f"stafette://127.0.0.1:{here}", name="alice", timeout=3.0) as alice,
            await stafette.aio.connect(f"stafette://127.0.0.1:{there}", name="bob", timeout=3.0) as bob,
        ):
            await story_of_a_restart(postgres, alice, bob, broker)
    finally:
        await asyncio.to_thread(postgres.stop)


async def story_of_a_restart(postgres: EmbeddedPostgres, alice: Client, bob: Client, bobs_broker: Runtime) -> None:
    await alice.create_queue("jobs")
    await alice.create_queue("later")
    [kept] = await alice.send("jobs", "before")
    waiting = asyncio.create_task(bob.receive("later", wait=TIMEOUT_SECONDS))
    reads = bobs_broker.core.waiting
    await until(lambda: bobs_broker.core.interests.announced and len(reads) and not reads.tried_queues, bob.ping)

    await asyncio.to_thread(postgres.stop)
    for request in (alice.send("jobs", "meanwhile"), alice.receive("jobs"), bob.peek("jobs"), bob.queues()):
        with pytest.raises(errors.Unavailable):
            await request
    assert await alice.ping() > 0, "the broker itself is well"

    await asyncio.to_thread(postgres.start)
    await when_it_works(lambda: alice.send("jobs", "after"), errors.Unavailable)
    messages = await when_it_works(lambda: bob.browse("jobs"), errors.Unavailable)
    assert [(message.id == kept, message.text) for message in messages] == [(True, "before"), (False, "after")]
    assert await drained(bob, "jobs") == ["before", "after"]
    await alice.send("later", "still waiting?")
    assert got(await waiting).text == "still waiting?"


# Names freed


async def test_the_name_of_a_client_that_died_is_free(connect: Connect, broker: str, elsewhere: str) -> None:
    for url in (broker, elsewhere):
        dying = await ProtocolClient.open(broker, "alice")
        with pytest.raises(errors.AlreadyOnline):
            await connect("alice", url)
        dying.abort()
        again = await when_it_works(partial(connect, "alice", url), errors.AlreadyOnline)
        await again.close()


async def test_many_die_at_once_and_come_back(connect: Connect, broker: str, elsewhere: str) -> None:
    names = [f"client {number}" for number in range(100)]
    for url in (broker, elsewhere, broker):
        sessions = await asyncio.gather(
            *(when_it_works(partial(ProtocolClient.open, url, name), errors.AlreadyOnline) for name in names)
        )
        for session in sessions:
            session.abort()
    assert len(await (await connect("witness")).clients()) == len(names) + 1


async def test_a_broker_that_is_lost_does_not_keep_its_names(
    brokers: StartBroker, connect: Connect, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeat = Heartbeat.round
    monkeypatch.setattr(Heartbeat, "round", no_heartbeat)
    (lost, there), (_, here) = await brokers(), await brokers()
    alice = await connect("alice", there, timeout=1.0)
    with pytest.raises(errors.AlreadyOnline):
        await connect("alice", here)

    connection = await asyncpg.connect(database)
    await connection.execute("UPDATE stafette.brokers SET alive_until = now() WHERE id = $1", lost.broker_id)
    await connection.close()
    again = await connect("alice", here)
    assert (await again.client("alice")).broker is not None

    # The lost broker comes back, learns that its client has been taken in elsewhere, and lets it go
    await heartbeat(Heartbeat(lost.store.brokers), lost)
    await until(lambda: not lost.core.sessions, again.ping)
    with pytest.raises(errors.AlreadyOnline):
        await alice.ping()
    await again.ping()


async def no_heartbeat(_self: Heartbeat, _node: Runtime) -> bool:
    return False
