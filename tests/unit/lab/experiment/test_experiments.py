"""The experiments of the five reports: each file can be run as it stands, its quick profile is quick, and the table in
their README tells the truth."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stafette.database import embedded
from stafette.lab.behaviours import find
from stafette.lab.experiment.design import points
from stafette.lab.experiment.experiment_file import Experiment, Repetitions, read
from stafette.load.direct import MOST_CONNECTIONS

FOLDER = Path(__file__).parents[4] / "experiments"
FILES = sorted(FOLDER.glob("*.toml"), key=lambda path: path.stem)
REPORTS = ("FTaB", "ASL15", "mlmq", "Telesto", "mepas")
QUICK_SERIES = 6 * 60.0
QUICK_RUN = 60.0
QUICK_PRELOAD = 100_000
"""A few seconds' worth."""
SETTINGS = Path(embedded.__file__).with_name("postgresql.conf").read_text(encoding="utf-8")
DATABASE_CONNECTIONS = int(re.findall(r"^max_connections = (\d+)", SETTINGS, re.MULTILINE)[0]) - 20
"""For the stores of brokers and of clients without one; the runner needs some itself, and PostgreSQL keeps three."""

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def repetitions(experiment: Experiment) -> tuple[int, str]:
    """How often each point is run at least, and the text for it."""
    times = experiment.run.repetitions
    return (times.least, f"{times.least}–{times.most}") if isinstance(times, Repetitions) else (times, str(times))


def series_seconds(experiment: Experiment) -> float:
    """Of load, over all runs, at the fewest repetitions."""
    return sum(point.experiment.run.seconds for point in points(experiment)) * repetitions(experiment)[0]


def time_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (rest, "s")]
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def extent(experiment: Experiment) -> str:
    """Points × repetitions, and the time they take."""
    _, times = repetitions(experiment)
    at_least = "from " if isinstance(experiment.run.repetitions, Repetitions) else ""
    return f"{len(points(experiment))} × {times}, {at_least}{time_text(series_seconds(experiment))}"


def table_row(path: Path) -> str:
    """What the README must say of a file."""
    full, quick = read(path), read(path, "quick")
    kind = " × ".join(full.design.factors) or "–"
    cells = [
        f"[{path.stem}]({path.name})",
        full.source,
        full.question,
        full.design.kind,
        kind,
        extent(full),
        extent(quick),
    ]
    return f"| {' | '.join(cells)} |"


def test_there_are_experiments_of_every_report() -> None:
    assert {read(path).source.partition(",")[0] for path in FILES} == set(REPORTS)
    assert [path.stem for path in FILES if path.stem.startswith("ftab-")] == [f"ftab-{n}" for n in range(1, 9)]


@each_file
def test_a_file_says_what_it_is_and_where_it_comes_from(path: Path) -> None:
    experiment = read(path)
    assert experiment.name == path.stem
    assert all((experiment.title, experiment.question, experiment.source, experiment.original))
    assert experiment.source.lower().startswith(path.stem.partition("-")[0])


@each_file
def test_a_quick_profile_is_quick(path: Path) -> None:
    quick = read(path, "quick")
    assert series_seconds(quick) <= QUICK_SERIES
    for point in points(quick):
        assert point.experiment.run.seconds <= QUICK_RUN
        assert point.experiment.system.brokers <= 2
        assert point.experiment.preload.messages <= QUICK_PRELOAD


@each_file
def test_a_quick_profile_asks_the_same_question(path: Path) -> None:
    full, quick = read(path), read(path, "quick")
    assert quick.question == full.question
    assert quick.design.kind == full.design.kind
    assert list(quick.clients) == list(full.clients)
    for name, factor in full.design.factors.items():
        levels = quick.design.factors[name].levels
        assert list(quick.design.factors[name].set) == list(factor.set)
        assert 2 <= len(levels) <= len(factor.levels)
    if quick.design.kind == "2k":
        assert quick.run.repetitions == 2  # without a repetition there is no error to hold effects against


@each_file
@pytest.mark.parametrize("profile", [None, "quick"])
def test_the_database_has_connections_enough_for_every_point(path: Path, profile: str | None) -> None:
    for point in points(read(path, profile)):
        system, clients = point.experiment.system, point.experiment.clients
        listening = 1  # for what other brokers say
        direct = sum(group.count for group in clients.values() if find(group.behaviour, FOLDER).direct)
        of_brokers = system.brokers * system.workers * (system.connections + listening)
        of_clients = min(direct, system.load_processes * MOST_CONNECTIONS)
        assert of_brokers + of_clients <= DATABASE_CONNECTIONS


def test_the_table_lists_each_file_once_with_its_times() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[.*$", readme, re.MULTILINE)
    assert sorted(rows) == sorted(table_row(path) for path in FILES)
