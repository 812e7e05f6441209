"""The result tables as the figures see them: a few rows at a time, and what is known about each run.

The tables are small by contract, so plain dictionaries do; nothing here knows of Spark or of files.
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

ORDER = ("send", "receive", "peek", "lease", "ack", "echo", "waiting_queues")
"""Operations whose order is the same wherever counts do not decide."""
PLAIN_OUTCOMES = frozenset({"ok", ANSWERED, ""})
"""Outcomes that need no mention beside the operation."""


def select(tables: Tables, name: str, **equal: Any) -> list[Row]:
    """Rows of a table whose columns have the given values; none when there is no such table."""
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
    """The tier whose response times are the ones that matter: the client's, where there is one."""
    tiers = distinct(select(tables, name, run=run), "tier")
    return "client" if "client" in tiers else min(tiers, default=None)


def series_name(operation: str, outcome: str) -> str:
    """How an operation with its outcome is called in legends."""
    name = "all operations" if operation == ALL else operation
    return name if outcome in PLAIN_OUTCOMES else f"{name} ({outcome})"


def by_series(rows: Iterable[Row]) -> dict[Series, list[Row]]:
    """Rows of each operation and outcome, those with most requests first and all operations together at the end."""
    groups: dict[Series, list[Row]] = {}
    for row in rows:
        groups.setdefault((row["operation"], row["outcome"]), []).append(row)
    weights = {series: sum(row.get("count") or 0 for row in group) for series, group in groups.items()}

    def place(series: Series) -> tuple[bool, int, int, Series]:
        rank = ORDER.index(series[0]) if series[0] in ORDER else len(ORDER)
        return series[0] == ALL, -weights[series], rank, series

    return {series: groups[series] for series in sorted(groups, key=place)}


def levels_of(row: Row, column: str = "levels") -> dict[str, Any]:
    """The levels of a point, which tables hold as JSON."""
    text = row.get(column)
    levels: dict[str, Any] = json.loads(text) if isinstance(text, str) and text else (text or {})
    return levels


def numeric(values: Iterable[Any]) -> list[float] | None:
    """The values as numbers, or nothing when one is a word."""
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
    found_s: float | None = None
    """Where MSER-5 sees the end of the warm-up."""


UNKNOWN = Stages()


@dataclass(frozen=True)
class RunFacts:
    """What ``facts.json`` says of one run, with what is missing left empty."""

    run: str
    experiment: str = ""
    label: str = ""
    levels: dict[str, Any] = field(default_factory=dict)
    repetition: int = 1
    valid: bool | None = None
    sentences: Sequence[str] = ()
    thresholds: Sequence[Mapping[str, Any]] = ()
    load: tuple[int, int] | None = None
    window: tuple[int, int] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    """Everything else: settings, machines, seed, versions."""

    @property
    def title(self) -> str:
        """How a reader tells it from the others."""
        return str(self.more.get("title") or self.label or self.run)

    def stages(self, tables: Tables) -> Stages:
        """Where warm-up and window lie."""
        found = next((row["found_s"] for row in select(tables, "warm_up", run=self.run)), None)
        given = next((row["given_s"] for row in select(tables, "warm_up", run=self.run)), None)
        if self.load is None:
            return Stages(window_from_s=given, found_s=found)
        start, end = self.load
        window = self.window or self.load
        return Stages((end - start) / 1e9, (window[0] - start) / 1e9, (window[1] - start) / 1e9, found)


_KNOWN = {"run", "experiment", "label", "levels", "repetition", "valid", "sentences", "thresholds", "load", "window"}


def run_facts(tables: Tables, facts: Mapping[str, Any]) -> list[RunFacts]:
    """Every run of the analysis in the order of the facts, then those that only the tables know."""
    told = [_told(entry) for entry in facts.get("runs") or []]
    known = {run.run for run in told}
    told += [RunFacts(run=name, label=name) for name in distinct(select(tables, "summary"), "run") if name not in known]
    points = Counter((run.experiment, run.label) for run in told)
    runs = Counter((run.experiment, run.label, run.repetition) for run in told)
    return [replace(run, more={**run.more, "title": _title(run, points, runs)}) for run in told]


def _title(run: RunFacts, points: Counter[Any], runs: Counter[Any]) -> str:
    """The label, with the repetition where there are several; the id where that still leaves two alike."""
    if not run.label or runs[run.experiment, run.label, run.repetition] > 1:
        return run.run
    return f"{run.label}, repetition {run.repetition}" if points[run.experiment, run.label] > 1 else run.label


def _told(entry: Mapping[str, Any]) -> RunFacts:
    state = entry.get("state") or "done"
    ended_badly = () if state == "done" else (f"{state}: {entry.get('why') or 'nobody said why'}",)
    return RunFacts(
        run=str(entry.get("run") or entry.get("id") or ""),
        experiment=str(entry.get("experiment") or ""),
        label=str(entry.get("label") or ""),
        levels=levels_of(dict(entry)),
        repetition=int(entry.get("repetition") or 1),
        valid=False if ended_badly else entry.get("valid"),
        sentences=(*ended_badly, *(entry.get("sentences") or ())),
        thresholds=tuple(entry.get("thresholds") or ()),
        load=_stretch(entry.get("load")),
        window=_stretch(entry.get("window")),
        more={key: value for key, value in entry.items() if key not in _KNOWN},
    )


def _stretch(value: Any) -> tuple[int, int] | None:
    if not value:
        return None
    if isinstance(value, Mapping):
        return int(value["start_ns"]), int(value["end_ns"])
    return int(value[0]), int(value[1])
