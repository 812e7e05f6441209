"""Sessions and hellos end to end: what coming back costs, who may, and where a session was before."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

import stafette
from stafette import errors
from stafette.broker import authentication, secrets
from stafette.broker.core import hellos
from stafette.broker.runtime import Runtime
from stafette.database import clients as database_clients
from stafette.database.clients import Claim, Registration, Taken
from stafette.database.console import Console
from stafette.database.store import Store
from stafette.model import Selection
from stafette.protocol import messages as wire
from tests.support.actors import ADMIN
from tests.support.broker_processes import broker_processes
from tests.support.brokers import Connect, StartBroker, when_it_works
from tests.support.client_internals import names_online, transport_of
from tests.support.protocol_client import ProtocolClient
from tests.support.waiting import until

SECRET = "correct horse"
STRANGERS = 40


@pytest.fixture
def digests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every secret that scrypt has been applied to."""
    digested: list[str] = []
    digest = secrets._digest

    def counted(secret: str, salt: bytes) -> bytes:
        digested.append(secret)
        return digest(secret, salt)

    monkeypatch.setattr(secrets, "_digest", counted)
    return digested


@pytest.fixture
async def admin(database: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection to the database, beside brokers."""
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


@pytest.fixture
async def beside(any_database: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """A connection to the database, beside a store."""
    connection = await asyncpg.connect(any_database)
    yield connection
    await connection.close()


async def lapse(admin: asyncpg.Connection[asyncpg.Record], broker: Runtime) -> None:
    """A broker is dead, as far as the others can see."""
    await admin.execute("UPDATE stafette.brokers SET alive_until = now() WHERE id = $1", broker.broker_id)


# What a hello costs


async def test_a_secret_is_hashed_once_for_a_newcomer_and_compared_once_for_others(
    brokers: StartBroker, connect: Connect, digests: list[str]
) -> None:
    runtime, url = await brokers()
    alice = await connect("alice", url, secret=SECRET)
    assert digests == [SECRET]
    await alice.close()
    await connect("alice", url, secret=SECRET)
    assert digests == [SECRET] * 2
    with pytest.raises(errors.NotAuthenticated, match="client alice has another secret"):
        await connect("alice", url, secret="wrong")
    with pytest.raises(errors.NotAuthenticated, match="client alice has another secret"):
        await connect("alice", url)
    await connect("bob", url)
    with pytest.raises(errors.NotAuthenticated, match="client bob has no secret"):
        await connect("bob", url, secret=SECRET)
    assert digests == [SECRET, SECRET, "wrong"]
    assert runtime.core.metrics.secrets_checked == 3


@pytest.mark.parametrize("end", ["connection lost", "broker dead", "broker stopped"])
async def test_who_comes_back_with_its_number_needs_no_scrypt(
    brokers: StartBroker, connect: Connect, admin: asyncpg.Connection[asyncpg.Record], digests: list[str], end: str
) -> None:
    here, url_here = await brokers()
    there, url_there = await brokers()
    alice = await connect("alice", f"{url_here},{url_there.removeprefix('stafette://')}", secret=SECRET)
    if end == "connection lost":
        transport_of(alice)._writer.abort()
        await until(lambda: names_online(here) == set())
    elif end == "broker dead":
        await lapse(admin, here)
        transport_of(alice)._writer.abort()
    else:
        await here.drain()
        await here.wait_until_disconnected()
        await here.leave()
    await alice.ping()
    assert names_online(here) | names_online(there) == {"alice"}
    assert digests == [SECRET]


async def test_hellos_that_come_together_share_their_calls(
    brokers: StartBroker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, url = await brokers()
    sizes: list[int] = []
    plain = authentication.open_sessions

    async def counted(pending: list[hellos.PendingHello], *rest: object) -> object:
        sizes.append(len(pending))
        return await plain(pending, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(authentication, "open_sessions", counted)
    await asyncio.gather(*(connect(f"client {number}", url) for number in range(100)))
    assert sum(sizes) == 100
    assert len(sizes) < 50


async def test_one_bad_hello_is_its_own_fault(brokers: StartBroker) -> None:
    _, url = await brokers()
    peers = [await ProtocolClient.connect(url) for _ in range(6)]
    names = ["first", "nul\0", "bell\x07", "", "x" * 201, "last"]
    for peer, name in zip(peers, names, strict=True):
        peer.send(wire.Hello(1, wire.VERSION, name))
    answers = [await peer.answer() for peer in peers]
    assert [type(answer) for answer in answers] == [wire.Welcome, *[wire.Failed] * 4, wire.Welcome]
    for peer in peers:
        await peer.close()


# Strangers


async def test_what_strangers_send_behind_their_hello_takes_no_room_from_clients(
    brokers: StartBroker, connect: Connect
) -> None:
    runtime, url = await brokers(in_flight=100)
    await connect("victim", url, secret=SECRET)
    alice = await connect("alice", url)
    strangers = [await ProtocolClient.connect(url) for _ in range(STRANGERS)]
    for number, stranger in enumerate(strangers):
        stranger.send(wire.Hello(1, wire.VERSION, "victim", secret=f"guess {number}"))
        stranger.send(*(wire.ListQueues(2 + request) for request in range(900)))
    await until(lambda: runtime.core.hellos.pending >= STRANGERS // 2, alice.ping)
    newcomer = await connect("newcomer", url)
    for _ in range(20):
        await asyncio.gather(alice.ping(), newcomer.queues())
    assert runtime.core.admission.active == 0
    assert runtime.core.admission.refusals.get("Overloaded", 0) == 0
    for stranger in strangers:
        stranger.abort()


async def test_the_oldest_stranger_gives_way_to_a_newcomer(
    brokers: StartBroker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hellos, "SILENT_CONNECTIONS", 5)
    monkeypatch.setattr(hellos, "SILENT_SECONDS", 0.0)
    runtime, url = await brokers()
    strangers = []
    for number in range(5):
        strangers.append(await ProtocolClient.connect(url))
        await until(lambda number=number: len(runtime.core.connected) == number + 1)  # type: ignore[misc]
    newcomer = await connect("newcomer", url)
    assert await strangers[0].rest() == []
    assert runtime.core.admission.refusals == {"gave way": 1}
    await newcomer.ping()
    strangers[1].send(wire.Hello(1, wire.VERSION, "patient"))
    assert isinstance(await strangers[1].answer(), wire.Welcome)
    for stranger in strangers:
        await stranger.close()


async def test_more_behind_a_hello_than_a_frame_may_have_before_it_is_served_after_it(brokers: StartBroker) -> None:
    _, url = await brokers()
    peer = await ProtocolClient.connect(url)
    payloads = [bytes([number]) * 10_000 for number in range(40)]
    peer.send(wire.Hello(1, wire.VERSION, "eager"), *(wire.Echo(2 + n, data) for n, data in enumerate(payloads)))
    assert isinstance(await peer.answer(), wire.Welcome)
    assert [await peer.answer() for _ in payloads] == [wire.Echoed(2 + n, data) for n, data in enumerate(payloads)]
    await peer.close()


# Who may continue a session


async def joined(store: Store, *names: str) -> list[int]:
    return [await store.brokers.join(name, seconds=1000) for name in names]


async def proved(store: Store, session: int | None) -> bool:
    [identity] = await store.clients.register_batch([Registration("alice", registers=False, session=session)])
    assert isinstance(identity, database_clients.Identity)
    return identity.proved


async def take(store: Store, broker: int, claim: Claim) -> Taken:
    [taken] = await store.clients.take_sessions([claim], broker)
    assert isinstance(taken, Taken), taken
    return taken


async def test_the_number_of_a_session_stands_for_its_secret_until_that_is_over(store: Store) -> None:
    alice = await store.clients.register("alice", secret="hash")
    [here] = await joined(store, "here")
    assert not await proved(store, 7)
    taken = await take(store, here, Claim(alice.id, "hash", 7))
    assert [await proved(store, number) for number in (7, 8, None)] == [True, False, False]
    await store.clients.release_sessions([(alice.id, taken.token)])
    assert await proved(store, 7)
    await store.pool.fetch("UPDATE stafette.sessions SET ended_at = now() - stafette.session_lifetime()")
    assert not await proved(store, 7)
    [refused] = await store.clients.take_sessions([Claim(alice.id, None, 7)], here)
    assert isinstance(refused, errors.TryAgain)


@pytest.mark.parametrize(
    "end", ["bye", "another secret", "disconnected", "deleted", "another number", "broker forgotten"]
)
@pytest.mark.parametrize("live", [True, False])
async def test_what_ends_the_right_to_continue_a_session(store: Store, any_database: str, end: str, live: bool) -> None:
    console = Console(store.pool)
    alice = await store.clients.register("alice", secret="hash")
    here, there = await joined(store, "here", "there")
    taken = await take(store, here, Claim(alice.id, "hash", 7))
    if not live and end != "bye":
        await store.brokers.leave(here)
    assert await proved(store, 7)
    if end == "bye":
        await store.clients.release_sessions([(alice.id, taken.token)], for_good=True)
    elif end == "another secret":
        await console.set_secret(ADMIN, "alice", "another hash")
    elif end == "disconnected":
        assert await console.disconnect(ADMIN, "alice") is live
    elif end == "deleted":
        await store.brokers.leave(here)
        await console.delete_client(ADMIN, "alice")
        await store.clients.register("alice", secret="hash of another")
    elif end == "another number":
        await store.brokers.leave(here)
        await take(store, there, Claim(alice.id, "hash", 8))
    else:
        await store.pool.fetch("UPDATE stafette.brokers SET alive_until = now() - stafette.session_lifetime()")
        await store.pool.fetch(
            "UPDATE stafette.sessions SET ended_at = now() - stafette.session_lifetime() WHERE ended_at IS NOT NULL"
        )
    assert not await proved(store, 7)


async def test_a_number_is_not_in_the_database_as_it_is(store: Store) -> None:
    alice = await store.clients.register("alice")
    [here] = await joined(store, "here")
    await take(store, here, Claim(alice.id, None, 1234567890123456789))
    [[row]] = await store.pool.fetch("SELECT s::text FROM stafette.sessions AS s")
    assert "1234567890123456789" not in row


async def test_sessions_without_a_number_are_not_kept(store: Store) -> None:
    alice = await store.clients.register("alice")
    [here] = await joined(store, "here")
    taken = await take(store, here, Claim(alice.id))
    await store.clients.release_sessions([(alice.id, taken.token)])
    assert await store.pool.value("SELECT count(*) FROM stafette.sessions") == 0


# Reads of the old connection


async def test_taking_over_waits_for_reads_of_the_old_broker_and_only_who_is_concerned_does(
    store: Store, beside: asyncpg.Connection[asyncpg.Record]
) -> None:
    alice, bob = await store.clients.register("alice"), await store.clients.register("bob")
    here, there = await joined(store, "here", "there")
    before = await take(store, here, Claim(alice.id, None, 7))
    reading = beside.transaction()
    await reading.start()
    await beside.execute("SELECT stafette.hold_sessions($1)", here)
    refused, opened = await store.clients.take_sessions([Claim(alice.id, None, 7), Claim(bob.id)], there)
    assert isinstance(refused, errors.TryAgain)
    assert isinstance(opened, Taken)
    assert await store.brokers.sessions(here) == {alice.id: before.token}
    await reading.rollback()
    after = await take(store, there, Claim(alice.id, None, 7))
    assert (after.left_broker, after.left_token) == (here, before.token)


async def test_a_read_that_a_dead_broker_cannot_take_is_given_back(store: Store, any_database: str) -> None:
    alice = await store.clients.register("alice")
    here, there = await joined(store, "here", "there")
    await take(store, here, Claim(alice.id, None, 7))
    stuck = await asyncpg.connect(any_database)
    reading = stuck.transaction()
    await reading.start()
    await stuck.execute("SELECT stafette.hold_sessions($1)", here)
    await store.pool.fetch("UPDATE stafette.brokers SET alive_until = now() WHERE id = $1", here)

    async def again() -> Taken:
        [answer] = await store.clients.take_sessions([Claim(alice.id, None, 7)], there)
        if isinstance(answer, errors.StafetteError):
            raise answer
        return answer

    await when_it_works(again, errors.TryAgain)
    await until(stuck.is_closed)


async def test_a_session_that_is_refused_holds_up_no_reads(
    store: Store, beside: asyncpg.Connection[asyncpg.Record]
) -> None:
    alice = await store.clients.register("alice")
    here, there = await joined(store, "here", "there")
    await take(store, here, Claim(alice.id, None, 7))
    async with beside.transaction():
        await beside.execute("SELECT stafette.hold_sessions($1)", here)
        [refused] = await store.clients.take_sessions([Claim(alice.id, None, 8)], there)
    assert isinstance(refused, errors.AlreadyOnline)


async def test_the_parked_read_of_a_session_that_went_on_elsewhere_takes_nothing(
    brokers: StartBroker, connect: Connect
) -> None:
    here, url_here = await brokers()
    _, url_there = await brokers()
    bob = await connect("bob", url_there)
    await bob.create_queue("jobs")
    old = await ProtocolClient.open(url_here, "alice", session=7)
    old.send(wire.Receive(2, Selection("jobs"), wait=600.0))
    await until(lambda: len(here.core.waiting) == 1, bob.ping)

    new = await ProtocolClient.open(url_there, "alice", session=7)
    assert await old.rest() == []  # it was told, and hung up without a word
    assert len(here.core.waiting) == 0
    for number in range(5):
        await bob.send("jobs", f"{number}")
    new.send(wire.Receive(2, Selection("jobs", count=10)))
    answer = await new.answer()
    assert isinstance(answer, wire.Messages)
    assert [message.text for message in answer.messages] == ["0", "1", "2", "3", "4"]
    await old.close()
    await new.close()


async def test_a_frozen_broker_that_comes_back_takes_nothing_for_a_client_that_left_it(
    database: str, admin: asyncpg.Connection[asyncpg.Record], tmp_path: Path
) -> None:
    async with broker_processes(database, tmp_path) as processes:
        frozen, other = await asyncio.gather(processes.start(), processes.start())
        old = await ProtocolClient.open(frozen.url, "alice", session=7)
        async with await stafette.aio.connect(other.url, name="bob") as bob:
            await bob.create_queue("jobs")
            old.send(wire.Receive(2, Selection("jobs"), wait=600.0))
            await until(lambda: admin.fetchval("SELECT count(*) FROM stafette.parked"))
            frozen.signal(signal.SIGSTOP)
            new = await ProtocolClient.open(other.url, "alice", session=7)
            await bob.send("jobs", b"for the new connection")
            frozen.signal(signal.SIGCONT)
            assert await old.rest() == []
            new.send(wire.Receive(2, Selection("jobs"), wait=30.0))
            answer = await new.answer()
            assert isinstance(answer, wire.Messages)
            assert [message.text for message in answer.messages] == ["for the new connection"]
            await old.close()
            await new.close()
