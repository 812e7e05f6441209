"""Files as Spark sees them: on this machine, on a cluster's file system, or where a Spark Connect server is.

Everything goes through Spark's readers, for only they reach all of these. Spark gives a file's address encoded as in a
URL and takes patterns where we mean names, so addresses are decoded on their way out and escaped on their way in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stafette.errors import InvalidRequest
from stafette.pipeline.schema import REJECTS, small
from stafette.runs.layout import ANALYSIS

"""Where results go in a folder that was given; they are not read again."""
SPARK_ERRORS = (PySparkException, Py4JError)
_LOCAL = re.compile("^file:/+")
_PATTERN = re.compile(r"([\\\[\]{}*?])")

Found = TypeVar("Found")


@dataclass(frozen=True)
class BadFile:
    """A file that cannot be read at all."""

    file: str
    reason: str


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


def escaped(paths: Iterable[str]) -> list[str]:
    """Paths for Spark's readers, which would take brackets and asterisks as patterns."""
    return [_PATTERN.sub(r"\\\1", path) for path in paths]


def below(spark: SparkSession, folders: Sequence[str], pattern: str) -> list[str]:
    """All files of such names in the folders and what is below them; files that are given count, too.

    Spark passes over files and folders whose names begin with an underscore or a full stop.
    """
    reader = spark.read.option("recursiveFileLookup", "true").option("pathGlobFilter", pattern)
    try:
        return sorted({plain(found) for found in reader.text(escaped(folders)).inputFiles()})
    except AnalysisException as error:
        raise InvalidRequest(f"cannot read {', '.join(folders)}: {sentence(error)}") from error


def sift(files: Sequence[str], look: Callable[[Sequence[str]], list[Found]]) -> tuple[list[Found], list[BadFile]]:
    """Look at all files at once; when that fails, at halves, until the bad ones stand alone."""
    if not files:
        return [], []
    try:
        return look(files), []
    except SPARK_ERRORS as error:
        if len(files) == 1:
            return [], [BadFile(files[0], f"cannot be read: {sentence(error)}")]
    found, bad = sift(files[: len(files) // 2], look)
    more, worse = sift(files[len(files) // 2 :], look)
    return found + more, bad + worse


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
    """All files below the folders that are not results of ours."""
    ours = tuple(f"{folder}/{ANALYSIS}/" for folder in folders)
    return [path for path in below(spark, folders, pattern) if not path.startswith(ours)]


def belongs(path: str, runs: Mapping[str, str]) -> tuple[str, str]:
    """The run that a file is of, that of the innermost folder that was given, and the file's path in it."""
    root = max((root for root in runs if path == root or path.startswith(f"{root}/")), key=len)
    return runs[root], path.removeprefix(root).removeprefix("/") or path.rpartition("/")[2]
