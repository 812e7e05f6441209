"""How the report was made: what a reader needs to judge it and to repeat it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stafette.report.figures.style import number, percent
from stafette.report.figures.table_rows import RunMetadata, Tables, distinct, select
from stafette.report.grids import Cell, Grid, build_grid, grid, pairs

ABOUT_RUNS = frozenset({"runs", "rejected", "left_out"})
"""Metadata that the report shows in sections of their own."""


def describe_method(tables: Tables, runs: Sequence[RunMetadata], metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The method, as terms with their descriptions."""
    level = (metadata.get("options") or {}).get("level")
    return [
        (
            "Response time",
            "In the client: from the intended start of a request until its answer arrived, so a stalled system cannot "
            "hide its delay by holding up its clients. In the broker: from the arrival of the request to its answer.",
        ),
        ("Window", _window(tables, runs)),
        (
            "Percentiles",
            "Nearest rank over all requests in the window, counted per microsecond: measured values, never "
            "interpolated and never averaged. p99 is the smallest value that at least 99 % of the requests do not "
            "exceed.",
        ),
        (
            "Throughput",
            "Answers that ended in the window, divided by its length.",
        ),
        (
            "Intervals",
            f"{f'Confidence level {percent(level)}. ' if level is not None else ''}“Over repetitions”: Student t over "
            "the values of independent runs. “Batches”: of one run, the ratio estimator over successive batches of its "
            "windows, with Student t; only if the run is stationary and has windows enough.",
        ),
        (
            "Warm-up",
            "MSER-5: the point after which the mean of the rest has the smallest standard error, over batches of "
            "five windows. It is shown beside the configured warm-up. The configured one is used, unless "
            "`--warm-up auto` was given.",
        ),
        (
            "Breakdown",
            "Rows of client and broker are joined by client and request. Time that no phase of either explains is "
            "“network and rest”: sockets, kernels, event loops, and the clock error between machines. While the broker "
            "writes, the answer is already on its way, so its write time is in “network and rest” and is not stacked.",
        ),
        (
            "Effects",
            "From the sign table: the sum of sign × response, divided by the number of points. Share of "
            "variation: the effect's part of the total sum of squares; with repetitions the rest is error.",
        ),
    ]


def _window(tables: Tables, runs: Sequence[RunMetadata]) -> str:
    spans = dict.fromkeys(
        (number(stages.window_from_s), number(stages.window_to_s - stages.window_from_s))
        for stages in (run.stages(tables) for run in runs)
        if stages.window_from_s is not None and stages.window_to_s is not None
    )
    if not spans:
        return "The whole load is measured; the source gives no warm-up."
    if len(spans) == 1:
        before, length = next(iter(spans))
        return f"{length} s are measured, after {before} s of warm-up; warm-up and cool-down are shaded and excluded."
    return "Warm-up and cool-down are excluded and shaded in the figures; their lengths differ from run to run."


def grids(runs: Sequence[RunMetadata], metadata: Mapping[str, Any]) -> list[tuple[str, Grid]]:
    """Runs, machines, versions and settings."""
    candidates = [
        ("Runs", _runs(runs)),
        ("Machines and clocks", _machines(runs)),
        ("Versions", _versions(runs, metadata)),
    ]
    analysis_metadata = {key: value for key, value in metadata.items() if key not in ABOUT_RUNS | {"versions"}}
    tables = [(title, content) for title, content in candidates if content is not None]
    if analysis_metadata:
        tables.append(("The analysis", pairs(analysis_metadata)))
    tables.extend(_settings(runs))
    return tables


def _runs(runs: Sequence[RunMetadata]) -> Grid | None:
    rows = []
    for run in runs:
        details = run.details
        clients = details.get("clients")
        total = sum(clients.values()) if isinstance(clients, Mapping) and clients else clients or None
        rows.append(
            {"run": run.run, "seed": str(details["seed"]) if "seed" in details else None, "clients": total,
             "think_time_s": details.get("think_time_s"), "brokers": details.get("brokers"),
             "started": details.get("started_at")}
        )  # fmt: skip
    return grid(rows, "summary", list(rows[0]), limit=len(rows)) if rows else None


def _machines(runs: Sequence[RunMetadata]) -> Grid | None:
    """Each machine once, with its largest clock offset."""
    machines: dict[str, tuple[Mapping[str, Any], int, int]] = {}
    for run in runs:
        for machine in run.details.get("machines") or []:
            name = str(machine.get("name"))
            for clock in (machine.get("clock_before"), machine.get("clock_after")):
                offset, error = (int(clock["offset_ns"]), int(clock["error_ns"])) if clock else (0, 0)
                _, largest_offset, largest_error = machines.get(name, (machine, 0, 0))
                machines[name] = machine, max(largest_offset, offset, key=abs), max(largest_error, error)
    body = []
    for name, (machine, offset, error) in machines.items():
        hardware = machine.get("facts") or {}
        memory = hardware.get("memory_bytes")
        body.append(
            [Cell(name), Cell(str(machine.get("address", "–"))), Cell(str(hardware.get("system", "–"))),
             Cell(str(hardware.get("machine", "–"))), Cell(number(hardware.get("cores")), True),
             Cell(number(memory / 2**30) if memory else "–", True), Cell(str(hardware.get("python", "–"))),
             Cell(number(offset / 1e3), True), Cell(number(error / 1e3), True)]
        )  # fmt: skip
    heads = [
        "machine",
        "address",
        "system",
        "kind",
        "cores",
        "memory GiB",
        "Python",
        "clock offset µs",
        "± µs",
    ]
    note = "The largest offset from the runner's clock, before or after a run; times are corrected by the first."
    return build_grid(heads, body, note) if body else None


def _versions(runs: Sequence[RunMetadata], metadata: Mapping[str, Any]) -> Grid | None:
    versions: dict[str, Any] = dict(metadata.get("versions") or {})
    for key in ("stafette", "revision", "python"):
        values = list(dict.fromkeys(str(run.details[key]) for run in runs if run.details.get(key)))
        if values:
            versions[f"runs: {key}"] = ", ".join(values)
    databases = [run.details["database"] for run in runs if run.details.get("database")]
    for name in dict.fromkeys(key for database in databases for key in database):
        versions[f"PostgreSQL: {name}"] = ", ".join(dict.fromkeys(str(d.get(name)) for d in databases))
    return pairs(versions) if versions else None


def _settings(runs: Sequence[RunMetadata]) -> list[tuple[str, Grid]]:
    """The settings of each experiment once; what differs between its runs is in their labels."""
    tables = []
    for experiment in distinct([{"experiment": run.experiment} for run in runs], "experiment"):
        run = next(run for run in runs if run.experiment == experiment)
        if run.details.get("settings"):
            tables.append((f"Settings of {experiment or run.run} (as in {run.title})", pairs(run.details["settings"])))
    return tables


def rejects(tables: Tables) -> Grid | None:
    """Lines that could not be read."""
    rows = select(tables, "rejects")
    return grid(rows, "rejects") if rows else None


def reject_reasons(tables: Tables) -> Grid | None:
    """All rejected lines by reason, most frequent first."""
    rows = sorted(select(tables, "reject_reasons"), key=lambda row: -row["count"])
    return grid(rows, "reject_reasons") if rows else None
