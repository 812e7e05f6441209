"""The runs of sources without records, inferred from their requests."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from stafette.pipeline.sources.base import Run
from stafette.runs.window import Window


def runs_of(requests: DataFrame, runs: Mapping[int, str], folders: Mapping[str, str]) -> list[Run]:
    """A run for each id; `runs` has the ids by code. The whole load counts as measured."""
    by_node = requests.groupBy("run_code", "client", "broker").agg(
        F.min(F.least("intended_ns", "start_ns", "broker_start_ns")).alias("start_ns"),
        F.max(F.greatest("end_ns", "broker_end_ns")).alias("end_ns"),
    )
    by_run = by_node.groupBy("run_code").agg(
        F.min("start_ns").alias("start_ns"),
        F.max("end_ns").alias("end_ns"),
        F.size(F.collect_set("client")).alias("clients"),
        F.size(F.collect_set("broker")).alias("brokers"),
    )
    return sorted(
        (
            Run(
                run=(run := runs[row["run_code"]]),
                experiment=run,
                load=(load := Window(row["start_ns"], row["end_ns"] + 1)),  # so that the last answer is in it
                window=load,
                clients={"clients": row["clients"]} if row["clients"] else {},
                brokers=row["brokers"] or None,
                folder=folders.get(run, ""),
            )
            for row in by_run.collect()
        ),
        key=lambda run: run.run,
    )
