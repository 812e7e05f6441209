"""Results on disk: every table as Parquet and as CSV, the summary as JSON, and metadata in facts.json.

::

    OUT/tables/NAME/part-0.parquet    OUT/csv/NAME.csv    OUT/summary.json    OUT/facts.json

Results are written to a temporary folder and then renamed, so a reader never sees half an analysis.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from stafette.errors import InvalidRequest
from stafette.report.result_tables import SUMMARY_KEYS, TABLES

FOLDERS = ("tables", "csv")
INTERVAL_KEYS = ("kind", "level", "n")
"""The keys of `interval` in each object of summary.json; `reason` is a fourth if an interval is missing."""
SUMMARY_FILE, METADATA_FILE = "summary.json", "facts.json"


def write(out: Path, tables: Mapping[str, pa.Table], metadata: Mapping[str, Any]) -> None:
    """Write all results, and replace those of an earlier analysis."""
    unfinished = out / f".unfinished-{os.getpid()}"
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        for name, schema in TABLES.items():
            table = tables.get(name, schema.empty_table())
            (unfinished / "tables" / name).mkdir(parents=True)
            (unfinished / "csv").mkdir(exist_ok=True)
            pq.write_table(table, unfinished / "tables" / name / "part-0.parquet")
            pyarrow.csv.write_csv(table, unfinished / "csv" / f"{name}.csv")
        (unfinished / SUMMARY_FILE).write_text(_json(summary_objects(tables["summary"])), "utf-8")
        (unfinished / METADATA_FILE).write_text(_json(metadata), "utf-8")
        for name in (*FOLDERS, SUMMARY_FILE, METADATA_FILE):
            _replace(unfinished / name, out / name)
    except OSError as error:
        raise InvalidRequest(
            f"cannot write the results to {out}: {error.strerror}; choose another folder with --out"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def load(out: Path) -> dict[str, pa.Table]:
    """All result tables of an analysis, by name."""
    if not (out / "tables").is_dir():
        raise InvalidRequest(f"there are no results in {out}; make them with `stafette analyze`")
    return {
        name: pq.read_table(out / "tables" / name, schema=schema)
        if (out / "tables" / name).is_dir()
        else schema.empty_table()
        for name, schema in TABLES.items()
    }


def load_metadata(out: Path) -> dict[str, Any]:
    """The metadata of an analysis: facts.json."""
    try:
        metadata: dict[str, Any] = json.loads((out / METADATA_FILE).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"there are no results in {out}; make them with `stafette analyze`") from error
    return metadata


def summary_objects(summary: pa.Table) -> list[dict[str, Any]]:
    """The summary as its documented JSON."""
    objects = []
    for row in summary.to_pylist():
        mean, throughput = (
            _bounds(row["mean_low_ms"], row["mean_high_ms"]),
            _bounds(row["throughput_low"], row["throughput_high"]),
        )
        interval = {name: row[f"interval_{name}"] for name in INTERVAL_KEYS}
        if mean is None or throughput is None:
            interval["reason"] = row["interval_reason"]
        values = row | {"mean_interval_ms": mean, "interval": interval, "throughput_interval_per_s": throughput}
        objects.append({name: values[name] for name in SUMMARY_KEYS})
    return objects


def _bounds(low: float | None, high: float | None) -> list[float] | None:
    return None if low is None or high is None else [low, high]


def _replace(new: Path, old: Path) -> None:
    """Replace a file or folder by another."""
    if old.is_dir():
        previous = new.with_name(f"{new.name}-before")
        old.rename(previous)
    new.rename(old)


def _json(value: Any) -> str:
    return json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """The same value, with null for NaN and infinity, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
