"""A series that was packed by an earlier version is read as it was: its keys are a promise to those who kept one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stafette.lab.running import trace_rows
from stafette.lab.running.summarise import summarise
from stafette.lab.series import archive
from stafette.lab.series.series_folder import Series
from stafette.runs import records
from stafette.runs.layout import RUN_FILE, RUNS, TRACES
from stafette.runs.records import RunRecord
from tests.support.command_line import stafette

SAMPLE = Path(__file__).parents[2] / "data" / "series_format_1.zip"
"""Two runs of two seconds, written with version 1 of the format."""


@pytest.fixture
def series(tmp_path: Path) -> Series:
    return archive.unpack(SAMPLE, tmp_path)


def test_its_points_and_runs_are_shown(series: Series) -> None:
    shown = json.loads(stafette("lab", "show", "kept", "--runs", str(series.folder.parent), "--json").stdout)
    assert (shown["series"], shown["state"], shown["settings"]["title"]) == ("kept-0001", "done", "A stored sample")
    assert [(point["levels"], point["throughput"]["mean"]) for point in shown["points"]] == [
        ({"size": 100}, 144.0),
        ({"size": 2000}, pytest.approx(520 / 3)),
    ]
    assert [(run["label"], run["valid"], run["metrics"]["p50_ms"]) for run in shown["runs"]] == [
        ("size=2000", True, 6.982476),
        ("size=100", True, 9.002648),
    ]


def test_nothing_of_a_record_is_lost_when_it_is_written_again(series: Series) -> None:
    files = sorted((series.folder / RUNS).glob(f"*/{RUN_FILE}"))
    assert len(files) == 2
    for file in files:
        before = json.loads(file.read_bytes())
        records.write(file, records.read(file, RunRecord))
        after = json.loads(file.read_bytes())
        assert _common(after, before) == before


def test_its_traces_are_summarised_as_they_were(series: Series) -> None:
    for file in (series.folder / RUNS).glob(f"*/{RUN_FILE}"):
        record = records.read(file, RunRecord)
        assert record.window is not None
        assert record.summary is not None
        summary = summarise(trace_rows.read(file.parent / TRACES), record.window)
        assert (summary.requests, summary.errors) == (record.summary.requests, record.summary.errors)
        assert summary.overall.count == record.summary.overall.count
        assert summary.overall.mean_ms == pytest.approx(record.summary.overall.mean_ms, rel=1e-9)


def _common(value: object, pattern: object) -> object:
    """The part of a value that has the keys of a pattern."""
    if isinstance(value, dict) and isinstance(pattern, dict):
        return {key: _common(value[key], pattern[key]) for key in pattern if key in value}
    if isinstance(value, list) and isinstance(pattern, list):
        return [_common(item, part) for item, part in zip(value, pattern, strict=True)]
    return value
