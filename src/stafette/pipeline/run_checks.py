"""The checks of a single run: operational laws, its warm-up, and whether it is stationary."""

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


def client_windows(groups: Mapping[Group, Series]) -> dict[str, Series]:
    """The windows over all answered requests of each run: those of the client, or of another tier without one."""
    tiers_and_windows: dict[str, tuple[str, Series]] = {}
    for group, windows in groups.items():
        if (group.operation, group.outcome) == (ALL, ANSWERED) and (
            group.tier == "client" or group.run not in tiers_and_windows
        ):
            tiers_and_windows[group.run] = (group.tier, windows)
    return {run: windows for run, (_, windows) in tiers_and_windows.items()}


def warm_ups(spans: Sequence[RunTimes], groups: Mapping[Group, Series]) -> pa.Table:
    """The configured warm-up beside the one that MSER-5 finds in the means of the windows up to the cool-down."""
    windows_by_run = client_windows(groups)
    rows = []
    for span in spans:
        starts, means = np.empty(0, dtype=np.int64), np.empty(0)
        if span.run in windows_by_run:
            windows = windows_by_run[span.run]
            mask = (windows.count > 0) & (span.starts() + span.load.start_ns < span.measured.end_ns)
            starts, means = span.starts()[mask], windows.total_ns[mask] / windows.count[mask]
        truncation = warm_up.mser5((means / MILLISECOND).tolist())
        second = float(starts[truncation.index]) / SECOND if truncation.settled else None
        configured_s = span.since_load_s(span.measured.start_ns)
        rows.append({"run": span.run, "given_s": configured_s, "found_s": second, "sentence": truncation.reason})
    return result_tables.table("warm_up", rows)


def stationary(spans: Sequence[RunTimes], groups: Mapping[Group, Series]) -> pa.Table:
    """Whether throughput and response time have a trend within the measured window."""
    rows = []
    windows_by_run = client_windows(groups)
    for span in spans:
        if span.run not in windows_by_run:
            continue
        windows, inside = windows_by_run[span.run], span.inside()
        mask = inside & (windows.count > 0)
        rates = windows.answers[inside] / (span.lengths()[inside] / SECOND)
        means = windows.total_ns[mask] / windows.count[mask] / MILLISECOND
        rows += [
            {"run": span.run, "metric": metric} | _trend(values.tolist())
            for metric, values in (("throughput", rates), ("mean_ms", means))
        ]
    return result_tables.table("stationarity", rows)


def trends(stationarity_table: pa.Table) -> dict[tuple[str, str], str]:
    """The reason for each metric of a run that is not stationary."""
    return {
        (row["run"], row["metric"]): f"not stationary: {row['sentence']}"
        for row in stationarity_table.to_pylist()
        if row["stationary"] is False
    }


def _trend(values: Sequence[float]) -> dict[str, Any]:
    try:
        trend = stationarity.trend(values)
    except InvalidRequest as error:
        return {"statistic": None, "p_value": None, "stationary": None, "sentence": error.sentence}
    return {
        "statistic": trend.change,
        "p_value": trend.probability,
        "stationary": trend.stationary,
        "sentence": trend.verdict,
    }


def laws(
    runs: Sequence[Run], summary: pa.Table, breakdown: pa.Table, cores_by_run: Mapping[str, Mapping[str, float]]
) -> pa.Table:
    """The operational laws; `cores_by_run` has the mean cores in use by brokers and database in the measured window."""
    rows: list[dict[str, Any]] = []
    groups = {
        Group(*(row[name] for name in ("run", "tier", "operation", "outcome"))): row for row in summary.to_pylist()
    }
    for run in runs:
        client_rows = [row for group, row in groups.items() if group.run == run.run and group.tier == "client"]
        if not client_rows:
            continue
        overall = groups.get(Group(run.run, "client", ALL, ANSWERED))
        run_laws = [
            *_little(run, [row for row in client_rows if row["operation"] != ALL]),
            *_utilisation(run, overall["throughput_per_s"] if overall else 0.0, cores_by_run.get(run.run, {})),
            *_tiers([row for row in breakdown.to_pylist() if row["run"] == run.run and row["count"]]),
        ]
        rows += [_row(run, law) for law in run_laws]
    return result_tables.table("laws", rows)


def _little(run: Run, rows: Sequence[Mapping[str, Any]]) -> list[Law]:
    if run.closed_loop is None:
        return []
    flows = [Flow(row["throughput_per_s"], (row["mean_ms"] or 0.0) / 1000) for row in rows]
    return [littles_law(flows, run.closed_loop)]


def _utilisation(run: Run, per_s: float, cores: Mapping[str, float]) -> list[Law]:
    workers = float(run.settings.get("system", {}).get("workers", 1))
    capacities = {"broker": (run.brokers or 1) * workers}
    return [utilisation(part, count, capacity=capacities.get(part), per_s=per_s) for part, count in cores.items()]


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
