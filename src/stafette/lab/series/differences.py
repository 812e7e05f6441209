"""The points that two series share: what changed from A to B, and whether that can be chance.

Each difference is a test of its own. Of twenty tests of equal systems at a level of 95 %, one shows a difference on
average: look for differences that many points share.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from stafette.statistics.intervals import LEVEL, Estimate, difference_interval, ratio_interval

Scalar = bool | int | float | str

METRICS = ("throughput", "mean_ms", "p50_ms", "p99_ms", "error_share")
NO_DIFFERENCE = "no difference shown"
ROUNDING = 1e-9
"""Equal runs have an interval of no width, and rounding alone can move it away from the true value."""

_WORDS = {"throughput": ("slower", "faster"), "error_share": ("fewer errors", "more errors")}
_TIME_WORDS = ("faster", "slower")  # for a smaller and for a larger value
_AS_DIFFERENCE = frozenset({"error_share"})  # usually zero, which has no ratio
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class RunMetrics(msgspec.Struct, frozen=True):
    """The metrics of one run, and its levels of the factors."""

    point: dict[str, Scalar]
    metrics: dict[str, float | None]


class Difference(msgspec.Struct, frozen=True):
    """One metric at one point, in A and in B."""

    point: dict[str, Scalar]
    label: str
    metric: str
    runs_a: int
    runs_b: int
    mean_a: float
    mean_b: float
    kind: Literal["ratio", "difference"]
    """What `change` is: B over A (of geometric means), or B less A."""
    change: Estimate | None
    """None when there is no ratio, as a value is zero."""
    verdict: str


def compare(a: Sequence[RunMetrics], b: Sequence[RunMetrics], level: float = LEVEL) -> list[Difference]:
    """The difference of every metric at every point that both have, in the order of A."""
    runs_a, runs_b = _by_point(a), _by_point(b)
    differences = []
    for key, point_runs_a in runs_a.items():
        point_runs_b = runs_b.get(key, [])
        for metric in METRICS:
            values_a, values_b = _values(point_runs_a, metric), _values(point_runs_b, metric)
            if values_a and values_b:
                differences.append(_difference(point_runs_a[0].point, metric, values_a, values_b, level))
    return differences


def differing_settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Settings in which two experiments differ: the path, as in an experiment file, and both values; None: not set."""
    return list(_differing(a, b, ""))


def label(point: Mapping[str, Scalar]) -> str:
    """The name of a point in messages."""
    return ",".join(f"{factor}={level}" for factor, level in point.items()) or "single"


def _by_point(runs: Sequence[RunMetrics]) -> dict[str, list[RunMetrics]]:
    """The runs of each point; the order of factors in a file does not matter."""
    points: dict[str, list[RunMetrics]] = {}
    for run in runs:
        points.setdefault(json.dumps(run.point, sort_keys=True), []).append(run)
    return points


def _values(runs: Sequence[RunMetrics], metric: str) -> list[float]:
    return [value for run in runs if (value := run.metrics.get(metric)) is not None]


def _difference(
    point: dict[str, Scalar], metric: str, a: Sequence[float], b: Sequence[float], level: float
) -> Difference:
    absolute = metric in _AS_DIFFERENCE
    change = difference_interval(a, b, level) if absolute else ratio_interval(a, b, level)
    return Difference(
        point=point,
        label=label(point),
        metric=metric,
        runs_a=len(a),
        runs_b=len(b),
        mean_a=float(np.mean(a)),
        mean_b=float(np.mean(b)),
        kind="difference" if absolute else "ratio",
        change=change,
        verdict=_verdict(metric, change, len(a), len(b), 0.0 if absolute else 1.0),
    )


def _verdict(metric: str, change: Estimate | None, runs_a: int, runs_b: int, same: float) -> str:
    if change is None:
        return "no ratio: a value is zero"
    if change.low is None or change.high is None:
        reason = "one run each" if runs_a == runs_b == 1 else f"one run of {'A' if runs_a == 1 else 'B'}"
        return f"{reason}: no interval"
    if change.low - ROUNDING <= same <= change.high + ROUNDING:
        return NO_DIFFERENCE
    less, more = _WORDS.get(metric, _TIME_WORDS)
    return more if change.low > same else less


def _differing(a: Any, b: Any, path: str) -> list[tuple[str, Any, Any]]:
    tables = [value for value in (a, b) if isinstance(value, Mapping)]
    if not tables or not all(value is None or isinstance(value, Mapping) for value in (a, b)):
        return [] if a == b else [(path, a, b)]
    keys = dict.fromkeys(key for table in tables for key in table)
    return [
        difference
        for key in keys
        for difference in _differing(
            (a or {}).get(key), (b or {}).get(key), f"{path}.{_quote(key)}" if path else _quote(key)
        )
    ]


def _quote(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else json.dumps(key)
