"""Experiment files: what they say, what a profile changes, and that everything wrong is told with its line."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from textwrap import dedent

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stafette.errors import BY_CODE, InvalidRequest
from stafette.lab.experiment import file_tables
from stafette.lab.experiment.design import points
from stafette.lab.experiment.distribution import Exponential, Fixed, Uniform
from stafette.lab.experiment.experiment_file import (
    Experiment,
    Factor,
    InvalidExperiment,
    Machine,
    Problem,
    Ramp,
    Repetitions,
    Threshold,
    fingerprint,
    parse,
    read,
)
from stafette.lab.experiment.file_checks import unfold
from stafette.lab.experiment.thresholds import METRICS

DOCUMENT = Path(__file__).parents[4] / "docs/experiments.md"
EXAMPLE = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)[0]
SMALLEST = '[clients.alice]\nbehaviour = "alice"\ncount = 1\n'
OWN = """\
import pydantic
from stafette.lab.behaviours import Behaviour, Parameters

class Shares(pydantic.BaseModel, extra="forbid"):
    left: int = 1

class MyParameters(Parameters):
    speed: int | str | None = None
    names: tuple[int, int] | None = None
    even: bool = True
    shares: Shares = Shares()

class Mine(Behaviour):
    Parameters = MyParameters
"""


def experiment(text: str, **options: str) -> Experiment:
    return parse(text, folder=Path(), **{"name": "x", **options})


def problems(text: str, profile: str | None = None, folder: Path = Path()) -> list[str]:
    with pytest.raises(InvalidExperiment) as caught:
        parse(text, folder=folder, profile=profile, name="x")
    return str(caught.value).split("\n")


def test_the_example_of_the_documentation_says_what_it_says() -> None:
    found = parse(EXAMPLE, folder=Path())
    assert found.name == "senders-and-readers"
    assert found.system.brokers == 2
    assert found.preload.size == Uniform(uniform=(100, 2000))
    assert found.run.repetitions == Repetitions(within=0.05, metric="throughput", level=0.95, least=3, most=10)
    assert found.run.seconds == 37
    alice, bob, probe = found.clients.values()
    assert alice.think_time == Exponential(exponential=0.01)
    assert alice.parameters == {"size": 200, "targets": 1, "queues": [f"q-{number}" for number in range(1, 19)]}
    assert (bob.count, bob.ramp, bob.rate, bob.arrivals) == (100, Ramp(clients=20, every=2), None, "poisson")
    assert (probe.rate, probe.parameters) == (50.0, {})
    assert found.faults[0].pause == "broker-1"
    assert found.thresholds == {"throughput": Threshold(">=", 1000), "p99_ms": Threshold("<", 50)}
    assert found.design.factors["size"] == Factor(set=["clients.alice.size"], levels=[200, {"uniform": [100, 2000]}])
    assert len(points(found)) == 4
    assert found.hosts is not None
    assert found.hosts.machines["10.0.0.1"] == Machine(user="lab", python="/opt/stafette/bin/python")


def test_the_documentation_tells_every_key_and_default() -> None:
    text = DOCUMENT.read_text()
    models: dict[str, type[pydantic.BaseModel]] = {
        "The experiment": file_tables.Experiment, "system": file_tables.System, "preload": file_tables.Preload,
        "run": file_tables.Run, "clients.NAME": file_tables.Group, "faults": file_tables.Fault,
        "design": file_tables.Design, "hosts": file_tables.Hosts,
    }  # fmt: skip
    for heading, model in models.items():
        section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        documented = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", section, re.MULTILINE))
        for key, field in model.model_fields.items():
            if field.is_required() and key != "name":
                assert documented[key] == "required", key
            elif isinstance(field.default, int | str | list) and field.default != "":
                shown = documented[key].strip("`")
                assert json.loads(shown) == field.default, key
    for metric, meaning in METRICS.items():
        assert f"| `{metric}` | {meaning} |" in text


def test_the_smallest_file_takes_its_name_from_its_own(tmp_path: Path) -> None:
    file = tmp_path / "first-try.toml"
    file.write_text(SMALLEST)
    found = read(file)
    assert found.name == "first-try"
    assert found.system == file_tables.System(brokers=1, workers=1, connections=4, batch=512)
    assert (found.run.warm_up, found.run.duration, found.run.cool_down, found.run.repetitions) == (5, 30, 2, 3)
    assert found.clients["alice"].think_time == Fixed(fixed=0)
    assert (found.hosts, found.faults, found.thresholds, found.seed) == (None, [], {}, 1)
    file.write_text('name = "better"\n' + SMALLEST)
    assert read(file).name == "better"


def test_behaviours_of_one_s_own_are_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    file = tmp_path / "e.toml"
    file.write_text('[clients.me]\nbehaviour = "mine.py:Mine"\ncount = 1\nspeed = "fast"\n')
    assert read(file).clients["me"].parameters == {"speed": "fast"}


def test_it_goes_through_json_and_back() -> None:
    for found in (parse(EXAMPLE, folder=Path()), experiment(SMALLEST)):
        dumped = found.model_dump(mode="json")
        assert Experiment.model_validate(json.loads(json.dumps(dumped))) == found
        assert experiment_of(unfold(found)) == found


def experiment_of(file: dict[str, object]) -> Experiment | None:
    from stafette.lab.experiment.file_checks import lookup_in, resolve

    return resolve(file, lookup_in(Path()))[0]


def test_a_fingerprint_is_of_what_is_said_not_of_how() -> None:
    base = fingerprint(experiment(SMALLEST + "size = 1\ntargets = 2\n"))
    assert re.fullmatch(r"[0-9a-f]{12}", base)
    assert fingerprint(experiment(SMALLEST + "# same\ntargets = 2\nsize = 1\n[system]\nbrokers = 1")) == base
    assert fingerprint(experiment(SMALLEST + "size = 2\ntargets = 2\n")) != base
    two = ['[clients.a]\nbehaviour = "bob"\ncount = 1\n', '[clients.b]\nbehaviour = "bob"\ncount = 1\n']
    assert fingerprint(experiment("".join(two))) != fingerprint(experiment("".join(reversed(two))))


PROFILES = """\
title = "all"
[run]
duration = 30.0
warm_up = 3.0
[clients.alice]
behaviour = "alice"
count = 100
size = { uniform = [1, 2] }
[[faults]]
at = 1.0
pause = "database"
seconds = 1.0
[profiles.quick]
run.duration = 20.0
clients.alice.count = 10
clients.alice.size = { choice = [5] }
clients.bob = { behaviour = "bob", count = 1 }
faults = []
[profiles.quick.system]
brokers = 3
[profiles.empty.run]
"""


def test_a_profile_is_laid_over_the_rest() -> None:
    plain, quick = experiment(PROFILES), experiment(PROFILES, profile="quick")
    assert (plain.run.duration, plain.clients["alice"].count, len(plain.faults)) == (30, 100, 1)
    assert plain == experiment(PROFILES, profile="empty")
    assert (quick.run.duration, quick.run.warm_up, quick.title, quick.system.brokers) == (20, 3, "all", 3)
    assert (quick.clients["alice"].behaviour, quick.clients["alice"].count) == ("alice", 10)
    assert quick.clients["alice"].parameters == {"size": {"choice": [5]}}
    assert (list(quick.clients), quick.faults) == (["alice", "bob"], [])


@pytest.mark.parametrize(
    ("text", "profile", "expected"),
    [
        (PROFILES, "quik", ["there is no profile 'quik'; there are quick, empty"]),
        (SMALLEST, "quick", ["there is no profile 'quick'; the file has none"]),
        (SMALLEST + "[profiles]\nquick = 3", None, ["line 5: profiles.quick is 3; it must be a table"]),
        ("profiles = 3\n" + SMALLEST, None,
         ["line 1: profiles is 3; it must be a table of profiles, such as [profiles.quick]"]),
        (SMALLEST + "[profiles.quick]\nrun.duraton = 1\nsytem.brokers = 1\n", None,
         ["line 6: there is no key 'sytem' in [profiles.quick]; did you mean 'system'?"]),
        (SMALLEST + "[run]\nduration = 1.0\n[profiles.quick]\nrun.duration = -1.0\nclients.alice.sise = 3", "quick",
         ["line 7: run.duration is -1.0; it must be more than 0",
          "line 8: there is no key 'sise' in [clients.alice]; did you mean 'size'?"]),
        (SMALLEST + "[profiles.quick.clients.alcie]\ncount = 3", "quick",
         ["line 4: there is no 'behaviour' in [clients.alcie]; it must be given"]),
        ("[run]\nduration = -1.0\n" + SMALLEST + "[profiles.quick]\nrun.warm_up = 3.0", "quick",
         ["line 2: run.duration is -1.0; it must be more than 0"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_profile(text: str, profile: str | None, expected: list[str]) -> None:
    assert problems(text, profile) == expected


def test_a_behaviour_that_is_not_there(tmp_path: Path) -> None:
    [problem] = problems('[clients.me]\ncount = 1\nbehaviour = "mine.py:Mine"', folder=tmp_path)
    assert problem.startswith("line 3: there is no behaviour file mine.py in ")
    [problem] = problems('[clients.me]\ncount = 1\nbehaviour = "alise"')
    assert problem.startswith("line 3: there is no behaviour alise; did you mean alice")


@pytest.mark.parametrize("text", ["", "[clients.alice]\nbehaviour = 'alice'\ncount = 0"])
def test_somebody_must_put_load_on(text: str) -> None:
    [problem] = problems(text)
    assert problem.endswith("there are no clients; at least one group must have a count of 1 or more")


def test_without_queues_made_for_it_a_group_may_name_its_own() -> None:
    found = experiment(SMALLEST + 'queues = ["jobs"]\n[preload]\nqueues = 0\n')
    assert found.clients["alice"].parameters == {"queues": ["jobs"]}


def test_without_a_broker_every_client_goes_to_the_database() -> None:
    text = "[system]\nbrokers = 0\n[clients.d]\nbehaviour = 'database_only'\ncount = 1\n"
    assert experiment(text).system.brokers == 0
    assert experiment(text + "[clients.bob]\nbehaviour = 'bob'\ncount = 0").system.brokers == 0


def test_all_problems_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    text = """\
        seed = "x"
        [clients.alice]
        behaviour = "alice"
        count = -3
        siez = 200
        [clients.bob]
        behaviour = "bop"
        [run]
        duraton = 30.0
        warm_up = -1
        """
    file.write_text(dedent(text))
    with pytest.raises(InvalidExperiment) as caught:
        read(file)
    assert [(problem.line, problem.path) for problem in caught.value.problems] == [
        (1, "seed"), (4, "clients.alice.count"), (5, "clients.alice.siez"), (6, "clients.bob.count"),
        (7, "clients.bob.behaviour"), (9, "run.duraton"), (10, "run.warm_up"),
    ]  # fmt: skip
    sentences = str(caught.value).split("\n")
    assert sentences[1] == f"{file}:4: clients.alice.count is -3; it must be at least 0"
    assert len(sentences) == 7
    assert caught.value.sentence == str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_problem_without_a_line_names_the_file_alone() -> None:
    assert str(InvalidExperiment([Problem(("name",), "so")], file="a.toml")) == "a.toml: so"
    with pytest.raises(InvalidExperiment, match="there is no 'name' in the file; it must be given"):
        parse(SMALLEST, folder=Path())


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"cannot read .*missing\.toml: No such file"):
        read(tmp_path / "missing.toml")
    (tmp_path / "latin.toml").write_bytes(b'title = "\xe4"')
    with pytest.raises(InvalidRequest, match=r"latin\.toml is not a text in UTF-8"):
        read(tmp_path / "latin.toml")


def test_the_error_is_the_caller_s_and_takes_no_code_from_others() -> None:
    assert issubclass(InvalidExperiment, InvalidRequest)
    assert BY_CODE[InvalidExperiment.code] is InvalidRequest


LINES = [line for line in EXAMPLE.split("\n") if line]
SCRAPS = st.sampled_from(["-1", "0", '"x"', "[]", "{}", "true", "nan", "2020-01-01", "{ first = 1 }", "[[1]]", "1e400"])


@given(st.data())
def test_whatever_is_changed_in_a_file_gives_an_experiment_or_problems(data: st.DataObject) -> None:
    lines = list(LINES)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(lines) - 1))
        key, equals, _ = lines[place].partition("=")
        lines[place] = f"{key}={data.draw(SCRAPS)}" if equals else data.draw(st.sampled_from(["", "[x]", "[[run]]"]))
    found: list[Problem] | None = None
    try:
        parse("\n".join(lines), folder=Path(), profile=data.draw(st.sampled_from([None, "quick"])))
    except InvalidExperiment as error:
        found = error.problems
    assert found is None or found
    assert all(problem.reason and "\n" not in problem.reason for problem in found or ())
