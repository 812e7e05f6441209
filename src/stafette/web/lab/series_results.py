"""Series as the pages show them: list, verdict, figures of the analysis, and logs."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stafette.errors import InvalidRequest, NotFound, StafetteError
from stafette.lab.series import archive, run_views, series_folder
from stafette.lab.series.run_views import RunView
from stafette.lab.series.series_folder import SERIES_NAME, Series, SeriesNotFound
from stafette.runs.layout import ANALYSIS, LOGS, REPORT_FILE, RUNS, SERIES_FILE
from stafette.statistics.intervals import interval

if TYPE_CHECKING:
    from stafette.report.sections import Section

log = logging.getLogger(__name__)

ACTIVE_STATES = ("waiting", "running")


def find(folder: Path, name: str) -> Series:
    """A series by its name; a path or the name of an experiment finds nothing."""
    if SERIES_NAME.fullmatch(name) is None or not (folder / name / SERIES_FILE).is_file():
        raise SeriesNotFound(f"there is no series {name[:100]}; it may have been removed")
    return Series(folder / name)


@dataclass(frozen=True)
class SeriesVerdict:
    """Whether a series can be trusted."""

    kind: str
    """good, bad or open."""
    label: str
    detail: str


def verdict(state: str, views: Sequence[RunView]) -> SeriesVerdict:
    """The verdict on all runs together; the worst problem decides."""
    finished = [view for view in views if view.state == "done"]
    failed = [view for view in views if view.state == "failed"]
    invalid = [view for view in finished if view.valid is False]
    missing_thresholds = [view for view in finished if view.missed]
    if invalid:
        share, first = f"{len(invalid)} of {len(finished)}", invalid[0]
        return SeriesVerdict("bad", "not valid", f"{share} runs not valid; run {first.run}: {first.problem}")
    if failed:
        share, first = f"{len(failed)} of {len(views)}", failed[0]
        return SeriesVerdict("bad", "failed", f"{share} runs failed; run {first.run}: {first.problem}")
    if missing_thresholds:
        share, first = f"{len(missing_thresholds)} of {len(finished)}", missing_thresholds[0]
        result = first.missed[0]
        reason = f"{result.metric} {result.threshold} (was {_number(result.value)})"
        return SeriesVerdict("bad", "missed", f"{share} runs missed a threshold; run {first.run}: {reason}")
    if len(finished) < len(views):
        return SeriesVerdict("open", "unfinished", f"{len(finished)} of {len(views)} runs done; the series is {state}")
    reached = "; all thresholds reached" if any(view.thresholds for view in views) else ""
    subject = "the run is" if len(views) == 1 else f"all {len(views)} runs are"
    return SeriesVerdict("good", "valid", f"{subject} valid{reached}")


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
    finished: int
    runs: int
    verdict: SeriesVerdict
    throughput: float | None
    mean_ms: float | None
    is_analysed: bool
    is_imported: bool


def list_series(folder: Path) -> list[Row]:
    """All series, the newest first, without those that are being deleted."""
    rows = []
    for series in reversed(series_folder.all_series(folder)):
        with contextlib.suppress(FileNotFoundError, NotFound):
            rows.append(_row(series))
    return rows


def _row(series: Series) -> Row:
    state = archive.state(series)
    views = _read_views(series.folder) if state in ACTIVE_STATES else _cached_views(series.folder, *_changes(series))
    finished = [view for view in views if view.state == "done"]
    return Row(
        series.name,
        series.record.experiment,
        series.record.profile,
        series.record.started_at,
        state,
        len(finished),
        len(views),
        verdict(state, views),
        _mean(finished, "throughput"),
        _mean(finished, "mean_ms"),
        is_analysed(series),
        bool(series.record.imported_at),
    )


def _read_views(folder: Path) -> list[RunView]:
    return run_views.views(Series(folder))


def _changes(series: Series) -> tuple[int, int]:
    """When the record of a series changed, and when a folder of its runs came or went."""
    runs = series.folder / RUNS
    return (series.folder / SERIES_FILE).stat().st_mtime_ns, runs.stat().st_mtime_ns if runs.is_dir() else 0


@functools.lru_cache(maxsize=512)
def _cached_views(folder: Path, _record_changed_at: int, _runs_changed_at: int) -> list[RunView]:
    """Records of runs can be long, and do not change unless the file of their series does."""
    return _read_views(folder)


def _mean(views: Sequence[RunView], metric: str) -> float | None:
    values = [value for view in views if (value := view.metrics[metric]) is not None]
    return interval(values)[0] if values else None


# Analyses


def is_analysed(series: Series) -> bool:
    """Whether there is a report."""
    return (series.folder / ANALYSIS / REPORT_FILE).is_file()


@dataclass(frozen=True)
class Analysis:
    """An analysis as the report shows it."""

    sections: list[Section]
    runs: list[str]
    """Titles of the runs that have figures of their own."""
    key: Any
    intervals: str


def analysis(series: Series) -> Analysis:
    """The newest analysis of a series."""
    folder = series.folder / ANALYSIS
    if not is_analysed(series):
        raise NotFound(f"{series.name} has not been analysed; analyse it first")
    try:
        return _cached_analysis(folder, (folder / REPORT_FILE).stat().st_mtime_ns)
    except StafetteError:
        raise
    except Exception as error:  # of files that anything may have written
        log.warning("the analysis of %s cannot be read: %r", series.name, error)
        raise InvalidRequest(f"the analysis of {series.name} cannot be read; analyse it again") from error


@functools.lru_cache(maxsize=4)
def _cached_analysis(folder: Path, _changed_at: int) -> Analysis:
    from stafette.report import figures, page  # loads Plotly, which is slow
    from stafette.report.headline import key_metrics
    from stafette.report.sections import drawn_runs, sections

    tables, metadata = page.load(folder)
    runs = figures.run_metadata(tables, metadata)
    key, intervals = key_metrics(runs, tables)
    return Analysis(
        sections(tables, runs, metadata.get("notes") or ()), [run.title for run in drawn_runs(runs)], key, intervals
    )


def figure(series: Series, section_id: str, number: int) -> str:
    """A figure as Plotly's JSON."""
    for section in analysis(series).sections:
        if section.id == section_id and 0 <= number < len(section.drawings):
            text: str = section.drawings[number].figure.to_json()
            return text
    raise NotFound(f"{series.name} has no such figure; load its page again")


# Logs


def logs(series: Series, folder: str | None) -> list[str]:
    """The names of a run's logs."""
    logs_folder = series.folder / RUNS / folder / LOGS if folder else None
    if logs_folder is None or not logs_folder.is_dir():
        return []
    return sorted(path.name for path in logs_folder.glob("*.log") if path.is_file())


def log_file(series: Series, folder: str | None, name: str) -> Path:
    """The path of one of a run's logs."""
    if folder is None or name not in logs(series, folder):
        raise NotFound(f"this run has no log {name[:100]}; load its page again")
    return series.folder / RUNS / folder / LOGS / name
