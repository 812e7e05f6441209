"""A receive whose answer is lost is asked again and gets the same messages; one that gave up gives them back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg
import pytest

import stafette
from stafette import errors
from stafette.broker.maintenance.received import ForgetReceived
from stafette.client.aio import Client
from tests.support.brokers import Connect, StartBroker
from tests.support.client_internals import parked_seconds
from tests.support.tcp_proxy import Proxy
from tests.support.waiting import let_others_run, until

FAULTS = [Proxy.lose_next_answer, Proxy.halve_next_answer]


async def kept(database: str) -> list[bytes]:
    """The bodies of what was received and not yet named as seen."""
    connection = await asyncpg.connect(database)
    try:
        return [row["body"] for row in await connection.fetch("SELECT body FROM stafette.received ORDER BY body")]
    finally:
        await connection.close()


async def bodies(client: Client, queue: str = "jobs") -> list[bytes]:
    return [message.body for message in await client.browse(queue)]


# The answer is lost


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_receive_whose_answer_is_lost_gets_the_same_messages(
    fault: Callable[[Proxy], None], proxy: Proxy, alice: Client
) -> None:
    for number in range(10):
        await alice.send("jobs", b"%d" % number, priority=10 - number % 2)
    fault(proxy)
    message = await alice.receive("jobs")
    assert message is not None
    assert (message.body, message.priority) == (b"0", 10)
    fault(proxy)
    received = await alice.receive_many("jobs", 5)
    assert [message.body for message in received] == [b"2", b"4", b"6", b"8", b"1"]
    fault(proxy)
    received = await alice.receive_many("jobs", 5, order="arrival", wait=60)
    assert [message.body for message in received] == [b"3", b"5", b"7", b"9"]
    assert proxy.connections == 4
    fault(proxy)
    assert await alice.receive("jobs") is None


async def test_many_tasks_of_one_client_lose_nothing_when_their_answers_are_cut(
    proxy: Proxy, alice: Client, connect: Connect
) -> None:
    sender = await connect("sender")
    sent = {b"%d" % number for number in range(300)}
    await sender.send_many([("jobs", body) for body in sent])
    received: list[bytes] = []

    async def read() -> None:
        while message := await alice.receive("jobs"):
            received.append(message.body)
            if len(received) % 20 == 0:
                proxy.lose_next_answer()

    await asyncio.gather(*(read() for _ in range(8)))
    assert sorted(received) == sorted(sent)


async def test_another_broker_gives_the_same_messages(brokers: StartBroker, connect: Connect) -> None:
    _, url = await brokers()
    _, other_url = await brokers()
    async with Proxy(url) as proxy:
        alice = await connect("alice", f"{proxy.url},{other_url.removeprefix('stafette://')}")
        await alice.send("@alice", b"once")
        proxy.hold_answers()
        receiving = asyncio.create_task(alice.receive("@alice"))
        await proxy.something_held.wait()
        proxy.stop()
        message = await receiving
        assert message is not None
        assert message.body == b"once"


# The call gives up


async def test_what_a_cancelled_receive_took_goes_back_to_its_place(
    proxy: Proxy, alice: Client, connect: Connect
) -> None:
    for body in (b"first", b"second"):
        await alice.send("jobs", body)
    proxy.hold_answers()
    receiving = asyncio.create_task(alice.receive("jobs"))
    await proxy.something_held.wait()
    assert await bodies(await connect("watcher")) == [b"second"]
    receiving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await receiving
    proxy.release_answers()
    await until(lambda: not alice._failover._given_up, alice.ping)
    assert await bodies(alice) == [b"first", b"second"]
    [message] = await alice.receive_many("jobs", 1)
    assert (message.body, message.deliveries) == (b"first", 0)


async def test_what_a_receive_took_too_late_goes_back(proxy: Proxy, connect: Connect, brokers: StartBroker) -> None:
    alice = await connect("alice", proxy.url, timeout=1.0)
    await alice.send("@alice", b"late")
    proxy.drop_next_answer()
    with pytest.raises(errors.RequestTimeout):
        await alice.receive("@alice")
    await until(lambda: not alice._failover._given_up, alice.ping)
    message = await alice.receive("@alice")
    assert message is not None
    assert message.body == b"late"


async def test_closing_says_what_was_given_up_also_while_disconnected(
    brokers: StartBroker, connect: Connect, database: str
) -> None:
    _, url = await brokers()
    async with Proxy(url) as proxy:
        alice = await connect("alice", proxy.url)
        await alice.create_queue("jobs")
        await alice.send("jobs", b"back")
        proxy.hold_answers()
        receiving = asyncio.create_task(alice.receive("jobs"))
        await proxy.something_held.wait()
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        proxy.cut()
        proxy.release_answers()
        await alice.close()
    watcher = await connect("watcher", url)
    assert await bodies(watcher) == [b"back"]
    assert await kept(database) == []


async def test_a_waiting_receive_takes_nothing_while_its_client_closes(brokers: StartBroker, connect: Connect) -> None:
    runtime, url = await brokers()
    alice, bob = await connect("alice", url), await connect("bob", url)
    await bob.create_queue("jobs")
    waiting = asyncio.create_task(alice.receive("jobs", wait=60))
    await until(lambda: parked_seconds(runtime), alice.ping)
    await asyncio.gather(alice.close(), bob.send("jobs", b"either way"), return_exceptions=True)
    try:
        assert await waiting is not None
    except errors.Unavailable:
        assert await bodies(bob) == [b"either way"]


@pytest.mark.parametrize("wait", [None, 60])
async def test_what_a_closing_client_gives_back_it_has_not_received(
    broker: str, connect: Connect, wait: float | None
) -> None:
    alice, bob = await connect("alice", broker), await connect("bob", broker)
    await bob.create_queue("jobs")
    await bob.send("jobs", b"once")
    received, _ = await asyncio.gather(alice.receive("jobs", wait=wait), alice.close(), return_exceptions=True)
    if wait is None:
        assert isinstance(received, stafette.Message)
        assert await bodies(bob) == []
    else:
        assert isinstance(received, errors.Unavailable)
        assert await bodies(bob) == [b"once"]


async def test_what_is_given_up_while_its_client_closes_goes_back(
    proxy: Proxy, alice: Client, connect: Connect
) -> None:
    await alice.send("jobs", b"back")
    proxy.hold_answers()
    receiving = asyncio.create_task(alice.receive("jobs"))
    await proxy.something_held.wait()
    closing = asyncio.create_task(alice.close())
    await let_others_run()  # it has said bye
    receiving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await receiving
    proxy.release_answers()
    await closing
    assert await bodies(await connect("watcher")) == [b"back"]


# What is kept, and for how long


async def test_answers_are_kept_until_they_are_seen(broker: str, database: str) -> None:
    async with await stafette.aio.connect(broker, name="alice") as alice:
        await alice.send_many([("@alice", b"1"), ("@alice", b"2"), ("@alice", b"3")])
        await alice.receive("@alice")
        assert await kept(database) == [b"1"]
        await alice.receive_many("@alice", 2)
        assert await kept(database) == [b"2", b"3"]
    assert await kept(database) == []


async def test_what_is_not_confirmed_is_kept_for_two_minutes(
    brokers: StartBroker, connect: Connect, database: str
) -> None:
    runtime, url = await brokers()
    alice = await connect("alice", url)
    await alice.send_many([("@alice", b"old"), ("@alice", b"older")])
    await alice.receive_many("@alice", 2)
    for body, seconds in ((b"old", 110), (b"older", 130)):
        await runtime.store.pool.fetch(
            "UPDATE stafette.received SET received_at = now() - $2 * interval '1 second' WHERE body = $1", body, seconds
        )
    await ForgetReceived().round(runtime)
    assert await kept(database) == [b"old"]
