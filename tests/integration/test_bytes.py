"""Large messages lose nothing and hurt nobody: answers, requests and clients keep within their bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from stafette import errors
from stafette.broker.limits import SMALL_SHARE
from stafette.database.messages import BatchFull, LeaseRequest, ReadRequest, SendRequest
from stafette.database.store import Store
from stafette.model import Draft, Message, Order, QueueOptions, Selection
from stafette.protocol import messages as wire
from tests.support.brokers import Connect, StartBroker
from tests.support.client_internals import transport_of
from tests.support.protocol_client import ProtocolClient
from tests.support.waiting import until

MEBIBYTE = 2**20
FILL = """
    INSERT INTO stafette.ready (id, store_id, receiver_id, sender_id, rank, deliveries, arrived_at, body)
    SELECT nextval('stafette.message_id'), q.store_id, 0, q.creator_id, 5, 0, now(), repeat('x', $2)::bytea
    FROM stafette.queues AS q, generate_series(1, $3) WHERE q.name = $1
    """


async def fill(database: str, queue: str, size: int, count: int) -> None:
    """Store large messages that take little room on the disk."""
    connection = await asyncpg.connect(database)
    await connection.execute(FILL, queue, size, count)
    await connection.close()


# Answers


@pytest.mark.slow
async def test_three_hundred_large_messages_arrive_over_several_calls(
    database: str, brokers: StartBroker, connect: Connect
) -> None:
    _, url = await brokers()
    alice = await connect("alice", url)
    await alice.create_queue("large")
    await fill(database, "large", MEBIBYTE, 300)
    ids: list[int] = []
    while messages := await alice.receive_many("large", 300):
        ids += [message.id for message in messages]
        assert all(len(message.body) == MEBIBYTE for message in messages)
    assert ids == sorted(ids)
    assert len(set(ids)) == 300


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    async with await Store.open(database) as store:
        await store.clients.register("alice")
        await store.queues.create(1, "large", QueueOptions(max_body=2**26))
        await store.queues.create(1, "other", QueueOptions(max_body=2**26))
        yield store


async def send(store: Store, *sizes: int, queue: str = "large") -> list[int]:
    answers = await store.messages.send([SendRequest(1, Draft((queue,), bytes(size))) for size in sizes])
    return [answer[0] for answer in answers if isinstance(answer, list)]


def lengths(messages: object) -> list[int]:
    assert isinstance(messages, list)
    return [len((message if isinstance(message, Message) else message.message).body) for message in messages]


@pytest.mark.parametrize("verb", ["receive", "peek", "lease", "browse"])
@pytest.mark.parametrize("order", ["priority", "arrival"])
async def test_an_answer_holds_as_many_as_fit_and_one_at_least(store: Store, verb: str, order: Order) -> None:
    await send(store, 9_000, 9_000, 9_000, 50_000, 1_000)

    async def read(budget: int) -> list[int]:
        if verb == "browse":
            return lengths(await store.messages.browse("large", viewer=1, budget=budget))
        ask = (LeaseRequest if verb == "lease" else ReadRequest)(1, Selection("large", order=order, count=5))
        [answer] = await getattr(store.messages, verb)([ask], budget=budget)
        return lengths(answer)

    if verb in ("peek", "browse"):
        assert [await read(budget) for budget in (1, 20_000, 10**6)] == [
            [9_000],
            [9_000, 9_000],
            [9_000, 9_000, 9_000, 50_000, 1_000],
        ]
    else:
        assert [await read(budget) for budget in (20_000, 20_000, 1, 1_000)] == [
            [9_000, 9_000],
            [9_000],
            [50_000],
            [1_000],
        ]


@pytest.mark.parametrize("verb", ["receive", "peek", "lease"])
async def test_a_message_that_is_larger_than_the_client_takes_stays(store: Store, verb: str) -> None:
    await send(store, 10_000)
    ask = LeaseRequest if verb == "lease" else ReadRequest
    for order in ("priority", "arrival"):
        selection = Selection("large", order=order, count=5)
        [refusal, other] = await getattr(store.messages, verb)(
            [ask(1, selection, max_bytes=10_000), ask(1, Selection("other"))]
        )
        assert isinstance(refusal, errors.MessageTooLarge)
        assert "10000 bytes that the client takes" in str(refusal)
        assert other == []
    [answer] = await getattr(store.messages, verb)([ask(1, Selection("large"), max_bytes=20_000)])
    assert lengths(answer) == [10_000]


async def test_headers_count_as_well(store: Store) -> None:
    headers = {"kind": "x" * 10_000}
    await store.messages.send([SendRequest(1, Draft(("large",), b"", headers=headers)) for _ in range(3)])
    [answer] = await store.messages.receive([ReadRequest(1, Selection("large", count=3))], budget=25_000)
    assert isinstance(answer, list)
    assert [message.headers for message in answer] == [headers, headers]


@pytest.mark.parametrize("verb", ["receive", "peek", "lease"])
@pytest.mark.parametrize("order", ["priority", "arrival"])
async def test_a_batch_stops_when_its_bytes_are_spent(store: Store, verb: str, order: Order) -> None:
    await send(store, *[10_000] * 5)
    ask = LeaseRequest if verb == "lease" else ReadRequest
    asks = [ask(1, Selection(queue, order=order)) for queue in ("large", "other", "large", "large", "nowhere")]
    answers = await getattr(store.messages, verb)(asks, budget=15_000)
    assert [lengths(answer) for answer in (answers[0], answers[2])] == [[10_000]] * 2
    assert isinstance(answers[3], BatchFull)
    assert isinstance(answers[4], errors.QueueNotFound)
    again = await getattr(store.messages, verb)(asks, budget=10**6)
    assert [lengths(answer) for answer in again[:4]] == [[10_000], [], [10_000], [10_000]]


async def test_what_a_batch_leaves_is_where_it_was(store: Store) -> None:
    ids = await send(store, *[10_000] * 10)
    received: list[int] = []
    while len(received) < len(ids):
        answers = await store.messages.receive([ReadRequest(1, Selection("large"))] * 10, budget=25_000)
        got = [message.id for answer in answers if isinstance(answer, list) for message in answer]
        assert len(got) == (3 if len(received) < 9 else 1)
        received += got
    assert received == ids


async def test_many_readers_of_large_messages_are_all_answered(brokers: StartBroker, connect: Connect) -> None:
    runtime, url = await brokers(answer=25_000)
    alice, bob = await connect("alice", url), await connect("bob", url)
    await alice.create_queue("large")
    waiting = [asyncio.create_task(bob.receive("large", wait=60)) for _ in range(20)]
    await until(lambda: len(runtime.core.waiting) == 20, alice.ping)
    sent = await alice.send_many([("large", bytes(10_000))] * 40)
    reading = [asyncio.create_task(bob.receive("large")) for _ in range(20)]
    messages = await asyncio.gather(*waiting, *reading)
    assert sorted(message.id for message in messages if message) == sorted(number for [number] in sent)


async def test_a_client_says_what_it_takes(brokers: StartBroker, connect: Connect) -> None:
    _, url = await brokers()
    alice = await connect("alice", url)
    await alice.create_queue("large")
    await alice.send("large", bytes(10_000))
    bob = await ProtocolClient.open(url, "bob", max_answer=5_000)
    for request in (wire.Receive(2, Selection("large")), wire.Browse(3, "large")):
        bob.send(request)
        answer = await bob.answer()
        assert isinstance(answer, wire.Failed), request
        assert (answer.name, answer.outcome) == ("MessageTooLarge", "not done")
    await bob.close()
    assert await alice.receive("large") is not None


# Requests


async def test_a_message_for_very_many_queues_is_refused_or_bounded(brokers: StartBroker, connect: Connect) -> None:
    runtime, url = await brokers()
    alice = await connect("alice", url)
    admission = runtime.core.admission
    with pytest.raises(errors.MessageTooLarge, match="each message once for every queue"):
        await alice.send([f"queue-{number}" for number in range(1000)], bytes(MEBIBYTE))
    assert (admission.bytes, admission.active) == (0, 0)
    assert admission.refused_bytes > 1000 * MEBIBYTE
    with pytest.raises(errors.MessageTooLarge):
        await alice.send_many([([f"queue-{number}" for number in range(1000)], b"")] * 300)


async def test_ten_thousand_small_messages_go_in_one_request(brokers: StartBroker, connect: Connect) -> None:
    _, url = await brokers()
    alice = await connect("alice", url)
    await alice.create_queue("jobs")
    assert len(await alice.send_many([("jobs", bytes(100))] * 10_000)) == 10_000


# Clients that wait by themselves


async def test_three_thousand_sends_on_one_client_all_succeed(brokers: StartBroker, connect: Connect) -> None:
    runtime, url = await brokers()
    alice = await connect("alice", url)
    await alice.create_queue("jobs")
    sent = await asyncio.gather(*(alice.send("jobs", str(number)) for number in range(3000)))
    assert runtime.core.admission.refusals == {}
    assert sent == sorted(sent)  # first come, first served
    assert (await alice.queue("jobs")).messages == 3000
    assert not transport_of(alice).congested


async def test_many_large_sends_on_one_client_all_succeed(brokers: StartBroker, connect: Connect) -> None:
    runtime, url = await brokers(in_flight_bytes_per_client=SMALL_SHARE, in_flight_bytes=2 * SMALL_SHARE)
    alice, bob = await connect("alice", url), await connect("bob", url)
    await alice.create_queue("jobs")
    sizes = [300_000, 10, 700_000, 500_000] * 5
    await asyncio.gather(*(client.send("jobs", bytes(size)) for size in sizes for client in (alice, bob)))
    assert runtime.core.admission.refusals == {}
    with pytest.raises(errors.MessageTooLarge):
        await alice.send(["jobs", "jobs"], bytes(SMALL_SHARE // 2))
    assert (await alice.queue("jobs")).messages == 40


async def test_the_time_of_a_call_counts_while_it_waits_for_room(brokers: StartBroker, connect: Connect) -> None:
    runtime, url = await brokers(in_flight_per_client=10)
    alice = await connect("alice", url, timeout=0.5)
    await alice.create_queue("jobs")
    waiting = [asyncio.create_task(alice.receive("jobs", wait=60)) for _ in range(9)]
    await until(lambda: len(runtime.core.waiting) == 9)
    with pytest.raises(errors.RequestTimeout) as late:
        await alice.send("jobs", b"no room")
    assert late.value.outcome == "not done"
    waiting[0].cancel()  # the library tells the broker, for which there is always room
    await alice.send("jobs", b"room")
    await until(lambda: any(read.done() and not read.cancelled() for read in waiting))
    for read in waiting:
        read.cancel()


async def test_waiting_for_room_goes_on_at_another_connection(brokers: StartBroker, connect: Connect) -> None:
    runtime, url = await brokers(in_flight_per_client=10)
    alice = await connect("alice", url)
    await alice.create_queue("jobs")
    waiting = [asyncio.create_task(alice.receive("jobs", wait=60)) for _ in range(9)]
    await until(lambda: len(runtime.core.waiting) == 9)
    sending = asyncio.create_task(alice.send("jobs", b"no room"))
    await until(lambda: transport_of(alice).congested)
    for read in waiting[1:]:
        read.cancel()
    transport_of(alice)._writer.abort()
    await sending
    message = await waiting[0]  # it is repeated there too
    assert message is not None
    assert message.body == b"no room"


async def test_a_send_that_is_too_large_is_refused_beside_a_read_that_waits(
    brokers: StartBroker, connect: Connect
) -> None:
    runtime, url = await brokers(in_flight_bytes_per_client=SMALL_SHARE, in_flight_bytes=2 * SMALL_SHARE)
    alice = await connect("alice", url, timeout=5.0)
    await alice.create_queue("jobs")
    waiting = asyncio.create_task(alice.receive("jobs", wait=60))
    await until(lambda: len(runtime.core.waiting) == 1)
    with pytest.raises(errors.MessageTooLarge):
        await alice.send(["jobs", "jobs"], bytes(SMALL_SHARE // 2))
    waiting.cancel()
