"""The summary as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from stafette.pipeline import results, tables

BOUNDS = {"batch_low_ms": 1.0, "batch_high_ms": 4.0, "mean_low_ms": 2.0, "mean_high_ms": 3.0}


@pytest.mark.parametrize(
    ("missing", "expected"),
    [((), [1.0, 4.0]), (("batch_low_ms", "batch_high_ms"), [2.0, 3.0]), (tuple(BOUNDS), None)],
)
def test_the_interval_is_of_batch_means_where_there_is_one(
    missing: tuple[str, ...], expected: list[float] | None
) -> None:
    row: dict[str, Any] = dict.fromkeys(results.TABLES["summary"].names)
    row |= {name: value for name, value in BOUNDS.items() if name not in missing}
    (found,) = tables.summary_objects(results.table("summary", [row]))
    assert tuple(found) == results.SUMMARY_KEYS
    assert found["ci95_ms"] == expected
