"""Two series side by side: the same points of both, what changed from A to B, and whether chance can be ruled out.

Every line is a comparison of its own. Of twenty that compare like with like at a level of 95 %, one will show a
difference: look for those that many points share.
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
"""Runs that are all alike have an interval of no width, which rounding alone can move off the mark."""

_WORDS = {"throughput": ("slower", "faster"), "error_share": ("fewer errors", "more errors")}
_TIME_WORDS = ("faster", "slower")  # what less of it, and more of it, means
_AS_DIFFERENCE = frozenset({"error_share"})  # usually zero, so that there is no ratio
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class RunFigures(msgspec.Struct, frozen=True):
    """What one run came to, and at which levels of the factors."""

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


def compare(a: Sequence[RunFigures], b: Sequence[RunFigures], level: float = LEVEL) -> list[Difference]:
    """Every metric of every point that both have, in the order of A."""
    runs_a, runs_b = _by_point(a), _by_point(b)
    differences = []
    for key, ours in runs_a.items():
        theirs = runs_b.get(key, [])
        for metric in METRICS:
            values_a, values_b = _values(ours, metric), _values(theirs, metric)
            if values_a and values_b:
                differences.append(_difference(ours[0].point, metric, values_a, values_b, level))
    return differences


def differing_settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Where two resolved experiments differ: the path, as in an experiment file, and both values; None is not set."""
    return list(_differing(a, b, ""))


def label(point: Mapping[str, Scalar]) -> str:
    """A point's name for people."""
    return ",".join(f"{factor}={level}" for factor, level in point.items()) or "single"


def _by_point(runs: Sequence[RunFigures]) -> dict[str, list[RunFigures]]:
    """The runs of each point; the order in which a file names its factors does not matter."""
    points: dict[str, list[RunFigures]] = {}
    for run in runs:
        points.setdefault(json.dumps(run.point, sort_keys=True), []).append(run)
    return points


def _values(runs: Sequence[RunFigures], metric: str) -> list[float]:
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
        alone = "one run each" if runs_a == runs_b == 1 else f"one run of {'A' if runs_a == 1 else 'B'}"
        return f"{alone}: no interval"
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
        found
        for key in keys
        for found in _differing(
            (a or {}).get(key), (b or {}).get(key), f"{path}.{_quoted(key)}" if path else _quoted(key)
        )
    ]


def _quoted(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else json.dumps(key)
