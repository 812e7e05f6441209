"""Several machines: SSH servers on loopback addresses, so that everything between them crosses a socket."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from bench.machines import machines
from stafette.errors import StafetteError
from stafette.trace import Trace
from tests.support.folder_processes import processes_of
from tests.support.laboratory import PAIR, Laboratory, checks, rows, trial
from tests.support.waiting import glance, until

ADDRESSES = ["127.0.0.21", "127.0.0.22", "127.0.0.23", "127.0.0.24"]
ROLES = 'database = "127.0.0.21"\nbrokers = ["127.0.0.22"]\nclients = ["127.0.0.23", "127.0.0.24"]\n'

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8 without being told"),
]
Machines = dict[str, dict[str, object]]


@pytest.fixture
def reached(tmp_path: Path) -> Iterator[Machines]:
    with machines(tmp_path / "machines", ADDRESSES) as found:
        yield found


def hosts(reached: Machines, roles: str = ROLES) -> str:
    """The experiment's [hosts]."""
    tables = [
        f'[hosts.machines."{address}"]\n' + "".join(f"{key} = {json.dumps(value)}\n" for key, value in details.items())
        for address, details in reached.items()
    ]
    return f"[hosts]\n{roles}" + "".join(tables)


async def test_a_run_across_machines_comes_home_complete(tmp_path: Path, reached: Machines) -> None:
    (tmp_path / "own.py").write_text(
        "from stafette.lab.behaviours import Behaviour\n"
        "class Own(Behaviour):\n"
        "    async def step(self):\n"
        "        await self.client.send(self.any_queue(), b'brought along')\n"
    )
    groups = PAIR + '[clients.own]\nbehaviour = "own.py:Own"\ncount = 2\n'
    laboratory = Laboratory(tmp_path, "reset")
    [record] = await laboratory.run(trial(groups, duration=2.0, more=hosts(reached)))

    assert (record.state, record.why) == ("done", None)
    held = checks(record)
    held.pop("littles law", None)  # which a pause that is drawn out breaks
    assert held == dict.fromkeys(held, True)
    assert record.processes == {"broker-1": "127.0.0.22", "load-1": "127.0.0.23", "load-2": "127.0.0.24"}
    assert {machine.name for machine in record.machines} == set(ADDRESSES)
    for machine in record.machines:  # they all have this machine's clock
        assert abs(machine.clock_before.offset_ns) <= machine.clock_before.error_ns < 1e9
        assert machine.clock_after is not None
    folder = laboratory.runs / record.id.replace("/", "/runs/")
    assert {row["node"] for row in rows(folder / "traces")} == {"broker-1", "load-1", "load-2"}
    assert {"broker-1.log", "database.log", "load-1.log", "load-2.log"} <= {
        path.name for path in (folder / "logs").iterdir()
    }
    costs = rows(folder / "samples" / "processes.parquet")
    assert {(row["host"], row["process"]) for row in costs} == {
        ("127.0.0.21", "database"), ("127.0.0.22", "broker-1"), ("127.0.0.23", "load-1"), ("127.0.0.24", "load-2"),
    }  # fmt: skip
    for address in ADDRESSES:  # nothing but our code stays there
        left = {path.name.partition("-")[0] for path in (tmp_path / "machines" / address).iterdir()}
        assert left == {"code", "agent.log"}
    assert not processes_of(tmp_path / "machines" / ADDRESSES[0])


async def test_when_the_runner_is_killed_everything_on_the_machines_ends(tmp_path: Path, reached: Machines) -> None:
    file = tmp_path / "trial.toml"
    file.write_text(trial(PAIR, duration=120.0, more=hosts(reached)))
    command = ["-m", "stafette", "lab", "run", str(file), "--runs", str(tmp_path / "runs")]
    runner = await asyncio.create_subprocess_exec(sys.executable, *command)
    traces = [tmp_path / "machines" / address for address in ADDRESSES[1:]]

    def all_are_traced() -> bool:
        assert runner.returncode is None
        return all(list(folder.rglob("*.parquet")) for folder in traces)

    await until(all_are_traced, glance)
    runner.send_signal(signal.SIGKILL)
    await runner.wait()
    await until(lambda: not any(processes_of(tmp_path / "machines" / address) for address in ADDRESSES), glance)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"port": 1}, "cannot reach 127.0.0.21 over SSH"),
        ({"key": "KEY"}, "cannot reach 127.0.0.21 over SSH"),
        ({"known_hosts": "NOBODY"}, "cannot reach 127.0.0.21 over SSH"),
        ({"python": "/nowhere/python"}, "127.0.0.21: /nowhere/python cannot run Stafette's code"),
    ],
    ids=["no server", "no key", "unknown host", "no python"],
)
async def test_a_machine_that_cannot_be_used_is_named(
    tmp_path: Path, reached: Machines, change: dict[str, object], says: str
) -> None:
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(tmp_path / "KEY")
    (tmp_path / "NOBODY").write_text("")
    details = {
        key: str(tmp_path / str(value)) if value in ("KEY", "NOBODY") else value for key, value in change.items()
    }
    first = reached[ADDRESSES[0]] | details
    laboratory = Laboratory(tmp_path, "reset")
    with pytest.raises(StafetteError, match=says):
        await laboratory.run(trial(PAIR, more=hosts(reached | {ADDRESSES[0]: first}, f'database = "{ADDRESSES[0]}"\n')))


def test_times_of_a_machine_whose_clock_is_ahead_are_put_right(tmp_path: Path) -> None:
    """Two machines here share a clock, so the difference is made up."""
    now = time.time_ns()
    trace = Trace(tmp_path, run="r", tier="client", node="n", ahead_ns=5 * 10**9)
    moment = time.perf_counter_ns()
    trace.add("c", 1, "send", "ok", moment, moment, moment, *[0] * 10)
    trace.close()
    [row] = rows(tmp_path)
    assert row["start_ns"] == pytest.approx(now - 5 * 10**9, abs=10**9)
