"""Any delimited text with a time in each line, by a mapping that says what its columns mean (see ``mapping``).

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
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stafette.pipeline.fingerprint import fingerprint
from stafette.pipeline.schema import REJECTS, ROWS, small
from stafette.pipeline.sources import files, lines, mapping
from stafette.pipeline.sources.base import LONGEST_NS, BadFile, Source
from stafette.pipeline.sources.lines import Texts
from stafette.pipeline.sources.mapping import Mapping
from stafette.runs.outcomes import TIERS
from stafette.trace import PHASES

KIND = "csv"
NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_MOMENTS = ("start", "end", "intended")
_COUNTS = ("request", "bytes", "messages")
_NEEDED = ("start", "end", "duration")
_NUMBER = "decimal(28,9)"
_BROKEN = "_broken"


def read(
    spark: SparkSession,
    folders: Sequence[str | Path],
    how: Mapping | Path,
    *,
    kept: Container[str] = (),
    bad: Sequence[BadFile] = (),
) -> Source:
    """Read all files below the folders, but for bad ones; each folder is a run unless the mapping says otherwise."""
    if isinstance(how, Path):
        how = mapping.read(how)
    texts = lines.read(spark, folders, how.files, bad)
    fingerprints = {"": fingerprint(f"{KIND} {how!r}", texts.fingerprint)}
    nothing = Source(
        small(spark, [], ROWS), small(spark, [], REJECTS), fingerprints=fingerprints, folders=texts.folders
    )
    if fingerprints[""] in kept:
        return nothing
    headless: list[BadFile] = []
    if how.header:
        (texts, headers), bad = files.retry(lambda worse: _with_headers(spark, folders, how, worse, texts), bad)
        places, headless = _by_header(headers, how)
    else:
        numbers = {name: int(place) - 1 for name, place in how.places.items()}
        places = {(tuple(sorted(numbers.items())), max(numbers.values()) + 1): []}
    parts = [_parsed(_of(texts.lines, names), dict(columns), count, how) for (columns, count), names in places.items()]
    rejected = [*bad, *headless]
    source = (
        lines.source(texts, reduce(DataFrame.unionByName, parts), F.lit(how.header), rejected)
        if parts
        else replace(nothing, rejects=files.bad_files(spark, rejected))
    )
    return replace(
        source,
        fingerprints=fingerprints,
        fresh=[""],
        paired=how.columns.request is not None,
        without=lambda worse: read(spark, folders, how, bad=[*bad, worse]),
    )


def _with_headers(
    spark: SparkSession, folders: Sequence[str | Path], how: Mapping, bad: Sequence[BadFile], texts: Texts
) -> tuple[Texts, Map[str, str]]:
    """Files but for bad ones, and their first lines. `texts` is taken if it has no bad ones."""
    if {each.file for each in bad} - texts.left_out:
        texts = lines.read(spark, folders, how.files, bad)
    return texts, lines.first(texts.lines)


_Layout = tuple[tuple[tuple[str, int], ...], int]
"""At which place, from 0, what is, and how many columns there are."""


def _by_header(headers: Map[str, str], how: Mapping) -> tuple[dict[_Layout, list[str]], list[BadFile]]:
    """The files of each layout, and those whose header lacks a column."""
    layouts: dict[_Layout, list[str]] = defaultdict(list)
    bad = []
    for file, header in sorted(headers.items()):
        names = [name.strip() for name in next(csv.reader([header], delimiter=how.separator))] if header else []
        missing = sorted({str(place) for place in how.places.values() if place not in names})
        if missing:
            bad.append(BadFile(file, f"its first line has no column {', '.join(missing)}"))
        else:
            places = tuple(sorted((name, names.index(str(place))) for name, place in how.places.items()))
            layouts[places, len(names)].append(file)
    return layouts, bad


def _of(text: DataFrame, names: Sequence[str]) -> DataFrame:
    return text.where(F.col("file").isin(*names)) if names else text


def _parsed(text: DataFrame, places: Map[str, int], count: int, how: Mapping) -> DataFrame:
    """Lines with the columns of ROWS, and with ``reason``: why a line cannot be used, or null."""
    columns = ", ".join([*(f"_{number} string" for number in range(count)), f"{_BROKEN} string"])
    options = {"sep": how.separator, "quote": how.quote, "columnNameOfCorruptRecord": _BROKEN, "mode": "PERMISSIVE"}
    given = {name: F.trim(F.col(f"fields._{number}")) for name, number in places.items()}
    found = text.withColumnsRenamed({"run": "folder_run", "node": "folder_node"})
    # In steps, so that what several need is computed once.
    found = found.withColumn("fields", F.from_csv("text", columns, options))
    found = found.withColumns(_numbers(given, how) | _words(given, how))
    found = found.withColumns(_times(given)).withColumn("reason", _reason(given, how))
    unknown = [field.name for field in ROWS if field.nullable and field.name not in given]
    whole = found.select("*", *(F.lit(None).cast(ROWS[name].dataType).alias(name) for name in unknown))
    return whole.select("file", "split", "place", "text", "reason", *ROWS.names)


def _numbers(given: Map[str, Column], how: Mapping) -> dict[str, Column]:
    """All that are numbers; null where a field is none. Times get the name ``the_start``, for not all are given."""
    numbers = {f"the_{name}": _moment(given[name], how) for name in _MOMENTS if name in given}
    if "duration" in given:
        numbers["the_duration"] = _scaled(given["duration"], how.unit_of_durations)
    numbers |= {phase: _scaled(given[phase], how.unit_of_durations) for phase in PHASES if phase in given}
    return numbers | {name: _scaled(given[name], "ns") if name in given else F.lit(0) for name in _COUNTS}


def _moment(field: Column, how: Mapping) -> Column:
    if how.unit is not None:
        return _scaled(field, how.unit)
    date = F.try_to_timestamp(field) if how.pattern == "iso" else F.try_to_timestamp(field, F.lit(how.pattern))
    if how.zone != "UTC":
        date = F.to_utc_timestamp(date, how.zone)
    return F.unix_micros(date) * NANOSECONDS["us"]


def _scaled(field: Column, unit: mapping.Unit) -> Column:
    return (field.try_cast(_NUMBER) * F.lit(NANOSECONDS[unit]).cast("decimal(10,0)")).try_cast("bigint")


def _words(given: Map[str, Column], how: Mapping) -> dict[str, Column]:
    constants = how.constants
    instead = {
        "run": F.col("folder_run") if constants.run is None else F.lit(constants.run),
        "node": F.col("folder_node") if constants.node is None else F.lit(constants.node),
        **{name: F.lit(getattr(constants, name)) for name in ("tier", "client", "operation", "outcome")},
    }
    words = {name: given.get(name, constant) for name, constant in instead.items()}
    if how.outcomes and "outcome" in given:
        meanings = F.create_map(*(F.lit(word) for pair in how.outcomes.items() for word in pair))
        words["outcome"] = F.coalesce(F.try_element_at(meanings, words["outcome"]), words["outcome"])
    return words


def _times(given: Map[str, Column]) -> dict[str, Column]:
    """Start and end, of which one may have to be computed."""
    start = F.col("the_start") if "start" in given else F.col("the_end") - F.col("the_duration")
    end = F.col("the_end") if "end" in given else F.col("the_start") + F.col("the_duration")
    intended = F.coalesce("the_intended", start) if "intended" in given else start
    return {"start_ns": start, "end_ns": end, "intended_ns": intended}


def _reason(given: Map[str, Column], how: Mapping) -> Column:
    reason = F.when(F.trim("text") == "", F.lit("the line is empty"))
    if how.header:  # without one nobody knows how many fields there should be
        broken = F.col(f"fields.{_BROKEN}").isNotNull()
        reason = reason.when(broken, F.lit("it has more or fewer fields than the header"))
    kind = "number" if how.pattern is None else "date"
    for name, column, what in (
        *((name, f"the_{name}", kind) for name in _MOMENTS),
        ("duration", "the_duration", "number"),
        *((phase, phase, "number") for phase in PHASES),
        *((name, name, "number") for name in _COUNTS),
    ):
        if name not in given:
            continue
        if name in _NEEDED:
            reason = reason.when(given[name].isNull() | (given[name] == ""), F.lit(f"it has no {name}"))
        filled = given[name] != ""
        reason = reason.when(filled & F.col(column).isNull(), F.lit(f"{name} is not a {what}"))
        if name not in _MOMENTS:
            reason = reason.when(F.col(column) < 0, F.lit(f"{name} is negative"))
    for name in ("run", "tier", "operation", "outcome"):
        reason = reason.when(F.coalesce(F.col(name), F.lit("")) == "", F.lit(f"it has no {name}"))
    reason = reason.when(~F.col("tier").isin(*TIERS), F.concat(F.lit("there is no tier "), "tier"))
    reason = reason.when(F.col("start_ns") < F.col("intended_ns"), F.lit("it starts before it was to"))
    reason = reason.when(F.col("end_ns") < F.col("start_ns"), F.lit("it ends before it starts"))
    return reason.when(F.col("end_ns") - F.col("intended_ns") > LONGEST_NS, F.lit("it takes more than 31 days"))
