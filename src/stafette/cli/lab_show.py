"""Series and their runs for people: `stafette lab ls` and `stafette lab show`."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.text import Text

from stafette.cli import lab_runs
from stafette.cli.output import figure, say, show_json, show_lines, show_record, show_table
from stafette.errors import InvalidRequest
from stafette.lab.series import archive, series_folder
from stafette.lab.series import run_views as lab_views
from stafette.lab.series.run_views import POINT_METRICS, RunView
from stafette.lab.series.series_folder import Series
from stafette.runs.layout import RUNS
from stafette.runs.records import Check, RunRecord
from stafette.statistics.intervals import LEVEL


def listed(runs: Path, *, as_json: bool) -> None:
    """All series, the newest last."""
    found = [
        {
            "name": one.name,
            "experiment": one.record.experiment,
            "profile": one.record.profile,
            "started": one.record.started_at if as_json else _moment(one.record.started_at),
            "done": sum(run.state == "done" for run in one.record.runs),
            "runs": len(one.record.runs),
            "state": archive.state(one),
        }
        for one in series_folder.all_series(runs)
    ]
    if not found and not as_json:
        say(f"there are no series in {runs} yet; make one with `stafette lab run`")
    show_table(found, as_json=as_json)


def shown(one: Series, *, as_json: bool) -> None:
    """A series: what it was to find out, and each point over its repetitions."""
    views = lab_views.views(one)
    points = lab_views.points(views)
    record = one.record
    if as_json:
        facts: dict[str, object] = {"series": one.name, "folder": str(one.folder), "experiment": record.experiment}
        facts |= {"profile": record.profile, "state": archive.state(one)}
        facts |= {"started_at": record.started_at, "ended_at": record.ended_at or None}
        show_json(facts | {"level": LEVEL, "points": points, "runs": views, "settings": record.settings})
        return
    show_record(_facts(one, views), as_json=False)
    show_lines([""])
    show_table(_rows_of_points(points), as_json=False)
    problems = [f"run {view.run} ({view.label}): {view.problem}" for view in views if view.problem]
    problems += [
        f"run {view.run} ({view.label}): missed {missed}" for view in views for missed in lab_runs.missed(view)
    ]
    if problems:
        show_lines(["", *(Text(f"✗ {problem}", style="red") for problem in problems)])


def run_shown(one: Series, place: int, *, as_json: bool) -> None:
    """One run in full."""
    if not 1 <= place <= len(one.record.runs):
        raise InvalidRequest(f"series {one.name} has no run {place}; its runs are 1 to {len(one.record.runs)}")
    record = lab_views.record_of(one, place)
    if record is None:
        raise InvalidRequest(f"run {place} of {one.name} was not begun yet; `stafette lab run` goes on with it")
    view = lab_views.view(one, place)
    folder = one.folder / RUNS / str(view.folder)
    if as_json:
        show_json({"folder": str(folder), "run": view.run} | msgspec.to_builtins(record) | {"state": view.state})
        return
    show_record(_facts_of_run(record, view, folder), as_json=False)
    if record.summary is not None:
        show_lines([""])
        show_table(_rows_of_parts(record), as_json=False)
    if record.checks:
        show_lines(["", *(_line_of_check(check) for check in record.checks)])
    for result in record.thresholds:
        sentence = f"{result.metric} {result.threshold}: it was {figure(result.value)}"
        show_lines([_marked(result.ok, sentence)])
    show_lines([""])
    show_table(_rows_of_machines(record), as_json=False)


# A series


def _rows_of_points(points: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    texts = {metric: _estimates([point[metric] for point in points]) for metric in POINT_METRICS}
    return [
        {
            "point": point["point"],
            "runs": point["runs"],
            "valid": _counted(point["valid"], point["runs"]),
            **{heading: texts[metric][place] for metric, heading in POINT_METRICS.items()},
        }
        for place, point in enumerate(points)
    ]


def _estimates(estimates: Sequence[Mapping[str, float | None]]) -> list[str]:
    """Means with half the width of their intervals, in a column."""
    column = [number for estimate in estimates for number in estimate.values()]
    texts = []
    for estimate in estimates:
        mean, half_width = estimate["mean"], estimate["half_width"]
        texts.append(figure(mean, column) + ("" if half_width is None else f" ± {figure(half_width, column)}"))
    return texts


def _counted(valid: int, runs: int) -> Text:
    if valid == runs:
        return Text("all" if runs else "-", style="green" if runs else "")
    return Text(f"{valid} of {runs}" if valid else "none", style="red")


def _facts(one: Series, views: Sequence[RunView]) -> dict[str, object]:
    """What is worth knowing, without what was not said."""
    record, settings = one.record, one.record.settings
    system, run = settings["system"], settings["run"]
    done = sum(view.state == "done" for view in views)
    facts = {
        "series": one.name,
        "title": settings["title"],
        "question": settings["question"],
        "source": settings["source"],
        "original": settings["original"],
        "profile": record.profile,
        "state": f"{archive.state(one)}, {done} of {len(views)} runs done",
        "started": _moment(record.started_at),
        "ended": _moment(record.ended_at),
        "design": _design(settings["design"]),
        "system": f"{_many(system['brokers'], 'broker')} × {_many(system['workers'], 'worker')}, "
        f"{_many(system['connections'], 'connection')} to the database each, batches of at most {system['batch']}",
        "database": system["database"],
        "load": "; ".join(_group(name, group) for name, group in settings["clients"].items()),
        "run": f"{run['warm_up']:g} s warm-up, {run['duration']:g} s measured, {run['cool_down']:g} s cool-down, "
        f"{_repetitions(run['repetitions'])}",
        "seed": record.seed,
        "folder": str(one.folder),
    }
    return {name: value for name, value in facts.items() if value not in ("", None)}


def _design(design: Mapping[str, Any]) -> str:
    factors = (
        f"{name} = {', '.join(_short(level) for level in factor['levels'])}"
        for name, factor in design["factors"].items()
    )
    return " × ".join(factors) if design["factors"] else ""


def _group(name: str, group: Mapping[str, Any]) -> str:
    pace = f" at {group['rate']:g}/s" if group["rate"] else ""
    parameters = ", ".join(f"{key} {_short(value)}" for key, value in group["parameters"].items())
    called = "" if group["behaviour"] == name else f" {group['behaviour']}"
    return f"{group['count']} {name}{called}{pace}" + (f" ({parameters})" if parameters else "")


def _short(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode().replace('"', "")


def _repetitions(wanted: int | Mapping[str, Any]) -> str:
    if isinstance(wanted, int):
        return _many(wanted, "repetition")
    return f"repeated until {wanted['metric']} is known within {wanted['within']:.0%}, at most {wanted['most']} times"


# A run


def _facts_of_run(record: RunRecord, view: RunView, folder: Path) -> dict[str, object]:
    facts: dict[str, object] = {
        "run": record.id,
        "point": record.label,
        "repetition": record.repetition,
        "state": view.state + (f": {record.why}" if record.why else ""),
        "verdict": None if view.valid is None else "valid" if view.valid else "not valid",
        "started": _moment(record.started_at),
        "seed": record.seed,
    }
    if record.summary is not None:
        summary, window = record.summary, record.summary.window
        start = datetime.datetime.fromtimestamp(window.start_ns / 1e9, datetime.UTC).isoformat(timespec="milliseconds")
        facts |= {
            "window": f"{window.seconds:g} s from {_moment(start)}",
            "throughput": f"{figure(summary.overall.throughput_per_s)} requests/s",
            "messages": f"{figure(summary.messages_sent_per_s)} sent/s, "
            f"{figure(summary.messages_received_per_s)} received/s",
            "errors": f"{summary.errors:,} of {summary.requests:,} requests ({summary.error_share:.2%})",
            "in flight": f"{figure(summary.mean_in_flight)} requests on average",
        }
    if record.database:
        facts["database"] = ", ".join(f"{name} {value}" for name, value in record.database.items())
    facts |= {"stafette": f"{record.stafette}, revision {record.revision}" if record.revision else record.stafette}
    facts |= {"python": record.python, "folder": str(folder)}
    return {name: value for name, value in facts.items() if value is not None}


def _rows_of_parts(record: RunRecord) -> list[dict[str, object]]:
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


def _line_of_check(check: Check) -> Text:
    if check.ok or not check.advisory:
        return _marked(check.ok, check.sentence)
    return Text(f"! {check.sentence}", style="yellow")


def _marked(ok: bool, sentence: str) -> Text:
    return Text.assemble(("✓ ", "green"), sentence) if ok else Text(f"✗ {sentence}", style="red")


def _rows_of_machines(record: RunRecord) -> list[dict[str, object]]:
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


# Words


def _moment(text: str) -> str:
    """A moment in the time of the place where it is read."""
    return datetime.datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S") if text else ""


def _many(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"
