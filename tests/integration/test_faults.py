"""Brokers, clients, connections and the database break under load, and what was answered holds.

Real processes, real signals. A history of all calls is compared with the database at the end.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import asyncpg
import pytest

import stafette.aio
from stafette import errors
from stafette.client.aio import Client
from stafette.database import schema
from stafette.database.embedded import EmbeddedPostgres
from stafette.model import Draft
from stafette.protocol import messages as wire
from stafette.protocol.frames import frame
from tests.support.broker_processes import Brokers, broker_processes
from tests.support.client_history import QUEUE, History, Load
from tests.support.protocol_client import ProtocolClient

pytestmark = pytest.mark.slow

ANSWERS = 300  # before and after each blow
SENDERS, READERS = 8, 3  # of each kind
WINDOW = 100  # requests of a pipeliner that are under way


@pytest.fixture
async def processes(database: str, tmp_path: Path) -> AsyncIterator[Brokers]:
    async with broker_processes(database, tmp_path / "data") as brokers:
        yield brokers


async def execute(database: str, sql: str) -> str:
    connection = await asyncpg.connect(database)
    try:
        return await connection.execute(sql)
    finally:
        await connection.close()


@asynccontextmanager
async def under_load(history: History, *urls: str, timeout: float = 30.0) -> AsyncIterator[None]:
    """Senders, with and without keys, receivers and leasers, dealt out to the brokers and knowing them all."""
    load = Load()
    hosts = [url.removeprefix("stafette://") for url in urls]
    async with AsyncExitStack() as stack:

        async def connect(name: str, number: int) -> Client:
            first = number % len(hosts)
            url = "stafette://" + ",".join(hosts[first:] + hosts[:first])
            return await stack.enter_async_context(await stafette.aio.connect(url, name=name, timeout=timeout))

        creator = await connect("creator", 0)
        await creator.create_queue(QUEUE, max_deliveries=1000)
        behaviours: list[Callable[[], Awaitable[None]]] = []
        for number in range(SENDERS):
            sender = await connect(f"sender {number}", number)
            behaviours.append(partial(history.send, sender, key=number % 4 < 2))
        for number in range(READERS):
            behaviours.append(partial(history.receive, await connect(f"receiver {number}", number)))
            behaviours.append(partial(history.lease, await connect(f"leaser {number}", number)))
        async with asyncio.TaskGroup() as tasks:
            for behaviour in behaviours:
                tasks.create_task(load.until_stopped(behaviour))
            try:
                yield
            finally:
                load.stop()


# A broker dies, or leaves, or sleeps


async def test_kill_9_of_one_of_two_brokers(processes: Brokers, database: str) -> None:
    history = History()
    victim, survivor = await asyncio.gather(processes.start(), processes.start())
    async with under_load(history, victim.url, survivor.url):
        await history.more_answers(ANSWERS)
        victim.signal(signal.SIGKILL)
        assert await victim.ended() == -signal.SIGKILL
        await history.more_answers(ANSWERS)  # all clients go on through the other one
    assert set(history.errors) == {errors.Unavailable}
    async with await stafette.aio.connect(survivor.url, name="reader") as reader:
        await history.check(database, reader)


async def test_sigterm_of_one_of_two_brokers_is_not_noticed(processes: Brokers, database: str) -> None:
    history = History()
    leaving, staying = await asyncio.gather(processes.start(), processes.start())
    async with under_load(history, leaving.url, staying.url):
        await history.more_answers(ANSWERS)
        leaving.signal(signal.SIGTERM)
        assert await leaving.ended() == 0
        await history.more_answers(ANSWERS)
    assert not history.unknown
    assert not history.unknown_reads
    assert not history.unknown_acks
    async with await stafette.aio.connect(staying.url, name="reader") as reader:
        await history.check(database, reader)


class Pipeliner:
    """Speaks the bare protocol, with many sends under way. Told goodbye, it sends one more, as if it had not heard."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.written: dict[int, bytes] = {}
        self.answers: dict[int, wire.Answer] = {}
        self.goodbye = self.late = False

    async def run(self, url: str, progress: Callable[[], None]) -> None:
        client = await ProtocolClient.connect(url)
        client.send(wire.Hello(1, wire.VERSION, self.name))
        while await client.read():
            for answer in client.take_answers():
                self._take(answer)
            for _ in range(WINDOW - (len(self.written) - len(self.answers))):
                if not self.goodbye:
                    self._write(client)
            if self.goodbye and not self.late:
                self.late = True
                self._write(client)
            progress()
            if self.goodbye and len(self.answers) == len(self.written):
                break
        await client.close()

    def _take(self, answer: wire.Answer) -> None:
        if isinstance(answer, wire.Goodbye) and not answer.id:
            self.goodbye = True
        elif not isinstance(answer, wire.Welcome):
            assert answer.id not in self.answers, "answered twice"
            self.answers[answer.id] = answer

    def _write(self, client: ProtocolClient) -> None:
        number = len(self.written) + 2
        self.written[number] = f"{number} of {self.name}".encode()
        client.send(wire.Send(number, [Draft((QUEUE,), self.written[number])]))

    def sent(self) -> set[bytes]:
        """The bodies of sends that were answered with ids; every other one was answered, too: nothing has happened."""
        assert self.answers.keys() == self.written.keys(), f"{len(self.written) - len(self.answers)} are not answered"
        for answer in self.answers.values():
            if not isinstance(answer, wire.Sent):
                assert isinstance(answer, wire.Goodbye | wire.Failed)
                assert "nothing has happened" in answer.sentence
        sent = {body for number, body in self.written.items() if isinstance(self.answers[number], wire.Sent)}
        assert len(sent) < len(self.written), "the late one was done"
        return sent


async def test_sigterm_under_load_leaves_no_request_without_a_definite_answer(
    processes: Brokers, database: str
) -> None:
    # Given a broker with hundreds of requests under way
    broker = await processes.start()
    async with await stafette.aio.connect(broker.url, name="creator") as creator:
        await creator.create_queue(QUEUE)
    pipeliners = [Pipeliner(f"pipeliner {number}") for number in range(4)]
    busy = asyncio.Event()

    def progress() -> None:
        if all(len(one.answers) >= ANSWERS for one in pipeliners):
            busy.set()

    # When it is told to stop
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for pipeliner in pipeliners:
            tasks.create_task(pipeliner.run(broker.url, progress))
        await busy.wait()
        broker.signal(signal.SIGTERM)
    assert await broker.ended() == 0

    # Then each has an answer, and the database agrees with all of them
    sent = [body for pipeliner in pipeliners for body in pipeliner.sent()]
    connection = await asyncpg.connect(database)
    stored = [row[0] for row in await connection.fetch("SELECT body FROM stafette.ready")]
    await connection.close()
    assert sorted(stored) == sorted(sent)


async def test_a_broker_that_slept_through_its_lease_gives_up_the_clients_that_went_elsewhere(
    processes: Brokers, database: str
) -> None:
    # Given a broker that has been stopped for longer than its lease
    sleeper, other = await asyncio.gather(processes.start(), processes.start())
    old = await stafette.aio.connect(sleeper.url, name="alice", timeout=60)
    loyal = await stafette.aio.connect(sleeper.url, name="bob", timeout=60)
    reading = asyncio.create_task(old.receive("@alice", wait=600))
    await asyncio.sleep(0)
    await old.ping()
    sleeper.signal(signal.SIGSTOP)
    with pytest.raises(errors.AlreadyOnline):
        await stafette.aio.connect(other.url, name="alice")
    await execute(database, f"UPDATE stafette.brokers SET alive_until = now() WHERE name LIKE '%/{sleeper.pid}'")

    # When one of its clients connects elsewhere and it wakes up
    new = await stafette.aio.connect(other.url, name="alice")
    sleeper.signal(signal.SIGCONT)

    # Then it gives up that client, and only that one
    await loyal.send("@alice", b"for the new one")
    message = await new.receive("@alice", wait=30)
    assert message is not None
    assert message.body == b"for the new one"
    for client in (old, loyal, new):
        await client.close()
    with pytest.raises((errors.Unavailable, errors.InvalidRequest)):
        await reading


# The database


async def test_postgresql_is_restarted_under_load(tmp_path: Path) -> None:
    history = History()
    server = EmbeddedPostgres(tmp_path / "postgres")
    await asyncio.to_thread(server.start)
    try:
        await schema.migrate(server.url)
        async with broker_processes(server.url, tmp_path / "data") as processes:
            broker = await processes.start()
            async with under_load(history, broker.url):
                for _ in range(2):
                    await history.more_answers(ANSWERS)
                    await asyncio.to_thread(server.stop)
                    await asyncio.to_thread(server.start)
                await history.more_answers(ANSWERS)  # the same broker works again
            assert history.errors
            assert set(history.errors) <= {errors.Unavailable, errors.RequestTimeout}
            async with await stafette.aio.connect(broker.url, name="reader") as reader:
                await history.check(server.url, reader)
            assert "Traceback" not in broker.log
    finally:
        await asyncio.to_thread(server.stop)


# A client


LEASES_AND_HANGS = """
import asyncio, sys
import stafette.aio

async def main(url):
    client = await stafette.aio.connect(url, name="worker")
    lease = await client.lease("work", seconds=3600)
    print(lease.message.text, flush=True)
    await asyncio.Event().wait()

asyncio.run(main(sys.argv[1]))
"""


async def test_a_client_killed_in_a_lease(processes: Brokers, database: str) -> None:
    # Given a client process that dies with a message in its hands
    broker = await processes.start()
    async with await stafette.aio.connect(broker.url, name="alice") as alice:
        await alice.create_queue(QUEUE)
        await alice.send(QUEUE, b"precious")
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-c", LEASES_AND_HANGS, broker.url, stdout=asyncio.subprocess.PIPE
        )
        assert worker.stdout is not None
        assert await worker.stdout.readline() == b"precious\n"
        worker.kill()
        await worker.wait()

        # Then nobody gets it while the lease lasts, and the next reader as soon as it has run out
        assert await alice.receive(QUEUE) is None
        reading = asyncio.create_task(alice.receive(QUEUE, wait=30))
        await asyncio.sleep(0)
        await alice.ping()
        await execute(database, "UPDATE stafette.leased SET leased_until = now()")
        message = await reading
        assert message is not None
        assert (message.body, message.deliveries) == (b"precious", 1)  # the one that came to nothing
        assert await alice.receive(QUEUE) is None
        async with await stafette.aio.connect(broker.url, name="worker"):
            pass  # and its name is free


async def test_fifty_clients_race_for_one_name_through_two_brokers(processes: Brokers) -> None:
    brokers = await asyncio.gather(processes.start(), processes.start())
    for _ in range(3):
        attempts = [stafette.aio.connect(brokers[number % 2].url, name="king") for number in range(50)]
        outcomes = await asyncio.gather(*attempts, return_exceptions=True)
        winners = [outcome for outcome in outcomes if isinstance(outcome, Client)]
        losers = [outcome for outcome in outcomes if isinstance(outcome, errors.AlreadyOnline)]
        assert (len(winners), len(losers)) == (1, 49), outcomes
        await winners[0].ping()
        await winners[0].close()  # and the name is free for the next race


# A connection


class Cutter:
    """Lies between a client and a broker, and can cut an answer off after some bytes."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._cut_after: int | None = None
        self.cuts = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        async with await asyncio.start_server(self._connect, "127.0.0.1", 0) as server:
            yield f"stafette://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def cut_next_answer(self, after: int) -> None:
        self._cut_after = after

    async def _connect(self, requests: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self._port)
        forward = asyncio.create_task(self._forward(requests, to_broker))
        while answer := await from_broker.read(2**16):
            if self._cut_after is not None:
                answers.write(answer[: self._cut_after])
                self._cut_after = None
                self.cuts += 1
                break
            answers.write(answer)
        forward.cancel()
        to_broker.close()
        answers.close()

    async def _forward(self, requests: asyncio.StreamReader, to_broker: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while request := await requests.read(2**16):
                to_broker.write(request)
            to_broker.write_eof()


async def test_answers_cut_off_in_the_middle(processes: Brokers, database: str) -> None:
    # Given a line that cuts every second answer off, after every beginning that even the shortest has
    beginnings = len(frame(wire.encode(wire.Sent(1, [[1]]))))
    history = History()
    broker = await processes.start()
    cutter = Cutter(broker.port)
    async with cutter.open() as url, await stafette.aio.connect(url, name="alice") as alice:
        await alice.create_queue(QUEUE, max_deliveries=1000)
        for after in range(beginnings):
            for cut in (True, False):
                for call in (
                    partial(history.send, key=True), partial(history.send, key=False), history.receive, history.lease
                ):  # fmt: skip
                    await alice.ping()  # it is connected when the answer is cut off
                    if cut:
                        cutter.cut_next_answer(after)
                    await call(alice)

        # Then only those who cannot know what happened are told so, and everything is where it should be
        assert cutter.cuts == 4 * beginnings
        assert set(history.errors) == {errors.Unavailable}
        counts = len(history.answered), len(history.unknown), history.unknown_reads
        assert counts == (3 * beginnings, beginnings, 0)
        await history.check(database, alice)
