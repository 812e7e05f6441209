"""Both tiers record every request, once, and agree on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import stafette.aio
from stafette.broker.limits import Limits
from stafette.broker.server import BrokerSettings, running
from stafette.client.aio import Client
from stafette.client.tracing import INTENDED
from stafette.errors import Overloaded, QueueNotFound, Unavailable
from stafette.trace import PHASES, Trace
from tests.support.waiting import until

Row = dict[str, Any]
Traced = Callable[..., Awaitable[list[Row]]]


@pytest.fixture
async def traced(database: str, tmp_path: Path) -> Traced:
    """Lets clients work with a broker, all traced; returns the rows."""

    async def run(work: Callable[[Callable[[str], Awaitable[Client]]], Awaitable[None]], **limits: int) -> list[Row]:
        settings = BrokerSettings(database=database, port=0, limits=Limits(**limits), trace=tmp_path, run="r-1")
        trace = Trace(tmp_path, run="r-1", tier="client", node="load-1")
        async with running(settings) as (_, port):
            clients: list[Client] = []

            async def connect(name: str) -> Client:
                url = f"stafette://127.0.0.1:{port}"
                clients.append(await stafette.aio.connect(url, name=name, trace=trace))
                return clients[-1]

            await work(connect)
            for client in clients:
                await client.close()
        trace.close()
        rows = [row for file in sorted(tmp_path.glob("*.parquet")) for row in pq.read_table(file).to_pylist()]
        return sorted(rows, key=lambda row: row["start_ns"])

    return run


def of(rows: list[Row], tier: str) -> dict[tuple[str, int], Row]:
    found = [row for row in rows if row["tier"] == tier]
    joined = {(row["client"], row["request"]): row for row in found}
    assert len(joined) == len(found)
    return joined


async def test_every_request_has_one_row_in_each_tier_and_they_agree(traced: Traced) -> None:
    async def work(connect: Callable[[str], Awaitable[Client]]) -> None:
        alice, bob = await connect("alice"), await connect("bob")
        await alice.create_queue("jobs")
        await alice.create_queue("audit")
        await asyncio.gather(*(alice.send(["jobs", "audit"], b"x" * size) for size in range(20)))
        assert len(await bob.receive_many("jobs", 5)) == 5
        async with bob.lease("jobs") as lease:
            assert lease is not None
        assert await bob.receive("jobs", sender="bob") is None
        await bob.echo(b"hello")
        await bob.waiting_queues()
        assert await bob.purge("audit") == 20
        with pytest.raises(QueueNotFound):
            await alice.send("nowhere", b"")

    rows = await traced(work)
    client, broker = of(rows, "client"), of(rows, "broker")
    assert client.keys() == broker.keys()
    assert len(client) == 30
    for key, mine in client.items():
        theirs = broker[key]
        for column in ("run", "operation", "outcome", "messages", "bytes"):
            assert mine[column] == theirs[column], column
        assert sum(theirs[phase] for phase in PHASES) == theirs["end_ns"] - theirs["start_ns"]
        assert 0 < theirs["end_ns"] - theirs["start_ns"] < mine["end_ns"] - mine["start_ns"]
        assert mine["intended_ns"] == mine["start_ns"]
        assert (mine["database_ns"], mine["parked_ns"], mine["batch"]) == (None, None, None)
        assert min(mine["queue_ns"], mine["encode_ns"], mine["read_ns"]) >= 0
    told = {(row["operation"], row["outcome"], row["messages"]) for row in client.values()}
    assert told >= {
        ("send", "ok", 2), ("receive", "ok", 5), ("receive", "empty", 0), ("lease", "ok", 1), ("ack", "ok", 1),
        ("echo", "ok", 0), ("waiting_queues", "ok", 0), ("purge", "ok", 20), ("send", "QueueNotFound", 0),
        ("create_queue", "ok", 0),
    }  # fmt: skip
    assert max(row["batch"] for row in broker.values() if row["operation"] == "send") > 1
    assert {row["database_ns"] for row in broker.values() if row["operation"] == "echo"} == {0}


async def test_the_wait_of_a_read_is_told_apart_from_the_work_on_it(traced: Traced) -> None:
    async def work(connect: Callable[[str], Awaitable[Client]]) -> None:
        alice, bob = await connect("alice"), await connect("bob")
        await alice.create_queue("jobs")
        assert await bob.receive("jobs", wait=0.2) is None
        reading = asyncio.create_task(bob.receive("jobs", wait=10))
        await bob.echo(b"")  # answered after the read went to the database, so it is parked, or will be at once
        await alice.send("jobs", b"")
        assert await reading is not None

    rows = await traced(work)
    empty, found = (row for row in rows if row["tier"] == "broker" and row["operation"] == "receive")
    assert empty["outcome"] == "empty"
    assert 0 < empty["parked_ns"] < empty["end_ns"] - empty["start_ns"]
    assert found["outcome"] == "ok"
    for row in (empty, found):
        assert sum(row[phase] for phase in PHASES) == row["end_ns"] - row["start_ns"]


async def test_refused_requests_are_recorded_with_the_reason(traced: Traced) -> None:
    async def work(connect: Callable[[str], Awaitable[Client]]) -> None:
        alice = await connect("alice")
        await alice.create_queue("jobs")
        answers = await asyncio.gather(*(alice.send("jobs", b"") for _ in range(50)), return_exceptions=True)
        assert any(isinstance(answer, Overloaded) for answer in answers)

    rows = await traced(work, in_flight=10)
    client, broker = of(rows, "client"), of(rows, "broker")
    assert {key: row["outcome"] for key, row in client.items()} == {key: row["outcome"] for key, row in broker.items()}
    assert {row["outcome"] for row in client.values()} == {"ok", "Overloaded"}


async def test_response_times_count_from_the_intended_start(traced: Traced) -> None:
    second = 10**9

    async def late(client: Client) -> None:
        INTENDED.set(time.perf_counter_ns() - second)
        await client.echo(b"late")
        await client.echo(b"next")

    async def work(connect: Callable[[str], Awaitable[Client]]) -> None:
        alice = await connect("alice")
        await asyncio.create_task(late(alice))

    rows = await traced(work)
    first, second_row = of(rows, "client").values()
    assert first["start_ns"] - first["intended_ns"] >= second
    assert second_row["start_ns"] == second_row["intended_ns"]


async def test_what_was_not_answered_is_recorded_too(database: str, tmp_path: Path) -> None:
    trace = Trace(tmp_path, run="r-1", tier="client", node="load-1")
    async with running(BrokerSettings(database=database, port=0)) as (runtime, port):
        url = f"stafette://127.0.0.1:{port}"
        alice = await stafette.aio.connect(url, name="alice", trace=trace, timeout=5.0)
        await alice.create_queue("jobs")
        reading = asyncio.create_task(alice.receive("jobs", wait=60))
        await alice.echo(b"")
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        lost = asyncio.create_task(alice.receive("jobs", wait=60))
        await alice.echo(b"")
        for session in list(runtime.core.connected):
            session.connection.abort()
        await until(lambda: len(runtime.core.waiting) == 1, lambda: alice.echo(b""))  # through a new connection
        lost.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lost
    with pytest.raises(Unavailable):
        await alice.send("jobs", b"")  # nobody is there
    await alice.close()
    trace.close()

    rows = [row for file in tmp_path.glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    told = [(row["operation"], row["outcome"]) for row in rows]
    assert told.count(("receive", "Cancelled")) == 2
    assert told.count(("receive", "Lost")) == 1
    [unsent] = [row for row in rows if row["operation"] == "send"]
    assert (unsent["outcome"], unsent["request"]) == ("Unavailable", 0)
    sent = [row["request"] for row in rows if row["request"]]
    assert len(sent) == len(set(sent))
