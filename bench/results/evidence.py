"""The metrics and curves of one experiment's runs, from the tables of the pipeline; judges nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from stafette.report.figures.table_rows import Row, RunMetadata, Tables, select
from stafette.runs.outcomes import ALL, ANSWERED

METRICS = {"throughput": "throughput_per_s"}
"""Columns of the summary that have another name here."""
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Requests:
    """A selection of requests: all that were answered, or those of one operation with one outcome."""

    operation: str = ALL
    outcome: str = ANSWERED

    def __str__(self) -> str:
        if self.operation == ALL:
            return ""
        return self.operation if self.outcome == "ok" else f"{self.operation} ({self.outcome})"


EVERY = Requests()


def of(operation: str, outcome: str = "ok") -> Requests:
    """The requests of one operation."""
    return Requests(operation, outcome)


@dataclass(frozen=True)
class Evidence:
    """All finished runs of one experiment."""

    name: str
    design: str
    runs: Sequence[RunMetadata]
    tables: Tables
    experiments: Mapping[str, Evidence] = field(default_factory=dict)
    """All experiments by name, for comparisons between them."""

    def value(self, run: str, metric: str, requests: Requests = EVERY) -> float | None:
        """A metric of the summary, as the clients saw it."""
        rows = self._rows("summary", run, requests)
        return None if not rows else rows[0][METRICS.get(metric, metric)]

    def over(self, runs: Sequence[RunMetadata], metric: str, requests: Requests = EVERY) -> float | None:
        """The mean of a metric over several runs."""
        values = [value for run in runs if (value := self.value(run.run, metric, requests)) is not None]
        return fmean(values) if values else None

    def curve(self, metric: str, factor: str, requests: Requests = EVERY, **fixed: Any) -> list[tuple[Any, float]]:
        """A metric at each level of a factor, in the order of the levels; other factors are fixed, or averaged over."""
        points = []
        for level in self.levels(factor):
            runs = [run for run in self.runs_at(**fixed) if run.levels[factor] == level]
            if (value := self.over(runs, metric, requests)) is not None:
                points.append((level, value))
        return points

    def runs_at(self, **fixed: Any) -> list[RunMetadata]:
        """The runs at these levels."""
        return [run for run in self.runs if all(run.levels.get(name) == level for name, level in fixed.items())]

    def levels(self, factor: str) -> list[Any]:
        """The measured levels of a factor: numbers in ascending order, others in order of appearance."""
        levels: list[Any] = []
        for run in self.runs:
            if run.levels[factor] not in levels:
                levels.append(run.levels[factor])
        return sorted(levels) if all(isinstance(level, int | float) for level in levels) else levels

    def points(self) -> Iterator[tuple[Mapping[str, Any], list[RunMetadata]]]:
        """Each point of the design with its repetitions, in the order of the levels."""
        groups: dict[str, list[RunMetadata]] = {}
        for run in self.runs:
            groups.setdefault(run.label, []).append(run)
        order = {name: self.levels(name) for name in (self.runs[0].levels if self.runs else ())}
        for group in sorted(
            groups.values(), key=lambda group: [order[name].index(level) for name, level in group[0].levels.items()]
        ):
            yield group[0].levels, group

    def phase(self, runs: Sequence[RunMetadata], phase: str) -> float | None:
        """Mean milliseconds of a phase, over all requests that are in the traces of both tiers."""
        count = total = 0.0
        for run in runs:
            for row in select(self.tables, "breakdown", run=run.run):
                if row[phase] is not None:
                    count += row["count"]
                    total += row["count"] * row[phase]
        return total / count if count else None

    def share_below(self, limit_ms: float) -> float | None:
        """The share of all answered requests below a limit."""
        shares = [
            row["share"]
            for run in self.runs
            for row in self._rows("shares", run.run, EVERY)
            if abs(row["limit_ms"] - limit_ms) < TOLERANCE
        ]
        return fmean(shares) if shares else None

    def windows(self, run: RunMetadata, requests: Requests = EVERY, *, measured: bool = True) -> list[Row]:
        """The windows of a run; only those of its measured part, or all."""
        rows = self._rows("windows", run.run, requests)
        if not measured:
            return rows
        stages = run.stages(self.tables)
        start, end = stages.window_from_s or 0.0, stages.window_to_s
        return [
            row
            for row in rows
            if row["second"] >= start and (end is None or row["second"] + row["seconds"] <= end + TOLERANCE)
        ]

    def stored(self, run: RunMetadata) -> tuple[int, int] | None:
        """Messages in all queues together at the first and the last sample."""
        by_second: dict[float, int] = {}
        for row in select(self.tables, "queues", run=run.run):
            by_second[row["second"]] = by_second.get(row["second"], 0) + row["messages"]
        return (by_second[min(by_second)], by_second[max(by_second)]) if by_second else None

    def effects(self, metric: str) -> list[Row]:
        """The effects of a 2k design, the one that explains most variation first."""
        rows = [
            row
            for row in select(self.tables, "effects", experiment=self.name, operation=ALL, metric=metric)
            if row["effect"] not in ("mean", "I", "error") and row["variation_percent"] is not None
        ]
        return sorted(rows, key=lambda row: -row["variation_percent"])

    def _rows(self, table: str, run: str, requests: Requests) -> list[Row]:
        rows = select(self.tables, table, run=run, operation=requests.operation, outcome=requests.outcome)
        tier = "client" if any(row["tier"] == "client" for row in rows) else None
        return [row for row in rows if tier is None or row["tier"] == tier]
