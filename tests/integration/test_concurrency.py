"""Sixteen connections at once: every message comes out exactly once, whole and in order, whoever else is reading.

A worker stands for one connection of a broker: each of its calls carries the requests of several clients. A reader
stands for one client that reads in one way. Ends are found by counting, so a lost message fails a test and never
hangs it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from random import Random
from typing import Literal, NamedTuple, TypeVar

import asyncpg
import pytest

from stafette.database.clients import Identity
from stafette.database.messages import ExtendRequest, LeaseRequest, NackRequest, ReadRequest, SendRequest
from stafette.database.store import Store
from stafette.errors import LeaseLost, StafetteError
from stafette.model import Draft, Leased, LeaseRef, Message, Order, QueueOptions, Selection

pytestmark = pytest.mark.slow

CONNECTIONS = 16
MESSAGES = 50_000
READERS_PER_WORKER = 3
BATCH_SIZES = (1, 2, 8, 32, 64)
ASK_SIZES = (1, 1, 2, 8, 21)  # three to a call: calls of 3 to 63 messages
SEVERAL_QUEUES = 0.05  # the share of sends, where it can be, that go to three queues
ADDRESSED = 0.3  # the share of sends, where a queue has both, that name a receiver

ANYONE, BOTH, ADDRESSEES, OTHERS = "for anyone", "both", "for addressees", "never my own"
QUEUES = (ANYONE, BOTH, ADDRESSEES, OTHERS)
NAMES = tuple(f"client {number}" for number in range(8))

Style = Literal["priority", "arrival", "sender in queue", "sender"]
STYLES: tuple[Style, ...] = ("priority", "arrival", "sender in queue", "sender")
T = TypeVar("T")


class Parcel(NamedTuple):
    """All of a message that its sender decides."""

    queue: str
    sender: str
    receiver: str | None
    priority: int
    body: bytes


def parcel(message: Message) -> Parcel:
    return Parcel(message.queue, message.sender, message.receiver, message.priority, message.body)


@dataclass
class Reader:
    """One client that reads in one way, and what it got, ask by ask."""

    client: Identity
    style: Style
    rng: Random
    got: list[list[Message]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.wishes = len(list(self._wishes()))
        self._turns = cycle(self._wishes())

    def _wishes(self) -> Iterator[tuple[str | None, str | None]]:
        """All (queue, sender) to ask for; together they reach whatever this client may see."""
        queues = QUEUES if self.style != "sender" else (None,)
        senders = NAMES if self.style in ("sender", "sender in queue") else (None,)
        return ((queue, sender) for queue in queues for sender in senders)

    def ask(self) -> ReadRequest:
        queue, sender = next(self._turns)
        order: Order = "arrival" if self.style == "arrival" else "priority"
        return ReadRequest(self.client.id, Selection(queue, sender, order=order, count=self.rng.choice(ASK_SIZES)))

    def in_order(self, message: Message) -> tuple[int, int]:
        return (0, message.id) if self.style == "arrival" else (-message.priority, message.id)


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    async with await Store.open(database, connections=CONNECTIONS) as store:
        yield store


@pytest.fixture
async def clients(store: Store) -> list[Identity]:
    clients = [await store.clients.register(name) for name in NAMES]
    for queue in QUEUES:
        await store.queues.create(clients[0].id, queue, QueueOptions(exclude_own=queue == OTHERS, max_deliveries=1000))
    return clients


@pytest.fixture
async def direct(database: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection of our own, to make time pass and to look behind the Store."""
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


def make_readers(clients: list[Identity], workers: int) -> list[list[Reader]]:
    """For each worker its readers; over all workers, every client reads in every way."""
    kinds = cycle((client, style) for style in STYLES for client in clients)
    return [[Reader(*next(kinds), Random(worker)) for _ in range(READERS_PER_WORKER)] for worker in range(workers)]


def make_send(sender: Identity, number: int, rng: Random) -> SendRequest:
    queues: tuple[str, ...] = (rng.choice(QUEUES),)
    if queues[0] in (ANYONE, ADDRESSEES) and rng.random() < SEVERAL_QUEUES:
        queues += (BOTH, OTHERS)
    addressed = ADDRESSEES in queues or (ANYONE not in queues and rng.random() < ADDRESSED)
    receivers = [name for name in NAMES if OTHERS not in queues or name != sender.name]
    return SendRequest(
        sender.id,
        Draft(
            queues=queues,
            body=f"{sender.name} {number}".encode(),
            receiver=rng.choice(receivers) if addressed else None,
            priority=rng.randint(1, 10),
        ),
    )


async def send_share(store: Store, sender: Identity, numbers: range, sent: dict[int, Parcel]) -> None:
    """Send so many messages one batch after the other, and note each with its id."""
    rng = Random(numbers.start)
    todo = [make_send(sender, number, rng) for number in numbers]
    while todo:
        size = rng.choice(BATCH_SIZES)
        batch, todo = todo[:size], todo[size:]
        for send, ids in zip(batch, succeeded(await store.messages.send(batch)), strict=True):
            for queue, message_id in zip(send.draft.queues, ids, strict=True):
                sent[message_id] = Parcel(queue, sender.name, send.draft.receiver, send.draft.priority, send.draft.body)


def shares(workers: int) -> Iterator[range]:
    size = MESSAGES // workers
    return (range(start, start + size) for start in range(0, size * workers, size))


def succeeded(answers: Iterable[T | StafetteError]) -> list[T]:
    good: list[T] = []
    for answer in answers:
        assert not isinstance(answer, StafetteError), answer
        good.append(answer)
    return good


async def pop_all(store: Store, readers: list[Reader], all_sent: asyncio.Event, popped: set[int]) -> None:
    """Read until all is sent and none of the readers' wishes finds anything more."""
    empty_handed = 0
    while empty_handed < max(reader.wishes for reader in readers):
        nothing_comes = all_sent.is_set()
        answers = succeeded(await store.messages.receive([reader.ask() for reader in readers]))
        for reader, messages in zip(readers, answers, strict=True):
            reader.got.append(messages)
            for message in messages:
                assert message.id not in popped, f"handed out twice: {message}"
                popped.add(message.id)
        empty_handed = empty_handed + 1 if nothing_comes and not any(answers) else 0


def flat(got: Iterable[list[Message]]) -> list[Message]:
    return [message for messages in got for message in messages]


def assert_each_came_out_once(sent: dict[int, Parcel], readers: list[list[Reader]]) -> None:
    received = [message for group in readers for reader in group for message in flat(reader.got)]
    assert len(received) == len(sent)
    assert {message.id: parcel(message) for message in received} == sent


def assert_visible(reader: Reader) -> None:
    for message in flat(reader.got):
        assert message.receiver in (None, reader.client.name)
        assert message.queue != OTHERS or message.sender != reader.client.name


def assert_ascending(messages: Iterable[Message], order: Callable[[Message], object], *lane: str) -> None:
    """The messages of each lane, told apart by these attributes, came in this order."""
    lanes: defaultdict[tuple[object, ...], list[Message]] = defaultdict(list)
    for message in messages:
        lanes[tuple(getattr(message, name) for name in lane)].append(message)
    for name, in_lane in lanes.items():
        for earlier, later in pairwise(in_lane):
            assert order(earlier) < order(later), (name, earlier, later)  # type: ignore[operator]


async def assert_nothing_left(store: Store, direct: asyncpg.Connection[asyncpg.Record]) -> None:
    overview = await store.monitoring.overview()
    assert (overview.ready, overview.delayed, overview.leased, overview.dead) == (0, 0, 0, 0)
    connected = await direct.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'stafette'"
    )
    assert connected == CONNECTIONS, "the load did not use all its connections"


async def test_all_is_sent_and_then_popped_once_and_in_order(
    store: Store, clients: list[Identity], direct: asyncpg.Connection[asyncpg.Record]
) -> None:
    # Given 50,000 messages from eight clients, over sixteen connections
    sent: dict[int, Parcel] = {}
    async with asyncio.TaskGroup() as senders:
        for sender, numbers in zip(cycle(clients), shares(CONNECTIONS), strict=False):
            senders.create_task(send_share(store, sender, numbers, sent))
    all_sent = asyncio.Event()
    all_sent.set()

    # When 48 readers pop them over sixteen connections
    popped: set[int] = set()
    readers = make_readers(clients, CONNECTIONS)
    async with asyncio.TaskGroup() as workers:
        for group in readers:
            workers.create_task(pop_all(store, group, all_sent, popped))

    # Then each came out once, and since nothing arrived any more, each reader saw one sequence from first to last
    assert_each_came_out_once(sent, readers)
    await assert_nothing_left(store, direct)
    for reader in (reader for group in readers for reader in group):
        assert_visible(reader)
        lane = {"sender": ("sender",), "sender in queue": ("queue", "sender")}.get(reader.style, ("queue",))
        assert_ascending(flat(reader.got), reader.in_order, *lane)


async def test_what_is_popped_while_more_is_sent_comes_once_and_in_the_order_of_its_sender(
    store: Store, clients: list[Identity], direct: asyncpg.Connection[asyncpg.Record]
) -> None:
    # Given eight connections that read
    sent: dict[int, Parcel] = {}
    all_sent = asyncio.Event()
    popped: set[int] = set()
    readers = make_readers(clients, CONNECTIONS // 2)
    async with asyncio.TaskGroup() as workers:
        for group in readers:
            workers.create_task(pop_all(store, group, all_sent, popped))

        # When eight clients, each over its own connection, send 50,000 messages, each batch once the last is answered
        async with asyncio.TaskGroup() as senders:
            for sender, numbers in zip(clients, shares(CONNECTIONS // 2), strict=True):
                senders.create_task(send_share(store, sender, numbers, sent))
        all_sent.set()

    # Then each came out once, and no reader saw a later message of a sender before an earlier one of the same priority
    assert_each_came_out_once(sent, readers)
    await assert_nothing_left(store, direct)
    for reader in (reader for group in readers for reader in group):
        assert_visible(reader)
        for messages in reader.got:
            assert_ascending(messages, reader.in_order)
        lane = () if reader.style == "arrival" else ("priority",)
        assert_ascending(flat(reader.got), lambda message: message.id, "sender", "queue", *lane)


@dataclass
class LeaseLedger:
    """What was handed out under a lease, and how the leases ended."""

    delivered: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    acked: dict[int, Message] = field(default_factory=dict)
    forgotten: list[LeaseRef] = field(default_factory=list)
    endings: Counter[str] = field(default_factory=Counter)

    def note(self, message: Message) -> None:
        # Only counted, as an answer may reach us after that to the next holder, if this lease was taken away at once.
        self.delivered[message.id].append(message.deliveries)

    def assert_counted_up_to_the_ack(self) -> None:
        for message_id, numbers in self.delivered.items():
            assert sorted(numbers) == list(range(1, len(numbers) + 1))
            assert self.acked[message_id].deliveries == len(numbers), "delivered again after its ack"


class LeaseWorker:
    """Leases messages for its readers and ends each lease in some way, until none of them finds anything."""

    def __init__(self, store: Store, readers: list[Reader], rng: Random, ledger: LeaseLedger) -> None:
        self.store, self.readers, self.rng, self.ledger = store, readers, rng, ledger
        self.holders: dict[tuple[int, int], int] = {}

    async def run(self) -> None:
        empty_handed = 0
        while empty_handed < max(reader.wishes for reader in self.readers):
            asks = [LeaseRequest(ask.client, ask.selection, 3600) for ask in (reader.ask() for reader in self.readers)]
            answers = succeeded(await self.store.messages.lease(asks))
            for reader, ask, batch in zip(self.readers, asks, answers, strict=True):
                assert_ascending([leased.message for leased in batch], reader.in_order)
                for leased in batch:
                    self.holders[leased.message.id, leased.token] = ask.client
                    self.ledger.note(leased.message)
            await self.end([leased for batch in answers for leased in batch])
            empty_handed = 0 if any(answers) else empty_handed + 1

    async def end(self, batch: list[Leased]) -> None:
        fates = self.rng.choices(
            ("ack", "extend and ack", "nack", "nack later", "forget"), (70, 5, 10, 8, 7), k=len(batch)
        )
        chosen: defaultdict[str, list[Leased]] = defaultdict(list)
        for leased, fate in zip(batch, fates, strict=True):
            chosen[fate].append(leased)
        await self.store.messages.extend(
            [ExtendRequest(*self.names_of(leased), 7200) for leased in chosen["extend and ack"]]
        )
        await self.ack(chosen["ack"] + chosen["extend and ack"])
        nacks = [NackRequest(*self.names_of(leased), self.rng.choice((None, 0.0))) for leased in chosen["nack"]]
        nacks += [NackRequest(*self.names_of(leased), 3600.0) for leased in chosen["nack later"]]
        self.count("nack", await self.store.messages.nack(nacks))
        self.ledger.forgotten += [LeaseRef(*self.names_of(leased)) for leased in chosen["forget"]]

    def names_of(self, leased: Leased) -> tuple[int, int, int]:
        """What a LeaseRef consists of."""
        return self.holders[leased.message.id, leased.token], leased.message.id, leased.token

    async def ack(self, batch: list[Leased]) -> None:
        answers = await self.store.messages.ack([LeaseRef(*self.names_of(leased)) for leased in batch])
        self.count("ack", answers)
        for leased, error in zip(batch, answers, strict=True):
            if error is None:
                assert leased.message.id not in self.ledger.acked, "acknowledged twice"
                self.ledger.acked[leased.message.id] = leased.message

    def count(self, ending: str, answers: Sequence[str | StafetteError | None]) -> None:
        for answer in answers:
            late = isinstance(answer, StafetteError)
            assert not late or isinstance(answer, LeaseLost)
            self.ledger.endings[f"{ending} too late" if late else ending] += 1


async def let_time_pass(direct: asyncpg.Connection[asyncpg.Record], one_in: int) -> None:
    """Make more than an hour pass for one in so many leases and delays."""
    for table, end in (("leased", "leased_until"), ("delayed", "due_at")):
        await direct.execute(
            f"WITH due AS MATERIALIZED (SELECT id FROM stafette.{table} WHERE id % $1 = 0 ORDER BY id"
            f" FOR UPDATE SKIP LOCKED) UPDATE stafette.{table} AS t SET {end} = now() - interval '1 second'"
            " FROM due WHERE t.id = due.id",
            one_in,
        )


async def do_upkeep(store: Store) -> None:
    while await store.maintenance.expire_leases(limit=100):
        pass
    while await store.maintenance.promote_delayed(limit=100):
        pass


async def assert_all_lost(store: Store, leases: list[LeaseRef]) -> None:
    ends: list[list[StafetteError | str | None]] = [
        [*await store.messages.ack(leases)],
        [*await store.messages.nack([NackRequest(lease.client, lease.message, lease.token) for lease in leases])],
        [
            *await store.messages.extend(
                [ExtendRequest(lease.client, lease.message, lease.token, 30) for lease in leases]
            )
        ],
    ]
    assert all(isinstance(error, LeaseLost) for answers in ends for error in answers)


async def run_out_while(working: asyncio.Event, store: Store, direct: asyncpg.Connection[asyncpg.Record]) -> None:
    """Take leases away under the workers' hands, again and again."""
    rng = Random(0)
    while working.is_set():
        await let_time_pass(direct, one_in=rng.choice((7, 11, 13)))
        await do_upkeep(store)


async def test_leases_end_in_exactly_one_ack_whatever_comes_in_between(
    store: Store, database: str, clients: list[Identity], direct: asyncpg.Connection[asyncpg.Record]
) -> None:
    # Given 50,000 messages
    sent: dict[int, Parcel] = {}
    async with asyncio.TaskGroup() as senders:
        for sender, numbers in zip(cycle(clients), shares(CONNECTIONS), strict=False):
            senders.create_task(send_share(store, sender, numbers, sent))

    # When they are leased, and acknowledged, given back, forgotten or taken away, until none is left
    ledger = LeaseLedger()
    readers = make_readers(clients, CONNECTIONS)
    rounds = 0
    async with await Store.open(database, connections=1) as upkeep_store:
        while len(ledger.acked) < len(sent):
            before = len(ledger.acked)
            working = asyncio.Event()
            working.set()
            upkeep = asyncio.create_task(run_out_while(working, upkeep_store, direct))
            async with asyncio.TaskGroup() as workers:
                for number, group in enumerate(readers):
                    workers.create_task(LeaseWorker(store, group, Random(rounds * 100 + number), ledger).run())
            working.clear()
            await upkeep
            await let_time_pass(direct, one_in=1)
            # Then what was forgotten cannot be ended any more, whether its upkeep is done or not
            await assert_all_lost(store, ledger.forgotten)
            await do_upkeep(upkeep_store)
            await assert_all_lost(store, ledger.forgotten)
            assert len(ledger.acked) > before, f"lost: {sent.keys() - ledger.acked.keys()}"
            rounds += 1

    # And each is acknowledged once, unchanged, and none is left
    assert {number: parcel(message) for number, message in ledger.acked.items()} == sent
    ledger.assert_counted_up_to_the_ack()
    overview = await store.monitoring.overview()
    assert (overview.ready, overview.delayed, overview.leased, overview.dead) == (0, 0, 0, 0)
    assert {"ack", "ack too late", "nack", "nack too late"} <= ledger.endings.keys()
    assert rounds > 1
