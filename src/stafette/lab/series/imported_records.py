"""Whether the records of a series that somebody else packed are such as this Stafette writes.

Their types are checked as they are read. Here are their values: what names a folder, is shown as a time or as settings,
or is compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pydantic

from stafette.errors import InvalidRequest
from stafette.lab.experiment import toml_limits
from stafette.lab.experiment.experiment_file import Experiment, read_text
from stafette.lab.series.archive_entries import check_path
from stafette.lab.series.series_folder import Series
from stafette.runs import records
from stafette.runs.layout import EXPERIMENT_FILE, RUN_FILE, RUNS, SERIES_FILE
from stafette.runs.records import Planned, RunRecord
from stafette.runs.summary import METRICS

MOST_RUNS = 100_000
DEEPEST_SETTING = 16
LATEST_NS = 2**63
LONGEST_TEXT = 10_000
LARGEST_FIGURE = 1e15

_EXPERIMENT = re.compile(r"[a-z0-9-]{1,60}")
_FINGERPRINT = re.compile(r"[0-9a-f-]{1,2000}")
_LABEL = re.compile(r"[A-Za-z0-9._+,=-]{1,200}")
_FOLDER = re.compile(r"[A-Za-z0-9_+=-][A-Za-z0-9._+,=-]{0,250}")


def check(series: Series) -> None:
    """Raise InvalidRequest, without the name of the archive, if a record has a value that none of ours has."""
    record = series.record
    if record.format != records.FORMAT:
        raise InvalidRequest(f"has format {record.format}, and this Stafette reads {records.FORMAT}; update it")
    _check_text(series)
    _require(_EXPERIMENT.fullmatch(record.experiment), SERIES_FILE, "experiment", record.experiment)
    _require(_FINGERPRINT.fullmatch(record.fingerprint), SERIES_FILE, "fingerprint", record.fingerprint)
    for key, text in (("profile", record.profile or ""), ("file", record.file)):
        _require(len(text) <= 255 and text.isprintable(), SERIES_FILE, key, text)
    _check_times(SERIES_FILE, record.started_at, record.ended_at)
    _check_settings(record.settings)
    _require(len(record.runs) <= MOST_RUNS, SERIES_FILE, "number of runs", len(record.runs))
    for run in record.runs:
        _check_planned(run)
    for path in sorted((series.folder / RUNS).glob(f"*/{RUN_FILE}")):
        file = f"{path.parent.name}/{RUN_FILE}"
        try:
            _check_run(records.read(path, RunRecord), file)
        except InvalidRequest as error:
            raise InvalidRequest(str(error).replace(f"{path} is not", f"has a {file} that is not")) from error


def _check_text(series: Series) -> None:
    """The experiment's file may say anything, but not at any length."""
    path = series.folder / EXPERIMENT_FILE
    try:
        toml_limits.check(read_text(path))
    except InvalidRequest as error:
        reason = str(error).replace(str(path), "it")
        raise InvalidRequest(f"has no {EXPERIMENT_FILE} that can be read: {reason}") from error


def _check_planned(run: Planned) -> None:
    _require(_LABEL.fullmatch(run.label), SERIES_FILE, "label", run.label)
    _check_levels(run.levels, SERIES_FILE)
    _require(1 <= run.repetition <= MOST_RUNS, SERIES_FILE, "repetition", run.repetition)
    if run.folder is not None:
        path = check_path(run.folder, f"names the run {run.folder[:80]!r}, which")
        if len(path.parts) != 1 or not _FOLDER.fullmatch(run.folder):
            raise InvalidRequest(f"names the run {run.folder[:80]!r}, which is not a folder of the series")


def _check_run(record: RunRecord, file: str) -> None:
    _require(_LABEL.fullmatch(record.label), file, "label", record.label)
    _check_levels(record.levels, file)
    _check_times(file, record.started_at, record.ended_at)
    for window in (record.load, record.window, record.summary.window if record.summary else None):
        if window is not None:
            _require(0 <= window.start_ns < window.end_ns < LATEST_NS, file, "window", window.start_ns)
    if record.summary is not None:
        _require(0 <= record.summary.errors < LARGEST_FIGURE, file, "errors", record.summary.errors)
        for name, metric in METRICS.items():
            value = metric(record.summary)
            _require(value is None or 0 <= value < LARGEST_FIGURE, file, name, value)
    _require(_depth_within([record.settings, record.faults], DEEPEST_SETTING), file, "settings", "nested deeply")


def _check_levels(levels: Mapping[str, Any], file: str) -> None:
    for level in levels.values():
        _require(isinstance(level, str | int | float | bool) and len(str(level)) < LONGEST_TEXT, file, "level", level)


def _check_times(file: str, started_at: str, ended_at: str) -> None:
    for key, text in (("started_at", started_at), ("ended_at", ended_at)):
        _require(text == "" or records.moment(text) is not None, file, key, text)


def _check_settings(settings: Mapping[str, Any]) -> None:
    _require(_depth_within(settings, DEEPEST_SETTING), SERIES_FILE, "settings", "nested deeply")
    try:
        Experiment.model_validate(settings)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        keys = ".".join(str(key)[:60] for key in first["loc"][:6])
        raise InvalidRequest(f"has settings that this Stafette does not have, in {keys or 'all of them'}") from error


def _depth_within(value: object, levels: int) -> bool:
    if not isinstance(value, Mapping | list):
        return True
    inner = value.values() if isinstance(value, Mapping) else value
    return levels > 0 and all(_depth_within(item, levels - 1) for item in inner)


def _require(condition: object, file: str, key: str, value: object) -> None:
    if not condition:
        raise InvalidRequest(f"has a {file} that no Stafette wrote: its {key} is {str(value)[:80]!r}")
