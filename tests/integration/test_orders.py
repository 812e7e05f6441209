"""Orders of operators: a broker hears and obeys them, wherever they are given."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import asyncpg
import pytest

import stafette.aio
from stafette.broker.core.session import State
from stafette.broker.operator_commands import execute
from stafette.database.console import Console
from stafette.database.store import Store
from stafette.model import Draft, Selection
from stafette.protocol import messages as wire
from tests.support.actors import ADMIN
from tests.support.broker_processes import broker_processes
from tests.support.brokers import Connect, StartBroker
from tests.support.protocol_client import ProtocolClient
from tests.support.waiting import until


async def listening(store: Store) -> None:
    """Wait until each broker hears what is said on its channels: after that it probes the server."""
    listens = """
        SELECT count(*) >= (SELECT count(*) FROM stafette.brokers WHERE alive_until > now())
        FROM pg_stat_activity WHERE application_name = 'stafette, listening' AND query LIKE '%transaction_read_only%'
          AND datname = current_database() AND pid <> pg_backend_pid()
    """
    await until(lambda: store.pool.value(listens))


async def test_a_client_is_disconnected_with_a_word_of_goodbye(brokers: StartBroker) -> None:
    runtime, url = await brokers()
    await listening(runtime.store)
    console = Console(runtime.store.pool)
    alice, bob = await ProtocolClient.open(url, "alice"), await ProtocolClient.open(url, "bob")
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
    assert await alice.answer_or_end() is None
    bob.send(wire.Echo(2, b"still here"))
    assert await bob.answer() == wire.Echoed(2, b"still here")
    await alice.close()

    async def alice_is_gone() -> bool:
        return not (await console.client("alice")).broker

    await until(alice_is_gone, bob.ping)
    again = await ProtocolClient.open(url, "alice")  # its name is free
    await again.close()
    await bob.close()


async def test_a_read_that_waits_is_told_to_ask_elsewhere(brokers: StartBroker) -> None:
    runtime, url = await brokers()
    await listening(runtime.store)
    console = Console(runtime.store.pool)
    await console.create_queue(ADMIN, "jobs")
    alice = await ProtocolClient.open(url, "alice")
    alice.send(wire.Receive(2, Selection("jobs"), wait=1000))
    await until(lambda: len(runtime.core.waiting))
    assert await console.disconnect(ADMIN, "alice")
    first, second = await alice.answer(), await alice.answer()
    assert isinstance(first, wire.Goodbye)
    assert isinstance(second, wire.Goodbye)
    assert (first.id, second.id) == (0, 2)
    assert len(runtime.core.waiting) == 0
    await alice.close()


async def test_what_was_accepted_is_answered_before_the_end(brokers: StartBroker) -> None:
    runtime, url = await brokers()
    console = Console(runtime.store.pool)
    await console.create_queue(ADMIN, "jobs")
    alice = await ProtocolClient.open(url, "alice")
    alice.send(wire.Send(2, [Draft(("jobs",), b"kept")]))
    await until(lambda: runtime.core.dispatcher.outstanding)
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


async def test_a_client_of_ours_comes_back_by_itself(brokers: StartBroker, connect: Connect) -> None:
    runtime, url = await brokers()
    await listening(runtime.store)
    alice = await connect("alice", url)
    await alice.create_queue("jobs")
    waiting = asyncio.create_task(alice.receive("jobs", wait=1000))
    async with asyncio.timeout(30):
        await until(lambda: len(runtime.core.waiting))
        assert await Console(runtime.store.pool).disconnect(ADMIN, "alice")
        await until(lambda: runtime.core.admission.refusals.get("Goodbye", 0) or not len(runtime.core.waiting))
        await alice.send("jobs", b"after all")
        message = await waiting
    assert message is not None
    assert message.body == b"after all"


async def test_what_a_client_of_ours_has_under_way_is_answered_after_it_came_back(
    database: str, brokers: StartBroker, connect: Connect
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
            await until(lambda: runtime.core.dispatcher.outstanding)
            execute(f"disconnect {before.client}", runtime)
            await until(lambda: runtime.core.sessions.get(before.client) not in (None, before), alice.ping)
            assert not sending.done()
        assert len(await sending) == 1
        await until(lambda: before.state is State.CLOSED, alice.ping)
    await holding.close()
    assert before.client in runtime.core.sessions
    assert (await runtime.store.queues.count("jobs")).ready == 1


async def test_orders_that_have_become_pointless_are_ignored(
    brokers: StartBroker, caplog: pytest.LogCaptureFixture
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
            await listening(store)
            await console.drain(ADMIN, row.id)
            assert await broker.ended() == 0
        assert await console.brokers() == []
        assert [point.sent for point in await console.history(since=row.started_at, span=300) if point.sent] == [1]
