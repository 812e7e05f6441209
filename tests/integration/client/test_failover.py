"""Brokers that die or leave: clients go on with another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from stafette import errors
from stafette.client.aio import Client
from tests.support.brokers import Connect, StartBroker
from tests.support.client_internals import connection_ended, names_online, parked_seconds, taken_lease
from tests.support.free_ports import free_ports
from tests.support.tcp_proxy import Proxy
from tests.support.waiting import A_DAY, until

GUARD = 30.0
"""Seconds after which a test that should have ended is not going to."""


# Fail-over


async def test_when_a_broker_dies_the_next_one_serves(brokers: StartBroker, proxy: Proxy, connect: Connect) -> None:
    there, url = await brokers()
    alice = await connect("alice", f"{proxy.url},{url.removeprefix('stafette://')}")
    await alice.create_queue("jobs")
    peeking = asyncio.create_task(alice.peek("jobs", wait=60))
    await alice.ping()
    proxy.stop()
    await connection_ended(alice)
    await alice.send("jobs", b"through the other")
    assert await peeking is not None
    assert names_online(there) == {"alice"}


async def test_a_session_continues_through_another_broker_at_once(
    brokers: StartBroker, broker: str, connect: Connect
) -> None:
    here, url_here = await brokers()
    there, url_there = await brokers()
    async with Proxy(url_here) as proxy:
        alice = await connect("alice", f"{proxy.url},{url_there.removeprefix('stafette://')}")
        proxy.cut_clients_only()
        await connection_ended(alice)
        with pytest.raises(errors.AlreadyOnline):  # for anybody else the name is taken: that broker knows of nothing
            await connect("alice", broker)
        assert names_online(here) == {"alice"}
        await alice.ping()
        assert names_online(there) == {"alice"}
        with pytest.raises(errors.AlreadyOnline):
            await connect("alice", broker)


async def test_connecting_goes_past_brokers_that_do_not_answer(
    brokers: StartBroker, proxy: Proxy, connect: Connect
) -> None:
    there, url = await brokers()
    proxy.swallow_answers()
    await connect("alice", f"stafette://127.0.0.1:{free_ports(1)[0]},{proxy.address},{url[11:]}", timeout=1.0)
    assert names_online(there) == {"alice"}
    assert proxy.connections == 1


@pytest.mark.parametrize("through", ["the same broker", "another broker"])
async def test_who_lost_its_welcome_comes_back_at_once(brokers: StartBroker, connect: Connect, through: str) -> None:
    here, url_here = await brokers()
    there, url_there = await brokers()
    async with Proxy(url_here) as proxy, asyncio.timeout(GUARD):
        proxy.lose_next_answer(broker_knows=False)  # which keeps the session for one that is alive
        next_url = proxy.address if through == "the same broker" else url_there.removeprefix("stafette://")
        alice = await connect("alice", f"{proxy.url},{next_url}")
        await alice.ping()
        assert names_online(here if through == "the same broker" else there) == {"alice"}
        await until(lambda: len(here.core.connected) == (through == "the same broker"), alice.ping)
    for broker in (here, there):
        assert broker.core.admission.refusals == {}


@pytest.mark.parametrize("read", [Client.peek, Client.receive])
@pytest.mark.parametrize("begins", ["before", "after"])
async def test_a_broker_is_sought_no_longer_than_the_timeout_however_long_a_read_may_wait(
    proxy: Proxy, connect: Connect, caplog: pytest.LogCaptureFixture, begins: str, read: Callable[..., Any]
) -> None:
    alice = await connect("alice", proxy.url, timeout=1.0)
    reading = asyncio.create_task(read(alice, "@alice", wait=A_DAY)) if begins == "before" else None
    await alice.ping()
    proxy.stop()
    await connection_ended(alice)
    async with asyncio.timeout(GUARD):
        with pytest.raises(errors.Unavailable) as caught:
            await (reading or read(alice, "@alice", wait=A_DAY))
    if read is Client.receive:
        assert caught.value.outcome == ("not done" if begins == "after" else "unknown")
    assert [record.getMessage() for record in caplog.records if record.name == "stafette.client"] == [
        "the connection to the broker is lost; looking for one for up to 1 s"
    ]


async def test_a_read_that_has_found_a_broker_waits_there(
    brokers: StartBroker, proxy: Proxy, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    there, url = await brokers()
    alice = await connect("alice", f"{proxy.url},{url.removeprefix('stafette://')}", timeout=GUARD)
    bob = await connect("bob", url)
    with caplog.at_level(logging.INFO, "stafette.client"):
        proxy.stop()
        await connection_ended(alice)
        reading = asyncio.create_task(alice.receive("@alice", wait=A_DAY))
        async with asyncio.timeout(GUARD):
            await until(lambda: len(there.core.waiting))
            [seconds] = parked_seconds(there)
            await bob.send("@alice", b"")
            assert await reading
    assert GUARD < seconds <= A_DAY
    assert caplog.records[-1].getMessage() == f"there is a connection again, to {url.removeprefix('stafette://')}"


async def test_nobody_there(connect: Connect, broker: str) -> None:
    nobodys, nor_anybodys = free_ports(2)
    for url in (
        f"stafette://127.0.0.1:{nobodys}",
        f"stafette://127.0.0.1:{nobodys},127.0.0.1:{nor_anybodys}",
        "stafette://no-such-host.invalid",
        f"stafette://{'a' * 64}.invalid",
    ):
        with pytest.raises(errors.Unavailable, match="cannot reach"):
            await connect("alice", url)
    await connect("alice", f"stafette://no-such-host.invalid,{broker.removeprefix('stafette://')}")


# Goodbye


async def test_a_broker_that_leaves_loses_and_doubles_nothing(brokers: StartBroker, connect: Connect) -> None:
    here, url_here = await brokers()
    there, url_there = await brokers()
    url = f"{url_here},{url_there.removeprefix('stafette://')}"
    clients = [await connect(f"client-{number}", url) for number in range(4)]
    await clients[0].create_queue("jobs")
    at_it: set[str] = set()
    all_at_it = asyncio.Event()

    async def send_on(client: Client) -> int:
        count = 0
        while client.name not in names_online(there):  # on and on, until it has moved over
            await asyncio.gather(*(client.send("jobs", b"") for _ in range(10)))
            count += 10
            at_it.add(client.name)
            if len(at_it) == len(clients):
                all_at_it.set()
        return count

    sending = [asyncio.create_task(send_on(client)) for client in clients]
    await all_at_it.wait()
    async with asyncio.timeout(GUARD):
        await here.drain()
        counts = await asyncio.gather(*sending)  # no request has failed
        await here.wait_until_disconnected()
    assert (await clients[0].queue("jobs")).messages == sum(counts)
    assert names_online(there) == {client.name for client in clients}


async def test_reads_that_wait_go_on_waiting_through_another_broker(brokers: StartBroker, connect: Connect) -> None:
    here, url_here = await brokers()
    _, url_there = await brokers()
    alice = await connect("alice", f"{url_here},{url_there.removeprefix('stafette://')}")
    bob = await connect("bob", url_there)
    await alice.create_queue("jobs")
    receiving = asyncio.create_task(alice.receive("jobs", wait=60))
    leasing = asyncio.create_task(taken_lease(alice, "jobs"))
    await alice.ping()
    await until(lambda: len(here.core.waiting) >= 2, alice.ping)
    async with asyncio.timeout(GUARD):
        await here.drain()
        await here.wait_until_disconnected()
        await bob.send("jobs", b"1")
        await bob.send("jobs", b"2")
        message, lease = await receiving, await leasing
    assert message is not None
    assert lease is not None
    assert {message.body, lease.message.body} == {b"1", b"2"}
    await lease.ack()


async def test_leaving_a_broker_that_leaves_frees_the_name(brokers: StartBroker, connect: Connect) -> None:
    here, url_here = await brokers()
    _, url_there = await brokers()
    async with Proxy(url_here) as proxy:
        alice = await connect("alice", proxy.url)
        proxy.hold_answers()
        await here.drain()
        closing = asyncio.create_task(alice.close())
        await until(lambda: len(proxy.held) >= 2)  # goodbye, and the answer to bye
        await connect("alice", url_there)
        proxy.release_answers()
        await closing
