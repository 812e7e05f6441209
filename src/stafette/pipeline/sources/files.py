"""Files as Spark sees them: on this machine, on a cluster's file system, or where a Spark Connect server is.

Everything goes through Spark's readers, for only they reach all of these. Spark gives a file's address encoded as in a
URL and takes patterns where we mean names, so addresses are decoded on their way out and escaped on their way in.
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

_CULPRIT = re.compile(r"reading file (\S+?)\.?(?:\s|$)")
"""Where Spark's errors name a file."""
_OURS = re.compile(rf"/{ANALYSIS}/((csv|tables/[a-z_]+)/)?[^/]+$|/{REQUESTS}/[a-z]+/added=[0-9a-f]+/[^/]+$")
MOST_BAD = 100
"""Files that an analysis leaves out because they cannot be read, before it gives up."""

Result = TypeVar("Result")


def address(given: str | Path) -> str:
    """What somebody gave, as an address that does not depend on where a process runs."""
    text = str(given)
    return text.rstrip("/") if "://" in text else str(Path(text).absolute())


def plain(found: str) -> str:
    """An address of Spark's, as people write it."""
    return unquote(_LOCAL.sub("/", found))


def file() -> Column:
    """The file that a row is from, as people write it."""
    encoded = F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B"))  # in a path a plus is a plus
    return F.regexp_replace(F.url_decode(encoded), _LOCAL.pattern, "/")


def folder() -> Column:
    """The folder that its file is in."""
    return F.regexp_replace(file(), _NAME, "")


def escaped(paths: Iterable[str]) -> list[str]:
    """Paths for Spark's readers, which would take brackets and asterisks as patterns."""
    return [_PATTERN.sub(r"\\\1", path) for path in paths]


def below(spark: SparkSession, folders: Sequence[str], pattern: str) -> list[str]:
    """All files of such names in the folders and what is below them, as people write them; files count, too.

    Spark passes over files and folders whose names begin with an underscore or a full stop.
    """
    return sorted(map(plain, _listed(spark, folders, pattern)))


def _listed(spark: SparkSession, folders: Sequence[str], pattern: str) -> list[str]:
    reader = spark.read.option("recursiveFileLookup", "true").option("pathGlobFilter", pattern)
    try:
        return sorted(set(reader.text(escaped(folders)).inputFiles()))
    except AnalysisException as error:
        raise InvalidRequest(f"cannot read {', '.join(folders)}: {sentence(error)}") from error


class Listing(NamedTuple):
    """The files of a folder: how many, their bytes, and a hash of names, sizes and times."""

    files: int
    bytes: int
    hash: int


def listings(spark: SparkSession, folders: Sequence[str], pattern: str) -> dict[str, Listing]:
    """Each folder that has files of such names."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true").option("pathGlobFilter", pattern)
    listing = reader.load(escaped(folders)).select(file().alias("file"), "length", "modificationTime")
    one_hash = F.bit_xor(F.xxhash64("file", "length", "modificationTime"))
    by_folder = listing.groupBy(F.regexp_replace("file", _NAME, "").alias("folder"))
    rows = by_folder.agg(F.count(F.lit(1)).alias("files"), F.sum("length").alias("bytes"), one_hash.alias("hash"))
    return {row["folder"]: Listing(row["files"], row["bytes"], row["hash"]) for row in rows.collect()}


def empty(spark: SparkSession, folders: Sequence[str], pattern: str, filled: int) -> list[str]:
    """Files of such names in the folders that have nothing in them, which Spark passes over; `filled` are not empty."""
    if not folders:
        return []
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true").option("pathGlobFilter", pattern)
    listing = reader.load(escaped(folders))
    paths = set(map(plain, listing.inputFiles()))
    if len(paths) == filled:
        return []
    return sorted(paths - {row["file"] for row in listing.select(file().alias("file")).collect()})


def without(rows: DataFrame, bad: Sequence[BadFile]) -> DataFrame:
    """Rows of other files. Spark does not even open those that this leaves out."""
    return rows.where(~file().isin([each.file for each in bad])) if bad else rows


def retry(attempt: Callable[[Sequence[BadFile]], Result], bad: Sequence[BadFile] = ()) -> tuple[Result, list[BadFile]]:
    """What an attempt gives that is told which files to leave out: the bad ones, then also each that makes it fail."""
    left_out = list(bad)
    while True:
        try:
            return attempt(left_out), left_out
        except SPARK_ERRORS as error:
            culprit = unreadable(error)
            if culprit is None or culprit.file in {each.file for each in left_out}:
                raise
            left_out.append(culprit)
            check_bad(len(left_out), culprit)


def check_bad(count: int, last: BadFile) -> None:
    """Refuse more bad files than an analysis should leave out."""
    if count > MOST_BAD:
        raise InvalidRequest(f"more than {MOST_BAD} files cannot be read, among them {last.file}: {last.reason}")


@contextmanager
def plain_errors() -> Iterator[None]:
    """An error of Spark's becomes one sentence that names the cause, and the file if there is one."""
    try:
        yield
    except SPARK_ERRORS as error:
        culprit = unreadable(error)
        detail = f"{culprit.file} {culprit.reason}" if culprit else sentence(error)
        raise InvalidRequest(f"Spark could not finish: {detail}; --debug shows all that it said") from error


def unreadable(error: Exception) -> BadFile | None:
    """The file that Spark could not read, by its error."""
    address = _CULPRIT.search(str(error))
    return BadFile(plain(address[1]), f"cannot be read: {sentence(error)}") if address else None


def bad_files(spark: SparkSession, bad: Sequence[BadFile]) -> DataFrame:
    """The files as rejects, each as a whole."""
    return small(spark, [(each.file, 0, "", each.reason) for each in bad], REJECTS)


def sentence(error: Exception) -> str:
    """The innermost cause that Spark gives, in one line without its code."""
    text = str(error)
    causes = re.findall(r"(?m)^Caused by: [\w.$]+: (.+)$", text)
    first = causes[-1] if causes else text.strip().partition("\n")[0]
    return re.sub(r"^\[[\w.]+\] | SQLSTATE: \w+$", "", first).strip().rstrip(".")


def roots(folders: Sequence[str | Path]) -> dict[str, str]:
    """The folders' addresses, and the run that each is: its name, or its address where two have the same name."""
    addresses = list(dict.fromkeys(map(address, folders)))
    names = [each.rpartition("/")[2] or each for each in addresses]
    return {each: name if names.count(name) == 1 else each for each, name in zip(addresses, names, strict=True)}


def text_below(spark: SparkSession, folders: Sequence[str], pattern: str = "*") -> list[str]:
    """The addresses, as Spark has them, of all files below the folders that are not results of ours."""
    return [address for address in _listed(spark, folders, pattern) if not _OURS.search(plain(address))]


def belongs(path: str, runs: Mapping[str, str]) -> tuple[str, str]:
    """The run that a file is of, that of the innermost folder that was given, and the file's path in it."""
    root = max((root for root in runs if path == root or path.startswith(f"{root}/")), key=len)
    return runs[root], path.removeprefix(root).removeprefix("/") or path.rpartition("/")[2]
