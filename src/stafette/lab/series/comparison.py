"""A comparison of two series on disk: what changed from A to B, and which settings differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stafette.errors import InvalidRequest
from stafette.lab.series import run_views
from stafette.lab.series.differences import Difference, RunMetrics, compare, differing_settings
from stafette.lab.series.run_views import RunView
from stafette.lab.series.series_folder import Series


@dataclass(frozen=True)
class Side:
    """One of the two series."""

    series: Series
    runs: list[RunView]
    """Its runs that are done."""

    @property
    def invalid(self) -> int:
        """Number of runs that are not valid."""
        return sum(not run.valid for run in self.runs)


@dataclass(frozen=True)
class Comparison:
    """The differences between two series."""

    a: Side
    b: Side
    differences: list[Difference]
    settings: list[tuple[str, Any, Any]]
    """Settings that differ: the path and both values."""


def compare_series(a: Series, b: Series) -> Comparison:
    """Compare two series by their runs that are done."""
    side_a, side_b = Side(a, _runs_done(a)), Side(b, _runs_done(b))
    differences = compare(_run_metrics(side_a.runs), _run_metrics(side_b.runs)) or _compare_single_points(
        side_a, side_b
    )
    return Comparison(side_a, side_b, differences, differing_settings(a.record.settings, b.record.settings))


def _runs_done(series: Series) -> list[RunView]:
    runs = [view for view in run_views.views(series) if view.state == "done"]
    if not runs:
        raise InvalidRequest(f"no run of {series.name} is done; continue it with `stafette lab run`")
    return runs


def _run_metrics(runs: Sequence[RunView]) -> list[RunMetrics]:
    return [RunMetrics(run.levels, run.metrics) for run in runs]


def _compare_single_points(a: Side, b: Side) -> list[Difference]:
    """Compare series without a common point, if each has a single point."""
    labels = [sorted({run.label for run in side.runs}) for side in (a, b)]
    if any(len(side_labels) > 1 for side_labels in labels):
        raise InvalidRequest(
            f"{a.series.name} ({'; '.join(labels[0])}) and {b.series.name} ({'; '.join(labels[1])})"
            " have no point in common"
        )
    runs_a, runs_b = ([RunMetrics({}, run.metrics) for run in side.runs] for side in (a, b))
    return compare(runs_a, runs_b)
