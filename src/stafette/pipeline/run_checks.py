"""What every single run must stand up to: operational laws, its warm-up, and whether it held still."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from stafette.errors import InvalidRequest
from stafette.pipeline.run_tables import Group, Series
from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.sources.base import Run
from stafette.report import result_tables
from stafette.runs.laws import Flow, Law, littles_law, tiers_add_up, utilisation
from stafette.runs.outcomes import ALL, ANSWERED
from stafette.runs.window import SECOND
from stafette.statistics import stationarity, warm_up

MILLISECOND = 1e6


def as_client_saw(groups: Mapping[Group, Series]) -> dict[str, Series]:
    """Of each run the windows over all that was answered, in the tier that counts."""
    seen: dict[str, tuple[str, Series]] = {}
    for group, windows in groups.items():
        if (group.operation, group.outcome) == (ALL, ANSWERED) and (group.tier == "client" or group.run not in seen):
            seen[group.run] = (group.tier, windows)
    return {run: windows for run, (_, windows) in seen.items()}


def warm_ups(spans: Sequence[RunTimes], groups: Mapping[Group, Series]) -> pa.Table:
    """The warm-up that was given beside the one that MSER-5 finds in the means of the windows up to the cool-down."""
    seen = as_client_saw(groups)
    rows = []
    for span in spans:
        chosen, means = np.empty(0, dtype=np.int64), np.empty(0)
        if span.run in seen:
            windows = seen[span.run]
            there = (windows.count > 0) & (span.starts() + span.load.start_ns < span.measured.end_ns)
            chosen, means = span.starts()[there], windows.total_ns[there] / windows.count[there]
        settled = warm_up.mser5((means / MILLISECOND).tolist())
        second = float(chosen[settled.index]) / SECOND if settled.settled else None
        given = span.since_load_s(span.measured.start_ns)
        rows.append({"run": span.run, "given_s": given, "found_s": second, "sentence": settled.reason})
    return result_tables.table("warm_up", rows)


def stationary(spans: Sequence[RunTimes], groups: Mapping[Group, Series]) -> pa.Table:
    """Whether throughput and response time have a trend within the measured window."""
    rows = []
    seen = as_client_saw(groups)
    for span in spans:
        if span.run not in seen:
            continue
        windows, inside = seen[span.run], span.inside()
        there = inside & (windows.count > 0)
        rates = windows.answers[inside] / (span.lengths()[inside] / SECOND)
        means = windows.total_ns[there] / windows.count[there] / MILLISECOND
        rows += [
            {"run": span.run, "metric": metric} | _trend(values.tolist())
            for metric, values in (("throughput", rates), ("mean_ms", means))
        ]
    return result_tables.table("stationarity", rows)


def trends(stationarity_table: pa.Table) -> dict[tuple[str, str], str]:
    """Why a metric of a run was not stationary, for those that were not."""
    return {
        (row["run"], row["metric"]): f"not stationary: {row['sentence']}"
        for row in stationarity_table.to_pylist()
        if row["stationary"] is False
    }


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
