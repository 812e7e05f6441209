"""What experiments from the console may reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from stafette.errors import InvalidRequest
from stafette.lab.experiment.design import points
from stafette.lab.experiment.experiment_file import parse
from stafette.lab.experiment.reach import NOWHERE, Reach, server_of

GROUP = '[clients.mix]\nbehaviour = "mix"\ncount = 1\n'
CONSOLE = "postgresql://stafette@/stafette?host=/tmp/stafette-1/abc&port=5432"
REACH = Reach(
    hosts=("b1.lab", "lab@c1.lab:2222"),
    databases=(server_of(CONSOLE), "postgresql://db.lab/bench", "postgresql://other.lab:6000?sslmode=require"),
)


def refusal(reach: Reach, more: str) -> str | None:
    reasons = [problem.reason for problem in reach.problems(points(parse(GROUP + more, folder=None, name="x")))]
    assert not any("\n" in reason for reason in reasons)
    return reasons[0] if reasons else None


def database(reach: Reach, url: str) -> str | None:
    return refusal(reach, f'[system]\ndatabase = "{url}"\n')


@pytest.mark.parametrize("own", ["reset", "fresh"])
def test_a_database_of_its_own_is_always_allowed(own: str) -> None:
    assert database(NOWHERE, own) is None


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://stafette@/runs?host=/tmp/stafette-1/abc&port=5432",
        "postgresql://me:secret@db.lab:5432/bench",
        "postgres://DB.lab/bench",
        "postgresql://other.lab:6000/any?sslmode=require",
        "postgresql://other.lab:6000/any",
        "postgresql:///any?host=other.lab&port=6000",
    ],
)
def test_what_the_operator_listed_is_allowed_whoever_logs_in(url: str) -> None:
    assert database(REACH, url) is None


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://127.0.0.1/postgres",
        "postgresql://db.lab/other",
        "postgresql://db.lab:5433/bench",
        "postgresql://db.lab,evil.example/bench",
        "postgresql://db.lab/bench?host=evil.example",
        "postgresql://db.lab@evil.example/bench",
        "postgresql://me@evil.example@db.lab/bench",
        "postgresql://db.lab/bench?passfile=/etc/shadow",
        "postgresql://db.lab/bench?sslkey=/root/key",
        "postgresql://db.lab/bench?service=other",
        "postgresql://db.lab/bench?dbname=other",
        "postgresql://other.lab:6000/any?sslmode=disable",
        "postgresql://other.lab:6000",
        "postgresql:///bench",
        "postgresql://db.lab/bench?options",
        "postgresql://[bad/bench",
    ],
)
def test_any_other_database_is_refused_and_its_password_not_repeated(url: str) -> None:
    says = database(REACH, url.replace("://", "://who:hush@") if "@" not in url else url)
    assert says is not None
    assert "experiments from the console may not use" in says
    assert "hush" not in says
    assert database(NOWHERE, url) is not None


def test_a_level_that_is_a_database_counts_as_one() -> None:
    factor = '[design]\nkind = "sweep"\n[design.factors.where]\nset = "system.database"\n'
    says = refusal(REACH, f'{factor}levels = ["reset", "postgresql://evil.example/x"]')
    assert says is not None
    assert "evil.example" in says


def test_only_listed_machines_are_reached_and_only_by_the_operators_configuration() -> None:
    assert refusal(NOWHERE, '[hosts]\nclients = ["local"]') is None
    assert refusal(REACH, '[hosts]\nbrokers = ["b1.lab"]\nclients = ["local", "lab@c1.lab:2222"]') is None
    for hosts in ('database = "b2.lab"', 'brokers = ["root@b1.lab"]', 'clients = ["c1.lab"]'):
        assert "experiments from the console may not use" in str(refusal(REACH, f"[hosts]\n{hosts}"))
    for machine in ('key = "/root/.ssh/id"', 'address = "evil.example"', 'python = "/bin/evil"'):
        says = refusal(REACH, f'[hosts]\nbrokers = ["b1.lab"]\n[hosts.machines."b1.lab"]\n{machine}')
        assert says is not None
        assert "have no [hosts.machines]" in says


def test_a_profile_counts_with_what_it_sets() -> None:
    text = GROUP + '[profiles.far]\nsystem.database = "postgresql://evil.example/x"'
    NOWHERE.check(parse(text, folder=None, name="x"))
    with pytest.raises(InvalidRequest, match=r"evil\.example"):
        NOWHERE.check(parse(text, folder=None, name="x", profile="far"))


def test_without_a_folder_no_behaviour_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('it was imported')")
    with pytest.raises(InvalidRequest, match=r"evil\.py:Evil is a file that belongs to a series"):
        parse(GROUP.replace('"mix"', '"evil.py:Evil"', 1), folder=None, name="x")
