"""What the settings of a run say of its clients, as experiment files write them."""

from __future__ import annotations

from typing import Any

import pytest

from stafette.runs.closed_loop import ClosedLoop, client_counts, closed_loop, mean_think_time_s


def settings(**groups: dict[str, Any]) -> dict[str, Any]:
    return {"clients": groups}


@pytest.mark.parametrize(
    ("think_time", "mean"),
    [
        (0.25, 0.25),
        ({"fixed": 0.5}, 0.5),
        ({"exponential": 0.1}, 0.1),
        ({"uniform": [0.1, 0.3]}, 0.2),
        ({"choice": [0, 0.1, 0.2]}, 0.1),
    ],
)
def test_the_mean_of_every_distribution(think_time: object, mean: float) -> None:
    loop = closed_loop(settings(alice={"count": 3, "think_time": think_time}))
    assert loop is not None
    assert (loop.clients, loop.steps_per_s) == (3, None)
    assert loop.think_time_s == pytest.approx(mean)
    assert mean_think_time_s(settings(alice={"count": 3, "think_time": think_time})) == pytest.approx(mean)


def test_groups_that_think_alike_are_one_loop() -> None:
    both = settings(alice={"count": 3, "think_time": 0.1}, bob={"count": 2, "think_time": {"fixed": 0.1}})
    assert closed_loop(both, steps_per_s=7.0) == ClosedLoop(5, 0.1, 7.0)
    assert client_counts(both) == {"alice": 3, "bob": 2}


@pytest.mark.parametrize(
    "other",
    [
        {"count": 1, "think_time": 0.2},
        {"count": 1, "think_time": 0.1, "rate": 10.0},
        {"count": 1, "think_time": 0.1, "ramp": {"clients": 1, "every": 1.0}},
    ],
)
def test_groups_that_are_no_loop_together(other: dict[str, Any]) -> None:
    alice = {"count": 3, "think_time": 0.1}
    assert closed_loop(settings(alice=alice, other=other)) is None
    assert closed_loop(settings(alice=alice, other={**other, "count": 0})) == ClosedLoop(3, 0.1)


def test_the_mean_over_clients_that_think_for_different_times() -> None:
    both = settings(alice={"count": 3, "think_time": 0.1}, bob={"count": 1, "think_time": 0.5})
    assert mean_think_time_s(both) == pytest.approx(0.2)
    assert mean_think_time_s(settings(alice={"count": 3, "rate": 5.0})) is None


def test_nobody_at_all() -> None:
    assert closed_loop({}) is None
    assert mean_think_time_s({}) is None


def test_a_distribution_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="there is no distribution pareto"):
        closed_loop(settings(alice={"count": 1, "think_time": {"pareto": 1.0}}))
