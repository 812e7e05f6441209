"""`stafette lab ls` and `stafette lab show`: print series and their runs."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.text import Text

from stafette.cli import lab_runs
from stafette.cli.output import format_number, say, show_json, show_lines, show_record, show_table
from stafette.errors import InvalidRequest
from stafette.lab.series import archive, series_folder
from stafette.lab.series import run_views as lab_views
from stafette.lab.series.run_views import POINT_METRICS, RunView
from stafette.lab.series.series_folder import Series
from stafette.runs import records
from stafette.runs.layout import RUNS
from stafette.runs.records import Check, RunRecord
from stafette.statistics.intervals import LEVEL


def list_series(runs: Path, *, as_json: bool) -> None:
    """Print all series, the newest last."""
    rows = [
        {
            "name": series.name,
            "experiment": series.record.experiment,
            "profile": series.record.profile,
            "started": series.record.started_at if as_json else _format_time(series.record.started_at),
            "done": sum(run.state == "done" for run in series.record.runs),
            "runs": len(series.record.runs),
            "state": archive.state(series),
            "imported": bool(series.record.imported_at),
        }
        for series in series_folder.all_series(runs)
    ]
    if not as_json:
        for row in rows:
            row["imported"] = "yes" if row["imported"] else None
    if not rows and not as_json:
        say(f"no series in {runs} yet; create one with `stafette lab run`")
    show_table(rows, as_json=as_json)


def show_series(series: Series, *, as_json: bool) -> None:
    """Print a series: its settings, and the mean of each point over its repetitions."""
    views = lab_views.views(series)
    points = lab_views.points(views)
    record = series.record
    if as_json:
        fields: dict[str, object] = {"series": series.name, "folder": str(series.folder)}
        fields |= {"experiment": record.experiment, "profile": record.profile, "state": archive.state(series)}
        fields |= {"started_at": record.started_at, "ended_at": record.ended_at or None}
        fields |= {"imported_at": record.imported_at or None}
        show_json(fields | {"level": LEVEL, "points": points, "runs": views, "settings": record.settings})
        return
    show_record(_series_fields(series, views), as_json=False)
    show_lines([""])
    show_table(_point_rows(points), as_json=False)
    problems = [f"run {view.run} ({view.label}): {view.problem}" for view in views if view.problem]
    problems += [
        f"run {view.run} ({view.label}): missed {threshold}"
        for view in views
        for threshold in lab_runs.missed_thresholds(view)
    ]
    if problems:
        show_lines(["", *(Text(f"✗ {problem}", style="red") for problem in problems)])


def show_run(series: Series, position: int, *, as_json: bool) -> None:
    """Print one run in full."""
    if not 1 <= position <= len(series.record.runs):
        raise InvalidRequest(f"series {series.name} has no run {position}; its runs are 1 to {len(series.record.runs)}")
    record = lab_views.record_of(series, position)
    if record is None:
        raise InvalidRequest(
            f"run {position} of {series.name} has not started yet; `stafette lab run` continues the series"
        )
    view = lab_views.view(series, position)
    folder = series.folder / RUNS / str(view.folder)
    if as_json:
        show_json({"folder": str(folder), "run": view.run} | msgspec.to_builtins(record) | {"state": view.state})
        return
    show_record(_run_fields(record, view, folder), as_json=False)
    if record.summary is not None:
        show_lines([""])
        show_table(_operation_rows(record), as_json=False)
    if record.checks:
        show_lines(["", *(_check_line(check) for check in record.checks)])
    for result in record.thresholds:
        detail = f"{result.metric} {result.threshold}: it was {format_number(result.value)}"
        show_lines([_format_check(result.ok, detail)])
    show_lines([""])
    show_table(_machine_rows(record), as_json=False)


# A series


def _point_rows(points: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    texts = {metric: _estimates([point[metric] for point in points]) for metric in POINT_METRICS}
    return [
        {
            "point": point["point"],
            "runs": point["runs"],
            "valid": _format_share(point["valid"], point["runs"]),
            **{heading: texts[metric][index] for metric, heading in POINT_METRICS.items()},
        }
        for index, point in enumerate(points)
    ]


def _estimates(estimates: Sequence[Mapping[str, float | None]]) -> list[str]:
    """Means with half the width of their intervals, in a column."""
    column = [number for estimate in estimates for number in estimate.values()]
    texts = []
    for estimate in estimates:
        mean, half_width = estimate["mean"], estimate["half_width"]
        texts.append(
            format_number(mean, column) + ("" if half_width is None else f" ± {format_number(half_width, column)}")
        )
    return texts


def _format_share(valid: int, runs: int) -> Text:
    if valid == runs:
        return Text("all" if runs else "-", style="green" if runs else "")
    return Text(f"{valid} of {runs}" if valid else "none", style="red")


def _series_fields(series: Series, views: Sequence[RunView]) -> dict[str, object]:
    """What to print about a series, without empty fields."""
    record, settings = series.record, series.record.settings
    system, run = settings["system"], settings["run"]
    done_count = sum(view.state == "done" for view in views)
    fields = {
        "series": series.name,
        "title": settings["title"],
        "question": settings["question"],
        "source": settings["source"],
        "original": settings["original"],
        "profile": record.profile,
        "state": f"{archive.state(series)}, {done_count} of {len(views)} runs done",
        "started": _format_time(record.started_at),
        "ended": _format_time(record.ended_at),
        "imported": _origin(record.imported_at),
        "design": _design(settings["design"]),
        "system": f"{_format_count(system['brokers'], 'broker')} × {_format_count(system['workers'], 'worker')}, "
        f"{_format_count(system['connections'], 'connection')} to the database each, "
        f"batches of at most {system['batch']}",
        "database": system["database"],
        "load": "; ".join(_group(name, group) for name, group in settings["clients"].items()),
        "run": f"{run['warm_up']:g} s warm-up, {run['duration']:g} s measured, {run['cool_down']:g} s cool-down, "
        f"{_repetitions(run['repetitions'])}",
        "seed": record.seed,
        "folder": str(series.folder),
    }
    return {name: value for name, value in fields.items() if value not in ("", None)}


def _origin(imported_at: str) -> str:
    return f"{_format_time(imported_at)}; it was not measured here, and none of its files is run" if imported_at else ""


def _design(design: Mapping[str, Any]) -> str:
    factors = (
        f"{name} = {', '.join(_short(level) for level in factor['levels'])}"
        for name, factor in design["factors"].items()
    )
    return " × ".join(factors) if design["factors"] else ""


def _group(name: str, group: Mapping[str, Any]) -> str:
    rate = f" at {group['rate']:g}/s" if group["rate"] else ""
    parameters = ", ".join(f"{key} {_short(value)}" for key, value in group["parameters"].items())
    behaviour = "" if group["behaviour"] == name else f" {group['behaviour']}"
    return f"{group['count']} {name}{behaviour}{rate}" + (f" ({parameters})" if parameters else "")


def _short(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode().replace('"', "")


def _repetitions(repetitions: int | Mapping[str, Any]) -> str:
    if isinstance(repetitions, int):
        return _format_count(repetitions, "repetition")
    metric, within = repetitions["metric"], repetitions["within"]
    return f"repeated until {metric} is known within {within:.0%}, at most {repetitions['most']} times"


# A run


def _run_fields(record: RunRecord, view: RunView, folder: Path) -> dict[str, object]:
    fields: dict[str, object] = {
        "run": record.id,
        "point": record.label,
        "repetition": record.repetition,
        "state": view.state + (f": {record.why}" if record.why else ""),
        "verdict": None if view.valid is None else "valid" if view.valid else "not valid",
        "started": _format_time(record.started_at),
        "seed": record.seed,
    }
    if record.summary is not None:
        summary, window = record.summary, record.summary.window
        start = datetime.datetime.fromtimestamp(window.start_ns / 1e9, datetime.UTC).isoformat(timespec="milliseconds")
        fields |= {
            "window": f"{window.seconds:g} s from {_format_time(start)}",
            "throughput": f"{format_number(summary.overall.throughput_per_s)} requests/s",
            "messages": f"{format_number(summary.messages_sent_per_s)} sent/s, "
            f"{format_number(summary.messages_received_per_s)} received/s",
            "errors": f"{summary.errors:,} of {summary.requests:,} requests ({summary.error_share:.2%})",
            "in flight": f"{format_number(summary.mean_in_flight)} requests on average",
        }
    if record.database:
        fields["database"] = ", ".join(f"{name} {value}" for name, value in record.database.items())
    fields |= {"stafette": f"{record.stafette}, revision {record.revision}" if record.revision else record.stafette}
    fields |= {"python": record.python, "folder": str(folder)}
    return {name: value for name, value in fields.items() if value is not None}


def _operation_rows(record: RunRecord) -> list[dict[str, object]]:
    assert record.summary is not None
    parts = [(part.operation, part.outcome, part.figures) for part in record.summary.parts]
    if len(parts) > 1:
        parts.append(("all", "ok, empty", record.summary.overall))
    return [
        {
            "operation": operation,
            "outcome": outcome,
            "count": figures.count,
            "throughput": figures.throughput_per_s,
            "mean ms": figures.mean_ms,
            "p50 ms": figures.p50_ms,
            "p95 ms": figures.p95_ms,
            "p99 ms": figures.p99_ms,
            "max ms": figures.max_ms,
        }
        for operation, outcome, figures in parts
    ]


def _check_line(check: Check) -> Text:
    if check.ok or not check.advisory:
        return _format_check(check.ok, check.sentence)
    return Text(f"! {check.sentence}", style="yellow")


def _format_check(ok: bool, detail: str) -> Text:
    return Text.assemble(("✓ ", "green"), detail) if ok else Text(f"✗ {detail}", style="red")


def _machine_rows(record: RunRecord) -> list[dict[str, object]]:
    return [
        {
            "machine": machine.name,
            "host": machine.facts.host,
            "cores": machine.facts.cores,
            "memory": f"{machine.facts.memory_bytes / 2**30:.1f} GiB",
            "system": f"{machine.facts.system} {machine.facts.machine}",
            "clock ahead": f"{machine.clock_before.offset_ns / 1e6:.2f} ± {machine.clock_before.error_ns / 1e6:.2f} ms",
            "processes": ", ".join(name for name, host in record.processes.items() if host == machine.name) or None,
        }
        for machine in record.machines
    ]


# Texts


def _format_time(text: str) -> str:
    """A time in the local time zone."""
    time = records.moment(text)
    return text if time is None else time.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _format_count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"
