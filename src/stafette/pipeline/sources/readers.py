"""The reader of each kind of source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pyspark.sql import SparkSession

from stafette.errors import InvalidRequest
from stafette.pipeline.ingest import Reader
from stafette.pipeline.sources import delimited, mlmq, native
from stafette.pipeline.sources.base import Source

Kind = Literal["native", "mlmq", "csv"]


def reader(kind: Kind, folders: Sequence[str | Path], mapping: Path | None = None) -> Reader:
    """The reader of folders of this kind."""

    def read(spark: SparkSession, *, kept: frozenset[str]) -> Source:
        if kind == "native":
            return native.read(spark, folders, kept=kept)
        if kind == "mlmq":
            return mlmq.read(spark, folders, kept=kept)
        assert mapping is not None
        return delimited.read(spark, folders, mapping, kept=kept)

    if kind not in ("native", "mlmq", "csv"):
        raise InvalidRequest(f"there is no source {kind}; use native, mlmq or csv")
    if (mapping is not None) != (kind == "csv"):
        raise InvalidRequest("the source csv needs a mapping, and no other takes one")
    return read
