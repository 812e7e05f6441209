"""The summary as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stafette.pipeline import tables
from stafette.report import result_files, result_tables

BOUNDS = {"batch_low_ms": 1.0, "batch_high_ms": 4.0, "mean_low_ms": 2.0, "mean_high_ms": 3.0}


@pytest.mark.parametrize(
    ("missing", "expected"),
    [((), [1.0, 4.0]), (("batch_low_ms", "batch_high_ms"), [2.0, 3.0]), (tuple(BOUNDS), None)],
)
def test_the_interval_is_of_batch_means_where_there_is_one(
    missing: tuple[str, ...], expected: list[float] | None
) -> None:
    row: dict[str, Any] = dict.fromkeys(result_tables.TABLES["summary"].names)
    row |= {name: value for name, value in BOUNDS.items() if name not in missing}
    (found,) = result_files.summary_objects(result_tables.table("summary", [row]))
    assert tuple(found) == result_tables.SUMMARY_KEYS
    assert found["ci95_ms"] == expected


def test_the_old_name_still_loads_and_says_what_is_new(tmp_path: Path) -> None:
    result_files.write(tmp_path, {"summary": result_tables.table("summary", [])}, {})
    with pytest.warns(DeprecationWarning, match=r"stafette\.report\.result_files\.load"):
        loaded = tables.load(tmp_path)
    assert loaded == result_files.load(tmp_path)
