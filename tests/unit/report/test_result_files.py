"""The summary as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stafette.pipeline import tables
from stafette.report import result_files, result_tables

INTERVAL = {"interval_kind": "batches", "interval_level": 0.9, "interval_n": 15}
MEAN = {"mean_low_ms": 2.0, "mean_high_ms": 3.0}
THROUGHPUT = {"throughput_low": 90.0, "throughput_high": 110.0}


def summary_object(**values: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(result_tables.TABLES["summary"].names)
    (described,) = result_files.summary_objects(result_tables.table("summary", [row | values]))
    assert tuple(described) == result_tables.SUMMARY_KEYS
    return described


def test_intervals_have_bounds_kind_level_and_number() -> None:
    described = summary_object(**INTERVAL, **MEAN, **THROUGHPUT)
    assert described["mean_interval_ms"] == [2.0, 3.0]
    assert described["throughput_interval_per_s"] == [90.0, 110.0]
    assert described["interval"] == {"kind": "batches", "level": 0.9, "n": 15}


def test_without_an_interval_there_is_a_reason() -> None:
    described = summary_object(interval_reason="7 windows are too few")
    assert described["mean_interval_ms"] is None
    assert described["throughput_interval_per_s"] is None
    assert described["interval"] == {"kind": None, "level": None, "n": None, "reason": "7 windows are too few"}


def test_one_interval_of_two_has_a_reason_for_the_other() -> None:
    described = summary_object(**INTERVAL, **MEAN, interval_reason="throughput is correlated")
    assert described["mean_interval_ms"] == [2.0, 3.0]
    assert described["throughput_interval_per_s"] is None
    assert described["interval"]["reason"] == "throughput is correlated"


def test_the_old_name_still_loads_and_says_what_is_new(tmp_path: Path) -> None:
    result_files.write(tmp_path, {"summary": result_tables.table("summary", [])}, {})
    with pytest.warns(DeprecationWarning, match=r"stafette\.report\.result_files\.load"):
        loaded = tables.load(tmp_path)
    assert loaded == result_files.load(tmp_path)
