"""Files that Spark reads: on this machine, on a cluster's file system, or on a Spark Connect server.

Everything goes through Spark's readers, for only they reach all of these. Spark returns paths as encoded URLs and takes
paths as patterns, so its results are decoded and its arguments escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import unquote

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stafette.errors import InvalidRequest
from stafette.pipeline.schema import REJECTS, small
from stafette.pipeline.sources.base import BadFile
from stafette.runs.layout import ANALYSIS, REQUESTS

SPARK_ERRORS = (PySparkException, Py4JError)
_NAME = "/[^/]*$"
_LOCAL = re.compile("^file:/+")
_PATTERN = re.compile(r"([\\\[\]{}*?])")

_UNREADABLE = re.compile(r"reading file (\S+?)\.?(?:\s|$)")
"""The file that an error of Spark's names."""
_OWN_FILES = re.compile(rf"/{ANALYSIS}/((csv|tables/[a-z_]+)/)?[^/]+$|/{REQUESTS}/[a-z]+/added=[0-9a-f]+/[^/]+$")
MOST_BAD = 100
"""The number of unreadable files that an analysis leaves out; with more it fails."""

Result = TypeVar("Result")


def location(path: str | Path) -> str:
    """A URL, or an absolute path, which does not depend on the current folder."""
    text = str(path)
    return text.rstrip("/") if "://" in text else str(Path(text).absolute())


def plain(url: str) -> str:
    """A URL of Spark's as a path, or decoded if it is not local."""
    return unquote(_LOCAL.sub("/", url))


def file() -> Column:
    """The file of a row, as `plain` writes it."""
    encoded = F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B"))  # in a path a plus is a plus
    return F.regexp_replace(F.url_decode(encoded), _LOCAL.pattern, "/")


def folder() -> Column:
    """The folder of a row's file."""
    return F.regexp_replace(file(), _NAME, "")


def escape(paths: Iterable[str]) -> list[str]:
    """Paths for Spark's readers, for which brackets and asterisks are patterns."""
    return [_PATTERN.sub(r"\\\1", path) for path in paths]


def find(spark: SparkSession, folders: Sequence[str], pattern: str) -> list[str]:
    """All files at or below the folders whose names match, as `plain` writes them.

    Spark skips files and folders whose names begin with an underscore or a full stop.
    """
    return sorted(map(plain, _list(spark, folders, pattern)))


def _list(spark: SparkSession, folders: Sequence[str], pattern: str) -> list[str]:
    reader = spark.read.option("recursiveFileLookup", "true").option("pathGlobFilter", pattern)
    try:
        return sorted(set(reader.text(escape(folders)).inputFiles()))
    except AnalysisException as error:
        raise InvalidRequest(f"cannot read {', '.join(folders)}: {cause(error)}") from error


class Listing(NamedTuple):
    """The files of a folder: their number, their bytes, and a hash of names, sizes and times."""

    files: int
    bytes: int
    hash: int


def listings(spark: SparkSession, folders: Sequence[str], pattern: str) -> dict[str, Listing]:
    """The listing of each folder that has files whose names match."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true").option("pathGlobFilter", pattern)
    listing = reader.load(escape(folders)).select(file().alias("file"), "length", "modificationTime")
    files_hash = F.bit_xor(F.xxhash64("file", "length", "modificationTime"))
    by_folder = listing.groupBy(F.regexp_replace("file", _NAME, "").alias("folder"))
    rows = by_folder.agg(F.count(F.lit(1)).alias("files"), F.sum("length").alias("bytes"), files_hash.alias("hash"))
    return {row["folder"]: Listing(row["files"], row["bytes"], row["hash"]) for row in rows.collect()}


def find_empty(spark: SparkSession, folders: Sequence[str], pattern: str, nonempty: int) -> list[str]:
    """The empty files of the folders, which Spark skips; `nonempty` is the number of the others."""
    if not folders:
        return []
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true").option("pathGlobFilter", pattern)
    listing = reader.load(escape(folders))
    paths = set(map(plain, listing.inputFiles()))
    if len(paths) == nonempty:
        return []
    return sorted(paths - {row["file"] for row in listing.select(file().alias("file")).collect()})


def without(rows: DataFrame, bad: Sequence[BadFile]) -> DataFrame:
    """The rows without those of bad files, which Spark does not even open."""
    return rows.where(~file().isin([bad_file.file for bad_file in bad])) if bad else rows


def retry(attempt: Callable[[Sequence[BadFile]], Result], bad: Sequence[BadFile] = ()) -> tuple[Result, list[BadFile]]:
    """Repeat an attempt without each file that it fails on; returns its result, and these files with the bad ones."""
    excluded = list(bad)
    while True:
        try:
            return attempt(excluded), excluded
        except SPARK_ERRORS as error:
            bad_file = unreadable_file(error)
            if bad_file is None or bad_file.file in {other.file for other in excluded}:
                raise
            excluded.append(bad_file)
            check_bad_count(len(excluded), bad_file)


def check_bad_count(count: int, last: BadFile) -> None:
    """Raise InvalidRequest if there are more bad files than an analysis may leave out."""
    if count > MOST_BAD:
        raise InvalidRequest(f"more than {MOST_BAD} files cannot be read, among them {last.file}: {last.reason}")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise errors of Spark's as InvalidRequest with their cause, and the file if they name one."""
    try:
        yield
    except SPARK_ERRORS as error:
        bad_file = unreadable_file(error)
        detail = f"{bad_file.file} {bad_file.reason}" if bad_file else cause(error)
        raise InvalidRequest(f"Spark could not finish: {detail}; --debug shows all that it said") from error


def unreadable_file(error: Exception) -> BadFile | None:
    """The file that Spark could not read, if its error names one."""
    match = _UNREADABLE.search(str(error))
    return BadFile(plain(match[1]), f"cannot be read: {cause(error)}") if match else None


def bad_files(spark: SparkSession, bad: Sequence[BadFile]) -> DataFrame:
    """Bad files as rejects."""
    return small(spark, [(bad_file.file, 0, "", bad_file.reason) for bad_file in bad], REJECTS)


def cause(error: Exception) -> str:
    """The innermost cause of Spark's error, in one line without its code."""
    text = str(error)
    causes = re.findall(r"(?m)^Caused by: [\w.$]+: (.+)$", text)
    first = causes[-1] if causes else text.strip().partition("\n")[0]
    return re.sub(r"^\[[\w.]+\] | SQLSTATE: \w+$", "", first).strip().rstrip(".")


def roots(folders: Sequence[str | Path]) -> dict[str, str]:
    """The run of each folder, by location: its name, or its location where two have the same name."""
    locations = list(dict.fromkeys(map(location, folders)))
    names = [root.rpartition("/")[2] or root for root in locations]
    return {root: name if names.count(name) == 1 else root for root, name in zip(locations, names, strict=True)}


def find_texts(spark: SparkSession, folders: Sequence[str], pattern: str = "*") -> list[str]:
    """Spark's URLs of the files at or below the folders whose names match, without results and requests of ours."""
    return [url for url in _list(spark, folders, pattern) if not _OWN_FILES.search(plain(url))]


def run_and_node(path: str, runs: Mapping[str, str]) -> tuple[str, str]:
    """The run of a file, which is that of its innermost root, and the file's path in this root."""
    root = max((root for root in runs if path == root or path.startswith(f"{root}/")), key=len)
    return runs[root], path.removeprefix(root).removeprefix("/") or path.rpartition("/")[2]
