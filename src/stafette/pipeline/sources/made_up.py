"""Runs of sources that say nothing of runs: what their rows tell."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from stafette.pipeline.sources.base import Run
from stafette.runs.window import Window


def runs_of(rows: DataFrame, *, client: str, folders: Mapping[str, str] | None = None) -> list[Run]:
    """One run for each id. The column tells clients apart; all of the load counts as measured."""
    kind = F.when(F.col("tier") == "client", F.col(client)).otherwise(F.col("node")).alias("who")
    ends = (F.min("start_ns").alias("start_ns"), F.max("end_ns").alias("end_ns"))
    figures = (
        rows.groupBy("run", (F.col("tier") == "client").alias("is_client"), kind)
        .agg(*ends)
        .groupBy("run")
        .agg(
            F.min("start_ns").alias("start_ns"),
            F.max("end_ns").alias("end_ns"),
            F.count_if("is_client").alias("clients"),
            F.count_if(~F.col("is_client")).alias("brokers"),
        )
    )
    return [
        Run(
            run=row["run"],
            experiment=row["run"],
            load=Window(row["start_ns"], row["end_ns"] + 1),  # so that the last answer is in it
            window=Window(row["start_ns"], row["end_ns"] + 1),
            clients={"clients": row["clients"]} if row["clients"] else {},
            brokers=row["brokers"] or None,
            folder=(folders or {}).get(row["run"], ""),
        )
        for row in figures.orderBy("run").collect()
    ]
