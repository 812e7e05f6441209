"""Behaviours without a broker: which class a name finds, which parameters are refused, what bodies look like."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pydantic
import pytest

from stafette.errors import InvalidRequest
from stafette.lab import behaviours
from stafette.lab.behaviours import BUILT_IN, Behaviour, ClientContext, check, find
from stafette.lab.behaviours.mix import deal
from stafette.lab.behaviours.one_way import read_counter
from stafette.lab.behaviours.parts import RANDOM_BYTES, Sender, SendParameters, integer_draw
from stafette.lab.experiment.distribution import Exponential, Uniform

NOBODY: Any = None
"""Instead of a client: these tests end before the first request."""

OWN = """
from __future__ import annotations

from pydantic import Field

from stafette.lab.behaviours import Behaviour, Parameters

class Settings(Parameters):
    loud: int = Field(default=1, le=11)

class Mine(Behaviour):
    Parameters = Settings

    async def step(self) -> None:
        await self.client.ping()

class Other:
    pass
"""


def make(name: str, number: int = 1, *, groups: dict[str, int] | None = None, seed: int = 1, **parameters: Any) -> Any:
    behaviour = BUILT_IN[name]
    client_context = ClientContext(
        name, number, groups or {name: 2}, ("q-1", "q-2", "q-3"), random.Random(f"{seed}:{name}-{number}")
    )
    return behaviour(NOBODY, client_context, check(behaviour, parameters))


# Finding


def test_a_built_in_name_finds_its_class() -> None:
    assert {name: find(name, Path()) for name in BUILT_IN} == BUILT_IN
    assert [name for name, behaviour in BUILT_IN.items() if behaviour.direct] == ["database_only"]


def test_every_behaviour_tells_what_it_does_and_steps() -> None:
    for behaviour in BUILT_IN.values():
        assert behaviour.__doc__
        assert any(source in behaviour.__doc__ for source in ("(FTaB)", "(mlmq)", "(ASL15)"))
        assert behaviour.step is not Behaviour.step


def test_no_parameter_bears_a_name_that_the_group_has() -> None:
    groups_own = {"behaviour", "count", "think_time", "rate", "arrivals", "ramp"}
    for behaviour in BUILT_IN.values():
        assert not groups_own & set(behaviour.Parameters.model_fields)


def test_a_file_beside_the_experiment_is_found_and_loaded_anew_each_time(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.py").write_text(OWN)
    first = find("own/mine.py:Mine", tmp_path)
    (tmp_path / "own" / "mine.py").write_text(OWN.replace("le=11", "le=1000"))
    second = find("own/mine.py:Mine", tmp_path)
    assert first.__name__ == second.__name__ == "Mine"
    assert issubclass(first, Behaviour)
    with pytest.raises(pydantic.ValidationError):
        check(first, {"loud": 12})
    check(second, {"loud": 12})


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("alicia", "there is no behaviour alicia; did you mean alice; there are alice, bob, carl,"),
        ("xyzzy", "there is no behaviour xyzzy; there are alice, bob, carl,"),
        ("mine.py", 'the behaviour mine.py does not say which class; write "mine.py:ClassName"'),
        ("none.py:Mine", "there is no behaviour file none.py in"),
        ("../outside.py:Mine", "the behaviour file ../outside.py lies outside"),
        ("/outside.py:Mine", "the behaviour file /outside.py lies outside"),
        ("mine.txt:Mine", "the behaviour file mine.txt is not a Python file; its name must end in .py"),
        ("mine.py:None", "there is no class None in mine.py; name one that it defines"),
        ("mine.py:", "there is no class (no name) in mine.py; name one that it defines"),
        ("mine.py:Other", "Other in mine.py is not a behaviour; derive it from stafette.lab.behaviours.Behaviour"),
        ("mine.py:OWN", "OWN in mine.py is not a behaviour; derive it from stafette.lab.behaviours.Behaviour"),
        ("breaks.py:Mine", "breaks.py cannot be imported: ModuleNotFoundError in line 3: No module named 'nowhere'"),
        ("typo.py:Mine", "typo.py cannot be imported: SyntaxError in line 2: invalid syntax"),
        ("leaves.py:Mine", "leaves.py cannot be imported: SystemExit in line 1: 3"),
    ],
)
def test_what_cannot_be_found_is_told_in_a_sentence(tmp_path: Path, name: str, sentence: str) -> None:
    folder = tmp_path / "experiment"
    folder.mkdir()
    (tmp_path / "outside.py").write_text(OWN)
    (folder / "mine.py").write_text(OWN + "OWN = 1\n")
    (folder / "mine.txt").write_text(OWN)
    (folder / "breaks.py").write_text("\n\nimport nowhere\n")
    (folder / "typo.py").write_text("\nclass class\n")
    (folder / "leaves.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(InvalidRequest) as caught:
        find(name, folder)
    assert caught.value.sentence.startswith(sentence)


# Parameters


@pytest.mark.parametrize(
    ("name", "parameters", "where"),
    [
        ("alice", {"colour": "red"}, ("colour",)),
        ("alice", {"size": -1}, ("size", "fixed")),
        ("alice", {"size": 10**9}, ("size",)),
        ("alice", {"size": float("inf")}, ("size",)),
        ("alice", {"size": {"uniform": [0, float("inf")]}}, ("size",)),
        ("alice", {"priority": 0}, ("priority",)),
        ("alice", {"priority": 11}, ("priority",)),
        ("alice", {"priority": 5.5}, ("priority",)),
        ("alice", {"targets": 0}, ("targets",)),
        ("alice", {"batch": 2}, ("batch",)),
        ("bob", {"batch": 0}, ("batch",)),
        ("bob", {"size": 10}, ("size",)),
        ("bob", {"retry_delay": -1}, ("retry_delay",)),
        ("carl", {"queues": ["q-1", "q-2"]}, ("queues",)),
        ("larry", {"wait": 11}, ("wait",)),
        ("tola", {"patience": 0}, ("patience",)),
        ("mix", {"shares": {"send": 0}}, ("shares",)),
        ("mix", {"shares": {"send": -1}}, ("shares", "send")),
        ("mix", {"shares": {"write": 1}}, ("shares", "write")),
        ("mix", {"each": "hour"}, ("each",)),
        ("database_only", {"shares": {"echo": 1}}, ()),
    ],
)
def test_parameters_out_of_range_are_refused(name: str, parameters: dict[str, Any], where: tuple[str, ...]) -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        check(BUILT_IN[name], parameters)
    assert where in [error["loc"][: len(where)] for error in caught.value.errors()]


def test_reads_wait_but_those_of_the_originals_that_looked_and_went_on() -> None:
    defaults = {name: check(behaviour, {}).wait for name, behaviour in BUILT_IN.items()}
    assert {name for name, wait in defaults.items() if wait == 0} == {"bob", "consumer", "larry"}


def test_priorities_and_sizes_may_be_distributions() -> None:
    alice = make("alice", priority={"uniform": [1, 10]}, size={"choice": [3, 4]})
    assert {alice.priority() for _ in range(500)} == set(range(1, 11))
    assert {len(alice.body()) for _ in range(100)} == {3, 4}


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("alice", {"targets": 4}, "clients.alice.targets is 4; these clients have only 3 queues;"),
        ("alice", {"receiver": "bob"}, 'clients.alice.receiver is "bob"; there is no such group; there are alice'),
        ("tola", {}, 'clients.tola.partner is "maruja"; there is no such group; there are tola'),
        ("tola", {"groups": {"tola": 2, "maruja": 0}}, 'clients.tola.partner is "maruja"; that group has no clients;'),
        ("paired", {"groups": {"paired": 3}}, "clients.paired.count is 3; these clients come in pairs;"),
    ],
)
def test_what_does_not_fit_the_scene_is_refused(name: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        make(name, **options)
    assert caught.value.sentence.startswith(sentence)


@pytest.mark.parametrize("name", ["alice", "bob", "carl", "larry", "maruja", "mix", "producer", "rick"])
def test_a_client_that_needs_a_queue_says_so(name: str) -> None:
    client_context = ClientContext(name, 1, {name: 2}, (), random.Random(1))
    with pytest.raises(InvalidRequest, match="need a queue"):
        BUILT_IN[name](NOBODY, client_context, check(BUILT_IN[name], {}))


def test_tolas_in_excess_share_the_marujas_in_turn() -> None:
    groups = {"tola": 5, "maruja": 2}
    assert [make("tola", number, groups=groups).maruja for number in range(1, 6)] == [
        "maruja-1", "maruja-2", "maruja-1", "maruja-2", "maruja-1",
    ]  # fmt: skip


# Bodies and rng


@pytest.mark.parametrize("size", [0, 1, 200, len(RANDOM_BYTES), len(RANDOM_BYTES) + 1, 3 * len(RANDOM_BYTES)])
def test_a_body_has_the_size_asked_for(size: int) -> None:
    assert len(make("alice", size=size).body()) == size


def test_bodies_vary_but_not_those_of_the_producer() -> None:
    alice, producer = make("alice"), make("producer", size={"uniform": [100, 2000]})
    assert len({alice.body() for _ in range(20)}) == 20
    assert len({producer.body() for _ in range(20)}) == 1


def test_the_same_seed_gives_the_same_client() -> None:
    def life(seed: int, number: int) -> list[Any]:
        client = make("alice", number, seed=seed, size={"uniform": [0, 1000]}, priority={"exponential": 4})
        return [(client.body(), client.priority(), client.any_queue()) for _ in range(50)]

    assert life(1, 1) == life(1, 1)
    assert life(1, 1) != life(2, 1)
    assert life(1, 1) != life(1, 2)


def test_drawn_numbers_stay_within_their_bounds() -> None:
    rng = random.Random(1)
    low, high = (
        integer_draw(Uniform(uniform=(0, 0.4)), rng, 1, 10),
        integer_draw(Exponential(exponential=1e9), rng, 1, 10),
    )
    assert {low() for _ in range(50)} == {1}
    assert {high() for _ in range(50)} == {10}


def test_a_body_that_nobody_numbered_counts_from_nought() -> None:
    assert [read_counter(body) for body in (b"", b"17", b"17 \xff\xff", b"x 1", b" 1", b"9" * 30)] == [
        0,
        17,
        17,
        0,
        0,
        int(b"9" * 20),
    ]


def test_own_parts_can_be_used_by_others() -> None:
    class Shouting(Sender):
        Parameters = SendParameters

    client_context = ClientContext("shouting", 1, {"shouting": 1}, (), random.Random(1))
    assert len(Shouting(NOBODY, client_context, check(Shouting, {"size": 7})).body()) == 7


# Dealing


def test_kinds_are_dealt_in_proportion_from_the_first_client_on() -> None:
    assert deal((1.0, 1.0, 1.0, 1.0, 0.0), 6) == (0, 1, 2, 3, 0, 1)
    hands = deal((50.0, 20.0, 30.0), 1000)
    assert Counter(hands) == {0: 500, 1: 200, 2: 300}
    for some in (10, 37, 500):
        for kind, share in enumerate((0.5, 0.2, 0.3)):
            assert abs(hands[:some].count(kind) - share * some) <= 1


# Names of the version before


def test_former_names_work_and_warn() -> None:
    with pytest.warns(FutureWarning, match="Scene is now"):
        scene = behaviours.Scene("alice", 1, {"alice": 1}, ("q-1",), chance=random.Random(1))
    alice: Any = BUILT_IN["alice"](NOBODY, scene, check(BUILT_IN["alice"], {}))
    with pytest.warns(FutureWarning, match="Behaviour.me is now Behaviour.client"):
        assert alice.me is NOBODY
    with pytest.warns(FutureWarning, match="Behaviour.scene is now Behaviour.client_context"):
        assert alice.scene is scene
    with pytest.warns(FutureWarning, match="chance is now"):
        assert alice.client_context.chance is alice.rng
    with pytest.warns(FutureWarning, match="another is now"):
        assert alice.client_context.another() == "alice-1"
    assert not hasattr(alice, "nothing")
    assert not hasattr(behaviours, "Nothing")
