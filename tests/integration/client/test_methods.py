"""Every method, of the asynchronous client and of the synchronous one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

import stafette
from stafette import errors
from tests.support.brokers import Connect
from tests.support.waiting import until


class Twin:
    """A synchronous client in asynchronous clothes, so that one walk serves both."""

    def __init__(self, client: stafette.Client) -> None:
        self._client = client
        self.name = client.name

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*arguments: Any, **options: Any) -> Awaitable[Any]:
            return asyncio.to_thread(method, *arguments, **options)

        return call

    @asynccontextmanager
    async def lease(self, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        taken = await asyncio.to_thread(self._client.lease, *arguments, **options)
        work = taken.__enter__()
        try:
            yield work and TwinLease(work)
        except BaseException as error:
            await asyncio.to_thread(taken.__exit__, type(error), error, None)
            raise
        else:
            await asyncio.to_thread(taken.__exit__, None, None, None)


class TwinLease:
    def __init__(self, lease: stafette.Lease) -> None:
        self._lease = lease
        self.message = lease.message

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._lease, name)
        return lambda *arguments, **options: asyncio.to_thread(method, *arguments, **options)


@pytest.fixture(params=["asynchronous", "synchronous"])
async def both(request: pytest.FixtureRequest, broker: str, connect: Connect) -> AsyncIterator[Callable[..., Any]]:
    """Connects clients of one kind, then of the other."""
    async with AsyncExitStack() as stack:

        async def start(name: str, **options: Any) -> Any:
            if request.param == "asynchronous":
                return await connect(name, **options)
            client = await asyncio.to_thread(stafette.connect, broker, name=name, **options)
            stack.push_async_callback(asyncio.to_thread, client.close)
            return Twin(client)

        yield start


async def test_queues(both: Callable[..., Any]) -> None:
    alice = await both("alice")
    assert alice.name == "alice"
    made = await alice.create_queue("jobs", exclude_own=True, max_body=100, max_deliveries=3, dead_letter=None)
    assert (made.name, made.creator, made.owner, made.messages) == ("jobs", "alice", None, 0)
    assert (made.exclude_own, made.max_body, made.max_deliveries) == (True, 100, 3)
    with pytest.raises(errors.QueueExists):
        await alice.create_queue("jobs")
    assert (await alice.create_queue("jobs", exist_ok=True)).id == made.id
    assert await alice.queue("jobs") == await alice.queue(made.id) == made
    assert [queue.name for queue in await alice.queues()] == ["@alice", "jobs"]
    own = await alice.personal_queue()
    assert (own.name, own.owner) == ("@alice", "alice")
    assert own == await alice.personal_queue("alice")
    for missing in (alice.queue("none"), alice.queue(10**6), alice.delete_queue("none"), alice.purge("none")):
        with pytest.raises(errors.QueueNotFound):
            await missing

    await alice.send(["jobs", "@alice"], b"x")
    [waiting] = await alice.waiting_queues(limit=5)
    assert (waiting.name, waiting.messages) == ("@alice", 1)
    with pytest.raises(errors.QueueNotEmpty):
        await alice.delete_queue("jobs")
    assert await alice.purge("@alice") == 1
    assert await alice.waiting_queues() == []
    await alice.delete_queue("jobs", force=True)
    with pytest.raises(errors.QueueNotFound):
        await alice.queue("jobs")


async def test_sending(both: Callable[..., Any]) -> None:
    alice, bob = await both("alice"), await both("bob")
    await alice.create_queue("jobs", max_body=10)
    await alice.create_queue("audit")
    ids = await alice.send(
        ["jobs", "audit"], "text", receiver="bob", priority=9, context=42, headers={"kind": "test"}, delay=0, ttl=60
    )
    assert len(set(ids)) == 2
    message = await bob.receive("jobs")
    assert (message.id, message.queue, message.sender, message.receiver) == (ids[0], "jobs", "alice", "bob")
    assert (message.context, message.priority, message.headers, message.text) == (42, 9, {"kind": "test"}, "text")
    assert message.deliveries == 0

    first = await alice.send("jobs", bytearray(b"once"), key="k")
    assert await alice.send("jobs", memoryview(b"once"), key="k") == first
    with pytest.raises(errors.KeyConflict):
        await alice.send("jobs", b"other", key="k")
    with pytest.raises(errors.MessageTooLarge):
        await alice.send("jobs", b"x" * 11)
    with pytest.raises(errors.QueueNotFound):
        await alice.send(["jobs", "none"], b"")
    with pytest.raises(errors.ClientNotFound):
        await alice.send("jobs", b"", receiver="carol")
    assert (await alice.queue("jobs")).messages == 1
    await alice.send("jobs", b"", receiver="carol", allow_unknown=True)
    await alice.send("jobs", b"", delay=60)

    many = await alice.send_many(
        [("audit", b"1"), (["audit", "jobs"], "2"), {"queue": "audit", "body": b"3", "priority": 1}], key="many"
    )
    assert [len(group) for group in many] == [1, 2, 1]
    assert await alice.send_many([]) == []
    with pytest.raises(errors.QueueNotFound):
        await alice.send_many([("audit", b""), ("none", b"")])
    assert (await alice.queue("audit")).messages == 4


async def test_reading(both: Callable[..., Any]) -> None:
    alice, bob = await both("alice"), await both("bob")
    await alice.create_queue("jobs")
    for number, priority in enumerate((1, 9, 5)):
        await alice.send("jobs", b"%d" % number, priority=priority, context=number)
    await bob.send("jobs", b"bob's", priority=10)

    assert (await alice.peek("jobs")).body == b"bob's"
    assert (await alice.peek("jobs", order="arrival")).body == b"0"
    assert (await alice.peek("jobs", sender="alice")).body == b"1"
    assert (await alice.peek("jobs", context=2)).body == b"2"
    page = await alice.browse("jobs", limit=3)
    assert [message.body for message in page] == [b"0", b"1", b"2"]
    assert [message.body for message in await alice.browse("jobs", after=page[-1].id)] == [b"bob's"]

    assert (await bob.receive("jobs", context=2)).body == b"2"
    assert (await bob.receive(sender="bob", wait=60)).body == b"bob's"
    assert (await bob.receive("jobs", order="arrival")).body == b"0"
    assert [message.body for message in await bob.receive_many("jobs", 10, wait=60)] == [b"1"]
    assert await bob.receive("jobs") is None
    assert await bob.receive("jobs", wait=0.01) is None
    assert await bob.peek("jobs", wait=0.01) is None
    assert await bob.receive_many("jobs", 10) == []
    with pytest.raises(errors.QueueNotFound):
        await bob.receive("none")


async def test_leases(both: Callable[..., Any]) -> None:
    alice = await both("alice")
    await alice.create_queue("jobs")
    await alice.send("jobs", b"work")

    async def fail() -> None:
        async with alice.lease("jobs", seconds=30) as work:
            assert work.message.body == b"work"
            assert await alice.peek("jobs") is None
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with alice.lease("jobs", sender="alice", order="arrival", wait=60) as work:
        assert work.message.deliveries == 2
        await work.extend(60)
        await work.nack(delay=0)
    async with alice.lease("jobs") as work:
        await work.ack()
        with pytest.raises(errors.LeaseLost):
            await work.ack()
        with pytest.raises(errors.LeaseLost):
            await work.extend(60)
    await alice.send("jobs", b"more")
    async with alice.lease("jobs", context=None):
        pass
    async with alice.lease("jobs") as work:
        assert work is None
    for lost in (alice.ack(1, 1), alice.nack(1, 1, delay=1.0), alice.extend(1, 1, 1.0)):
        with pytest.raises(errors.LeaseLost):
            await lost


async def test_requests_and_replies(both: Callable[..., Any]) -> None:
    asker, answerer = await both("asker"), await both("answerer")
    await asker.create_queue("prices")

    async def answer() -> None:
        question = await answerer.receive("prices", wait=60)
        assert question.receiver == "answerer"
        assert (question.priority, question.headers) == (7, {"a": "b"})
        await answerer.reply(question, question.text + " 2", headers={"c": "d"})

    answering = asyncio.create_task(answer())
    reply = await asker.request("prices", "CHF", timeout=60, receiver="answerer", priority=7, headers={"a": "b"})
    await answering
    assert (reply.text, reply.sender, reply.priority, reply.headers) == ("CHF 2", "answerer", 7, {"c": "d"})
    with pytest.raises(errors.RequestTimeout):
        await asker.request("prices", b"anyone?", timeout=0.05)

    async def request_is_gone() -> bool:
        return not await answerer.browse("prices")

    await until(request_is_gone)


async def test_clients(both: Callable[..., Any]) -> None:
    alice, bob = await both("alice"), await both("bob", mode="read-only")
    assert [client.name for client in await bob.clients()] == ["alice", "bob"]
    found = await bob.client("bob")
    assert (found.name, found.mode) == ("bob", "read-only")
    assert found.broker is not None
    with pytest.raises(errors.ClientNotFound):
        await bob.client("carol")
    with pytest.raises(errors.PermissionDenied):
        await bob.create_queue("jobs")
    with pytest.raises(errors.AlreadyOnline):
        await alice.delete_client("bob")
    with pytest.raises(errors.AlreadyOnline):
        await both("bob")
    assert await alice.ping() > 0
    assert await alice.echo(b"payload") == b"payload"
    await bob.close()
    await bob.close()
    await alice.delete_client("bob")
    await alice.delete_client("alice")
    with pytest.raises(errors.InvalidRequest):
        await alice.ping()
    carol = await both("carol")
    assert [client.name for client in await carol.clients()] == ["carol"]


async def test_nonsense_is_refused_with_a_sentence(both: Callable[..., Any]) -> None:
    alice = await both("alice")
    await alice.create_queue("jobs")
    attempts: tuple[Callable[[], Awaitable[Any]], ...] = (
        lambda: alice.send("jobs", 5),
        lambda: alice.send("jobs", None),
        lambda: alice.send("jobs", "\ud800"),
        lambda: alice.send("\ud800", b""),
        lambda: alice.send(None, b""),
        lambda: alice.send([], b""),
        lambda: alice.send("jobs", b"", priority=11),
        lambda: alice.send("jobs", b"", priority=2**70),
        lambda: alice.send("jobs", b"", headers={"a": object()}),
        lambda: alice.send_many([("jobs",)]),
        lambda: alice.send_many([{"queue": "jobs"}]),
        lambda: alice.send_many([{"queue": "jobs", "body": b"", "colour": "red"}]),
        lambda: alice.receive("jobs", wait=-1),
        lambda: alice.receive("jobs", wait=float("nan")),
        lambda: alice.receive("jobs", wait=float("inf")),
        lambda: alice.receive("jobs", order="size"),
        lambda: alice.receive_many("jobs", 0),
        lambda: alice.browse("jobs", limit=-1),
        lambda: both("bob", mode="write-only"),
        lambda: both("bob", timeout=0),
        lambda: both("bob", timeout=float("nan")),
        lambda: both(""),
    )
    for nonsense in attempts:
        with pytest.raises(errors.InvalidRequest) as refused:
            await nonsense()
        assert len(refused.value.sentence) > 10
    assert (await alice.queue("jobs")).messages == 0
