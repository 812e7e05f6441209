"""The asynchronous client: every method of both twins, and what becomes of requests when the way to a broker breaks."""

from __future__ import annotations

import asyncio
import gc
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import stafette
from stafette import errors
from stafette.broker.core.session import Session
from stafette.broker.runtime import Runtime
from stafette.broker.server import BrokerSettings, running
from stafette.client.aio import Client
from stafette.client.transport import UNSENT_BYTES, Transport
from stafette.protocol.client import State
from tests.support.free_ports import free_ports
from tests.support.tcp_proxy import Proxy
from tests.support.waiting import until

Brokers = Callable[..., Awaitable[tuple[Runtime, str]]]
Connect = Callable[..., Awaitable[Client]]
GUARD = 30.0
"""Seconds after which a test that should have ended is not going to."""


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


# Every method


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


# Answers that do not come


@pytest.fixture
async def proxy(broker: str) -> AsyncIterator[Proxy]:
    async with Proxy(broker) as proxy:
        yield proxy


@pytest.fixture
async def alice(proxy: Proxy, connect: Connect) -> Client:
    """A client behind the proxy, with a queue."""
    alice = await connect("alice", proxy.url)
    await alice.create_queue("jobs")
    return alice


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
        lambda: alice.receive("jobs"),
        lambda: alice.receive("jobs", wait=60),
        lambda: alice.create_queue("new"),
        lambda: alice.delete_queue("new"),
        lambda: alice.purge("jobs"),
    ):
        await alice.ping()
        fault(proxy)
        with pytest.raises(errors.Unavailable, match="connection"):
            await attempt()
    assert await alice.browse("jobs") == []  # one sent, both received
    assert [queue.name for queue in await alice.queues()] == ["@alice", "jobs"]


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


async def test_a_repeated_read_waits_only_for_the_rest_of_its_time(brokers: Brokers, connect: Connect) -> None:
    runtime, url = await brokers()
    async with Proxy(url) as proxy:
        alice = await connect("alice", proxy.url)
        peeking = asyncio.create_task(alice.peek("@alice", wait=60))
        await alice.ping()
        await until(lambda: _parked(runtime), alice.ping)
        proxy.cut()
        await runtime.everybody_gone()
        await until(lambda: _parked(runtime), alice.ping)
        [wait] = _parked(runtime)
        assert 0 < wait < 60
        peeking.cancel()


async def test_the_sessions_other_requests_end_with_the_connection(proxy: Proxy, alice: Client) -> None:
    waiting = [asyncio.create_task(alice.receive("jobs", wait=60)) for _ in range(3)]
    peeking = asyncio.create_task(alice.peek("jobs", wait=60))
    await alice.ping()
    proxy.cut()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome).__mro__[1] for outcome in outcomes] == [errors.Unavailable] * 3
    assert len({id(outcome) for outcome in outcomes}) == 3
    await alice.send("jobs", b"seen")
    seen = await peeking
    assert seen is not None
    assert seen.body == b"seen"


async def test_a_deadline_raises_request_timeout(proxy: Proxy, connect: Connect) -> None:
    alice = await connect("alice", proxy.url, timeout=1.0)
    proxy.swallow_answers()
    with pytest.raises(errors.RequestTimeout):
        await alice.send("@alice", b"")


async def test_a_silent_broker_is_left_for_another(brokers: Brokers, proxy: Proxy, connect: Connect) -> None:
    there, url = await brokers()
    alice = await connect("alice", f"{proxy.url},{url.removeprefix('stafette://')}", timeout=1.0)
    proxy.swallow_answers()
    with pytest.raises(errors.RequestTimeout):
        await alice.ping()
    assert not there.core.sessions
    await alice.ping()
    assert _names(there) == {"alice"}


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


# Fail-over


async def test_when_a_broker_dies_the_next_one_serves(brokers: Brokers, proxy: Proxy, connect: Connect) -> None:
    there, url = await brokers()
    alice = await connect("alice", f"{proxy.url},{url.removeprefix('stafette://')}")
    await alice.create_queue("jobs")
    peeking = asyncio.create_task(alice.peek("jobs", wait=60))
    await alice.ping()
    proxy.stop()
    await _ended(alice)
    await alice.send("jobs", b"through the other")
    assert await peeking is not None
    assert _names(there) == {"alice"}


async def test_a_session_continues_through_another_broker_at_once(
    brokers: Brokers, broker: str, connect: Connect
) -> None:
    here, url_here = await brokers()
    there, url_there = await brokers()
    async with Proxy(url_here) as proxy:
        alice = await connect("alice", f"{proxy.url},{url_there.removeprefix('stafette://')}")
        proxy.cut_clients_only()
        await _ended(alice)
        with pytest.raises(errors.AlreadyOnline):  # for anybody else the name is taken: that broker knows of nothing
            await connect("alice", broker)
        assert _names(here) == {"alice"}
        await alice.ping()
        assert _names(there) == {"alice"}
        with pytest.raises(errors.AlreadyOnline):
            await connect("alice", broker)


async def test_connecting_goes_past_brokers_that_do_not_answer(
    brokers: Brokers, proxy: Proxy, connect: Connect
) -> None:
    there, url = await brokers()
    proxy.swallow_answers()
    await connect("alice", f"stafette://127.0.0.1:{free_ports(1)[0]},{proxy.address},{url[11:]}", timeout=1.0)
    assert _names(there) == {"alice"}
    assert proxy.connections == 1


async def test_a_lost_welcome_does_not_shut_the_client_out(brokers: Brokers, connect: Connect) -> None:
    _, url_here = await brokers()
    there, url_there = await brokers()
    async with Proxy(url_here) as proxy, asyncio.timeout(GUARD):
        proxy.lose_next_answer(broker_knows=False)
        connecting = asyncio.ensure_future(connect("alice", f"{proxy.url},{url_there.removeprefix('stafette://')}"))
        await until(lambda: "AlreadyOnline" in there.core.admission.refusals)
        proxy.cut()  # now the first broker learns that its welcome did not arrive
        await (await connecting).ping()


async def test_who_waits_for_a_link_waits_no_longer_than_it_may(proxy: Proxy, connect: Connect) -> None:
    alice = await connect("alice", proxy.url, timeout=1.0)
    proxy.stop()
    await _ended(alice)
    async with asyncio.timeout(GUARD):
        patient = asyncio.create_task(alice.receive("@alice", wait=300))
        await asyncio.sleep(0)
        with pytest.raises(errors.Unavailable):
            await alice.ping()
        assert not patient.done()
        patient.cancel()


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


async def test_a_broker_that_leaves_loses_and_doubles_nothing(brokers: Brokers, connect: Connect) -> None:
    here, url_here = await brokers()
    there, url_there = await brokers()
    url = f"{url_here},{url_there.removeprefix('stafette://')}"
    clients = [await connect(f"client-{number}", url) for number in range(4)]
    await clients[0].create_queue("jobs")
    at_it: set[str] = set()
    all_at_it = asyncio.Event()

    async def send_on(client: Client) -> int:
        count = 0
        while client.name not in _names(there):  # on and on, until it has moved over
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
    assert _names(there) == {client.name for client in clients}


async def test_reads_that_wait_go_on_waiting_through_another_broker(brokers: Brokers, connect: Connect) -> None:
    here, url_here = await brokers()
    _, url_there = await brokers()
    alice = await connect("alice", f"{url_here},{url_there.removeprefix('stafette://')}")
    bob = await connect("bob", url_there)
    await alice.create_queue("jobs")
    receiving = asyncio.create_task(alice.receive("jobs", wait=60))
    leasing = asyncio.create_task(_take(alice, "jobs"))
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


async def test_leaving_a_broker_that_leaves_frees_the_name(brokers: Brokers, connect: Connect) -> None:
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


# Cancellation


async def _all_answered(session: Session, client: Client) -> None:
    await until(lambda: not session.in_flight, client.ping)


async def test_a_cancelled_read_is_forgotten_by_the_broker(brokers: Brokers, connect: Connect) -> None:
    runtime, url = await brokers()
    alice = await connect("alice", url)
    await alice.create_queue("jobs")
    reads: list[Callable[[], Awaitable[Any]]] = [
        lambda: alice.receive("jobs", wait=60),
        lambda: alice.receive_many(None, 5, wait=60),
        lambda: alice.peek("jobs", wait=60),
        lambda: _take(alice, "jobs"),
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
    leasing = asyncio.create_task(_take(alice, "jobs"))
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
    transport = _transport(alice)
    await until(lambda: transport.congested)
    for _ in range(10):
        await asyncio.sleep(0)
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
    await until(lambda: _transport(alice).congested)
    await bob.send("@alice", b"it is there, but does not read")
    assert await reading is not None
    async with asyncio.timeout(GUARD):
        outcomes = await asyncio.gather(*sending, return_exceptions=True)
    assert all(isinstance(outcome, errors.RequestTimeout) for outcome in outcomes)
    assert {"nothing has happened" in str(outcome) for outcome in outcomes} == {True, False}


async def test_a_request_that_is_too_large_fails_alone(brokers: Brokers, connect: Connect) -> None:
    _, url = await brokers(frame=10_000)
    alice = await connect("alice", url)
    await alice.create_queue("jobs")
    transport = _transport(alice)
    small, large, after = await asyncio.gather(
        alice.send("jobs", b"small"), alice.send("jobs", bytes(10_000)), alice.send("jobs", b"after"),
        return_exceptions=True,
    )  # fmt: skip
    assert isinstance(small, list)
    assert isinstance(large, errors.MessageTooLarge)
    assert isinstance(after, list)
    assert _transport(alice) is transport


# The life of a client


async def test_closing_ends_what_waits_and_only_that(connect: Connect) -> None:
    alice = await connect("alice")
    await alice.create_queue("jobs")
    waiting = asyncio.create_task(alice.receive("@alice", wait=60))
    await alice.ping()
    sending = [asyncio.create_task(alice.send("jobs", b"")) for _ in range(20)]
    await asyncio.sleep(0)
    await asyncio.gather(alice.close(), alice.close())
    await alice.close()
    assert all([await sent for sent in sending])
    with pytest.raises(errors.Unavailable, match="closed"):
        await waiting
    for attempt in (alice.ping(), alice.send("jobs", b""), alice.receive("jobs", wait=60)):
        with pytest.raises(errors.InvalidRequest, match="closed"):
            await attempt


async def test_a_client_belongs_to_its_event_loop(connect: Connect) -> None:
    alice = await connect("alice")

    async def elsewhere() -> None:
        with pytest.raises(errors.InvalidRequest, match="event loop"):
            await alice.ping()
        with pytest.raises(errors.InvalidRequest, match="event loop"):
            await alice.close()

    await asyncio.to_thread(asyncio.run, elsewhere())
    await alice.ping()


async def test_a_client_that_is_dropped_hangs_up(connect: Connect, broker: str) -> None:
    watcher = await connect("watcher")
    dropped = await stafette.aio.connect(broker, name="dropped")
    await dropped.ping()
    with pytest.warns(ResourceWarning, match="dropped has not been closed"):
        dropped = gc.collect()  # type: ignore[assignment]

    async def is_offline() -> bool:
        return (await watcher.client("dropped")).broker is None

    await until(is_offline)


# TLS


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two self-signed certificates for 127.0.0.1, each with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make certificates with")
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("broker", "stranger"):
        subprocess.run(
            [
                "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
                "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem",
            ],
            check=True,
            capture_output=True,
        )  # fmt: skip
    return folder


async def test_tls(database: str, certificates: Path, connect: Connect) -> None:
    settings = BrokerSettings(
        database, port=0, tls_certificate=certificates / "broker.pem", tls_key=certificates / "broker.key"
    )
    async with running(settings) as (_, port):
        place = f"stafettes://127.0.0.1:{port}"
        alice = await connect("alice", f"{place}?ca={certificates}/broker.pem")
        await alice.send("@alice", bytes(300_000))
        message = await alice.receive("@alice")
        assert message is not None
        assert message.body == bytes(300_000)
        await alice.close()
        for wrong in (f"{place}?ca={certificates}/stranger.pem", place):
            with pytest.raises(errors.Unavailable, match="has no valid certificate"):
                await connect("alice", wrong)
        with pytest.raises(errors.Unavailable, match="has no valid certificate"):
            await connect("alice", f"stafettes://localhost:{port}?ca={certificates}/broker.pem")
        with pytest.raises(errors.Unavailable):
            await connect("alice", f"stafette://127.0.0.1:{port}")


async def test_tls_to_a_broker_without(broker: str, connect: Connect) -> None:
    with pytest.raises(errors.Unavailable):
        await connect("alice", broker.replace("stafette://", "stafettes://"), timeout=5)


def _transport(client: Client) -> Transport:
    transport = client._failover._transport
    assert transport is not None
    return transport


async def _ended(client: Client) -> None:
    """Wait until the client has noticed that its connection is gone."""
    transport = _transport(client)
    await until(lambda: transport.connection.state is State.CLOSED)


def _names(runtime: Runtime) -> set[str]:
    """Who is online through a broker."""
    return {session.name for session in runtime.core.sessions.values()}


def _parked(runtime: Runtime) -> list[float]:
    """For each read that is parked in a broker, the seconds that it asked for."""
    reads: Any = [ticket.request for tickets in runtime.core.waiting._parked.values() for ticket in tickets]
    return [read.wait for read in reads]


async def _take(client: Client, queue: str) -> Any:
    return await client.lease(queue, wait=60)
