"""Series for the pages: found by their names alone, each with its verdict, and the figures of their analyses."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stafette.errors import InvalidRequest
from stafette.lab.series import archive, run_views, series_folder
from stafette.lab.series.run_views import RunView
from stafette.lab.series.series_folder import Series, SeriesNotFound
from stafette.runs.layout import ANALYSIS, LOGS, REPORT_FILE, RUNS, SERIES_FILE
from stafette.statistics.intervals import interval

if TYPE_CHECKING:
    from stafette.report.sections import Section

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
UNDER_WAY = ("waiting", "running")


def find(folder: Path, name: str) -> Series:
    """A series by its own name: no path, and no experiment's name, leads anywhere else."""
    if _NAME.fullmatch(name) is None or not (folder / name / SERIES_FILE).is_file():
        raise SeriesNotFound(f"there is no series {name[:100]}; it may have been removed")
    return Series(folder / name)


@dataclass(frozen=True)
class Verdict:
    """Whether a series can be trusted, in a word and a sentence."""

    kind: str
    """good, bad or open."""
    word: str
    sentence: str


def verdict(state: str, views: Sequence[RunView]) -> Verdict:
    """Of all runs together, the bad news first."""
    done = [view for view in views if view.state == "done"]
    failed = [view for view in views if view.state == "failed"]
    bad = [view for view in done if view.valid is False]
    missed = [view for view in done if view.missed]
    if bad:
        first = bad[0]
        return Verdict(
            "bad", "not valid", f"{len(bad)} of {len(done)} runs are not valid; run {first.run}: {first.problem}"
        )
    if failed:
        return Verdict(
            "bad", "failed", f"{len(failed)} of {len(views)} runs failed; run {failed[0].run}: {failed[0].problem}"
        )
    if missed:
        first_missed = missed[0].missed[0]
        told = f"{first_missed.metric} {first_missed.threshold} (was {_number(first_missed.value)})"
        return Verdict(
            "bad", "missed", f"in {len(missed)} of {len(done)} runs thresholds were missed; run {missed[0].run}: {told}"
        )
    if len(done) < len(views):
        return Verdict("open", "unfinished", f"{len(done)} of {len(views)} runs are done; it is {state}")
    reached = "; every threshold was reached" if any(view.thresholds for view in views) else ""
    return Verdict(
        "good", "valid", f"{'the run is' if len(views) == 1 else f'all {len(views)} runs are'} valid{reached}"
    )


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:,.4g}"


@dataclass(frozen=True)
class Row:
    """A series in the list."""

    name: str
    experiment: str
    profile: str | None
    started_at: str
    state: str
    done: int
    runs: int
    verdict: Verdict
    throughput: float | None
    mean_ms: float | None
    points: int
    analysed: bool


def listed(folder: Path) -> list[Row]:
    """All series, the newest first."""
    return [_row(one) for one in reversed(series_folder.all_series(folder))]


def _row(one: Series) -> Row:
    state = archive.state(one)
    changed = (one.folder / SERIES_FILE).stat().st_mtime_ns
    views = _views(one.folder, changed) if state not in UNDER_WAY else _views_now(one.folder)
    points = len({view.label for view in views})
    done = [view for view in views if view.state == "done"]
    return Row(
        one.name,
        one.record.experiment,
        one.record.profile,
        one.record.started_at,
        state,
        len(done),
        len(views),
        verdict(state, views),
        _mean(done, "throughput"),
        _mean(done, "mean_ms"),
        points,
        analysed(one),
    )


def _views_now(folder: Path) -> list[RunView]:
    return run_views.views(Series(folder))


@functools.lru_cache(maxsize=512)
def _views(folder: Path, _changed: int) -> list[RunView]:
    """Records of runs can be long, and do not change any more when their series does not."""
    return _views_now(folder)


def _mean(views: Sequence[RunView], metric: str) -> float | None:
    values = [value for view in views if (value := view.metrics[metric]) is not None]
    return interval(values)[0] if values else None


# Analyses


def analysed(one: Series) -> bool:
    """Whether there is a report."""
    return (one.folder / ANALYSIS / REPORT_FILE).is_file()


@dataclass(frozen=True)
class Analysis:
    """An analysis as the report shows it."""

    sections: list[Section]
    runs: list[str]
    """The runs that are drawn one by one, by their titles."""
    key: Any
    intervals: str


def analysis(one: Series) -> Analysis:
    """The figures of the newest analysis."""
    place = one.folder / ANALYSIS
    if not analysed(one):
        raise InvalidRequest(f"{one.name} has not been analysed")
    return _analysis(place, (place / REPORT_FILE).stat().st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _analysis(place: Path, _changed: int) -> Analysis:
    from stafette.report import figures, page  # with Plotly, which takes a while
    from stafette.report.headline import key_metrics
    from stafette.report.sections import drawn_runs, sections

    tables, facts = page.load(place)
    found = figures.run_metadata(tables, facts)
    key, intervals = key_metrics(found, tables)
    return Analysis(
        sections(tables, found, facts.get("notes") or ()), [run.title for run in drawn_runs(found)], key, intervals
    )


def figure(one: Series, section: str, place: int) -> str:
    """A figure as Plotly's JSON."""
    for part in analysis(one).sections:
        if part.id == section and 0 <= place < len(part.drawings):
            text: str = part.drawings[place].figure.to_json()
            return text
    raise InvalidRequest(f"{one.name} has no such figure")


# Logs


def logs(one: Series, folder: str | None) -> list[str]:
    """The names of a run's logs."""
    place = one.folder / RUNS / folder / LOGS if folder else None
    return sorted(path.name for path in place.glob("*.log") if path.is_file()) if place and place.is_dir() else []


def log_file(one: Series, folder: str | None, name: str) -> Path:
    """One of them."""
    if folder is None or name not in logs(one, folder):
        raise InvalidRequest(f"there is no log {name[:100]} of this run")
    return one.folder / RUNS / folder / LOGS / name
