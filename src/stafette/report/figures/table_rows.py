"""Rows of the result tables, and the metadata of each run, as the figures need them.

The tables are small, so plain dictionaries suffice. Nothing here needs Spark or files.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stafette.runs.outcomes import ALL, ANSWERED

Tables = Mapping[str, pa.Table]
Row = dict[str, Any]
Series = tuple[str, str]
"""An operation and an outcome."""

WHOLE = {"operation": ALL, "outcome": ANSWERED}
"""Columns of the rows over all answered requests."""

ORDER = ("send", "receive", "peek", "lease", "ack", "echo", "waiting_queues")
"""The order of operations with equal counts."""
PLAIN_OUTCOMES = frozenset({"ok", ANSWERED, ""})
"""Outcomes that need no mention beside the operation."""


def select(tables: Tables, name: str, **equal: Any) -> list[Row]:
    """Rows of a table whose columns equal the given values; none if there is no such table."""
    table = tables.get(name)
    if table is None or not table.num_rows:
        return []
    for column, value in equal.items():
        if column not in table.column_names:
            return []
        table = table.filter(pc.equal(table[column], pa.scalar(value, table[column].type)))
    rows: list[Row] = table.to_pylist()
    return rows


def distinct(rows: Iterable[Row], column: str) -> list[Any]:
    """The values of a column, in the order in which they first appear."""
    return list(dict.fromkeys(row[column] for row in rows))


def tier_of(tables: Tables, name: str, run: str) -> str | None:
    """The tier whose response times are reported: the client, if it has rows."""
    tiers = distinct(select(tables, name, run=run), "tier")
    return "client" if "client" in tiers else min(tiers, default=None)


def series_name(operation: str, outcome: str) -> str:
    """The name of an operation with its outcome in legends."""
    name = "all operations" if operation == ALL else operation
    return name if outcome in PLAIN_OUTCOMES else f"{name} ({outcome})"


def by_series(rows: Iterable[Row]) -> dict[Series, list[Row]]:
    """Rows by operation and outcome, most requests first; the sum over all operations is last."""
    groups: dict[Series, list[Row]] = {}
    for row in rows:
        groups.setdefault((row["operation"], row["outcome"]), []).append(row)
    weights = {series: sum(row.get("count") or 0 for row in group) for series, group in groups.items()}

    def sort_key(series: Series) -> tuple[bool, int, int, Series]:
        rank = ORDER.index(series[0]) if series[0] in ORDER else len(ORDER)
        return series[0] == ALL, -weights[series], rank, series

    return {series: groups[series] for series in sorted(groups, key=sort_key)}


def levels_of(row: Row, column: str = "levels") -> dict[str, Any]:
    """The levels of a point, which tables hold as JSON."""
    text = row.get(column)
    levels: dict[str, Any] = json.loads(text) if isinstance(text, str) and text else (text or {})
    return levels


def numeric(values: Iterable[Any]) -> list[float] | None:
    """The values as numbers, or None if one is not a number."""
    numbers = []
    for value in values:
        if isinstance(value, bool):
            return None
        try:
            numbers.append(float(value))
        except (TypeError, ValueError):
            return None
    return numbers


@dataclass(frozen=True)
class Stages:
    """The stages of a run, in seconds since its load began."""

    load_s: float | None = None
    window_from_s: float | None = None
    window_to_s: float | None = None
    steady_from_s: float | None = None
    """Where MSER-5 estimates the end of the warm-up."""


NO_STAGES = Stages()


@dataclass(frozen=True)
class RunMetadata:
    """The entry of one run in ``facts.json``; missing values are empty."""

    run: str
    experiment: str = ""
    label: str = ""
    levels: dict[str, Any] = field(default_factory=dict)
    repetition: int = 1
    valid: bool | None = None
    reasons: Sequence[str] = ()
    thresholds: Sequence[Mapping[str, Any]] = ()
    load: tuple[int, int] | None = None
    window: tuple[int, int] | None = None
    left_out: bool = False
    """Whether results over several runs are without it."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Everything else: settings, machines, seed, versions."""

    @property
    def title(self) -> str:
        """A name that no other run of the analysis has."""
        return str(self.details.get("title") or self.label or self.run)

    def stages(self, tables: Tables) -> Stages:
        """Where warm-up and window begin and end."""
        estimated = next((row["found_s"] for row in select(tables, "warm_up", run=self.run)), None)
        configured = next((row["given_s"] for row in select(tables, "warm_up", run=self.run)), None)
        if self.load is None:
            return Stages(window_from_s=configured, steady_from_s=estimated)
        start, end = self.load
        window = self.window or self.load
        return Stages((end - start) / 1e9, (window[0] - start) / 1e9, (window[1] - start) / 1e9, estimated)


_FIELDS = {"run", "experiment", "label", "levels", "repetition", "valid", "sentences", "thresholds", "load", "window"}


def run_metadata(tables: Tables, metadata: Mapping[str, Any]) -> list[RunMetadata]:
    """Every run of the analysis, in the order of the metadata; then runs that only the tables have."""
    runs = [_run_from_entry(entry) for entry in metadata.get("runs") or []]
    listed = {run.run for run in runs}
    runs += [
        RunMetadata(run=name, label=name) for name in distinct(select(tables, "summary"), "run") if name not in listed
    ]
    points = Counter((run.experiment, run.label) for run in runs)
    repetitions = Counter((run.experiment, run.label, run.repetition) for run in runs)
    left_out = set(metadata.get("left_out") or ())
    return [
        replace(
            run,
            left_out=run.run in left_out,
            details={**run.details, "title": _title(run, points, repetitions)},
        )
        for run in runs
    ]


def _title(run: RunMetadata, points: Counter[Any], runs: Counter[Any]) -> str:
    """The label, with the repetition if there are several; the id if that is still not unique."""
    if not run.label or runs[run.experiment, run.label, run.repetition] > 1:
        return run.run
    return f"{run.label}, repetition {run.repetition}" if points[run.experiment, run.label] > 1 else run.label


def _run_from_entry(entry: Mapping[str, Any]) -> RunMetadata:
    state = entry.get("state") or "done"
    failure = () if state == "done" else (f"{state}: {entry.get('why') or 'no reason was recorded'}",)
    return RunMetadata(
        run=str(entry.get("run") or entry.get("id") or ""),
        experiment=str(entry.get("experiment") or ""),
        label=str(entry.get("label") or ""),
        levels=levels_of(dict(entry)),
        repetition=int(entry.get("repetition") or 1),
        valid=False if failure else entry.get("valid"),
        reasons=(*failure, *(entry.get("sentences") or ())),
        thresholds=tuple(entry.get("thresholds") or ()),
        load=_interval_ns(entry.get("load")),
        window=_interval_ns(entry.get("window")),
        details={key: value for key, value in entry.items() if key not in _FIELDS},
    )


def _interval_ns(value: Any) -> tuple[int, int] | None:
    if not value:
        return None
    if isinstance(value, Mapping):
        return int(value["start_ns"]), int(value["end_ns"])
    return int(value[0]), int(value[1])
