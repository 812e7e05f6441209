"""The runner: real brokers, real load processes, a real database; whole runs, and runs that go wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

import psutil
import pytest

import stafette
from stafette.database.store import Store
from stafette.errors import InvalidRequest
from stafette.lab.running import runner
from stafette.lab.series import series_folder
from tests.support.folder_processes import processes_of
from tests.support.laboratory import PAIR, PAUSE, Laboratory, checks, rows, trial

pytestmark = pytest.mark.slow


@pytest.fixture
def laboratory(tmp_path: Path, new_database: str) -> Laboratory:
    return Laboratory(tmp_path, new_database)


async def test_a_run_leaves_all_that_somebody_else_needs_to_check_it(laboratory: Laboratory) -> None:
    busy = PAIR.replace(PAUSE, "")  # a pause that is cut short or drawn out would show in Little's law
    text = trial(busy, system="brokers = 2\nworkers = 2\nload_processes = 2", duration=2.0)
    text = text.replace("queues = 3", "queues = 3\nmessages = 50")
    [record] = await laboratory.run(text)

    assert (record.state, record.why) == ("done", None)
    assert checks(record) == dict.fromkeys(checks(record), True)
    assert set(checks(record)) >= {"complete", "answered", "seen", "agreement", "messages", "generator"}
    assert record.verdict is not None
    assert record.verdict.valid
    assert record.summary is not None
    assert record.summary.overall.throughput_per_s > 0
    assert record.messages is not None
    assert record.messages.preloaded == 50
    assert set(record.processes) == {"broker-1", "broker-2", "load-1", "load-2"}
    assert record.database["fsync"] == "on"
    assert record.machines[0].facts.cores >= 1
    assert record.stafette == stafette.__version__

    folder = laboratory.runs / record.id.replace("/", "/runs/")
    traced = rows(folder / "traces")
    nodes = {"load-1", "load-2", "broker-1/1", "broker-1/2", "broker-2/1", "broker-2/2"}
    assert {json.loads(path.read_text())["node"] for path in (folder / "traces").glob("*.json")} == nodes
    assert {"load-1", "load-2"} < {row["node"] for row in traced} <= nodes  # a worker may have no client
    assert {row["run"] for row in traced} == {record.id}
    sampled = {row["at_ns"] for row in rows(folder / "samples" / "database.parquet")}
    assert record.load is not None
    assert min(sampled) < record.load.end_ns <= max(sampled)
    queues = rows(folder / "samples" / "queues.parquet")
    assert {row["queue"] for row in queues} <= {"q-1", "q-2", "q-3"}
    assert queues
    costs = rows(folder / "samples" / "processes.parquet")
    assert {row["process"] for row in costs} == set(record.processes)
    assert max(row["cpu_seconds"] for row in costs) > 0
    assert (folder / "logs" / "broker-1.log").read_text().count("has ended") == 2
    assert json.loads((folder / "run.json").read_text())["settings"]["clients"]["alice"]["count"] == 3
    assert not (laboratory.runs / "trial-0001" / "system").exists()
    phases = [progress.phase for progress in laboratory.progress]
    assert phases[0] == "prepare"
    assert phases[-1] == "check"
    assert "measure" in phases


async def test_in_an_open_loop_response_times_show_the_whole_second_that_a_broker_stood_still(
    laboratory: Laboratory,
) -> None:
    groups = '[clients.alice]\nbehaviour = "alice"\ncount = 4\nrate = 200.0\narrivals = "constant"\n'
    fault = '[[faults]]\nat = 1.0\npause = "broker-1"\nseconds = 1.0\n'
    [record] = await laboratory.run(trial(groups, duration=3.0, more=fault))

    assert record.state == "done"
    assert record.summary is not None
    assert record.summary.overall.max_ms is not None
    assert record.summary.overall.max_ms > 990
    folder = laboratory.runs / record.id.replace("/", "/runs/")
    times = [(row["end_ns"] - row["intended_ns"]) / 1e6 for row in rows(folder / "traces") if row["tier"] == "client"]
    [fault_record] = record.faults
    stood_still = (fault_record["end_ns"] - fault_record["start_ns"]) / 1e6
    assert stood_still > 990
    # 200 a second were to start while it stood still, the first waits all of the second, the last hardly at all. And
    # afterwards it may take as long again until nobody waits.
    for limit in (250, 500, 750):
        meanwhile = 0.2 * (stood_still - limit)
        assert meanwhile - 30 < sum(time > limit for time in times) < meanwhile + 0.2 * stood_still


async def test_a_saturated_load_generator_is_flagged(laboratory: Laboratory) -> None:
    (laboratory.folder / "busy.py").write_text(
        "import time\n"
        "from stafette.lab.behaviours import Behaviour\n"
        "class Busy(Behaviour):\n"
        "    async def step(self):\n"
        "        await self.client.echo(b'')\n"
        "        until = time.thread_time() + 0.005\n"
        "        while time.thread_time() < until: pass\n"
    )
    [record] = await laboratory.run(trial('[clients.busy]\nbehaviour = "busy.py:Busy"\ncount = 4\n', duration=2.0))

    assert record.verdict is not None
    assert not record.verdict.valid
    assert checks(record)["generator"] is False
    assert "the load generator was saturated" in record.verdict.sentences[0]
    assert "load-1 used" in record.verdict.sentences[0]


async def test_a_record_tells_how_many_steps_there_were_where_a_step_is_two_requests(laboratory: Laboratory) -> None:
    """Clients pause once per step: Little's law needs the steps, and the traces tell only the requests."""
    (laboratory.folder / "twice.py").write_text(
        "from stafette.lab.behaviours import Behaviour\n"
        "class Twice(Behaviour):\n"
        "    async def step(self):\n"
        "        await self.client.echo(b'')\n"
        "        await self.client.echo(b'')\n"
    )
    [record] = await laboratory.run(trial(f'[clients.twice]\nbehaviour = "twice.py:Twice"\ncount = 4\n{PAUSE}'))

    loop = record.closed_loop
    assert loop is not None
    assert (loop.clients, loop.think_time_s) == (4, 0.02)
    assert loop.steps_per_s is not None
    assert record.load is not None
    steps = loop.steps_per_s * record.load.seconds
    requests = sum(done.requests for done in record.workers.values())
    assert steps == pytest.approx(requests / 2)  # all steps that were begun have ended
    assert "littles law" in checks(record)


async def test_a_run_that_fails_is_kept_and_explained_and_the_others_are_made(laboratory: Laboratory) -> None:
    (laboratory.folder / "moody.py").write_text(
        "from stafette.lab.behaviours import Behaviour\n"
        "class Moody(Behaviour):\n"
        "    async def step(self):\n"
        "        if len(self.queues) == 2: raise ValueError('two is too many')\n"
        "        await self.client.echo(b'')\n"
    )
    sweep = (
        '[design]\nkind = "sweep"\norder = "given"\n[design.factors.queues]\nset = "preload.queues"\nlevels = [2, 1]\n'
    )
    text = trial('[clients.moody]\nbehaviour = "moody.py:Moody"\ncount = 2\n', more=sweep)
    failed, done = await laboratory.run(text)

    assert (failed.label, failed.state) == ("queues=2", "failed")
    assert failed.why is not None
    assert "load-1" in failed.why
    assert "two is too many" in failed.why
    assert (laboratory.runs / "trial-0001" / "runs" / "001-queues=2-r1" / "logs" / "load-1.log").exists()
    assert (done.label, done.state) == ("queues=1", "done")

    again = laboratory.begin(text)  # goes on with what is missing, and keeps what failed
    assert again.name == "trial-0001"
    (laboratory.runs / "trial-0001" / "moody.py").write_text(
        (laboratory.folder / "moody.py").read_text().replace("== 2", "== 99")
    )
    await runner.run_series(again, laboratory.report)
    assert [(run.label, run.state, run.folder) for run in again.record.runs] == [
        ("queues=2", "done", "001-queues=2-r1-again2"),
        ("queues=1", "done", "002-queues=1-r1"),
    ]
    assert again.record.state == "done"


async def test_a_broker_that_dies_ends_the_run_with_its_name(laboratory: Laboratory) -> None:
    begun = laboratory.begin(trial(PAIR, duration=60.0))
    making = asyncio.create_task(runner.run_series(begun, laboratory.report))
    await laboratory.under_load(making)
    [broker] = [process for process in processes_of(laboratory.runs) if "broker" in process.cmdline()]
    broker.kill()
    await making

    [record] = begun.runs
    assert record.state == "failed"
    assert record.why is not None
    assert record.why.startswith("broker-1 was killed by signal 9")
    assert not processes_of(laboratory.runs)


async def test_breaking_off_leaves_nothing_running_and_says_so(laboratory: Laboratory) -> None:
    begun = laboratory.begin(trial(PAIR, duration=60.0))
    making = asyncio.create_task(runner.run_series(begun, laboratory.report))
    await laboratory.under_load(making)
    assert processes_of(laboratory.runs)
    making.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await making

    assert not processes_of(laboratory.runs)
    [record] = begun.runs
    assert (record.state, record.why) == ("interrupted", "the run was interrupted")


async def test_repetitions_go_on_until_the_mean_is_known_well_enough_or_the_cap(laboratory: Laboratory) -> None:
    echo = '[clients.echo]\nbehaviour = "echo"\ncount = 1\nrate = 50.0\narrivals = "constant"\n'
    sure = await laboratory.run(trial(echo, repetitions="{ within = 0.95, least = 2, most = 4 }"))
    assert sorted(record.repetition for record in sure) == [1, 2]
    never = await laboratory.run(
        trial(echo, repetitions='{ within = 0.00001, metric = "mean_ms", least = 2, most = 3 }', duration=0.5)
    )
    assert sorted(record.repetition for record in never) == [1, 2, 3]
    assert len({record.seed for record in never}) == 3


async def test_a_database_with_somebodys_messages_is_not_emptied(laboratory: Laboratory, database: str) -> None:
    async with await Store.open(database, connections=1) as store:
        await store.clients.register("somebody")
    strange = Laboratory(laboratory.folder, database)
    [record] = await strange.run(trial(PAIR))

    assert record.state == "failed"
    assert record.why is not None
    assert "holds clients and queues that the laboratory did not make" in record.why
    async with await Store.open(database, connections=1) as store:
        assert (await store.clients.get("somebody")).name == "somebody"


async def test_a_password_is_not_written_down(laboratory: Laboratory) -> None:
    text = trial(PAIR, system='database = "postgresql://me:geheim@127.0.0.1:1/nowhere?password=heimlich"')
    [record] = await laboratory.run(text)
    assert record.state == "failed"
    written = [path.read_text() for path in laboratory.runs.rglob("*") if path.is_file()]
    assert not any("geheim" in content or "heimlich" in content for content in written)


async def test_a_password_of_a_level_is_not_written_down(laboratory: Laboratory) -> None:
    levels = '["postgresql://me:geheim@127.0.0.1:1/a", "postgresql://me@127.0.0.1:1/a?password=heimlich"]'
    factor = f'\n[design]\nkind = "sweep"\n[design.factors.server]\nset = "system.database"\nlevels = {levels}\n'
    records = await laboratory.run(trial(PAIR, system='database = "postgresql://127.0.0.1:1/nowhere"') + factor)
    assert [record.state for record in records] == ["failed", "failed"]
    assert len({record.label for record in records}) == 2
    paths = list(laboratory.runs.rglob("*"))
    written = [str(paths), *(path.read_text() for path in paths if path.is_file())]
    assert not any("geheim" in content or "heimlich" in content for content in written)


async def test_only_one_runner_works_on_a_series(laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_folder, "LOCK_SECONDS", 0.2)
    begun = laboratory.begin(trial(PAIR))
    async with begun.lock():
        with pytest.raises(InvalidRequest, match="is being run by another process"):
            await runner.run_series(laboratory.begin(trial(PAIR)), laboratory.report)


async def test_its_own_database_is_started_fresh_for_each_run_when_asked(laboratory: Laboratory) -> None:
    text = trial(PAIR, system='database = "fresh"', repetitions=2, duration=0.5)
    first, second = await laboratory.run(text)
    assert (first.state, second.state) == ("done", "done")
    starts = [
        (laboratory.runs / record.id.replace("/", "/runs/") / "logs" / "database.log")
        .read_text()
        .count("PostgreSQL is running")
        for record in (first, second)
    ]
    assert starts == [1, 1]
    assert not [
        process for process in psutil.process_iter(["cwd"]) if str(laboratory.runs) in (process.info["cwd"] or "")
    ]
