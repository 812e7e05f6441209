"""The runs of a series as they are shown, on a terminal and on pages: one by one, and each point over its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stafette.lab.series import archive
from stafette.lab.series.series_folder import Series
from stafette.runs import records
from stafette.runs.layout import RUN_FILE, RUNS
from stafette.runs.records import RunRecord, State, ThresholdResult
from stafette.runs.summary import METRICS
from stafette.statistics.intervals import interval

SHOWN = {"throughput": "throughput", "mean_ms": "mean ms", "p99_ms": "p99 ms"}
"""The metrics of each point, and their headings."""


class RunView(msgspec.Struct, frozen=True):
    """One run, for people and for programs."""

    run: int
    """Its place in the order, from 1."""
    label: str
    levels: dict[str, Any]
    repetition: int
    state: State
    why: str | None
    valid: bool | None
    """None when it has not come so far that anybody could say."""
    sentences: list[str]
    thresholds: list[ThresholdResult]
    metrics: dict[str, float | None]
    folder: str | None

    @property
    def problem(self) -> str | None:
        """Why it does not count, if it was made and does not."""
        if self.state in ("failed", "interrupted"):
            return self.why
        return self.sentences[0] if self.valid is False else None

    @property
    def missed(self) -> list[ThresholdResult]:
        """The thresholds that it did not reach."""
        return [result for result in self.thresholds if not result.ok]


def views(series: Series) -> list[RunView]:
    """All runs of a series, in their order, also those that are still to be made."""
    return [view(series, place) for place in range(1, len(series.record.runs) + 1)]


def view(series: Series, place: int) -> RunView:
    """The run at a place in the order, counted from 1."""
    planned, record = series.record.runs[place - 1], record_of(series, place)
    summary, verdict = (record.summary, record.verdict) if record else (None, None)
    left_alone = planned.state == "running" and not archive.being_run(series)
    return RunView(
        run=place,
        label=planned.label,
        levels=planned.levels,
        repetition=planned.repetition,
        state="interrupted" if left_alone else planned.state,
        why="the runner ended before the run did" if left_alone else record.why if record else None,
        valid=verdict.valid if verdict else None,
        sentences=verdict.sentences if verdict else [],
        thresholds=record.thresholds if record else [],
        metrics={name: metric(summary) if summary else None for name, metric in METRICS.items()},
        folder=planned.folder,
    )


def record_of(series: Series, place: int) -> RunRecord | None:
    """What is known of the run at a place in the order, counted from 1; of its newest attempt."""
    folder = series.record.runs[place - 1].folder
    return records.read(series.folder / RUNS / folder / RUN_FILE, RunRecord) if folder else None


def points(views: Sequence[RunView]) -> list[dict[str, Any]]:
    """Each point over its repetitions: means of the metrics, with half the width of their intervals; by level."""
    levels = {view.label: view.levels for view in views}
    return [_point(views, label) for label in sorted(levels, key=lambda label: _order(levels[label]))]


def _order(levels: Mapping[str, Any]) -> list[tuple[bool, float, str]]:
    """Numbers as numbers, before words; runs are made in a random order, which nobody wants to read."""
    numbers = [isinstance(level, int | float) and not isinstance(level, bool) for level in levels.values()]
    return [
        (not number, level if number else 0.0, str(level))
        for number, level in zip(numbers, levels.values(), strict=True)
    ]


def _point(views: Sequence[RunView], label: str) -> dict[str, Any]:
    done = [view for view in views if view.label == label and view.state == "done"]
    found: dict[str, Any] = {
        "point": label,
        "levels": next(view.levels for view in views if view.label == label),
        "runs": len(done),
        "valid": sum(view.valid is True for view in done),
    }
    for metric in SHOWN:
        values = [value for view in done if (value := view.metrics[metric]) is not None]
        mean, half_width = interval(values) if values else (None, None)
        found[metric] = {"mean": mean, "half_width": half_width}
    return found
