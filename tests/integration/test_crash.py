"""The server dies in the middle of the load: what was answered holds, and what was not is whole or not there at all.

Every message's body is unique, so a ledger of bodies tells what must be, what may be and what must not be after the
restart. The Store is opened once and has to find its way back by itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from stafette.database import schema
from stafette.database.clients import Identity
from stafette.database.embedded import EmbeddedPostgres
from stafette.database.messages import LeaseRequest, ReadRequest, SendRequest
from stafette.database.store import Store
from stafette.errors import RequestTimeout, StafetteError, Unavailable
from stafette.model import Draft, LeaseRef, QueueOptions, Selection

pytestmark = pytest.mark.slow

ROUNDS = 3
ANSWERS_PER_ROUND = 150  # answered sends, and answered reads, before each blow
BATCH = 8
SENDERS, POPPERS, LEASERS = 4, 3, 3
SOCKET = ".s.PGSQL.5432"
T = TypeVar("T")

KEPT, COPY = "kept", "copy"  # nobody reads these during the load; each message goes to both
POPPED, LEASED = "popped", "leased"
Blow = Callable[[EmbeddedPostgres], None]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def store(server: EmbeddedPostgres) -> AsyncIterator[Store]:
    await schema.migrate(server.url)
    async with await Store.open(server.url, connections=SENDERS + POPPERS + LEASERS) as store:
        yield store


@pytest.fixture
async def client(store: Store) -> Identity:
    client = await store.clients.register("client")
    for queue in (KEPT, COPY, POPPED, LEASED):
        await store.queues.create(client.id, queue, QueueOptions(max_deliveries=1000))
    return client


def kill(server: EmbeddedPostgres) -> None:
    assert server.pid
    os.kill(server.pid, signal.SIGKILL)


def stop(server: EmbeddedPostgres) -> None:
    server.stop()


@dataclass
class Ledger:
    """What was tried and what was answered."""

    tried: set[bytes] = field(default_factory=set)
    sent: set[bytes] = field(default_factory=set)
    popped: Counter[bytes] = field(default_factory=Counter)
    acked: Counter[bytes] = field(default_factory=Counter)
    unanswered_pops: int = 0  # messages that pops without an answer may have removed
    unanswered_acks: set[bytes] = field(default_factory=set)
    errors: Counter[type[StafetteError]] = field(default_factory=Counter)
    progress: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def answer(self, call: Awaitable[list[T]]) -> list[T] | None:
        """The answer, or None when it was lost; any other failure than these two is a defect."""
        try:
            return await call
        except (Unavailable, RequestTimeout) as error:
            self.errors[type(error)] += 1
            await asyncio.sleep(0)  # where there is no socket, connecting fails without giving way to other tasks
            return None

    async def tell(self) -> None:
        async with self.progress:
            self.progress.notify_all()

    async def until(self, done: Callable[[], bool]) -> None:
        async with self.progress:
            await self.progress.wait_for(done)


class Load:
    """Clients that go on through every failure of the database, and note what they were told."""

    def __init__(self, store: Store, client: Identity) -> None:
        self.store, self.client = store, client
        self.ledger = Ledger()
        self.stopped = asyncio.Event()
        self._numbers = count()

    async def run_through(self, server: EmbeddedPostgres, blow: Blow) -> None:
        """Let the load work, strike the server in the middle of it and start it again, a few times over."""
        async with asyncio.TaskGroup() as clients:
            for behaviour, copies in ((self._send, SENDERS), (self._pop, POPPERS), (self._lease, LEASERS)):
                for _ in range(copies):
                    clients.create_task(self._until_stopped(behaviour))
            for _ in range(ROUNDS):
                await self._some_answers()
                await asyncio.to_thread(blow, server)
                await asyncio.to_thread(server.start)
            await self._some_answers()  # the same Store works again
            self.stopped.set()

    async def _some_answers(self) -> None:
        ledger = self.ledger
        sent, popped, acked = len(ledger.sent), ledger.popped.total(), ledger.acked.total()
        await ledger.until(
            lambda: (
                min(len(ledger.sent) - sent, ledger.popped.total() - popped, ledger.acked.total() - acked)
                >= ANSWERS_PER_ROUND
            )
        )

    async def _until_stopped(self, behaviour: Callable[[], Awaitable[None]]) -> None:
        while not self.stopped.is_set():
            await behaviour()
            await self.ledger.tell()

    async def _send(self) -> None:
        bodies = [f"message {next(self._numbers)}".encode() for _ in range(BATCH)]
        queues = (KEPT, COPY, POPPED, LEASED)
        self.ledger.tried.update(bodies)
        answers = await self.ledger.answer(
            self.store.messages.send([SendRequest(self.client.id, Draft(queues, body)) for body in bodies])
        )
        if answers is not None:
            assert all(isinstance(ids, list) and len(ids) == len(queues) for ids in answers)
            self.ledger.sent.update(bodies)

    async def _pop(self) -> None:
        answers = await self.ledger.answer(
            self.store.messages.receive([ReadRequest(self.client.id, Selection(POPPED, count=BATCH))])
        )
        if answers is None:
            self.ledger.unanswered_pops += BATCH
            return
        assert isinstance(answers[0], list)
        self.ledger.popped.update(message.body for message in answers[0])

    async def _lease(self) -> None:
        answers = await self.ledger.answer(
            self.store.messages.lease([LeaseRequest(self.client.id, Selection(LEASED, count=BATCH), seconds=3600)])
        )
        if not answers:
            return
        assert isinstance(answers[0], list)
        leases = answers[0]
        ends = await self.ledger.answer(
            self.store.messages.ack([LeaseRef(self.client.id, leased.message.id, leased.token) for leased in leases])
        )
        if ends is None:
            self.ledger.unanswered_acks.update(leased.message.body for leased in leases)
            return
        assert ends == [None] * len(leases), "a lease did not outlive the restart"
        self.ledger.acked.update(leased.message.body for leased in leases)


async def drain(store: Store, client: Identity, queue: str) -> set[bytes]:
    """All that is left in a queue, each once."""
    bodies: list[bytes] = []
    while True:
        [answer] = await store.messages.receive([ReadRequest(client.id, Selection(queue, count=1000))])
        assert isinstance(answer, list), answer
        if not answer:
            assert len(set(bodies)) == len(bodies), f"twice in queue {queue}"
            return set(bodies)
        bodies += [message.body for message in answer]


async def take_leases_back(server: EmbeddedPostgres, store: Store) -> None:
    """Make the time of all leases pass: their holders have lost the answer that would have told them."""
    connection = await asyncpg.connect(server.url)
    await connection.execute("UPDATE stafette.leased SET leased_until = now() - interval '1 second'")
    await connection.close()
    while await store.maintenance.expire_leases(limit=1000):
        pass


@pytest.mark.parametrize("blow", [kill, stop])
async def test_what_was_answered_holds(blow: Blow, server: EmbeddedPostgres, store: Store, client: Identity) -> None:
    # When the server is struck again and again under sends, pops and leases
    load = Load(store, client)
    await load.run_through(server, blow)
    ledger = load.ledger
    assert ledger.errors, "nobody noticed the blow"

    # Then every answered send is there, and one without an answer is in all its queues or in none
    kept = await drain(store, client, KEPT)
    assert ledger.sent <= kept <= ledger.tried
    assert await drain(store, client, COPY) == kept

    # And what was popped with an answer is gone; nothing else is, but for pops whose answer was lost
    popped, left = set(ledger.popped), await drain(store, client, POPPED)
    assert ledger.popped.total() == len(popped), "popped twice"
    assert not popped & left
    assert popped | left <= kept
    assert len(kept - popped - left) <= ledger.unanswered_pops

    # And what was acknowledged with an answer is gone; nothing else is, but for acks whose answer was lost
    await take_leases_back(server, store)
    acked, left = set(ledger.acked), await drain(store, client, LEASED)
    assert ledger.acked.total() == len(acked), "acknowledged twice"
    assert not acked & left
    assert acked | left <= kept
    assert kept - acked - left <= ledger.unanswered_acks


class Line:
    """Lies between a Store and the server, and can go deaf: requests still arrive, but their answers are lost."""

    def __init__(self, server: EmbeddedPostgres, folder: str) -> None:
        self._folder = folder
        self._there = Path(parse_qs(urlsplit(server.url).query)["host"][0], SOCKET)
        self.url = server.url.replace(str(self._there.parent), folder)
        self._deaf = False
        self._lost: asyncio.Queue[int] = asyncio.Queue()
        self._connections: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        server = await asyncio.start_unix_server(self._connect, Path(self._folder, SOCKET))
        try:
            yield
        finally:
            server.close()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def lose_answers(self, answers: int) -> None:
        """From now on no answer arrives; come back when so many were lost."""
        self._deaf = True
        for _ in range(answers):
            await self._lost.get()

    def mend(self) -> None:
        self._deaf = False

    async def _connect(self, requests: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            self._connections.append(task)
        async with closing(answers):
            from_server, to_server = await asyncio.open_unix_connection(self._there)
            async with closing(to_server):
                forward = asyncio.create_task(self._forward(requests, to_server))
                while answer := await from_server.read(65536):
                    if self._deaf:
                        self._lost.put_nowait(len(answer))
                    else:
                        answers.write(answer)
                forward.cancel()

    async def _forward(self, requests: asyncio.StreamReader, to_server: asyncio.StreamWriter) -> None:
        async with closing(to_server):
            while request := await requests.read(65536):
                to_server.write(request)


@asynccontextmanager
async def closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Close in the end, which may have come from the other side."""
    with suppress(OSError):
        try:
            yield
        finally:
            writer.close()
            await writer.wait_closed()


@pytest.fixture
async def line(server: EmbeddedPostgres, client: Identity) -> AsyncIterator[Line]:
    with TemporaryDirectory(dir="/tmp") as folder:  # a socket's path must be short
        line = Line(server, folder)
        async with line.open():
            yield line


async def test_a_key_makes_it_safe_to_repeat_a_send_whose_answer_was_lost(
    server: EmbeddedPostgres, store: Store, client: Identity, line: Line
) -> None:
    # Given senders that repeat each batch, with the same keys, until it is answered
    ledger = Ledger()
    ids: dict[bytes, list[int]] = {}

    async def send_share(repeating: Store, name: str) -> None:
        for batch in range(0, (ROUNDS + 1) * ANSWERS_PER_ROUND, BATCH):
            bodies = [f"{name} {number}".encode() for number in range(batch, batch + BATCH)]
            sends = [SendRequest(client.id, Draft((KEPT, COPY), body), key=body.decode()) for body in bodies]
            while (answers := await ledger.answer(repeating.messages.send(sends))) is None:
                pass
            for body, answer in zip(bodies, answers, strict=True):
                assert isinstance(answer, list), answer
                ids[body] = answer
            await ledger.tell()

    # When the server is killed a few times meanwhile, each time with answers under way that never arrive
    async with await Store.open(line.url, connections=SENDERS) as repeating, asyncio.TaskGroup() as senders:
        for number in range(SENDERS):
            senders.create_task(send_share(repeating, f"sender {number}"))
        for answered in range(ANSWERS_PER_ROUND, (ROUNDS + 1) * ANSWERS_PER_ROUND, ANSWERS_PER_ROUND):
            await ledger.until(lambda answered=answered: len(ids) >= answered)  # type: ignore[misc]
            await line.lose_answers(SENDERS)
            kill(server)
            line.mend()
            await asyncio.to_thread(server.start)
    assert ledger.errors.total() >= ROUNDS * SENDERS, "some answers were not lost"

    # Then each message is in each queue exactly once, under the id that its sender was told
    for place, queue in enumerate((KEPT, COPY)):
        [found] = await store.messages.receive([ReadRequest(client.id, Selection(queue, count=2 * len(ids)))])
        assert isinstance(found, list), found
        assert len(found) == len(ids)
        assert {message.body: message.id for message in found} == {body: of[place] for body, of in ids.items()}
