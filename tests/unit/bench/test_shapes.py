"""Shapes of curves know what they see."""

from __future__ import annotations

from typing import Any

import pytest

from bench.results import shapes
from bench.results.evidence import of
from stafette.report import result_tables
from stafette.report.figures.table_rows import RunMetadata
from tests.support.results_evidence import against_clients, evidence, summary, windows

SATURATING = against_clients((8, 1000, 1), (32, 2000, 2), (64, 2050, 4), (128, 2040, 8))


@pytest.mark.parametrize(
    ("shape", "same"),
    [
        (shapes.rises("throughput", "clients"), True),
        (shapes.falls("throughput", "clients"), False),
        (shapes.stays("throughput", "clients"), False),
        (shapes.stays("throughput", "clients", between=(32, 128)), True),
        (shapes.rises("mean_ms", "clients"), True),
        (shapes.straight("mean_ms", "clients"), True),
        (shapes.straight("throughput", "clients"), False),
        (shapes.saturates("clients"), True),
        (shapes.saturates("clients", upto=16), False),
        (shapes.best_within("mean_ms", "clients"), False),
        (shapes.rises("mean_ms", "clients", of("send")), None),
    ],
)
def test_a_curve_has_a_shape_or_not(shape: shapes.Shape, same: bool | None) -> None:
    assert shape(SATURATING).same is same


def test_a_shape_says_what_it_saw() -> None:
    finding = shapes.saturates("clients")(SATURATING)
    assert finding.detail == (
        "throughput 1,000, 2,000, 2,050, 2,040/s with clients 8, 32, 64, 128: within 5 % of the peak from 32 on"
    )


def test_growth_to_the_last_level_is_not_saturation() -> None:
    finding = shapes.saturates("clients")(against_clients((1, 100, 1), (2, 200, 1), (4, 400, 1)))
    assert (finding.same, finding.detail.rpartition(": ")[2]) == (False, "still growing at the last level")


@pytest.mark.parametrize(("last", "same"), [(1.1, True), (1.5, False), (0.5, False)])
def test_a_run_is_steady_or_not(last: float, same: bool) -> None:
    means = [1.0] * 10 + [last] * 5
    run = RunMetadata("one", label="single")
    looked_at = evidence("single", [run], windows=windows("one", means, [100.0] * 15))
    assert shapes.steady()(looked_at).same is same


@pytest.mark.parametrize(("metric", "effect", "same"), [("throughput", "A", True), ("throughput", "B", False)])
def test_the_strongest_effect(metric: str, effect: str, same: bool) -> None:
    whole = (("mean", 100.0, None), ("A", 10.0, 80.0), ("B", 5.0, 15.0), ("error", None, 5.0))
    groups = [("all", "answered", *row) for row in whole]
    groups.append(("send", "ok", "B", 99.0, 99.0))  # of one operation: not what is asked for
    rows = [
        {"experiment": "made-up", "operation": operation, "outcome": outcome, "metric": "throughput"}
        | {"effect": name, "value": value, "low": None, "high": None, "variation_percent": percent}
        for operation, outcome, name, value, percent in groups
    ]
    assert shapes.strongest(metric, effect)(evidence("2k", effects=rows)).same is same
    assert shapes.weak(metric, "B", 10)(evidence("2k", effects=rows)).same is False


SENDS_AND_READS = evidence(
    "single",
    [RunMetadata("one", label="single")],
    summary=[summary("one", 100, 2, "send", "ok"), summary("one", 110, 3, "receive", "ok")],
)


def test_kinds_of_requests_beside_each_other() -> None:
    assert shapes.slower(of("receive"), of("send"))(SENDS_AND_READS).same is True
    assert shapes.slower(of("send"), of("receive"))(SENDS_AND_READS).same is False
    assert shapes.as_many(of("send"), of("receive"))(SENDS_AND_READS).same is True
    assert shapes.slower(of("peek"), of("send"))(SENDS_AND_READS).same is None


@pytest.mark.parametrize(("alone", "same"), [(0, True), (1, False)])
def test_every_request_is_seen_in_both_tiers_or_not(alone: int, same: bool) -> None:
    row = dict.fromkeys(result_tables.TABLES["joins"].names, 0) | {"run": "one", "joined": 5, "broker_only": alone}
    assert shapes.all_seen()(evidence("single", [RunMetadata("one")], joins=[row])).same is same


@pytest.mark.parametrize(("database", "same"), [(1.5, True), (3.0, False)])
def test_a_phase_grows_alone_or_with_another(database: float, same: bool) -> None:
    row: dict[str, Any] = dict.fromkeys(result_tables.TABLES["breakdown"].names, 0.0)
    row |= {"operation": "send", "outcome": "ok", "count": 10}
    rows = [
        row | {"run": "few", "queue_ms": 0.0, "database_ms": 1.0},
        row | {"run": "many", "queue_ms": 2.0, "database_ms": database},
    ]
    runs = [RunMetadata(name, levels={"clients": clients}) for name, clients in (("few", 8), ("many", 64))]
    assert shapes.grows_alone("queue_ms", "clients")(evidence(runs=runs, breakdown=rows)).same is same


@pytest.mark.parametrize(("last", "down"), [(100.0, False), (40.0, True)])
def test_more_and_more_clients_break_it_down_or_not(last: float, down: bool) -> None:
    ramp = {"clients": {"crowd": {"count": 40, "ramp": {"clients": 10, "every": 5.0}}}}
    rates = [50.0] * 5 + [100.0] * 5 + [last] * 5 + [0.0] * 5  # the last step is not whole, and does not count
    run = RunMetadata("one", label="single", details={"settings": ramp})
    looked_at = evidence("single", [run], windows=windows("one", [1.0] * 20, rates))
    assert shapes.breaks_down("crowd")(looked_at).same is down
    assert shapes.holds_up("crowd")(looked_at).same is not down
    assert shapes.ramp_saturates("crowd", (20, 20))(looked_at).same is True
