"""Any delimited text with a time in each line, by a mapping of its columns (see ``mapping``).

A line is a row: quotes may hold separators, but no line ends. Files may differ in the order of their columns; one whose
header lacks a column that the mapping names is rejected as a whole. Times are exact to the nanosecond as numbers, to
the microsecond as dates.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Container, Sequence
from collections.abc import Mapping as Map
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stafette.pipeline.fingerprint import fingerprint
from stafette.pipeline.schema import REJECTS, ROWS, small
from stafette.pipeline.sources import files, lines
from stafette.pipeline.sources.base import LONGEST_NS, BadFile, Source
from stafette.pipeline.sources.lines import Texts
from stafette.pipeline.sources.mapping import Mapping, Unit
from stafette.pipeline.sources.mapping import read as read_mapping
from stafette.runs.outcomes import TIERS
from stafette.trace import PHASES

KIND = "csv"
NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_TIMES = ("start", "end", "intended")
_COUNTS = ("request", "bytes", "messages")
_REQUIRED = ("start", "end", "duration")
_NUMBER = "decimal(28,9)"
_CORRUPT_RECORD = "_broken"


def read(
    spark: SparkSession,
    folders: Sequence[str | Path],
    mapping: Mapping | Path,
    *,
    kept: Container[str] = (),
    bad: Sequence[BadFile] = (),
) -> Source:
    """Read all files below the folders, without bad ones; each folder is a run unless the mapping says otherwise."""
    if isinstance(mapping, Path):
        mapping = read_mapping(mapping)
    texts = lines.read(spark, folders, mapping.files, bad)
    fingerprints = {"": fingerprint(f"{KIND} {mapping!r}", texts.fingerprint)}
    empty = Source(
        small(spark, [], ROWS), small(spark, [], REJECTS), fingerprints=fingerprints, folders=texts.folders,
        bytes={"": texts.bytes},
    )  # fmt: skip
    if fingerprints[""] in kept:
        return empty
    without_column: list[BadFile] = []
    if mapping.header:
        (texts, headers), bad = files.retry(partial(_read_headers, spark, folders, mapping, texts), bad)
        layouts, without_column = _files_by_layout(headers, mapping)
    else:
        indexes = {name: int(key) - 1 for name, key in mapping.column_keys.items()}
        layouts = {(tuple(sorted(indexes.items())), max(indexes.values()) + 1): []}
    frames = [
        _parse(_select_files(texts.lines, paths), dict(indexes), count, mapping)
        for (indexes, count), paths in layouts.items()
    ]
    rejected_files = [*bad, *without_column]
    source = (
        lines.source(texts, reduce(DataFrame.unionByName, frames), F.lit(mapping.header), rejected_files)
        if frames
        else replace(empty, rejects=files.bad_files(spark, rejected_files))
    )
    return replace(
        source,
        fingerprints=fingerprints,
        fresh=[""],
        paired=mapping.columns.request is not None,
        without=lambda bad_file: read(spark, folders, mapping, bad=[*bad, bad_file]),
    )


def _read_headers(
    spark: SparkSession, folders: Sequence[str | Path], mapping: Mapping, texts: Texts, bad: Sequence[BadFile]
) -> tuple[Texts, Map[str, str]]:
    """The files without bad ones, and their first lines. `texts` is read again only if it has bad ones."""
    if {bad_file.file for bad_file in bad} - texts.excluded:
        texts = lines.read(spark, folders, mapping.files, bad)
    return texts, lines.first_lines(texts.lines)


_Layout = tuple[tuple[tuple[str, int], ...], int]
"""The index of each column, by its meaning, and the number of columns."""


def _files_by_layout(headers: Map[str, str], mapping: Mapping) -> tuple[dict[_Layout, list[str]], list[BadFile]]:
    """The files of each layout, and those whose header lacks a column."""
    layouts: dict[_Layout, list[str]] = defaultdict(list)
    bad = []
    for file, header in sorted(headers.items()):
        names = [name.strip() for name in next(csv.reader([header], delimiter=mapping.separator))] if header else []
        missing = sorted({str(key) for key in mapping.column_keys.values() if key not in names})
        if missing:
            bad.append(BadFile(file, f"its first line has no column {', '.join(missing)}"))
        else:
            indexes = tuple(sorted((name, names.index(str(key))) for name, key in mapping.column_keys.items()))
            layouts[indexes, len(names)].append(file)
    return layouts, bad


def _select_files(text: DataFrame, paths: Sequence[str]) -> DataFrame:
    """The lines of these files, or of all if there are no paths."""
    return text.where(F.col("file").isin(*paths)) if paths else text


def _parse(text: DataFrame, indexes: Map[str, int], count: int, mapping: Mapping) -> DataFrame:
    """Lines with the columns of ROWS, and with ``reason``: why a line is rejected, or null."""
    columns = ", ".join([*(f"_{number} string" for number in range(count)), f"{_CORRUPT_RECORD} string"])
    options = {"sep": mapping.separator, "quote": mapping.quote, "mode": "PERMISSIVE"}
    options["columnNameOfCorruptRecord"] = _CORRUPT_RECORD
    fields = {name: F.trim(F.col(f"fields._{index}")) for name, index in indexes.items()}
    rows = text.withColumnsRenamed({"run": "folder_run", "node": "folder_node"})
    # In steps, so that shared columns are computed once.
    rows = rows.withColumn("fields", F.from_csv("text", columns, options))
    rows = rows.withColumns(_number_columns(fields, mapping) | _text_columns(fields, mapping))
    rows = rows.withColumns(_time_columns(fields)).withColumn("reason", _reason(fields, mapping))
    null_columns = [field.name for field in ROWS if field.nullable and field.name not in fields]
    rows = rows.select("*", *(F.lit(None).cast(ROWS[name].dataType).alias(name) for name in null_columns))
    return rows.select("file", "split", "row_id", "text", "reason", *ROWS.names)


def _number_columns(fields: Map[str, Column], mapping: Mapping) -> dict[str, Column]:
    """The columns of numbers; null where a field is not one. Times get names such as ``parsed_start``."""
    numbers = {f"parsed_{name}": _epoch_ns(fields[name], mapping) for name in _TIMES if name in fields}
    unit = mapping.effective_duration_unit
    if "duration" in fields:
        numbers["parsed_duration"] = _scale(fields["duration"], unit)
    numbers |= {phase: _scale(fields[phase], unit) for phase in PHASES if phase in fields}
    return numbers | {name: _scale(fields[name], "ns") if name in fields else F.lit(0) for name in _COUNTS}


def _epoch_ns(field: Column, mapping: Mapping) -> Column:
    if mapping.unit is not None:
        return _scale(field, mapping.unit)
    pattern = mapping.pattern
    date = F.try_to_timestamp(field) if pattern == "iso" else F.try_to_timestamp(field, F.lit(pattern))
    if mapping.zone != "UTC":
        date = F.to_utc_timestamp(date, mapping.zone)
    return F.unix_micros(date) * NANOSECONDS["us"]


def _scale(field: Column, unit: Unit) -> Column:
    return (field.try_cast(_NUMBER) * F.lit(NANOSECONDS[unit]).cast("decimal(10,0)")).try_cast("bigint")


def _text_columns(fields: Map[str, Column], mapping: Mapping) -> dict[str, Column]:
    constants = mapping.constants
    defaults = {
        "run": F.col("folder_run") if constants.run is None else F.lit(constants.run),
        "node": F.col("folder_node") if constants.node is None else F.lit(constants.node),
        **{name: F.lit(getattr(constants, name)) for name in ("tier", "client", "operation", "outcome")},
    }
    columns = {name: fields.get(name, default) for name, default in defaults.items()}
    if mapping.outcomes and "outcome" in fields:
        outcomes = F.create_map(*(F.lit(word) for pair in mapping.outcomes.items() for word in pair))
        columns["outcome"] = F.coalesce(F.try_element_at(outcomes, columns["outcome"]), columns["outcome"])
    return columns


def _time_columns(fields: Map[str, Column]) -> dict[str, Column]:
    """Start, end and intended start; start or end may follow from the duration."""
    start = F.col("parsed_start") if "start" in fields else F.col("parsed_end") - F.col("parsed_duration")
    end = F.col("parsed_end") if "end" in fields else F.col("parsed_start") + F.col("parsed_duration")
    intended = F.coalesce("parsed_intended", start) if "intended" in fields else start
    return {"start_ns": start, "end_ns": end, "intended_ns": intended}


def _reason(fields: Map[str, Column], mapping: Mapping) -> Column:
    reason = F.when(F.trim("text") == "", F.lit("the line is empty"))
    if mapping.header:  # without it the number of fields is unknown
        is_corrupt = F.col(f"fields.{_CORRUPT_RECORD}").isNotNull()
        reason = reason.when(is_corrupt, F.lit("it has more or fewer fields than the header"))
    time_kind = "number" if mapping.pattern is None else "date"
    for name, column, kind in (
        *((name, f"parsed_{name}", time_kind) for name in _TIMES),
        ("duration", "parsed_duration", "number"),
        *((phase, phase, "number") for phase in PHASES),
        *((name, name, "number") for name in _COUNTS),
    ):
        if name not in fields:
            continue
        if name in _REQUIRED:
            reason = reason.when(fields[name].isNull() | (fields[name] == ""), F.lit(f"it has no {name}"))
        has_text = fields[name] != ""
        reason = reason.when(has_text & F.col(column).isNull(), F.lit(f"{name} is not a {kind}"))
        if name not in _TIMES:
            reason = reason.when(F.col(column) < 0, F.lit(f"{name} is negative"))
    for name in ("run", "tier", "operation", "outcome"):
        reason = reason.when(F.coalesce(F.col(name), F.lit("")) == "", F.lit(f"it has no {name}"))
    reason = reason.when(~F.col("tier").isin(*TIERS), F.concat(F.lit("there is no tier "), "tier"))
    reason = reason.when(F.col("start_ns") < F.col("intended_ns"), F.lit("it starts before it was to"))
    reason = reason.when(F.col("end_ns") < F.col("start_ns"), F.lit("it ends before it starts"))
    return reason.when(F.col("end_ns") - F.col("intended_ns") > LONGEST_NS, F.lit("it takes more than 31 days"))
