"""Commands of operators: a broker executes them, wherever they are given, and nothing that others notify it of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

import stafette.aio
from stafette.broker import notifications
from stafette.broker.core.session import State
from stafette.broker.operator_commands import execute
from stafette.database import pool
from stafette.database.brokers import Disconnect, Drain
from stafette.database.console import Console
from stafette.database.pool import LISTENING
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
    [session] = runtime.core.sessions.values()
    execute(Disconnect(session.client, session.token), runtime)
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
            execute(Disconnect(before.client, before.token), runtime)
            await until(lambda: runtime.core.sessions.get(before.client) not in (None, before), alice.ping)
            assert not sending.done()
        assert len(await sending) == 1
        await until(lambda: before.state is State.CLOSED, alice.ping)
    await holding.close()
    assert before.client in runtime.core.sessions
    assert (await runtime.store.queues.count("jobs")).ready == 1


async def test_commands_that_no_longer_apply_are_ignored(
    brokers: StartBroker, caplog: pytest.LogCaptureFixture
) -> None:
    runtime, url = await brokers()
    alice = await ProtocolClient.open(url, "alice")
    [session] = runtime.core.sessions.values()
    with caplog.at_level(logging.INFO, "stafette.broker.operator_commands"):
        for command in (Disconnect(4711, 1), Disconnect(session.client, session.token + 1), Drain()):
            execute(command, runtime)
    assert caplog.records == []  # nor does a broker inside another program drain
    alice.send(wire.Echo(2, b"still here"))
    assert await alice.answer() == wire.Echoed(2, b"still here")
    await alice.close()


async def test_a_command_waits_for_a_broker_that_is_not_listening(brokers: StartBroker, database: str) -> None:
    runtime, url = await brokers()
    await listening(runtime.store)
    alice = await ProtocolClient.open(url, "alice")
    operator = await asyncpg.connect(database)
    async with operator.transaction():  # holds the notification back
        await operator.execute("SELECT stafette.disconnect_client('admin', '-', 'alice')")
        listener = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{LISTENING}'"
        assert await operator.fetchval(f"{listener} AND datname = current_database()")
    goodbye = await alice.answer()
    assert isinstance(goodbye, wire.Goodbye)
    assert await operator.fetchval("SELECT count(*) FROM stafette.broker_commands") == 0
    await operator.close()
    await alice.close()


async def test_a_command_is_found_although_its_notification_was_lost(
    brokers: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "POLL_SECONDS", 0.01)
    runtime, _ = await brokers()
    stopped: list[bool] = []
    runtime.stop = lambda: stopped.append(True)
    insert = "INSERT INTO stafette.broker_commands (broker_id, command) VALUES ($1, 'drain')"
    await runtime.store.pool.fetch(insert, runtime.broker_id)
    await until(lambda: stopped)


async def test_a_command_that_is_given_again_is_one_command(store: Store) -> None:
    broker = await store.brokers.join("north", seconds=1000)
    console = Console(store.pool)
    for _ in range(3):
        await console.drain(ADMIN, broker)
    assert await store.brokers.take_commands(broker) == [Drain()]
    assert await store.brokers.take_commands(broker) == []


# Strangers: any role that may connect to the database can send notifications


@pytest.fixture
async def stranger(database: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection of a role that has a right to nothing."""
    connection = await asyncpg.connect(database)
    await connection.execute("CREATE ROLE stranger; SET ROLE stranger")
    yield connection
    await connection.execute("RESET ROLE; DROP ROLE stranger")
    await connection.close()


async def test_a_strangers_notifications_stop_no_broker_and_end_no_session(
    brokers: StartBroker,
    connect: Connect,
    stranger: asyncpg.Connection[asyncpg.Record],
    caplog: pytest.LogCaptureFixture,
) -> None:
    runtime, url = await brokers()
    stopped: list[bool] = []
    runtime.stop = lambda: stopped.append(True)
    await listening(runtime.store)
    alice = await connect("alice", url)
    await alice.create_queue("jobs")
    [session] = runtime.core.sessions.values()
    waiting = asyncio.create_task(alice.receive("jobs", wait=1000))
    await until(lambda: len(runtime.core.waiting))
    broker, client = runtime.broker_id, session.client
    payloads = [
        "drain", f"disconnect {client}",  "", "x y", "\N{ARABIC-INDIC DIGIT ONE} 2", f"{client}", f"{client} ",
        f"{client} {session.token ^ 1}", f"{client} {session.token} 1", "9" * 5000, f"{client} {'9' * 5000}", "\x01",
    ]  # fmt: skip
    for channel in ("orders", "commands", "moved", "bell"):
        for payload in payloads:
            await stranger.execute("SELECT pg_notify($1, $2)", f"stafette_{channel}_{broker}", payload)
    await stranger.execute("SELECT pg_notify('stafette_parked', 'x')")
    for table in ("broker_commands", "sessions", "brokers"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await stranger.execute(f"TABLE stafette.{table}")
    # Notifications come in the order of their commits: once the listener has had this one, it has had all others.
    await Console(runtime.store.pool).drain(ADMIN, broker)
    await until(lambda: stopped)
    assert stopped == [True]
    assert runtime.core.sessions[client] is session
    assert not waiting.done()
    await alice.send("jobs", b"after all")
    message = await waiting
    assert message is not None
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_flood_of_notifications_costs_a_pause_and_not_the_broker(
    brokers: StartBroker,
    connect: Connect,
    stranger: asyncpg.Connection[asyncpg.Record],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(pool, "MAX_NOTIFICATIONS", 1000)
    runtime, url = await brokers()
    await listening(runtime.store)
    alice = await connect("alice", url)
    await alice.create_queue("jobs")
    channel = f"stafette_bell_{runtime.broker_id}"
    await stranger.execute("SELECT pg_notify($1, 'q' || n) FROM generate_series(1, 5000) AS n", channel)
    await until(lambda: "more than 1,000 notifications came" in caplog.text, alice.ping)
    waiting = asyncio.create_task(alice.receive("jobs", wait=1000))
    await until(lambda: len(runtime.core.waiting), alice.ping)
    await listening(runtime.store)  # again
    assert await Console(runtime.store.pool).disconnect(ADMIN, "alice")
    await alice.send("jobs", b"after all")
    assert await waiting is not None


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
