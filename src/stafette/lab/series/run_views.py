"""The runs of a series as the terminal and the pages show them: one by one, and each point over its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stafette.errors import NotFound, StafetteError
from stafette.lab.series import archive
from stafette.lab.series.series_folder import Series
from stafette.runs import records
from stafette.runs.layout import RUN_FILE, RUNS
from stafette.runs.records import Planned, RunRecord, State, ThresholdResult
from stafette.runs.summary import METRICS
from stafette.statistics.intervals import interval

POINT_METRICS = {"throughput": "throughput", "mean_ms": "mean ms", "p99_ms": "p99 ms"}
"""The metrics that are shown for each point, with their headings."""


class RunView(msgspec.Struct, frozen=True):
    """One run, for people and for programs."""

    run: int
    """Its position in the series, from 1."""
    label: str
    levels: dict[str, Any]
    repetition: int
    state: State
    why: str | None
    valid: bool | None
    """None before the run has a verdict."""
    sentences: list[str]
    thresholds: list[ThresholdResult]
    metrics: dict[str, float | None]
    folder: str | None

    @property
    def problem(self) -> str | None:
        """Why the run does not count; None if it counts or is not done yet."""
        if self.state in ("failed", "interrupted"):
            return self.why
        return self.sentences[0] if self.valid is False else None

    @property
    def missed(self) -> list[ThresholdResult]:
        """The thresholds that the run did not reach."""
        return [result for result in self.thresholds if not result.ok]


def views(series: Series) -> list[RunView]:
    """All runs of a series in order, including those that wait."""
    return [view(series, position) for position in range(1, len(series.record.runs) + 1)]


def view(series: Series, position: int) -> RunView:
    """The run at a position in the series, from 1."""
    planned = series.record.runs[position - 1]
    try:
        record = record_of(series, position)
    except StafetteError as error:
        return _missing(planned, position, error)
    summary, verdict = (record.summary, record.verdict) if record else (None, None)
    runner_gone = planned.state == "running" and not archive.is_running(series)
    return RunView(
        run=position,
        label=planned.label,
        levels=planned.levels,
        repetition=planned.repetition,
        state="interrupted" if runner_gone else planned.state,
        why="the runner ended before the run did" if runner_gone else record.why if record else None,
        valid=verdict.valid if verdict else None,
        sentences=verdict.sentences if verdict else [],
        thresholds=record.thresholds if record else [],
        metrics={name: metric(summary) if summary else None for name, metric in METRICS.items()},
        folder=planned.folder,
    )


def _missing(planned: Planned, position: int, error: StafetteError) -> RunView:
    """A run that has been made, but whose folder somebody removed, or spoiled: it counts as not valid."""
    return RunView(
        run=position,
        label=planned.label,
        levels=planned.levels,
        repetition=planned.repetition,
        state=planned.state,
        why=str(error),
        valid=False,
        sentences=[str(error)],
        thresholds=[],
        metrics=dict.fromkeys(METRICS),
        folder=planned.folder,
    )


def record_of(series: Series, position: int) -> RunRecord | None:
    """The record of the newest attempt of the run at a position in the series, from 1; None before there is any."""
    folder = series.record.runs[position - 1].folder
    if folder is None:
        return None
    if not (series.folder / RUNS / folder / RUN_FILE).is_file():
        raise NotFound(f"the folder {RUNS}/{folder[:100]} of this run is missing; it has been removed")
    return records.read(series.folder / RUNS / folder / RUN_FILE, RunRecord)


def points(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """Each point over its repetitions: means of the metrics, with half the width of their intervals, by level."""
    levels = {view.label: view.levels for view in views}
    return [_point(views, label) for label in sorted(levels, key=lambda label: _order(levels[label]))]


def _order(levels: Mapping[str, Any]) -> list[tuple[bool, float, str]]:
    """A sort key: numbers by value, before texts. Runs themselves are in random order."""
    numbers = [isinstance(level, int | float) and not isinstance(level, bool) for level in levels.values()]
    return [
        (not number, level if number else 0.0, str(level))
        for number, level in zip(numbers, levels.values(), strict=True)
    ]


def _point(views: Sequence[RunView], label: str) -> dict[str, Any]:
    done = [view for view in views if view.label == label and view.state == "done"]
    point: dict[str, Any] = {
        "point": label,
        "levels": next(view.levels for view in views if view.label == label),
        "runs": len(done),
        "valid": sum(view.valid is True for view in done),
    }
    for metric in POINT_METRICS:
        values = [value for view in done if (value := view.metrics[metric]) is not None]
        mean, half_width = interval(values) if values else (None, None)
        point[metric] = {"mean": mean, "half_width": half_width}
    return point
