"""The load process as its runner sees it: a real process over pipes, against a real broker or the database alone."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from stafette.database.store import Store
from tests.support.brokers import Connect, StartBroker
from tests.support.waiting import TIMEOUT_SECONDS

PARKED_SECONDS = 10.0
"""How long a read waits that must not hold up the end."""

QUEUES = ["q-1", "q-2"]
ALICES = {"alice": {"behaviour": "alice", "count": 5, "parameters": {"size": 200}}}


class Worker:
    """One load process and what it says."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    def tell(self, line: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line).encode() + b"\n")

    async def hears(self) -> dict[str, Any]:
        """The next event."""
        assert self.process.stdout is not None
        async with asyncio.timeout(TIMEOUT_SECONDS):
            line = await self.process.stdout.readline()
        assert line, "the worker ended without a word"
        event: dict[str, Any] = json.loads(line)
        return event

    def start(self, after: float = 0.05) -> None:
        self.tell({"start_at_ns": time.time_ns() + int(after * 1e9)})

    async def rest(self) -> list[dict[str, Any]]:
        """All further events, to the end of a run that goes well."""
        events = [await self.hears()]
        while events[-1]["event"] == "progress":
            events.append(await self.hears())
        assert events[-1]["event"] == "done", events[-1]
        assert await self.ended() == 0
        return events

    def hang_up(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def ended(self) -> int:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await self.process.wait()


@asynccontextmanager
async def working(job: dict[str, Any]) -> AsyncIterator[Worker]:
    """A worker with its job; it ends with the test, and pytest shows its log when that fails."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "stafette.lab.running.worker",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    worker = Worker(process)
    try:
        worker.tell(job)
        yield worker
    finally:
        if process.returncode is None:
            process.kill()
        _, log = await process.communicate()
        print(log.decode())


@pytest.fixture
async def job(database: str, broker: str, tmp_path: Path, connect: Connect) -> dict[str, Any]:
    """A job for one worker; its queues are there."""
    operator = await connect("operator")
    for queue in QUEUES:
        await operator.create_queue(queue)
    return {
        "run": "test-0001/001-single-r1", "url": broker, "database": database, "seed": 12345, "worker": 0,
        "workers": 1, "node": "load-1", "traces": str(tmp_path / "traces"), "behaviours": str(tmp_path),
        "queues": QUEUES, "seconds": 1.2, "window": [0.2, 1.0], "groups": dict(ALICES),
    }  # fmt: skip


def rows(job: dict[str, Any], node: str = "load-1") -> list[dict[str, Any]]:
    files = sorted(Path(job["traces"]).glob(f"client-{node}-*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


async def test_a_run_from_job_to_done(job: dict[str, Any], database: str) -> None:
    async with working(job) as worker:
        assert await worker.hears() == {"event": "ready", "clients": 5}
        start_at = time.time_ns() + 50_000_000
        worker.tell({"start_at_ns": start_at})
        progress, done = await worker.rest()
    assert progress["event"] == "progress"
    assert progress["errors"] == 0
    assert progress["active"] == 5
    assert 0 < progress["steps"] <= progress["requests"] < done["requests"]
    assert progress["response_ms"] > 0
    assert done["errors"] == {}
    assert done["dropped"] == 0
    assert 0 < done["cpu_share"] < 2
    assert done["lag_ms"]["max"] >= done["lag_ms"]["p99"] > 0
    assert done["late_ms"] == {"mean": 0, "p99": 0, "max": 0}
    trace = rows(job)
    assert len(trace) == done["requests"] == done["rows"] == done["steps"]
    assert {row["client"] for row in trace} == {f"alice-{number}" for number in range(1, 6)}
    assert {row["operation"] for row in trace} == {"send"}
    assert start_at <= min(row["start_ns"] for row in trace)
    assert max(row["start_ns"] for row in trace) < start_at + 1.3e9
    [report] = Path(job["traces"]).glob("client-load-1-*.json")
    assert json.loads(report.read_text())["rows"] == len(trace)
    async with await Store.open(database) as store:
        overview = await store.monitoring.overview()
    assert overview.ready == len(trace)
    assert overview.online == 1  # the operator; the others have said good-bye


async def test_an_open_loop_and_a_ramp(job: dict[str, Any]) -> None:
    job["groups"] = {
        "alice": {**ALICES["alice"], "rate": 100.0, "arrivals": "constant", "ramp": {"clients": 2, "every": 0.4}}
    }
    job |= {"seconds": 1.195, "window": [0.0, 1.195]}
    async with working(job) as worker:
        await worker.hears()
        worker.start()
        *_, done = await worker.rest()
    trace = sorted(rows(job), key=lambda row: int(row["intended_ns"]))
    assert len(trace) == 16 + 32 + 40  # 40, 80 and 100 a second
    apart = {
        round((later["intended_ns"] - earlier["intended_ns"]) / 1e6, 1) for earlier, later in itertools.pairwise(trace)
    }
    assert {25.0, 12.5, 10.0} <= apart
    assert {row["client"] for row in trace[:16]} == {"alice-1", "alice-2"}
    assert all(row["intended_ns"] <= row["start_ns"] for row in trace)
    late = [(row["start_ns"] - row["intended_ns"]) / 1e6 for row in trace]
    assert done["late_ms"]["max"] == pytest.approx(max(late), abs=1.0)


async def test_two_workers_share_the_clients_and_the_brokers(job: dict[str, Any], brokers: StartBroker) -> None:
    nodes = [await brokers() for _ in range(3)]
    job["url"] = ",".join([nodes[0][1], *(url.removeprefix("stafette://") for _, url in nodes[1:])])
    job["groups"] = {**ALICES, "bob": {"behaviour": "bob", "count": 4, "think_time": {"exponential": 0.001}}}
    async with (
        working({**job, "workers": 2}) as first,
        working({**job, "workers": 2, "worker": 1, "node": "load-2"}) as second,
    ):
        assert await first.hears() == {"event": "ready", "clients": 5}
        assert await second.hears() == {"event": "ready", "clients": 4}
        assert [len(runtime.core.sessions) for runtime, _ in nodes] == [3, 3, 3]
        first.start()
        second.start()
        await asyncio.gather(first.rest(), second.rest())
    of_first, of_second = ({row["client"] for row in rows(job, node)} for node in ("load-1", "load-2"))
    assert of_first == {"alice-1", "alice-3", "alice-5", "bob-2", "bob-4"}
    assert of_second == {"alice-2", "alice-4", "bob-1", "bob-3"}


async def test_the_database_alone(job: dict[str, Any]) -> None:
    job["groups"] = {"direct": {"behaviour": "database_only", "count": 3}}
    job["url"] = "stafette://127.0.0.1:1"
    async with working(job) as worker:
        assert await worker.hears() == {"event": "ready", "clients": 3}
        worker.start()
        *_, done = await worker.rest()
    assert done["errors"] == {}
    trace = rows(job)
    assert len(trace) == done["requests"]
    counts = Counter(row["client"] for row in trace)
    assert set(counts) == {"direct-1", "direct-2", "direct-3"}
    assert {row["operation"] for row in trace} == {"send", "receive", "peek", "waiting_queues"}
    assert {row["outcome"] for row in trace} == {"ok", "empty"}
    for row in trace:
        assert row["request"] == 0
        assert row["start_ns"] + row["queue_ns"] + row["database_ns"] == row["end_ns"]
        assert row["messages"] == (row["outcome"] == "ok" and row["operation"] != "waiting_queues")


@pytest.mark.parametrize("moment", ["before the start", "under load"])
@pytest.mark.parametrize("end", ["stdin", "SIGTERM"])
async def test_a_worker_does_not_outlive_its_runner(job: dict[str, Any], database: str, end: str, moment: str) -> None:
    job["seconds"] = 60.0
    job["groups"]["bob"] = {
        "behaviour": "bob",
        "count": 2,
        "parameters": {"wait": PARKED_SECONDS, "queues": ["@bob-1"]},
    }
    async with working(job) as worker:
        await worker.hears()
        if moment == "under load":
            worker.process.send_signal(signal.SIGINT)  # Ctrl-C is the runner's affair
            worker.start()
            assert (await worker.hears())["event"] == "progress"
        asked = time.monotonic()
        if end == "stdin":
            worker.hang_up()
        else:
            worker.process.terminate()
        assert await worker.ended() == 1
        assert time.monotonic() - asked < PARKED_SECONDS / 2
    async with await Store.open(database) as store:
        assert (await store.monitoring.overview()).online == 1  # the operator


STUCK = """
import time
from stafette.lab.behaviours import Behaviour

class Stuck(Behaviour):
    async def step(self):
        print("stuck", flush=True)
        time.sleep(60)

class Broken(Behaviour):
    async def step(self):
        print("here")
        raise ZeroDivisionError("by nought")

class Unready(Behaviour):
    async def begin(self):
        await self.client.send("nowhere", b"")
"""


async def test_not_even_when_a_behaviour_holds_up_everything(job: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(STUCK)
    job["groups"] = {"own": {"behaviour": "own.py:Stuck", "count": 1}}
    async with working(job) as worker:
        await worker.hears()
        worker.start()
        assert worker.process.stderr is not None
        assert await worker.process.stderr.readline() == b"stuck\n"
        asked = time.monotonic()
        worker.hang_up()
        assert await worker.ended() == 1
        assert time.monotonic() - asked < PARKED_SECONDS / 2


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"groups": {"own": {"behaviour": "own.py:Broken", "count": 1}}}, "own.py:Broken failed as own-1: ZeroDiv"),
        ({"groups": {"own": {"behaviour": "own.py:Unready", "count": 1}}}, "own-1 could not begin: .*nowhere"),
        ({"groups": {"a": {"behaviour": "alice", "count": 1, "parameters": {"colour": 1}}}}, "clients.a.colour"),
        ({"groups": {"a": {"behaviour": "alice", "count": 1, "think_time": -1}}}, "clients.a.think_time"),
        ({"url": "stafette://127.0.0.1:1"}, "alice-[1-5] could not connect: cannot reach a broker"),
        ({"colour": "red"}, "cannot read the job that the runner sent: .*colour"),
    ],
    ids=["defect", "begin", "parameter", "think time", "no broker", "job"],
)
async def test_what_ends_a_worker_is_said_in_a_sentence(
    job: dict[str, Any], tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    (tmp_path / "own.py").write_text(STUCK)
    async with working({**job, "seconds": 60.0, **change}) as worker:
        event = await worker.hears()
        if event["event"] == "ready":
            worker.start()
            event = await worker.hears()
        assert event["event"] == "failed"
        assert re.search(sentence, event["sentence"])
        assert await worker.ended() == 1
