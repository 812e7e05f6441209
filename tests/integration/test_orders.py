"""Orders of operators: a broker hears and obeys them, wherever they are given."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

import stafette.aio
from stafette.broker.core.session import State
from stafette.broker.operator_commands import execute
from stafette.broker.runtime import Runtime
from stafette.client.aio import Client
from stafette.database.console import Console
from stafette.database.store import Store
from stafette.model import Draft, Selection
from stafette.protocol import messages as wire
from stafette.protocol.frames import FrameReader, frame
from tests.support.actors import ADMIN
from tests.support.broker_processes import broker_processes


class Wire:
    """A client that knows the protocol and nothing else: it does not come back by itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._frames = FrameReader(2**20)
        self._answers: list[wire.Answer] = []

    @classmethod
    async def connect(cls, url: str, name: str) -> Wire:
        host, port = url.removeprefix("stafette://").split(":")
        link = cls(*await asyncio.open_connection(host, int(port)))
        link.send(wire.Hello(1, version=wire.VERSION, name=name))
        assert isinstance(await link.answer(), wire.Welcome)
        return link

    def send(self, request: wire.Request) -> None:
        self._writer.write(frame(wire.encode(request)))

    async def answer(self) -> wire.Answer | None:
        """The next answer, or None when the broker has hung up."""
        while not self._answers:
            data = await self._reader.read(65536)
            if not data:
                return None
            self._answers += [wire.decode_answer(payload) for payload in self._frames.feed(data)]
        return self._answers.pop(0)

    async def ping(self) -> None:
        self.send(wire.Echo(9, b""))
        assert isinstance(await self.answer(), wire.Echoed)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


Brokers = Callable[..., Awaitable[tuple[Runtime, str]]]


async def listening(broker: int, store: Store) -> None:
    """Wait until a broker hears what is said on its channel."""
    async with asyncio.timeout(30):
        while not await store.pool.value(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'LISTEN%stafette_orders_' || $1 || '%')",
            str(broker),
        ):
            await asyncio.sleep(0)


async def test_a_client_is_disconnected_with_a_word_of_goodbye(brokers: Brokers) -> None:
    runtime, url = await brokers()
    await listening(runtime.broker_id, runtime.store)
    console = Console(runtime.store.pool)
    alice, bob = await Wire.connect(url, "alice"), await Wire.connect(url, "bob")
    assert await console.disconnect(ADMIN, "alice")
    goodbye = await alice.answer()
    assert isinstance(goodbye, wire.Goodbye)
    assert (goodbye.id, "operator" in goodbye.sentence) == (0, True)
    alice.send(wire.Echo(2, b"may I stay"))
    refused = await alice.answer()
    assert isinstance(refused, wire.Goodbye)
    assert refused.id == 2
    for session in runtime.core.idle_timeouts._deadlines:  # its time to hang up passes
        runtime.core.idle_timeouts._deadlines[session] = float("-inf")
    runtime.drop_idle()
    assert await alice.answer() is None
    bob.send(wire.Echo(2, b"still here"))
    assert await bob.answer() == wire.Echoed(2, b"still here")
    await alice.close()
    async with asyncio.timeout(30):
        while (await console.client("alice")).broker:
            await bob.ping()
    again = await Wire.connect(url, "alice")  # its name is free
    await again.close()
    await bob.close()


async def test_a_read_that_waits_is_told_to_ask_elsewhere(brokers: Brokers) -> None:
    runtime, url = await brokers()
    await listening(runtime.broker_id, runtime.store)
    console = Console(runtime.store.pool)
    await console.create_queue(ADMIN, "jobs")
    alice = await Wire.connect(url, "alice")
    alice.send(wire.Receive(2, Selection("jobs"), wait=1000))
    async with asyncio.timeout(30):
        while not len(runtime.core.waiting):
            await asyncio.sleep(0)
    assert await console.disconnect(ADMIN, "alice")
    first, second = await alice.answer(), await alice.answer()
    assert isinstance(first, wire.Goodbye)
    assert isinstance(second, wire.Goodbye)
    assert (first.id, second.id) == (0, 2)
    assert len(runtime.core.waiting) == 0
    await alice.close()


async def test_what_was_accepted_is_answered_before_the_end(brokers: Brokers) -> None:
    runtime, url = await brokers()
    console = Console(runtime.store.pool)
    await console.create_queue(ADMIN, "jobs")
    alice = await Wire.connect(url, "alice")
    async with asyncio.timeout(30):
        alice.send(wire.Send(2, [Draft(("jobs",), b"kept")]))
        while not runtime.core.dispatcher.outstanding:
            await asyncio.sleep(0)
    [client] = runtime.core.sessions
    execute(f"disconnect {client}", runtime)
    answers = [await alice.answer(), await alice.answer()]
    assert {type(answer) for answer in answers} == {wire.Goodbye, wire.Sent}
    alice.send(wire.Send(3, [Draft(("jobs",), b"too late")]))
    refused = await alice.answer()
    assert isinstance(refused, wire.Goodbye)
    assert refused.id == 3
    await alice.close()
    assert (await runtime.store.queues.count("jobs")).ready == 1


async def test_a_client_of_ours_comes_back_by_itself(
    brokers: Brokers, connect: Callable[..., Awaitable[Client]]
) -> None:
    runtime, url = await brokers()
    await listening(runtime.broker_id, runtime.store)
    alice = await connect("alice", url)
    await alice.create_queue("jobs")
    waiting = asyncio.create_task(alice.receive("jobs", wait=1000))
    async with asyncio.timeout(30):
        while not len(runtime.core.waiting):
            await asyncio.sleep(0)
        assert await Console(runtime.store.pool).disconnect(ADMIN, "alice")
        while runtime.core.admission.refusals.get("Goodbye", 0) == 0 and len(runtime.core.waiting):
            await asyncio.sleep(0)
        await alice.send("jobs", b"after all")
        message = await waiting
    assert message is not None
    assert message.body == b"after all"


async def test_what_a_client_of_ours_has_under_way_is_answered_after_it_came_back(
    database: str, brokers: Brokers, connect: Callable[..., Awaitable[Client]]
) -> None:
    runtime, url = await brokers()
    alice = await connect("alice", url)
    await alice.create_queue("jobs")
    [before] = runtime.core.sessions.values()
    holding = await asyncpg.connect(database)
    async with asyncio.timeout(30):
        async with holding.transaction():
            await holding.execute("LOCK TABLE stafette.ready IN SHARE MODE")
            sending = asyncio.create_task(alice.send("jobs", b"kept"))
            while not runtime.core.dispatcher.outstanding:
                await asyncio.sleep(0)
            execute(f"disconnect {before.client}", runtime)
            while runtime.core.sessions.get(before.client) in (None, before):
                await alice.ping()
            assert not sending.done()
        assert len(await sending) == 1
        while before.state is not State.CLOSED:
            await alice.ping()
    await holding.close()
    assert before.client in runtime.core.sessions
    assert (await runtime.store.queues.count("jobs")).ready == 1


async def test_orders_that_have_become_pointless_are_ignored(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    runtime, _ = await brokers()
    with caplog.at_level(logging.INFO, "stafette.broker.operator_commands"):
        for order in ("disconnect 4711", "drain", "disconnect", "disconnect x", "dance", ""):
            execute(order, runtime)
    assert [record.getMessage() for record in caplog.records] == [
        f"unknown operator command: {order!r}" for order in ("disconnect", "disconnect x", "dance", "")
    ]


async def test_a_broker_drains_and_ends_when_told_to(database: str, tmp_path: Path) -> None:
    async with broker_processes(database, tmp_path) as processes, await Store.open(database) as store:
        broker = await processes.start()
        console = Console(store.pool)
        [row] = await console.brokers()
        async with await stafette.aio.connect(broker.url, name="alice") as alice:
            await alice.create_queue("jobs")
            await alice.send("jobs", b"")
            await listening(row.id, store)
            await console.drain(ADMIN, row.id)
            assert await broker.ended() == 0
        assert await console.brokers() == []
        assert [point.sent for point in await console.history(since=row.started_at, span=300) if point.sent] == [1]
