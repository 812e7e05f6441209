"""What every single run must stand up to: operational laws, its warm-up, and whether it held still."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from stafette.errors import InvalidRequest
from stafette.pipeline import results
from stafette.pipeline.counted import Group
from stafette.pipeline.reduction import Span, by_group
from stafette.pipeline.results import ALL, ANSWERED
from stafette.pipeline.sources.base import Run
from stafette.statistics import queueing, stationarity, warm_up

LITTLE_TOLERANCE = 0.1
"""Clients spend some time outside of requests, and requests cross the window's bounds."""
TIERS_TOLERANCE = 0.01
"""Clocks of two machines agree only so far."""
BUSY_TOLERANCE = 0.05
"""Samples are not taken on the dot."""

Columns = Mapping[str, Sequence[Any]]


def as_client_saw(windows: pa.Table) -> dict[str, tuple[str, Columns]]:
    """Of each run the tier that counts, and its windows over all that was answered."""
    found: dict[str, tuple[str, Columns]] = {}
    for group, columns in by_group(windows).items():
        if (group.operation, group.outcome) == (ALL, ANSWERED) and (group.tier == "client" or group.run not in found):
            found[group.run] = (group.tier, columns)
    return found


def warm_ups(spans: Sequence[Span], windows: pa.Table) -> pa.Table:
    """The warm-up that was given beside the one that MSER-5 finds in the means of the windows up to the cool-down."""
    seen = as_client_saw(windows)
    rows = []
    for span in spans:
        given = (span.timed.start - span.timed.load_start) / 1e9
        _, columns = seen.get(span.timed.run, ("", {"second": (), "mean_ms": ()}))
        until = (span.timed.end - span.timed.load_start) / 1e9
        kept = [
            (second, mean)
            for second, mean in zip(columns["second"], columns["mean_ms"], strict=True)
            if mean is not None and second < until
        ]
        found = warm_up.mser5([mean for _, mean in kept])
        second = kept[found.index][0] if found.settled else None
        rows.append({"run": span.timed.run, "given_s": given, "found_s": second, "sentence": found.reason})
    return results.table("warm_up", rows)


def stationary(spans: Sequence[Span], windows: pa.Table) -> pa.Table:
    """Whether throughput and response time have a trend within the measured window."""
    rows = []
    seen = as_client_saw(windows)
    for span in spans:
        if span.timed.run not in seen:
            continue
        _, columns = seen[span.timed.run]
        inside = span.measured()
        place = np.rint(np.asarray(columns["second"]) * 1e9 / span.window_ns).astype(int)
        for metric, column in (("throughput", "throughput_per_s"), ("mean_ms", "mean_ms")):
            values = [
                value for value, at in zip(columns[column], place, strict=True) if inside[at] and value is not None
            ]
            rows.append({"run": span.timed.run, "metric": metric} | _trend(values))
    return results.table("stationarity", rows)


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
        rows += _little(run, [row for row in seen if row["operation"] != ALL])
        whole = groups.get(Group(run.run, "client", ALL, ANSWERED))
        rows += _utilisation(run, whole["throughput_per_s"] if whole else 0.0, busy.get(run.run, {}))
        rows += _tiers(run, [row for row in breakdown.to_pylist() if row["run"] == run.run and row["count"]])
    return results.table("laws", [_law(**row) for row in rows])


def _little(run: Run, seen: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    clients = sum(run.clients.values())
    if not clients or run.think_time_s is None:
        return []
    waiting = sum(queueing.population(row["throughput_per_s"], (row["mean_ms"] or 0.0) / 1000) for row in seen)
    thinking = queueing.population(sum(row["throughput_per_s"] for row in seen), run.think_time_s)
    found = waiting + thinking
    ok = abs(found - clients) <= LITTLE_TOLERANCE * clients
    sentence = f"Little's law {'holds' if ok else 'does not hold'}: X·(R + Z) = {found:,.1f} for {clients:,} clients"
    if not ok:
        sentence += "; look for time that clients spend outside of requests, or too short a window"
    return [
        {"run": run.run, "law": "little", "expected": float(clients), "found": found, "ok": ok, "sentence": sentence}
    ]


def _utilisation(run: Run, throughput: float, busy: Mapping[str, float]) -> list[dict[str, Any]]:
    rows = []
    for part, cores in busy.items():
        most = float(run.brokers or 1) if part == "broker" else None
        demand = f", {1000 * cores / throughput:.3g} ms of processor time per request" if throughput > 0 else ""
        ok = most is None or cores <= most * (1 + BUSY_TOLERANCE) * _workers(run)
        sentence = f"{part}: U = X·S = {cores:.2f} cores{demand}"
        rows.append(
            {
                "run": run.run,
                "law": f"utilisation of {part}",
                "expected": None if most is None else most * _workers(run),
            }
            | {"found": cores, "ok": ok, "sentence": sentence}
        )
    return rows


def _workers(run: Run) -> float:
    return float(run.settings.get("system", {}).get("workers", 1))


def _tiers(run: Run, parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    count = sum(part["count"] for part in parts)
    if not count:
        return []
    client = sum(part["count"] * part["client_ms"] for part in parts) / count
    unexplained = sum(part["count"] * part["unexplained_ms"] for part in parts) / count
    ok = unexplained >= -TIERS_TOLERANCE * client
    sentence = f"of {client:.3g} ms at the client, {client - unexplained:.3g} are its own and the broker's phases"
    if not ok:
        sentence += ", which is more than there were; look at the clocks of the machines"
    return [
        {
            "run": run.run,
            "law": "tiers add up",
            "expected": client,
            "found": client - unexplained,
            "ok": ok,
            "sentence": sentence,
        }
    ]


def _law(**row: Any) -> dict[str, Any]:
    known = row["expected"] is not None and row["expected"] > 0
    return row | {"ratio": row["found"] / row["expected"] if known else None}
