"""What is small enough for a quick start of Spark."""

from __future__ import annotations

from pathlib import Path

from stafette.pipeline import input_size


def test_what_is_small_is_so_by_the_bytes_of_its_traces(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "a.parquet").write_bytes(b"1234")
    assert input_size.is_small([tmp_path])
    assert not input_size.is_small([tmp_path, "hdfs://head/runs"])
    for name, small in (("analysis", True), ("requests", True), ("logs", False)):
        (tmp_path / name).mkdir()
        with (tmp_path / name / "large").open("wb") as file:
            file.truncate(input_size.SMALL_BYTES)
        assert input_size.is_small([tmp_path]) == small
