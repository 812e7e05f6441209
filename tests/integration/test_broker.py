"""The broker through real sockets: what is asked is done, in order, and refusals say why."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import stafette.aio
from stafette import errors
from tests.support.brokers import Connect, StartBroker


async def test_a_message_goes_from_one_client_to_another(connect: Connect) -> None:
    alice, bob = await connect("alice"), await connect("bob")
    await alice.create_queue("jobs")
    [message_id] = await alice.send("jobs", "hello", priority=7)
    message = await bob.receive("jobs")
    assert message is not None
    assert (message.id, message.text, message.sender, message.priority) == (message_id, "hello", "alice", 7)
    assert await bob.receive("jobs") is None


async def test_pipelined_requests_take_effect_in_the_order_sent(connect: Connect) -> None:
    alice = await connect("alice")
    await alice.create_queue("jobs")
    sends = [alice.send("jobs", b"%d" % number) for number in range(200)]
    mixed = [
        *sends,
        alice.receive("jobs"),
        alice.send("jobs", b"last"),
        alice.receive_many("jobs", 1000),
        alice.receive("jobs"),
    ]
    answers: list[Any] = await asyncio.gather(*mixed)
    first, rest = answers[200], answers[202]
    assert first.body == b"0"
    assert [message.body for message in rest] == [*(b"%d" % number for number in range(1, 200)), b"last"]
    assert answers[203] is None


async def test_a_parked_read_is_woken_by_a_send_and_does_not_hold_up_others(connect: Connect) -> None:
    alice, bob = await connect("alice"), await connect("bob")
    await alice.create_queue("jobs")
    reading = asyncio.create_task(bob.receive("jobs", wait=60))
    await bob.ping()  # the read is on its way before this one is answered
    await alice.send("jobs", b"for bob", receiver="bob")
    message = await reading
    assert message is not None
    assert message.body == b"for bob"


async def test_a_read_that_waits_in_vain_gets_nothing(connect: Connect) -> None:
    alice = await connect("alice")
    await alice.create_queue("jobs")
    assert await alice.receive("jobs", wait=0.05) is None
    async with alice.lease("jobs", wait=0.05) as work:
        assert work is None


async def test_a_full_server_says_so(brokers: Callable[..., Awaitable[tuple[object, str]]], connect: Connect) -> None:
    _, url = await brokers(clients=2)
    await connect("one", url)
    two = await connect("two", url)
    with pytest.raises(errors.ServerFull):
        await connect("three", url)
    await two.close()
    await connect("three", url)


async def test_too_many_requests_are_refused_and_the_others_served(
    brokers: Callable[..., Awaitable[tuple[object, str]]], connect: Connect
) -> None:
    _, url = await brokers(in_flight=10)
    alice = await connect("alice", url)
    await alice.create_queue("jobs")
    answers = await asyncio.gather(*(alice.send("jobs", b"") for _ in range(100)), return_exceptions=True)
    sent = [answer for answer in answers if isinstance(answer, list)]
    assert len(sent) >= 10
    assert {type(answer) for answer in answers} == {list, errors.Overloaded}
    assert (await alice.queue("jobs")).messages == len(sent)


async def test_read_only_clients_are_refused_by_the_broker(connect: Connect) -> None:
    alice, reader = await connect("alice"), await connect("reader", mode="read-only")
    await alice.create_queue("jobs")
    await alice.send("jobs", b"seen")
    for attempt in (
        reader.send("jobs", b""), reader.receive("jobs"), reader.create_queue("x"), reader.delete_queue("jobs"),
        reader.purge("jobs"), reader.delete_client("alice"),
    ):  # fmt: skip
        with pytest.raises(errors.PermissionDenied):
            await attempt
    seen = await reader.peek("jobs")
    assert seen is not None
    assert seen.body == b"seen"


async def test_secrets_protect_a_name(connect: Connect) -> None:
    alice = await connect("alice", secret="open sesame")
    await alice.close()
    for wrong in (None, "sesame"):
        with pytest.raises(errors.NotAuthenticated):
            await connect("alice", secret=wrong)
    await connect("alice", secret="open sesame")
    await connect("bob")
    await (await connect("carol")).close()
    with pytest.raises(errors.NotAuthenticated):
        await connect("carol", secret="mine now")


async def test_a_name_is_free_when_its_client_has_closed(connect: Connect) -> None:
    for _ in range(5):
        alice = await connect("alice")
        with pytest.raises(errors.AlreadyOnline):
            await connect("alice")
        await alice.close()


async def test_a_message_wakes_a_read_on_another_broker(
    brokers: Callable[..., Awaitable[tuple[object, str]]], connect: Connect
) -> None:
    _, there = await brokers()
    alice, bob = await connect("alice"), await connect("bob", there)
    await alice.create_queue("jobs")
    for number in range(5):
        reading = asyncio.create_task(bob.receive("jobs", wait=60))
        await bob.ping()
        await alice.send("jobs", b"%d" % number)
        message = await reading
        assert message is not None
        assert message.body == b"%d" % number


async def test_a_message_given_back_wakes_a_read(connect: Connect) -> None:
    alice, bob = await connect("alice"), await connect("bob")
    await alice.create_queue("jobs")
    await alice.send("jobs", b"again")
    work = await alice.lease("jobs")
    assert work is not None
    reading = asyncio.create_task(bob.receive("jobs", wait=60))
    await bob.ping()
    await work.nack()
    message = await reading
    assert message is not None
    assert message.deliveries == 1


async def test_a_name_with_a_secret_is_deleted_by_itself_alone(connect: Connect) -> None:
    alice, bob = await connect("alice", secret="open sesame"), await connect("bob")
    await alice.close()
    with pytest.raises(errors.PermissionDenied):
        await bob.delete_client("alice")
    alice = await connect("alice", secret="open sesame")
    await alice.delete_client("alice")
    await connect("alice")


async def test_pipelined_reads_of_several_queues_share_a_batch_and_those_of_one_keep_their_order(
    brokers: StartBroker,
) -> None:
    runtime, url = await brokers()
    async with await stafette.aio.connect(url, name="alice") as me, await stafette.aio.connect(url, name="bob") as bob:
        for queue in "abcd":
            await me.create_queue(queue)
            await me.send(queue, f"{queue}1", priority=1)
            await me.send(queue, f"{queue}9", priority=9)
        await bob.send("a", b"from bob", priority=5)
        before = sum(runtime.core.metrics.batch_requests.counts)
        found = await asyncio.gather(
            me.receive("a", order="arrival"), me.receive("b"), me.receive("c"), me.receive("d"),
            me.receive("b"), me.receive("a", sender="bob"), me.receive("a"), me.receive(context=7),
        )  # fmt: skip
        made = sum(runtime.core.metrics.batch_requests.counts) - before
    assert [message and message.text for message in found] == ["a1", "b9", "c9", "d9", "b1", "from bob", "a9", None]
    # The first five go together; then another way to read a, the next way to read a, and any queue at all: one each.
    assert made == 4
