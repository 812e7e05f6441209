"""docs/traces.md is what the code has: every column and key."""

from __future__ import annotations

import re

import msgspec
import pyarrow as pa
import pytest

from stafette import trace
from stafette.lab.running import sampling
from stafette.runs import records
from stafette.runs.closed_loop import ClosedLoop
from stafette.runs.outcomes import UNANSWERED
from stafette.runs.records import Check, Done, FactsFound, Offset, Spread, Verdict
from stafette.runs.summary import Figures, Part, PerSecond, Summary
from tests.support.reference_pages import codes, plain, rows, section


def shown(kind: pa.DataType) -> str:
    plain_kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return {"string": "text", "double": "float64"}.get(str(plain_kind), str(plain_kind))


def test_every_column_of_a_trace_is_told() -> None:
    told = [row[:3] for row in rows(section("traces.md", "Traces"))]
    assert told == [[f"`{field.name}`", shown(field.type), "yes" * field.nullable] for field in trace.SCHEMA]
    text = section("traces.md", "Traces")
    assert set(UNANSWERED) <= set(codes(text))
    assert f"chunks of {trace.CHUNK_ROWS:,} rows, or of what gathered in {trace.CHUNK_SECONDS:g} seconds" in plain(text)
    assert f"({trace.MAX_WAITING_CHUNKS} chunks wait)" in plain(text)


def keys_told(page: str, title: str) -> list[str]:
    return [key for row in rows(section(page, title), head="key") for key in codes(row[0])]


def test_every_key_of_the_records_is_told() -> None:
    for title, record in (
        ("End reports", trace.EndReport),
        ("run.json", records.RunRecord),
        ("series.json", records.SeriesRecord),
    ):
        told = keys_told("traces.md", title)
        assert sorted(told) == sorted(record.__struct_fields__), title


@pytest.mark.parametrize(
    ("title", "parts"),
    [
        (
            "run.json",
            [records.Machine, FactsFound, Offset, records.Messages, Done, Spread, Summary, Part, Figures, PerSecond,
             ClosedLoop, Check, Verdict, records.ThresholdResult],
        ),
        ("series.json", [records.Planned]),
    ],
)  # fmt: skip
def test_every_key_inside_the_records_is_told(title: str, parts: list[type[msgspec.Struct]]) -> None:
    told = set(codes(section("traces.md", title)))
    for part in parts:
        assert set(part.__struct_fields__) <= told, part.__name__


def test_every_column_of_the_samples_is_told() -> None:
    told = {codes(row[0])[0]: row[1] for row in rows(section("traces.md", "Samples"))}
    schemas = {
        name.removeprefix("_").lower(): value for name, value in vars(sampling).items() if isinstance(value, pa.Schema)
    }
    assert set(told) == {f"{name}.parquet" for name in schemas}
    for name, found in schemas.items():
        cell = told[f"{name}.parquet"]
        assert codes(cell) == found.names
        if f"all {shown(found.types[0])}" in cell:
            assert set(found.types) == {found.types[0]}
        else:
            assert re.findall(r"` (int64|text|float64)", cell) == [shown(kind) for kind in found.types]
    assert f"more than {sampling.LARGEST_SHARE:.0%} of the time".replace("%", " %") in plain(
        section("traces.md", "Samples")
    )
