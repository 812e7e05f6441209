"""Two series are compared point by point, and a difference is claimed only where chance is ruled out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stafette.lab.series.differences import METRICS, Difference, RunMetrics, compare, differing_settings
from stafette.statistics.intervals import difference_interval, ratio_interval

SLOW, FAST = [100.0, 101.0, 99.0], [200.0, 202.0, 198.0]


def runs(metric: str, values: list[float], **point: float) -> list[RunMetrics]:
    return [RunMetrics(dict(point), {metric: value}) for value in values]


def only(differences: list[Difference]) -> Difference:
    [difference] = differences
    return difference


@pytest.mark.parametrize(
    ("metric", "rising", "falling"),
    [("throughput", "faster", "slower"), ("mean_ms", "slower", "faster"), ("p50_ms", "slower", "faster"),
     ("p99_ms", "slower", "faster"), ("error_share", "more errors", "fewer errors")],
)  # fmt: skip
def test_what_more_and_less_of_a_metric_means(metric: str, rising: str, falling: str) -> None:
    assert only(compare(runs(metric, SLOW), runs(metric, FAST), 0.95)).verdict == rising
    assert only(compare(runs(metric, FAST), runs(metric, SLOW), 0.95)).verdict == falling
    assert only(compare(runs(metric, SLOW), runs(metric, SLOW), 0.95)).verdict == "no difference shown"


def test_a_difference_has_means_ratio_and_interval() -> None:
    found = only(compare(runs("throughput", SLOW, brokers=2), runs("throughput", FAST, brokers=2), 0.95))
    assert (found.point, found.label, found.runs_a, found.runs_b) == ({"brokers": 2}, "brokers=2", 3, 3)
    assert (found.mean_a, found.mean_b, found.kind) == (100.0, 200.0, "ratio")
    assert found.change == ratio_interval(SLOW, FAST, 0.95)


def test_the_level_decides() -> None:
    a, b = runs("mean_ms", [100.0, 110.0, 120.0]), runs("mean_ms", [120.0, 131.0, 140.0])
    assert only(compare(a, b, 0.9)).verdict == "slower"
    assert only(compare(a, b, 0.999)).verdict == "no difference shown"


def test_shares_of_errors_are_subtracted_as_they_are_mostly_zero() -> None:
    a, b = [0.0, 0.0, 0.0], [0.10, 0.11, 0.12]
    found = only(compare(runs("error_share", a), runs("error_share", b), 0.95))
    assert (found.kind, found.change, found.verdict) == ("difference", difference_interval(a, b, 0.95), "more errors")
    assert only(compare(runs("error_share", a), runs("error_share", a), 0.95)).verdict == "no difference shown"


@pytest.mark.parametrize(
    ("runs_a", "runs_b", "words"),
    [(1, 1, "one run each: no interval"), (1, 3, "one run of A: no interval"), (3, 1, "one run of B: no interval")],
)
def test_single_runs_have_a_ratio_and_no_interval(runs_a: int, runs_b: int, words: str) -> None:
    found = only(compare(runs("mean_ms", SLOW[:runs_a]), runs("mean_ms", FAST[:runs_b]), 0.95))
    assert found.verdict == words
    assert found.change is not None
    assert found.change.value == pytest.approx(2.0, rel=0.02)
    assert (found.change.low, found.change.high) == (None, None)


@pytest.mark.parametrize("value", [0.1, 0.7, 3.3, 1e5 / 3])
def test_rounding_is_no_difference(value: float) -> None:
    for metric in ("mean_ms", "error_share"):
        for count in range(2, 12):
            found = only(compare(runs(metric, [value] * 2), runs(metric, [value] * count), 0.95))
            assert found.verdict == "no difference shown"


def test_a_zero_has_no_ratio() -> None:
    found = only(compare(runs("throughput", [0.0, 100.0]), runs("throughput", FAST), 0.95))
    assert (found.change, found.verdict) == (None, "no ratio: a value is zero")


def test_only_points_and_metrics_that_both_have() -> None:
    a = [*runs("mean_ms", SLOW, size=200, brokers=1), *runs("mean_ms", SLOW, size=200, brokers=2)]
    b = [*runs("mean_ms", FAST, brokers=2, size=200), *runs("mean_ms", FAST, size=2000, brokers=2)]
    found = only(compare(a, b, 0.95))
    assert found.label == "size=200,brokers=2"  # as A names it; the order of the factors does not matter
    assert compare(a, runs("p99_ms", FAST, size=200, brokers=2), 0.95) == []


def test_a_run_without_the_metric_does_not_count() -> None:
    b = [*runs("mean_ms", FAST), RunMetrics({}, {"mean_ms": None})]
    found = only(compare(runs("mean_ms", SLOW), b, 0.95))
    assert (found.label, found.runs_b, found.mean_b) == ("single", 3, 200.0)


def test_points_come_in_the_order_of_a_and_metrics_in_ours() -> None:
    def series(*sizes: float) -> list[RunMetrics]:
        return [RunMetrics({"size": size}, dict.fromkeys(reversed(METRICS), 1.0)) for size in sizes]

    found = compare(series(2000, 200, 2000), series(200, 2000), 0.95)
    assert [(line.label, line.metric) for line in found] == [
        (f"size={size}", metric) for size in (2000, 200) for metric in METRICS
    ]


# Settings


def test_settings_that_differ() -> None:
    a = {
        "seed": 1, "system": {"brokers": 1, "workers": 1}, "clients": {"alice": {"count": 10}},
        "hosts": {"machines": {"10.0.0.1": {"port": 22}}}, "faults": [{"at": 1.0}], "run": {"repetitions": 3},
    }  # fmt: skip
    b = {
        "seed": 1, "system": {"brokers": 2, "workers": 1}, "clients": {"bob": {"count": 10}},
        "hosts": {"machines": {"10.0.0.1": {"port": 23}}}, "faults": [], "run": {"repetitions": {"within": 0.05}},
    }  # fmt: skip
    assert differing_settings(a, b) == [
        ("system.brokers", 1, 2),
        ("clients.alice.count", 10, None),
        ("clients.bob.count", None, 10),
        ('hosts.machines."10.0.0.1".port', 22, 23),
        ("faults", [{"at": 1.0}], []),
        ("run.repetitions", 3, {"within": 0.05}),
    ]


def test_not_set_and_none_are_the_same() -> None:
    assert differing_settings({"hosts": None, "a": {"b": None}}, {"a": {}}) == []


scalars = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["x", "y"])
tables = st.recursive(
    st.dictionaries(st.sampled_from("abc"), scalars, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner | scalars, max_size=3),
    max_leaves=8,
)


@given(tables, tables)
def test_each_difference_is_one_and_the_other_way_round_too(a: dict[str, object], b: dict[str, object]) -> None:
    def value(table: object, path: str) -> object:
        for key in path.split("."):
            table = table.get(key) if isinstance(table, dict) else None
        return table

    found = differing_settings(a, b)
    for path, in_a, in_b in found:
        assert in_a != in_b
        assert (value(a, path), value(b, path)) == (in_a, in_b)
    turned = {(path, repr(in_b), repr(in_a)) for path, in_a, in_b in found}
    assert turned == {(path, repr(in_a), repr(in_b)) for path, in_a, in_b in differing_settings(b, a)}
    assert differing_settings(a, a) == []
