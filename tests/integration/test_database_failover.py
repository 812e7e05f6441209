"""The database changes under a running broker: servers that are weak, frozen, demoted, killed; standbys promoted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import pytest

import stafette.aio
from bench.postgres_pair import PostgresPair, postgres_pair
from stafette import errors
from stafette.broker.server import BrokerSettings, running
from stafette.database import pool as pool_module
from stafette.database import schema
from stafette.database.brokers import Brokers
from stafette.database.connect import Connection, connect_any
from stafette.database.embedded import EmbeddedPostgres
from stafette.database.pool import Pool
from tests.integration.test_faults import under_load
from tests.support.broker_processes import broker_processes
from tests.support.client_history import History
from tests.support.databases import Databases
from tests.support.tcp_proxy import Proxy
from tests.support.waiting import A_DAY, TIMEOUT_SECONDS, glance, until

JOIN = "SELECT stafette.join_broker('somebody', 10)"
"""A call that writes."""


@pytest.fixture
async def url(databases: Databases) -> AsyncIterator[str]:
    """A database of its own, whose settings a test may change."""
    url = await databases.make()
    await schema.migrate(url)
    yield url
    await databases.drop(url)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A migrated database that is reached through TCP."""
    postgres = EmbeddedPostgres(tmp_path_factory.mktemp("tcp"), tcp=True)
    try:
        postgres.start()
        asyncio.run(schema.migrate(postgres.url))
        yield postgres.tcp_url or ""
    finally:
        postgres.stop()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[PostgresPair]:
    """A primary and its synchronous standby, migrated."""
    with postgres_pair(tmp_path) as pair:
        asyncio.run(schema.migrate(pair.url))
        yield pair


async def execute(url: str, sql: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


async def configure(url: str, setting: str) -> None:
    """Change a setting of the database, for new connections."""
    await execute(url, f"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET {setting}', current_database()); END $$")


@asynccontextmanager
async def opened(url: str, *, connections: int = 1, unsafe_durability: bool = False) -> AsyncIterator[Pool]:
    pool = await Pool.open(url, connections=connections, unsafe_durability=unsafe_durability)
    try:
        yield pool
    finally:
        pool.terminate_all()
        await pool.close()


@asynccontextmanager
async def listening(pool: Pool) -> AsyncIterator[asyncio.Task[None]]:
    """A task that listens, and so watches the server; it has begun."""
    begun = asyncio.Event()
    task = asyncio.create_task(pool.listen({"anything": lambda _: None}, on_listening=begun.set))
    try:
        await begun.wait()
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, errors.StafetteError):
            await task


# Durability


@pytest.mark.parametrize("value", ["off", "local", "remote_write"])
async def test_a_commit_that_waits_for_less_than_all_disks_is_refused(url: str, value: str) -> None:
    weak = f"{url}&synchronous_commit={value}"
    with pytest.raises(errors.InternalError, match=f"synchronous_commit = {value}, "):
        await Pool.open(weak)
    async with opened(weak, unsafe_durability=True) as pool:
        assert await pool.value("SHOW synchronous_commit") == value


@pytest.mark.parametrize("value", ["on", "remote_apply"])
async def test_a_commit_that_waits_for_all_disks_will_do(url: str, value: str) -> None:
    async with opened(f"{url}&synchronous_commit={value}") as pool:
        assert await pool.value(JOIN)


async def test_every_new_connection_is_checked(url: str) -> None:
    async with opened(url) as pool:
        await configure(url, "synchronous_commit = local")
        assert await pool.value(JOIN)  # this connection has been checked, and has its settings
        pool.terminate_all()
        with pytest.raises(errors.InternalError, match="synchronous_commit = local, "):
            await pool.value(JOIN)
        await configure(url, "synchronous_commit = on")
        assert await pool.value(JOIN)


async def test_a_server_that_becomes_weak_is_noticed_while_connections_are_open(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "PROBE_PAUSE", 0.0)
    async with opened(server) as pool, listening(pool) as watching:
        await execute(server, "ALTER SYSTEM SET fsync = off")
        try:
            await execute(server, "SELECT pg_reload_conf()")
            async with asyncio.timeout(TIMEOUT_SECONDS):
                with pytest.raises(errors.InternalError, match="fsync = off, "):
                    await watching
            with pytest.raises(errors.InternalError, match="fsync = off, "):
                await pool.value(JOIN)
        finally:
            await execute(server, "ALTER SYSTEM RESET fsync")
            await execute(server, "SELECT pg_reload_conf()")


# Servers that take no writes


async def test_a_connection_to_a_server_that_takes_no_writes_is_not_used_again(url: str) -> None:
    async with opened(url) as pool:
        await pool.fetch("SET default_transaction_read_only = on")  # this connection's server has become a standby
        with pytest.raises(errors.Unavailable, match="takes no writes") as refusal:
            await pool.value(JOIN)
        assert refusal.value.outcome == "not done"
        assert await pool.value(JOIN)


async def test_a_server_that_takes_no_writes_is_refused(url: str) -> None:
    await configure(url, "default_transaction_read_only = on")
    with pytest.raises(errors.Unavailable, match="takes no writes"):
        await Pool.open(url)


async def test_no_connection_stays_that_the_server_has_ended(url: str) -> None:
    async with opened(url, connections=3) as pool:
        await asyncio.gather(*(pool.value(JOIN) for _ in range(3)))
        await execute(
            url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        with suppress(errors.Unavailable):  # the connection may have noticed by itself
            await pool.value(JOIN)
        for _ in range(3):
            assert await pool.value(JOIN)


# Servers that are silent


async def test_a_frozen_server_is_noticed_by_the_listening_connection(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "COMMAND_SECONDS", A_DAY)
    monkeypatch.setattr(pool_module, "PROBE_PAUSE", 0.0)
    monkeypatch.setattr(pool_module, "PROBE_SECONDS", 0.5)
    async with (
        Proxy(server) as proxy,
        opened(through(proxy, server), connections=2) as pool,
        listening(pool) as watching,
        asyncio.timeout(TIMEOUT_SECONDS),
    ):
        await asyncio.gather(*(pool.value(JOIN) for _ in range(2)))
        proxy.swallow_answers()
        calls = [asyncio.create_task(pool.value(JOIN)) for _ in range(2)]
        for call in calls:
            with pytest.raises(errors.Unavailable) as refusal:
                await call
            assert refusal.value.outcome == "unknown"
        with pytest.raises(errors.RequestTimeout):
            await watching
        proxy.let_through()
        assert await pool.value(JOIN)


async def test_a_heartbeat_is_not_held_up_by_a_server_that_froze(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "COMMAND_SECONDS", A_DAY)
    async with (
        Proxy(server) as proxy,
        opened(through(proxy, server)) as pool,  # its own: nobody watches the server on it
        asyncio.timeout(TIMEOUT_SECONDS),
    ):
        brokers = Brokers(pool)
        broker = await brokers.join("north", seconds=60)
        proxy.swallow_answers()
        with pytest.raises(errors.RequestTimeout):
            await brokers.renew(broker, seconds=1.0)
        proxy.let_through()
        assert await brokers.renew(broker, seconds=60) is not None


async def test_a_slow_call_is_not_mistaken_for_a_frozen_server(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "PROBE_PAUSE", 0.0)
    probes = count_calls(monkeypatch, pool_module, "require_suitable")
    holder = await asyncpg.connect(server)
    async with opened(server) as pool, listening(pool) as watching:
        async with holder.transaction():
            await holder.execute("LOCK TABLE stafette.brokers")
            slow = asyncio.create_task(pool.value(JOIN))
            await until(lambda: probes() > 20)
            assert not slow.done()
            assert not watching.done()
        assert await slow
    await holder.close()


async def test_a_server_that_freezes_between_log_in_and_first_call_is_given_up(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "ACQUIRE_SECONDS", 1.0)
    async with Proxy(server) as proxy:
        check = Pool._prepare

        async def freeze_second(pool: Pool, connection: Connection) -> None:
            if proxy.connections > 2:  # the first two are made when the pool is opened
                proxy.swallow_answers()
            await check(pool, connection)

        monkeypatch.setattr(Pool, "_prepare", freeze_second)
        pool = await Pool.open(through(proxy, server), connections=1)
        pool.terminate_all()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            with pytest.raises(errors.RequestTimeout) as late:
                await pool.value(JOIN)
        assert late.value.outcome == "not done"
        await pool.close()


def through(proxy: Proxy, url: str) -> str:
    """A server's URL, through a proxy."""
    before, _, rest = url.partition("@")
    return f"{before}@{proxy.address}/{rest.partition('/')[2]}"


def count_calls(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> Callable[[], int]:
    """Count the calls of a function from now on."""
    calls = 0
    original = getattr(module, name)

    def counted(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        return original(*arguments, **options)

    monkeypatch.setattr(module, name, counted)
    return lambda: calls


# A synchronous standby


@pytest.mark.slow
async def test_of_several_servers_the_one_that_takes_writes_is_used(pair: PostgresPair) -> None:
    standby_first = swapped(pair.url)
    async with opened(standby_first) as pool:
        assert await pool.value(JOIN)
    connection = await connect_any(f"{standby_first}?target_session_attrs=standby")
    assert await connection.fetchval("SELECT pg_is_in_recovery()")
    await connection.close()


def swapped(url: str) -> str:
    """A URL with its two servers the other way round."""
    before, _, rest = url.partition("@")
    servers, _, after = rest.partition("/")
    return f"{before}@{','.join(reversed(servers.split(',')))}/{after}"


@pytest.mark.slow
async def test_a_send_whose_wait_for_the_standby_is_cancelled_is_not_answered_as_done(pair: PostgresPair) -> None:
    settings = BrokerSettings(database=pair.url, port=0)
    async with (
        running(settings) as (_, port),
        await stafette.aio.connect(f"stafette://127.0.0.1:{port}", name="a") as a,
    ):
        await a.create_queue("jobs")
        pair.freeze_standby()
        sending = asyncio.create_task(a.send("jobs", b"on the primary alone"))
        while not sending.done():  # the broker's own calls wait too
            pair.query(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
                " WHERE wait_event = 'SyncRep' AND query LIKE '%send_batch%'"
            )
            await glance()
        with pytest.raises(errors.Unavailable, match="standby") as unclear:
            await sending
        assert unclear.value.outcome == "unknown"
        pair.thaw()
        message = await a.receive("jobs")
        assert message is not None


@pytest.mark.slow
async def test_a_call_that_times_out_while_it_waits_for_the_standby_is_unknown(
    pair: PostgresPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(pair.url) as pool:
        pair.freeze_standby()
        with pytest.raises(errors.RequestTimeout) as late:
            await pool.fetch(JOIN, seconds=0.5)
        assert late.value.outcome == "unknown"
        pair.thaw()
        assert await pool.value("SELECT count(*) FROM stafette.brokers") == 1  # it was committed, here
        assert await pool.value(JOIN)


@pytest.mark.slow
@pytest.mark.parametrize("end", [PostgresPair.kill, PostgresPair.freeze], ids=["killed", "frozen"])
async def test_a_standby_is_promoted_under_load_and_nothing_is_lost(
    pair: PostgresPair, tmp_path: Path, end: Callable[[PostgresPair], None]
) -> None:
    history = History()
    async with broker_processes(pair.url, tmp_path / "data") as processes:
        broker = await processes.start()
        async with under_load(history, broker.url):
            await history.more_answers(300)
            end(pair)
            pair.promote()
            await history.more_answers(300)
        async with await stafette.aio.connect(broker.url, name="reader") as reader:
            await history.check(pair.new_url, reader)
