"""Both tiers of each request side by side: how long every part took, and what nobody can explain.

All rows move for this, so they move as numbers: a request is the hash of its run, client and number, what it is summed
up with the hash of run, operation and outcome, and whether it counts is known before it moves. The names, which the
counting of the rows has learned, come back in the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from stafette import trace
from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.schema import check, small
from stafette.pipeline.transforms.counts import run_code
from stafette.report.result_tables import PHASES

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


def joined(rows: DataFrame, runs: Sequence[RunTimes], names: Sequence[tuple[str, str, str]]) -> DataFrame:
    """Requests of each run by the operation and outcome that the client saw, or the broker when no client did.

    `names` are all runs, operations and outcomes that occur together. `clients`, `brokers` and `both` count all
    requests by the tiers that know them; `count` and the means are of those that both know and that were to start in
    the measured window. Duplicates count as often as they match.
    """
    spark = rows.sparkSession
    known = [(run.run, run.measured.start_ns, run.measured.end_ns) for run in runs]
    told = small(spark, known, "run string, from_ns long, to_ns long")
    times = F.broadcast(told.select(run_code().alias("run_code"), "from_ns", "to_ns"))
    measured = (F.col("intended_ns") >= F.col("from_ns")) & (F.col("intended_ns") < F.col("to_ns"))
    clients = _side(rows, times, "client", OWN, F.col("end_ns") - F.col("intended_ns"), measured.alias("measured"))
    brokers = _side(rows, times, "broker", trace.PHASES, F.col("end_ns") - F.col("start_ns"))
    pairs = clients.join(
        brokers,
        (F.col("client_pair") == F.col("broker_pair")) & (F.col("client_request") == F.col("broker_request")),
        "full",
    )
    both = F.col("client_code").isNotNull() & F.col("broker_code").isNotNull()
    inside = both & F.col("measured")
    own = sum((F.coalesce(F.col(f"client_{name}"), F.lit(0).cast("long")) for name in OWN), F.lit(0).cast("long"))
    unexplained = F.col("client_response_ns") - F.col("broker_response_ns") - own

    def mean(column: Column) -> Column:
        return F.avg(F.when(inside, column)) / 1e6

    found = pairs.groupBy(F.coalesce("client_code", "broker_code").alias("code")).agg(
        F.count("client_code").alias("clients"),
        F.count("broker_code").alias("brokers"),
        F.count(F.when(both, 1)).alias("both"),
        F.count(F.when(F.col("client_code").isNotNull() & F.col("client_request").isNull(), 1)).alias("never_sent"),
        F.count(F.when(inside, 1)).alias("count"),
        mean(F.col("client_response_ns")).alias("client_ms"),
        *(mean(F.col(f"broker_{name}")).alias(name.replace("_ns", "_ms")) for name in trace.PHASES),
        *(mean(F.col(f"client_{name}")).alias(f"client_{name.replace('_ns', '_ms')}") for name in OWN),
        mean(unexplained).alias("unexplained_ms"),
    )
    named = small(spark, names, "run string, operation string, outcome string")
    coded = named.select(F.xxhash64(run_code(), "operation", "outcome").alias("code"), "run", "operation", "outcome")
    return check(found.join(F.broadcast(coded), "code"), JOINED)


def _side(
    rows: DataFrame, times: DataFrame, tier: str, phases: Sequence[str], response: Column, *more: Column
) -> DataFrame:
    """One tier's rows of the runs under its own names, as numbers.

    What a client never sent has the number 0: here none, so that it matches nothing, and its start in the hash instead,
    so that not all of a client's land in one place.
    """
    sent = F.when(F.col("request") > 0, F.col("request"))
    timed = rows.where(F.col("tier") == tier).withColumn("run_code", run_code()).join(times, "run_code")
    return timed.select(
        F.xxhash64("run_code", "client", F.coalesce(sent, F.col("start_ns"))).alias(f"{tier}_pair"),
        sent.alias(f"{tier}_request"),
        F.xxhash64("run_code", "operation", "outcome").alias(f"{tier}_code"),
        response.alias(f"{tier}_response_ns"),
        *(F.col(name).alias(f"{tier}_{name}") for name in phases),
        *more,
    )
