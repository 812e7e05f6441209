"""Answers that do not come: what is repeated, what is not, and what is said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from stafette import errors
from stafette.client.aio import Client
from stafette.client.lease import Lease
from stafette.protocol.client import Lost
from tests.support.brokers import Connect, StartBroker
from tests.support.client_internals import names_online, parked_seconds
from tests.support.tcp_proxy import Proxy
from tests.support.waiting import until


@pytest.mark.parametrize("fault", [Proxy.lose_next_answer, Proxy.halve_next_answer])
async def test_a_send_with_a_key_whose_answer_is_lost_is_stored_once(
    fault: Callable[[Proxy], None], proxy: Proxy, alice: Client
) -> None:
    fault(proxy)
    ids = await alice.send("jobs", b"once", key="k")
    assert await alice.send_many([("jobs", b"2"), ("jobs", b"3")], key="l")
    fault(proxy)
    assert await alice.send_many([("jobs", b"4")], key="m")
    stored = await alice.browse("jobs")
    assert stored[0].id == ids[0]
    assert [message.body for message in stored] == [b"once", b"2", b"3", b"4"]
    assert proxy.connections == 3


@pytest.mark.parametrize("fault", [Proxy.lose_next_answer, Proxy.halve_next_answer])
async def test_what_changes_something_and_bears_no_key_is_not_repeated(
    fault: Callable[[Proxy], None], proxy: Proxy, alice: Client
) -> None:
    await alice.send("jobs", b"first")
    for attempt in (
        lambda: alice.send("jobs", b"second"),
        lambda: alice.purge("jobs"),
        lambda: alice.delete_queue("jobs"),
    ):
        await alice.ping()
        fault(proxy)
        with pytest.raises(errors.Unavailable, match="connection") as caught:
            await attempt()
        assert caught.value.outcome == "unknown"
    assert [queue.name for queue in await alice.queues()] == ["@alice"]  # both sent, purged, and deleted


@pytest.mark.parametrize("fault", [Proxy.lose_next_answer, Proxy.halve_next_answer])
async def test_a_queue_is_created_once_though_the_answer_is_lost(
    fault: Callable[[Proxy], None], proxy: Proxy, alice: Client
) -> None:
    fault(proxy)
    created = await alice.create_queue("new", max_body=7)
    assert created == await alice.queue("new")
    with pytest.raises(errors.QueueExists):
        await alice.create_queue("new", max_body=7)


@pytest.mark.parametrize("fault", [Proxy.lose_next_answer, Proxy.halve_next_answer])
async def test_leases_are_taken_and_ended_once_though_the_answer_is_lost(
    fault: Callable[[Proxy], None], proxy: Proxy, alice: Client
) -> None:
    await alice.send_many([("jobs", b"first"), ("jobs", b"second")])
    fault(proxy)
    lease = await alice.lease("jobs")
    assert lease is not None
    assert (lease.message.body, lease.message.deliveries) == (b"first", 1)
    fault(proxy)
    await lease.ack()
    async with alice.lease("jobs") as second:
        assert second is not None
        fault(proxy)
        await second.nack()
    assert [message.body for message in await alice.browse("jobs")] == [b"second"]
    assert proxy.connections == 4


async def test_an_ack_of_what_was_given_back_is_lost_also_when_it_is_repeated(proxy: Proxy, alice: Client) -> None:
    await alice.send("jobs", b"work")
    lease = await alice.lease("jobs")
    assert lease is not None
    await lease.nack()
    proxy.lose_next_answer()
    with pytest.raises(errors.LeaseLost):
        await lease.ack()


async def test_an_ack_that_is_repeated_after_the_lease_may_have_run_out_is_lost(proxy: Proxy, alice: Client) -> None:
    await alice.send("jobs", b"work")
    lease = await alice.lease("jobs", seconds=0.001)
    assert lease is not None
    await until(lambda: asyncio.get_running_loop().time() > lease._held_until, alice.ping)
    proxy.lose_next_answer()
    with pytest.raises(errors.LeaseLost) as caught:
        await lease.ack()
    assert caught.value.outcome == "unknown"


@pytest.mark.parametrize("settle", [Lease.ack, Lease.nack])
async def test_what_may_have_ended_a_lease_is_in_doubt_if_no_broker_answers_again(
    settle: Callable[[Lease], Coroutine[Any, Any, None]], proxy: Proxy, connect: Connect
) -> None:
    alice = await connect("alice", f"{proxy.url},{proxy.address}", timeout=1.0)
    await alice.create_queue("jobs")
    await alice.send("jobs", b"work")
    lease = await alice.lease("jobs")
    assert lease is not None
    proxy.hold_answers()
    settling = asyncio.create_task(settle(lease))
    await proxy.something_held.wait()
    proxy.cut()
    with pytest.raises(errors.Unavailable, match="connection") as caught:
        await settling
    assert caught.value.outcome == "unknown"


async def test_a_request_for_whose_hello_no_answer_came_is_not_done(proxy: Proxy, connect: Connect) -> None:
    alice = await connect("alice", f"{proxy.url},{proxy.address}", timeout=0.5)  # each has a share of the time
    proxy.hold_answers()
    proxy.cut()
    with pytest.raises(errors.Unavailable):
        await alice.ping()
    with pytest.raises(errors.Unavailable) as caught:
        await alice.send("@alice", b"")
    assert not isinstance(caught.value, Lost)
    assert caught.value.outcome == "not done"


async def test_a_request_that_finds_no_broker_is_not_done(proxy: Proxy, connect: Connect) -> None:
    alice = await connect("alice", proxy.url, timeout=0.5)
    proxy.stop()
    with pytest.raises(errors.Unavailable):
        await alice.ping()
    with pytest.raises(errors.Unavailable, match="cannot reach a broker") as caught:
        await alice.send("@alice", b"")
    assert caught.value.outcome == "not done"


async def test_what_changes_nothing_is_repeated(proxy: Proxy, alice: Client) -> None:
    await alice.send("jobs", b"there")
    for attempt in (
        lambda: alice.queue("jobs"),
        lambda: alice.queues(),
        lambda: alice.waiting_queues(),
        lambda: alice.personal_queue(),
        lambda: alice.clients(),
        lambda: alice.client("alice"),
        lambda: alice.peek("jobs"),
        lambda: alice.peek("jobs", wait=60),
        lambda: alice.browse("jobs"),
        lambda: alice.ping(),
        lambda: alice.create_queue("jobs", exist_ok=True),
    ):
        for fault in (proxy.lose_next_answer, proxy.halve_next_answer):
            fault()
            await attempt()
    assert proxy.connections == 23


async def test_a_repeated_read_waits_only_for_the_rest_of_its_time(brokers: StartBroker, connect: Connect) -> None:
    runtime, url = await brokers()
    async with Proxy(url) as proxy:
        alice = await connect("alice", proxy.url)
        peeking = asyncio.create_task(alice.peek("@alice", wait=60))
        await alice.ping()
        await until(lambda: parked_seconds(runtime), alice.ping)
        proxy.cut()
        await runtime.wait_until_disconnected()
        await until(lambda: parked_seconds(runtime), alice.ping)
        [wait] = parked_seconds(runtime)
        assert 0 < wait < 60
        peeking.cancel()


async def test_the_sessions_other_requests_end_with_the_connection(proxy: Proxy, alice: Client) -> None:
    await alice.create_queue("mail")
    proxy.hold_answers()
    sending = [asyncio.create_task(alice.send("jobs", b"sent")) for _ in range(3)]
    peeking = asyncio.create_task(alice.peek("mail", wait=60))
    await proxy.something_held.wait()
    proxy.cut()
    proxy.release_answers()
    outcomes = await asyncio.gather(*sending, return_exceptions=True)
    assert [type(outcome).__mro__[1] for outcome in outcomes] == [errors.Unavailable] * 3
    assert len({id(outcome) for outcome in outcomes}) == 3
    await alice.send("mail", b"seen")
    seen = await peeking
    assert seen is not None
    assert seen.body == b"seen"


async def test_a_deadline_raises_request_timeout(proxy: Proxy, connect: Connect) -> None:
    alice = await connect("alice", proxy.url, timeout=1.0)
    proxy.swallow_answers()
    with pytest.raises(errors.RequestTimeout):
        await alice.send("@alice", b"")


async def test_a_request_whose_wait_for_a_reply_is_refused_may_have_been_done(
    brokers: StartBroker, connect: Connect
) -> None:
    leaving, url = await brokers()
    alice, bob = await connect("alice", url, timeout=0.5), await connect("bob")
    await alice.create_queue("questions")
    asking = asyncio.create_task(alice.request("questions", b"?", timeout=60))
    assert await bob.receive("questions", wait=60)
    await until(lambda: len(leaving.core.waiting), bob.ping)
    await leaving.drain()
    with pytest.raises(errors.Unavailable) as caught:
        await asking
    assert caught.value.outcome == "unknown"


async def test_a_silent_broker_is_left_for_another(brokers: StartBroker, proxy: Proxy, connect: Connect) -> None:
    there, url = await brokers()
    alice = await connect("alice", f"{proxy.url},{url.removeprefix('stafette://')}", timeout=1.0)
    proxy.swallow_answers()
    with pytest.raises(errors.RequestTimeout):
        await alice.ping()
    assert not there.core.sessions
    await alice.ping()
    assert names_online(there) == {"alice"}


async def test_one_missing_answer_is_no_silence(proxy: Proxy, connect: Connect) -> None:
    alice = await connect("alice", proxy.url, timeout=1.0)
    proxy.drop_next_answer()
    unanswered = asyncio.create_task(alice.ping())
    await proxy.something_held.wait()
    await alice.ping()
    with pytest.raises(errors.RequestTimeout):
        await unanswered
    await alice.ping()
    assert proxy.connections == 1
