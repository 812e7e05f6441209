"""Designs: which points there are, what they are called, in which order they run, and what is refused."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stafette.lab.experiment import design
from stafette.lab.experiment.design import Point, order, points
from stafette.lab.experiment.distribution import Uniform
from stafette.lab.experiment.experiment_file import Design, Experiment, InvalidExperiment, parse
from stafette.lab.experiment.file_checks import lookup_in

BASE = """\
name = "base"
[clients.alice]
behaviour = "alice"
count = 10
size = 200
[clients.bob]
behaviour = "bob"
count = 5
[[faults]]
at = 1.0
pause = "broker-1"
seconds = 1.0
[design]
"""


def experiment(design: str) -> Experiment:
    return parse(BASE + design, folder=Path())


def made(**changes: Any) -> Experiment:
    """An experiment that was not read from a file, and so has met no check of its design."""
    return experiment("").model_copy(update={"design": Design.model_validate(changes)})


def test_without_factors_there_is_one_point() -> None:
    single = experiment("")
    assert points(single) == [Point("single", {}, single)]


def test_a_sweep_sets_each_level_in_turn() -> None:
    found = points(experiment('kind = "sweep"\nfactors.brokers = { set = "system.brokers", levels = [1, 2, 4] }'))
    assert [point.label for point in found] == ["brokers=1", "brokers=2", "brokers=4"]
    assert [point.levels for point in found] == [{"brokers": 1}, {"brokers": 2}, {"brokers": 4}]
    assert [point.experiment.system.brokers for point in found] == [1, 2, 4]
    assert all(point.experiment.design == Design() for point in found)


def test_one_factor_may_set_several_keys_and_a_count_may_be_none() -> None:
    found = points(
        experiment(
            'kind = "factorial"\n'
            'factors.bobs = { set = "clients.bob.count", levels = [0, 7] }\n'
            'factors.seconds = { set = ["run.duration", "run.warm_up", "faults.1.seconds"], levels = [3, 4.5] }'
        )
    )
    assert [point.label for point in found] == [
        "bobs=0,seconds=3", "bobs=0,seconds=4.5", "bobs=7,seconds=3", "bobs=7,seconds=4.5",
    ]  # fmt: skip
    last = found[-1].experiment
    assert (last.clients["bob"].count, last.run.duration, last.run.warm_up, last.faults[0].seconds) == (
        7,
        4.5,
        4.5,
        4.5,
    )
    assert last.clients["alice"].count == 10


TOGETHER = """\
kind = "2k"
[design.factors.clients]
levels = [15, 30]
[design.factors.clients.set]
"clients.alice.count" = [10, 20]
"clients.bob.count" = [5, 10]
"clients.alice.size" = [{ uniform = [1, 9] }, 7]
[design.factors.brokers]
set = "system.brokers"
levels = [1, 2]
"""


def test_one_factor_may_set_several_keys_each_to_its_own_value() -> None:
    found = points(experiment(TOGETHER))
    assert [(point.label, point.levels) for point in found] == [
        ("clients=15,brokers=1", {"clients": 15, "brokers": 1}),
        ("clients=15,brokers=2", {"clients": 15, "brokers": 2}),
        ("clients=30,brokers=1", {"clients": 30, "brokers": 1}),
        ("clients=30,brokers=2", {"clients": 30, "brokers": 2}),
    ]
    groups = [point.experiment.clients for point in found]
    assert [(clients["alice"].count, clients["bob"].count) for clients in groups] == [(10, 5)] * 2 + [(20, 10)] * 2
    assert [clients["alice"].parameters["size"] for clients in groups] == [{"uniform": [1, 9]}] * 2 + [7] * 2
    assert [point.experiment.system.brokers for point in found] == [1, 2, 1, 2]


def test_a_profile_may_change_the_values_of_one_key_alone() -> None:
    text = BASE + TOGETHER + '[profiles.quick]\ndesign.factors.clients.set."clients.bob.count" = [1, 3]\n'
    first, _, last, _ = points(parse(text, folder=Path(), profile="quick"))
    assert [first.experiment.clients[name].count for name in ("alice", "bob")] == [10, 1]
    assert [last.experiment.clients[name].count for name in ("alice", "bob")] == [20, 3]
    with pytest.raises(InvalidExperiment) as caught:
        parse(text.replace("[1, 3]", "[1, -3]"), folder=Path(), profile="quick")
    assert str(caught.value) == "line 25: with clients=30,brokers=1: clients.bob.count is -3; it must be at least 0"


def test_a_factor_of_several_values_goes_through_json_and_back() -> None:
    found = experiment(TOGETHER)
    assert Experiment.model_validate_json(found.model_dump_json()) == found


def test_parameters_that_the_file_leaves_out_can_vary_and_tables_get_short_labels() -> None:
    found = points(
        experiment(
            'kind = "sweep"\n'
            'factors.size = { set = ["clients.alice.size", "preload.size"], '
            "levels = [200.0, { uniform = [100, 2000] }, { choice = [1, 2.5] }] }"
        )
    )
    assert [point.label for point in found] == ["size=200", "size=uniform-100-2000", "size=choice-1-2.5"]
    assert [point.levels["size"] for point in found] == [200.0, "uniform-100-2000", "choice-1-2.5"]
    assert found[1].experiment.clients["alice"].parameters == {"size": {"uniform": [100, 2000]}}
    assert found[1].experiment.preload.size == Uniform(uniform=(100, 2000))
    queues = points(
        experiment(
            'kind = "sweep"\nfactors.q = { set = "clients.bob.queues", levels = [{ first = 1, last = 2 }, ["q-7"]] }'
        )
    )
    assert [point.label for point in queues] == ["q=first-1-last-2", "q=q-7"]
    assert queues[0].experiment.clients["bob"].parameters == {"queues": ["q-1", "q-2"]}


def test_labels_fit_a_folder_and_differ_whatever_the_levels_are() -> None:
    urls = [f"postgresql://{'host/' * 60}{number}" for number in (1, 2)] + ["postgresql://a/b", "postgresql://a?b"]
    found = points(
        made(kind="sweep", factors={"database": {"set": "system.database", "levels": urls}}), lookup=lookup_in(Path())
    )
    labels = [point.label for point in found]
    assert len(set(labels)) == 4
    assert all(re.fullmatch(r"database=[A-Za-z0-9._+-]{1,50}", label) for label in labels), labels
    many = {f"factor-{number}-{'x' * 40}": {"set": path, "levels": [1, 2]} for number, path in enumerate(
        ["system.workers", "system.batch", "preload.messages", "preload.queues", "clients.bob.count"])}  # fmt: skip
    long = [point.label for point in points(made(kind="2k", factors=many))]
    assert len(set(long)) == 32
    assert max(map(len, long)) <= design.LONGEST_LABEL


KEYS = ["system.brokers", "system.workers", "clients.alice.count", "clients.bob.batch", "preload.messages"]


@given(
    st.dictionaries(
        st.sampled_from(KEYS), st.lists(st.integers(1, 20), min_size=2, max_size=2, unique=True), min_size=1, max_size=4
    )
)
def test_a_2k_design_has_all_combinations_once(levels: dict[str, list[int]]) -> None:
    factors = {f"f{KEYS.index(key)}": {"set": key, "levels": pair} for key, pair in levels.items()}
    found = points(made(kind="2k", factors=factors), lookup=lookup_in(Path()))
    expected = [dict(zip(factors, chosen, strict=True)) for chosen in itertools.product(*levels.values())]
    assert [point.levels for point in found] == expected
    assert len({point.label for point in found}) == 2 ** len(levels)
    for point in found:
        if "system.brokers" in levels:
            assert point.experiment.system.brokers == point.levels["f0"]
        if "clients.bob.batch" in levels:
            assert point.experiment.clients["bob"].parameters["batch"] == point.levels["f3"]


SWEEP = points(experiment('kind = "sweep"\nfactors.b = { set = "system.batch", levels = [1, 2, 3, 4, 5] }'))


@given(st.integers(1, 5), st.integers(1, 6), st.integers())
def test_the_order_is_a_permutation_and_the_seed_s(count: int, repetitions: int, seed: int) -> None:
    chosen = SWEEP[:count]
    runs = [(point.label, repetition) for point, repetition in order(chosen, repetitions, seed)]
    every = [(point.label, repetition) for repetition in range(1, repetitions + 1) for point in chosen]
    assert sorted(runs) == sorted(every)
    assert runs == [(point.label, repetition) for point, repetition in order(chosen, repetitions, seed, "random")]
    assert every == [(point.label, repetition) for point, repetition in order(chosen, repetitions, seed, "given")]


def test_seeds_differ() -> None:
    orders = {tuple(point.label for point, _ in order(SWEEP, 3, seed)) for seed in range(10)}
    assert len(orders) == 10


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ('factors.b = { set = "system.brokers", levels = [1] }',
         ['line 13: a single design has no factors; set design.kind to "sweep", "factorial" or "2k"']),
        ('kind = "sweep"', ["line 14: a sweep needs a factor; add [design.factors.NAME]"]),
        ('kind = "2k"', ["line 14: a 2k design needs a factor; add [design.factors.NAME]"]),
        ('kind = "factorial"', ["line 14: a factorial design needs a factor; add [design.factors.NAME]"]),
        ('kind = "sweep"\nfactors.a = { set = "system.batch", levels = [1] }\n'
         'factors.b = { set = "system.workers", levels = [1] }',
         ['line 14: a sweep has one factor, not 2; set design.kind to "factorial"']),
        ('kind = "2k"\nfactors.a = { set = "system.batch", levels = [1, 2] }\n'
         'factors.b = { set = "system.workers", levels = [1, 2, 3] }',
         ["line 16: a 2k design has two levels of each factor, not 3 as b has"]),
        ('kind = "sweep"\n[design.factors.a]\nset = "system.batch"\nlevels = [1, 2, 1.0]',
         ["line 17: a has the level 1 twice; every level must differ"]),
        ('kind = "factorial"\nfactors.a = { set = "system.batch", levels = [1, 2] }\n'
         'factors.b = { set = "system.batch", levels = [3] }',
         ["line 16: b sets 'system.batch', but a does so already; let one of them do it"]),
        ('kind = "sweep"\n[design.factors.a]\nset = "system.brokrs"\nlevels = [1]',
         ["line 16: a sets 'system.brokrs', but there is no such key; did you mean 'system.brokers'?"]),
        ('kind = "sweep"\n[design.factors.a]\nset = ["clients.bob.count", "clients.alice.sise"]\nlevels = [1]',
         ["line 16: a sets 'clients.alice.sise', but there is no such key; did you mean 'clients.alice.size'?"]),
        ('kind = "sweep"\n[design.factors.brokers]\nset = "system.brokers"\nlevels = [\n1, 0]',
         ['line 17: with brokers=0: faults.1.pause is "broker-1"; it must be database',
          "line 17: with brokers=0: system.brokers is 0; the clients of [clients.alice] need a broker;"
          " set it to at least 1"]),
        ('kind = "2k"\nfactors.size = { set = "clients.alice.size", levels = [100, -1] }\n'
         'factors.seconds = { set = "run.duration", levels = [1, 0] }',
         ["line 15: with size=-1,seconds=1: clients.alice.size is -1; it must be at least 0",
          "line 16: with size=100,seconds=0: run.duration is 0; it must be more than 0"]),
        ('kind = "2k"\n[design.factors.alices]\nset = "clients.alice.count"\nlevels = [1, 0]\n'
         '[design.factors.bobs]\nset = "clients.bob.count"\nlevels = [1, 0]',
         ["line 15: with alices=0,bobs=0: there are no clients; at least one group must have a count of 1 or more"]),
        ('kind = "factorial"\n' + "\n".join(f'factors.f{n} = {{ set = "system.{key}", levels = {list(range(1, 10))} }}'
         for n, key in enumerate(["brokers", "workers", "batch", "connections"])),
         ["line 15: the design has 6561 points; take at most 4096"]),
        (TOGETHER.replace("[5, 10]", "[5]").replace("[10, 20]", "[10, 20, 30]"),
         ["line 18: clients has 2 levels, but 3 values for 'clients.alice.count'; give one for each level",
          "line 19: clients has 2 levels, but 1 value for 'clients.bob.count'; give one for each level"]),
        (TOGETHER.replace("[15, 30]", "[15]").replace('"2k"', '"factorial"').replace("[5, 10]", "[5]"),
         ["line 18: clients has 1 level, but 2 values for 'clients.alice.count'; give one for each level",
          "line 20: clients has 1 level, but 2 values for 'clients.alice.size'; give one for each level"]),
        (TOGETHER.replace('bob.count"', 'bop.count"'),
         ["line 19: clients sets 'clients.bop.count', but there is no such key; did you mean 'clients.bob.count'?"]),
        (TOGETHER.replace("system.brokers", "clients.bob.count"),
         ["line 22: brokers sets 'clients.bob.count', but clients does so already; let one of them do it"]),
        (TOGETHER.replace("[15, 30]", "[15, 15]"),
         ["line 16: clients has the level 15 twice; every level must differ"]),
        ('kind = "sweep"\n[design.factors.a]\nlevels = ["few", "many"]\nset = { "system.batch" = [1, 1] }',
         ["line 17: a sets the same values at the levels few and many; they must differ"]),
        (TOGETHER.replace("[10, 20]", "[0, 20]").replace("[5, 10]", "[0, -1]"),
         ["line 15: with clients=15,brokers=1: there are no clients; at least one group must have a count of 1 or more",
          "line 19: with clients=30,brokers=1: clients.bob.count is -1; it must be at least 0"]),
    ],
)  # fmt: skip
def test_an_impossible_design_is_refused_with_its_line(text: str, problems: list[str]) -> None:
    with pytest.raises(InvalidExperiment) as caught:
        experiment(text)
    assert str(caught.value).split("\n") == problems


@pytest.mark.parametrize(
    "path",
    [
        "", "name", "seed", "system", "clients", "clients.alice", "clients.carol.count", "clients.alice.parameters",
        "clients.alice.ramp.every", "run.repetitions", "design.kind", "hosts.database", "faults.2.at", "faults.0.at",
        "faults.at", "faults.1", "system.brokers.more", "system..brokers", "thresholds.p99_ms",
        "preload.size.uniform.0",
    ],
)  # fmt: skip
def test_what_cannot_vary_is_refused(path: str) -> None:
    with pytest.raises(InvalidExperiment, match="but there is no such key"):
        points(made(kind="sweep", factors={"a": {"set": path, "levels": [1]}}), lookup=lookup_in(Path()))
