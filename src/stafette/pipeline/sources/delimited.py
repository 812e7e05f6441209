"""Any delimited text with a time in each line, by a mapping that says what its columns mean (see ``mapping``).

A line is a row: quotes may hold separators, but no line ends. Files may differ in the order of their columns; one whose
header lacks a column that the mapping names is rejected as a whole. Times are exact to the nanosecond as numbers, to the
microsecond as dates.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping as Map
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from stafette.pipeline.schema import ROWS, check
from stafette.pipeline.sources import files, lines, mapping
from stafette.pipeline.sources.base import Source
from stafette.pipeline.sources.made_up import runs_of
from stafette.pipeline.sources.mapping import Mapping, Place
from stafette.trace import PHASES

NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
TIERS = ("client", "broker")
_NUMBER = "decimal(28,9)"
_BROKEN = "_broken"


def read(spark: SparkSession, folders: Sequence[str | Path], how: Mapping | Path) -> Source:
    """Read all files below the folders, each of which is a run unless the mapping says otherwise."""
    if isinstance(how, Path):
        how = mapping.read(how)
    texts = lines.read(spark, folders, how.files)
    bad = list(texts.bad)
    if how.header:
        places, worse = _by_header(lines.first(texts.lines), how)
        bad += worse
    else:
        numbers = {name: int(place) - 1 for name, place in how.places.items()}
        places = {(tuple(sorted(numbers.items())), max(numbers.values()) + 1): []}
    found = [_parsed(_of(texts.lines, names), dict(columns), count, how) for (columns, count), names in places.items()]
    if not found:
        return Source(spark.createDataFrame([], ROWS), files.bad_files(spark, bad), [])
    parsed = reduce(DataFrame.unionByName, found)
    rows = check(parsed.where(F.col("reason").isNull()), ROWS)
    rejects = lines.rejects(texts.lines, parsed, F.lit(how.header)).unionByName(files.bad_files(spark, bad))
    client = "client" if how.columns.client is not None else "node"
    return Source(rows, rejects, runs_of(rows, client=client, folders=texts.folders))


_Layout = tuple[tuple[tuple[str, int], ...], int]
"""At which place, from 0, what is, and how many columns there are."""


def _by_header(headers: Map[str, str], how: Mapping) -> tuple[dict[_Layout, list[str]], list[files.BadFile]]:
    """The files of each layout, and those whose header lacks a column."""
    layouts: dict[_Layout, list[str]] = defaultdict(list)
    bad = []
    for file, header in sorted(headers.items()):
        names = [name.strip() for name in next(csv.reader([header], delimiter=how.separator))] if header else []
        missing = sorted({str(place) for place in how.places.values() if place not in names})
        if missing:
            bad.append(files.BadFile(file, f"its first line has no column {', '.join(missing)}"))
        else:
            places = tuple(sorted((name, names.index(str(place))) for name, place in how.places.items()))
            layouts[places, len(names)].append(file)
    return layouts, bad


def _of(text: DataFrame, names: Sequence[str]) -> DataFrame:
    return text.where(F.col("file").isin(*names)) if names else text


def _parsed(text: DataFrame, places: Map[str, int], count: int, how: Mapping) -> DataFrame:
    """Lines with the columns of ROWS, and with ``reason``: why a line cannot be used, or null."""
    fields = StructType([StructField(f"_{number}", StringType()) for number in range(count)])
    fields.add(_BROKEN, StringType())
    options = {"sep": how.separator, "quote": how.quote, "columnNameOfCorruptRecord": _BROKEN, "mode": "PERMISSIVE"}
    parsed = text.withColumnsRenamed({"run": "_run", "node": "_node"})
    parsed = lines.once(parsed, fields=F.from_csv("text", F.lit(fields.json()), options))
    given = {name: F.trim(F.col(f"fields._{number}")) for name, number in places.items()}
    parsed = lines.once(parsed, **_numbers(given, how), **_words(given, how))
    parsed = lines.once(parsed, **_times(given))
    parsed = lines.once(parsed, reason=_reason(given, how))
    unknown = [field.name for field in ROWS if field.nullable and field.name not in given]
    return parsed.select("*", *(F.lit(None).alias(name) for name in unknown)).select(
        "file", "split", "place", "text", "reason", *ROWS.names
    )
