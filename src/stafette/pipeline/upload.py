"""Results on a file system that only Spark reaches: they are written locally, then copied."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stafette.errors import InvalidRequest
from stafette.pipeline.sources import files


@contextmanager
def result_folder(spark: SparkSession, target: str) -> Iterator[Path]:
    """A folder to write results to: the target, or a temporary one whose files are copied to the target's URL."""
    local = target.removeprefix("file://") if target.startswith("file:///") else target
    if "://" not in local:
        yield Path(local)
        return
    with tempfile.TemporaryDirectory(prefix="stafette-") as name:
        yield Path(name)
        try:
            for file in _in_order(Path(name)):
                _copy(spark, file, f"{target.rstrip('/')}/{file.relative_to(name).as_posix()}")
        except (*files.SPARK_ERRORS, PySparkException) as error:
            raise InvalidRequest(
                f"cannot write the results to {target}: {files.cause(error)}; choose another place with --out"
            ) from error


def _in_order(folder: Path) -> list[Path]:
    """All files, those of the folder itself last, so that the tables are there before the report."""
    paths = [file for file in folder.rglob("*") if file.is_file()]
    return sorted(paths, key=lambda file: (file.parent == folder, file))


def _copy(spark: SparkSession, file: Path, url: str) -> None:
    if hasattr(spark, "_jsc"):
        jvm = spark._jvm
        assert jvm is not None
        path = jvm.org.apache.hadoop.fs.Path(url)
        system = path.getFileSystem(spark._jsc.hadoopConfiguration())
        system.copyFromLocalFile(False, True, jvm.org.apache.hadoop.fs.Path(file.as_uri()), path)
    else:
        spark.copyFromLocalToFs(str(file), url)
