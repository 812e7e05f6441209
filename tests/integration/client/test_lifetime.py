"""How a client begins and ends, and TLS."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest

import stafette
from stafette import errors
from stafette.broker.server import BrokerSettings, running
from tests.support.brokers import Connect
from tests.support.certificates import make_certificate
from tests.support.waiting import TIMEOUT_SECONDS, let_others_run, until

# The life of a client


async def test_closing_ends_what_waits_and_only_that(connect: Connect) -> None:
    alice = await connect("alice")
    await alice.create_queue("jobs")
    waiting = asyncio.create_task(alice.receive("@alice", wait=60))
    await alice.ping()
    sending = [asyncio.create_task(alice.send("jobs", b"")) for _ in range(20)]
    await let_others_run()
    await asyncio.gather(alice.close(), alice.close())
    await alice.close()
    assert all([await sent for sent in sending])
    with pytest.raises(errors.Unavailable, match="closed"):
        await waiting
    for attempt in (alice.ping(), alice.send("jobs", b""), alice.receive("jobs", wait=60)):
        with pytest.raises(errors.InvalidRequest, match="closed"):
            await attempt


async def test_a_lease_outlives_its_session(connect: Connect) -> None:
    alice = await connect("alice")
    await alice.create_queue("jobs")
    await alice.send("jobs", b"work")
    lease = await alice.lease("jobs")
    assert lease is not None
    await alice.close()
    again = await connect("alice")
    assert await again.receive("jobs") is None
    await again.ack(lease.message.id, lease._token)


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
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("broker", "stranger"):
        make_certificate(folder, name)
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


async def test_a_tls_handshake_that_does_not_come_is_given_up(
    database: str, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stafette.broker.server.HANDSHAKE_SECONDS", 0.05)
    settings = BrokerSettings(
        database, port=0, tls_certificate=certificates / "broker.pem", tls_key=certificates / "broker.key"
    )
    async with running(settings) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


async def test_tls_to_a_broker_without(broker: str, connect: Connect) -> None:
    with pytest.raises(errors.Unavailable):
        await connect("alice", broker.replace("stafette://", "stafettes://"), timeout=5)
