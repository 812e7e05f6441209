"""What the runs of one experiment say, out of the pipeline's tables: single figures and curves, nothing judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from stafette.report.figures.table_rows import Row, RunFacts, Tables, select
from stafette.runs.outcomes import ALL, ANSWERED

METRICS = {"throughput": "throughput_per_s"}
"""Columns of the summary that go by another name here."""
CLOSE = 1e-6


@dataclass(frozen=True)
class Requests:
    """Which requests are meant: all that were answered, or those of one operation with one outcome."""

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
    """All runs of one experiment that came to their end."""

    name: str
    design: str
    runs: Sequence[RunFacts]
    tables: Tables
    others: Mapping[str, Evidence] = field(default_factory=dict)
    """The other experiments, for what can only be said beside them."""

    def value(self, run: str, metric: str, requests: Requests = EVERY) -> float | None:
        """A figure of the summary, as the clients saw it."""
        rows = self._rows("summary", run, requests)
        return None if not rows else rows[0][METRICS.get(metric, metric)]

    def over(self, runs: Sequence[RunFacts], metric: str, requests: Requests = EVERY) -> float | None:
        """The same over several runs, each counting alike."""
        values = [value for run in runs if (value := self.value(run.run, metric, requests)) is not None]
        return fmean(values) if values else None

    def curve(self, metric: str, factor: str, requests: Requests = EVERY, **held: Any) -> list[tuple[Any, float]]:
        """A metric at each level of a factor, in the order of the levels; other factors held, or averaged over."""
        found = []
        for level in self.levels(factor):
            mine = [run for run in self.having(**held) if run.levels[factor] == level]
            if (value := self.over(mine, metric, requests)) is not None:
                found.append((level, value))
        return found

    def having(self, **held: Any) -> list[RunFacts]:
        """The runs at these levels."""
        return [run for run in self.runs if all(run.levels.get(name) == level for name, level in held.items())]

    def levels(self, factor: str) -> list[Any]:
        """The levels of a factor that were measured: numbers from the least on, others as they come."""
        seen: list[Any] = []
        for run in self.runs:
            if run.levels[factor] not in seen:
                seen.append(run.levels[factor])
        return sorted(seen) if all(isinstance(level, int | float) for level in seen) else seen

    def points(self) -> Iterator[tuple[Mapping[str, Any], list[RunFacts]]]:
        """Each point of the design with its repetitions, in the order of the levels."""
        groups: dict[str, list[RunFacts]] = {}
        for run in self.runs:
            groups.setdefault(run.label, []).append(run)
        order = {name: self.levels(name) for name in (self.runs[0].levels if self.runs else ())}
        for group in sorted(groups.values(), key=lambda g: [order[n].index(v) for n, v in g[0].levels.items()]):
            yield group[0].levels, group

    def phase(self, runs: Sequence[RunFacts], phase: str) -> float | None:
        """Milliseconds of a phase per request, over all requests that both tiers know."""
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
            if abs(row["limit_ms"] - limit_ms) < CLOSE
        ]
        return fmean(shares) if shares else None

    def windows(self, run: RunFacts, requests: Requests = EVERY, *, measured: bool = True) -> list[Row]:
        """Second by second; of the measured part, or all of it."""
        rows = self._rows("windows", run.run, requests)
        if not measured:
            return rows
        stages = run.stages(self.tables)
        begin, end = stages.window_from_s or 0.0, stages.window_to_s
        return [
            row
            for row in rows
            if row["second"] >= begin and (end is None or row["second"] + row["seconds"] <= end + CLOSE)
        ]

    def stored(self, run: RunFacts) -> tuple[int, int] | None:
        """Messages in all queues together at the first and the last sample."""
        by_second: dict[float, int] = {}
        for row in select(self.tables, "queues", run=run.run):
            by_second[row["second"]] = by_second.get(row["second"], 0) + row["messages"]
        return (by_second[min(by_second)], by_second[max(by_second)]) if by_second else None

    def effects(self, metric: str) -> list[Row]:
        """Effects of a 2k design by the variation they explain, the strongest first."""
        rows = [
            row
            for row in select(self.tables, "effects", experiment=self.name, metric=metric)
            if row["effect"] not in ("mean", "I", "error") and row["variation_percent"] is not None
        ]
        return sorted(rows, key=lambda row: -row["variation_percent"])

    def _rows(self, table: str, run: str, requests: Requests) -> list[Row]:
        rows = select(self.tables, table, run=run, operation=requests.operation, outcome=requests.outcome)
        tier = "client" if any(row["tier"] == "client" for row in rows) else None
        return [row for row in rows if tier is None or row["tier"] == tier]
