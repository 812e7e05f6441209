"""Two series read from disk and compared: what changed from A to B, and what was set otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stafette.errors import InvalidRequest
from stafette.lab.series import run_views
from stafette.lab.series.differences import Difference, RunFigures, compare, differing_settings
from stafette.lab.series.run_views import RunView
from stafette.lab.series.series_folder import Series


@dataclass(frozen=True)
class Side:
    """One of the two."""

    series: Series
    runs: list[RunView]
    """Those that are done."""

    @property
    def invalid(self) -> int:
        """How many of them cannot be trusted."""
        return sum(not run.valid for run in self.runs)


@dataclass(frozen=True)
class Comparison:
    """What there is to say about two series."""

    a: Side
    b: Side
    differences: list[Difference]
    settings: list[tuple[str, Any, Any]]
    """Where they differ: the path and both values."""


def compared(a: Series, b: Series) -> Comparison:
    """Compare two series by their runs that are done."""
    one, other = Side(a, _done(a)), Side(b, _done(b))
    differences = compare(_figures(one.runs), _figures(other.runs)) or _of_single_points(one, other)
    return Comparison(one, other, differences, differing_settings(a.record.settings, b.record.settings))


def _done(series: Series) -> list[RunView]:
    found = [view for view in run_views.views(series) if view.state == "done"]
    if not found:
        raise InvalidRequest(f"no run of {series.name} is done; let it go on with `stafette lab run`")
    return found


def _figures(found: Sequence[RunView]) -> list[RunFigures]:
    return [RunFigures(run.levels, run.metrics) for run in found]


def _of_single_points(a: Side, b: Side) -> list[Difference]:
    """Two that have nothing in common but that there is only one thing to compare."""
    labels = [sorted({run.label for run in side.runs}) for side in (a, b)]
    if any(len(found) > 1 for found in labels):
        raise InvalidRequest(
            f"{a.series.name} ({'; '.join(labels[0])}) and {b.series.name} ({'; '.join(labels[1])})"
            " have no point in common"
        )
    bare_a, bare_b = ([RunFigures({}, run.metrics) for run in side.runs] for side in (a, b))
    return compare(bare_a, bare_b)
