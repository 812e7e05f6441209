"""Reads that are cancelled, and brokers that do not read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stafette import errors
from stafette.broker.core.session import Session
from stafette.client.aio import Client
from stafette.client.transport import UNSENT_BYTES
from tests.support.brokers import Connect, StartBroker
from tests.support.client_internals import taken_lease, transport_of
from tests.support.tcp_proxy import Proxy
from tests.support.waiting import let_others_run, until

GUARD = 30.0
"""Seconds after which a test that should have ended is not going to."""


# Cancellation


async def _all_answered(session: Session, client: Client) -> None:
    await until(lambda: not session.in_flight, client.ping)


async def test_a_cancelled_read_is_forgotten_by_the_broker(brokers: StartBroker, connect: Connect) -> None:
    runtime, url = await brokers()
    alice = await connect("alice", url)
    await alice.create_queue("jobs")
    reads: list[Callable[[], Awaitable[Any]]] = [
        lambda: alice.receive("jobs", wait=60),
        lambda: alice.receive_many(None, 5, wait=60),
        lambda: alice.peek("jobs", wait=60),
        lambda: taken_lease(alice, "jobs"),
    ]
    for read in reads:
        reading = asyncio.ensure_future(read())
        await alice.ping()  # it is parked now, or trying again
        [session] = runtime.core.sessions.values()
        assert session.in_flight == 1
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await _all_answered(session, alice)
        assert len(runtime.core.waiting) == 0
    [message_id] = await alice.send("jobs", b"still there")
    message = await alice.receive("jobs")
    assert message is not None
    assert message.id == message_id


async def test_a_lease_that_comes_after_its_taker_has_gone_is_given_back(proxy: Proxy, alice: Client) -> None:
    await alice.send("jobs", b"work")
    proxy.hold_answers()
    leasing = asyncio.create_task(taken_lease(alice, "jobs"))
    await proxy.something_held.wait()
    leasing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leasing
    proxy.release_answers()
    await alice.ping()
    lease = await alice.lease("jobs", wait=10)
    assert lease is not None
    assert lease.message.deliveries == 2


async def test_an_error_under_a_lease_is_not_hidden_by_a_lost_connection(proxy: Proxy, connect: Connect) -> None:
    alice = await connect("alice", proxy.url, timeout=1.0)
    await alice.send("@alice", b"work")

    async def fail() -> None:
        async with alice.lease("@alice"):
            proxy.stop()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    with pytest.raises(errors.Unavailable):
        await alice.ping()


# Too much at once


async def test_a_broker_that_does_not_read_makes_senders_wait_in_order(proxy: Proxy, alice: Client) -> None:
    proxy.stop_reading()
    size = 100_000
    bodies = [b"%02d" % number + bytes(size) for number in range(80)]
    sending = [asyncio.create_task(alice.send("jobs", body)) for body in bodies]
    transport = transport_of(alice)
    await until(lambda: transport.congested)
    for _ in range(10):
        await let_others_run()
    assert transport._writer.get_write_buffer_size() < UNSENT_BYTES + 2 * size

    catch_up = transport.resume_writing

    def somebody_comes_at_that_moment() -> None:
        sending.append(asyncio.create_task(alice.send("jobs", b"later")))
        catch_up()

    transport.resume_writing = somebody_comes_at_that_moment  # type: ignore[method-assign]
    proxy.read_on()
    await until(lambda: len(sending) > len(bodies))
    async with asyncio.timeout(GUARD):
        ids = [sent[0] for sent in await asyncio.gather(*sending)]
    assert ids == sorted(ids)
    arrived = await alice.receive_many("jobs", 1000, order="arrival")
    assert [message.body for message in arrived[:80]] == bodies
    assert {message.body for message in arrived[80:]} == {b"later"}
    assert not transport.congested


async def test_waiting_for_a_broker_that_does_not_read_ends_at_the_deadline(proxy: Proxy, connect: Connect) -> None:
    alice, bob = await connect("alice", proxy.url, timeout=1.0), await connect("bob")
    await alice.create_queue("jobs")
    reading = asyncio.create_task(alice.receive("@alice", wait=60))
    await alice.ping()
    proxy.stop_reading()
    sending = [asyncio.create_task(alice.send("jobs", bytes(1_000_000))) for _ in range(20)]
    await until(lambda: transport_of(alice).congested)
    await bob.send("@alice", b"it is there, but does not read")
    assert await reading is not None
    async with asyncio.timeout(GUARD):
        outcomes = await asyncio.gather(*sending, return_exceptions=True)
    assert all(isinstance(outcome, errors.RequestTimeout) for outcome in outcomes)
    assert {"nothing has happened" in str(outcome) for outcome in outcomes} == {True, False}


async def test_a_request_that_is_too_large_fails_alone(brokers: StartBroker, connect: Connect) -> None:
    _, url = await brokers(frame=10_000)
    alice = await connect("alice", url)
    await alice.create_queue("jobs")
    transport = transport_of(alice)
    small, large, after = await asyncio.gather(
        alice.send("jobs", b"small"), alice.send("jobs", bytes(10_000)), alice.send("jobs", b"after"),
        return_exceptions=True,
    )  # fmt: skip
    assert isinstance(small, list)
    assert isinstance(large, errors.MessageTooLarge)
    assert isinstance(after, list)
    assert transport_of(alice) is transport
