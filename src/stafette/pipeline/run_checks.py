"""What every single run must stand up to: operational laws, its warm-up, and whether it held still."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from stafette.errors import InvalidRequest
from stafette.pipeline.counted import Group
from stafette.pipeline.reduction import by_group
from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.sources.base import Run
from stafette.report import result_tables
from stafette.runs.laws import Flow, Law, littles_law, tiers_add_up, utilisation
from stafette.runs.outcomes import ALL, ANSWERED
from stafette.runs.window import SECOND
from stafette.statistics import stationarity, warm_up

Columns = Mapping[str, Sequence[Any]]


def as_client_saw(windows: pa.Table) -> dict[str, tuple[str, Columns]]:
    """Of each run the tier that counts, and its windows over all that was answered."""
    found: dict[str, tuple[str, Columns]] = {}
    for group, columns in by_group(windows).items():
        if (group.operation, group.outcome) == (ALL, ANSWERED) and (group.tier == "client" or group.run not in found):
            found[group.run] = (group.tier, columns)
    return found


def warm_ups(spans: Sequence[RunTimes], windows: pa.Table) -> pa.Table:
    """The warm-up that was given beside the one that MSER-5 finds in the means of the windows up to the cool-down."""
    seen = as_client_saw(windows)
    rows = []
    for span in spans:
        given = span.since_load_s(span.measured.start_ns)
        _, columns = seen.get(span.run, ("", {"second": (), "mean_ms": ()}))
        until = span.since_load_s(span.measured.end_ns)
        kept = [
            (second, mean)
            for second, mean in zip(columns["second"], columns["mean_ms"], strict=True)
            if mean is not None and second < until
        ]
        found = warm_up.mser5([mean for _, mean in kept])
        second = kept[found.index][0] if found.settled else None
        rows.append({"run": span.run, "given_s": given, "found_s": second, "sentence": found.reason})
    return result_tables.table("warm_up", rows)


def stationary(spans: Sequence[RunTimes], windows: pa.Table) -> pa.Table:
    """Whether throughput and response time have a trend within the measured window."""
    rows = []
    seen = as_client_saw(windows)
    for span in spans:
        if span.run not in seen:
            continue
        _, columns = seen[span.run]
        inside = span.inside()
        place = np.rint(np.asarray(columns["second"]) * SECOND / span.window_ns).astype(int)
        for metric, column in (("throughput", "throughput_per_s"), ("mean_ms", "mean_ms")):
            values = [
                value for value, at in zip(columns[column], place, strict=True) if inside[at] and value is not None
            ]
            rows.append({"run": span.run, "metric": metric} | _trend(values))
    return result_tables.table("stationarity", rows)


def _trend(values: Sequence[float]) -> dict[str, Any]:
    try:
        found = stationarity.trend(values)
    except InvalidRequest as error:
        return {"statistic": None, "p_value": None, "stationary": None, "sentence": error.sentence}
    return {
        "statistic": found.change,
        "p_value": found.probability,
        "stationary": found.stationary,
        "sentence": found.verdict,
    }


def laws(
    runs: Sequence[Run], summary: pa.Table, breakdown: pa.Table, busy: Mapping[str, Mapping[str, float]]
) -> pa.Table:
    """The operational laws; `busy` has the cores that brokers and database used in the measured window of each run."""
    rows: list[dict[str, Any]] = []
    groups = {
        Group(*(row[name] for name in ("run", "tier", "operation", "outcome"))): row for row in summary.to_pylist()
    }
    for run in runs:
        seen = [row for group, row in groups.items() if group.run == run.run and group.tier == "client"]
        if not seen:
            continue
        whole = groups.get(Group(run.run, "client", ALL, ANSWERED))
        checked = [
            *_little(run, [row for row in seen if row["operation"] != ALL]),
            *_utilisation(run, whole["throughput_per_s"] if whole else 0.0, busy.get(run.run, {})),
            *_tiers([row for row in breakdown.to_pylist() if row["run"] == run.run and row["count"]]),
        ]
        rows += [_row(run, law) for law in checked]
    return result_tables.table("laws", rows)


def _little(run: Run, seen: Sequence[Mapping[str, Any]]) -> list[Law]:
    if run.closed_loop is None:
        return []
    flows = [Flow(row["throughput_per_s"], (row["mean_ms"] or 0.0) / 1000) for row in seen]
    return [littles_law(flows, run.closed_loop)]


def _utilisation(run: Run, per_s: float, busy: Mapping[str, float]) -> list[Law]:
    workers = float(run.settings.get("system", {}).get("workers", 1))
    cores = {"broker": (run.brokers or 1) * workers}
    return [utilisation(part, used, capacity=cores.get(part), per_s=per_s) for part, used in busy.items()]


def _tiers(parts: Sequence[Mapping[str, Any]]) -> list[Law]:
    count = sum(part["count"] for part in parts)
    if not count:
        return []
    client, unexplained = (
        sum(part["count"] * part[name] for part in parts) / count for name in ("client_ms", "unexplained_ms")
    )
    return [tiers_add_up(client, unexplained)]


def _row(run: Run, law: Law) -> dict[str, Any]:
    ratio = law.measured / law.expected if law.expected is not None and law.expected > 0 else None
    return {
        "run": run.run, "law": law.name, "expected": law.expected, "found": law.measured, "ratio": ratio, "ok": law.ok,
        "sentence": law.detail,
    }  # fmt: skip
