"""Both tiers of each request side by side: how long every part took, and what nobody can explain."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from stafette import trace
from stafette.pipeline.results import PHASES
from stafette.pipeline.schema import check
from stafette.pipeline.transforms.counts import Timed

OWN = ("queue_ns", "encode_ns", "read_ns")
"""The client's own phases."""
_MEANS = (*PHASES, *(f"client_{name.removesuffix('_ns')}_ms" for name in OWN))

JOINED = StructType(
    [
        *(StructField(name, StringType()) for name in ("run", "operation", "outcome")),
        *(StructField(name, LongType()) for name in ("clients", "brokers", "both", "never_sent", "count")),
        *(StructField(name, DoubleType()) for name in ("client_ms", *_MEANS, "unexplained_ms")),
    ]
)


def joined(rows: DataFrame, runs: Sequence[Timed]) -> DataFrame:
    """Requests of each run by the operation and outcome that the client saw, or the broker when no client did.

    `clients`, `brokers` and `both` count all requests by the tiers that know them; `count` and the means are of those
    that both know and that were to start in the measured window. Duplicates count as often as they match.
    """
    known = [(run.run, run.start, run.end) for run in runs]
    times = F.broadcast(rows.sparkSession.createDataFrame(known, "run string, from_ns long, to_ns long"))
    clients = _side(rows, "client", OWN, F.col("end_ns") - F.col("intended_ns"))
    brokers = _side(rows, "broker", trace.PHASES, F.col("end_ns") - F.col("start_ns"))
    pairs = clients.where(F.col("client_request") > 0).join(
        brokers,
        (F.col("client_key") == F.col("broker_key")) & (F.col("client_request") == F.col("broker_request")),
        "full",
    )
    whole = pairs.unionByName(clients.where(F.col("client_request") == 0), allowMissingColumns=True)
    named = whole.withColumn("run", F.coalesce("client_run", "broker_run")).join(times, "run")
    both = F.col("client_run").isNotNull() & F.col("broker_run").isNotNull()
    inside = both & (F.col("client_intended_ns") >= F.col("from_ns")) & (F.col("client_intended_ns") < F.col("to_ns"))
    own = sum((F.coalesce(F.col(f"client_{name}"), F.lit(0).cast("long")) for name in OWN), F.lit(0).cast("long"))
    unexplained = F.col("client_response_ns") - F.col("broker_response_ns") - own

    def mean(column: Column) -> Column:
        return F.avg(F.when(inside, column)) / 1e6

    groups = [F.coalesce(f"client_{name}", f"broker_{name}").alias(name) for name in ("operation", "outcome")]
    return check(
        named.groupBy("run", *groups).agg(
            F.count("client_run").alias("clients"),
            F.count("broker_run").alias("brokers"),
            F.count(F.when(both, 1)).alias("both"),
            F.count(F.when(F.col("client_request") == 0, 1)).alias("never_sent"),
            F.count(F.when(inside, 1)).alias("count"),
            mean(F.col("client_response_ns")).alias("client_ms"),
            *(mean(F.col(f"broker_{name}")).alias(name.replace("_ns", "_ms")) for name in trace.PHASES),
            *(mean(F.col(f"client_{name}")).alias(f"client_{name.replace('_ns', '_ms')}") for name in OWN),
            mean(unexplained).alias("unexplained_ms"),
        ),
        JOINED,
    )


def _side(rows: DataFrame, tier: str, phases: Sequence[str], response: Column) -> DataFrame:
    """One tier's rows under its own names, with run and client as one number for the join."""
    kept = ("run", "request", "operation", "outcome", "intended_ns", *phases)
    return rows.where(F.col("tier") == tier).select(
        F.xxhash64("run", "client").alias(f"{tier}_key"),
        response.alias(f"{tier}_response_ns"),
        *(F.col(name).alias(f"{tier}_{name}") for name in kept),
    )
