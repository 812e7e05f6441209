"""Requests: one row for each request, with the times of all tiers side by side.

Traces have a row for each request and tier. Here the tiers are joined, once; everything else is an aggregation of
requests. Codes replace names: that of a run is the hash of its id; that of a tier's row is the hash of tier, operation
and outcome. `names_of` has the names of the codes.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from stafette import trace
from stafette.pipeline.schema import check
from stafette.runs.outcomes import ALL, ANSWERED, SUCCESSES

CLIENT_PHASES = {"queue_ns": "client_queue_ns", "encode_ns": "client_encode_ns", "read_ns": "client_read_ns"}
"""The client's own phases, by the column of its trace."""
_CLIENT = {
    "client": "client", "request": "request", "intended_ns": "intended_ns", "start_ns": "start_ns",
    "end_ns": "end_ns", **CLIENT_PHASES, "bytes": "bytes", "messages": "messages",
}  # fmt: skip
_BROKER = {
    "node": "broker", "start_ns": "broker_start_ns", "end_ns": "broker_end_ns",
    **{phase: phase for phase in trace.PHASES}, "batch": "batch", "bytes": "broker_bytes",
    "messages": "broker_messages",
}  # fmt: skip


def _field(name: str) -> StructField:
    types = {"client": StringType(), "broker": StringType(), "batch": IntegerType()}
    return StructField(name, types.get(name, LongType()))


REQUESTS = StructType(
    [_field(name) for name in ("run_code", "client_code", "broker_code", *_CLIENT.values(), *_BROKER.values())]
)
"""A tier without the request has null as its code, and in all its columns."""
NAMES = StructType(
    [*map(_field, ("run_code", "code", "answered_code"))]
    + [StructField(name, StringType()) for name in ("run", "tier", "operation", "outcome")]
)
"""`answered_code` is the code of all answered requests of the tier, which have rows of their own here."""


def of_traces(
    rows: DataFrame,
    *,
    paired: bool = True,
    repeated: bool = False,
    row_counts: tuple[Observation, Observation] | None = None,
) -> DataFrame:
    """The requests of trace rows.

    The key of a request is a hash of run, client and number. A row with the number 0, which was never sent or whose
    source has no numbers, is a request of its own. `paired` says that rows of two tiers can belong together; without it
    there is no join and no shuffle, and a client without a name has that of its node. `repeated` says that a tier may
    have a request more than once: then the first rows of the tiers belong together, and so on. `row_counts` observe the
    `rows` of clients and of brokers.
    """
    if not paired:
        rows = rows.withColumn("client", F.when(F.col("client") == "", F.col("node")).otherwise(F.col("client")))
    is_client = F.col("tier") == "client"
    clients, brokers = _side(rows.where(is_client), "client", _CLIENT), _side(rows.where(~is_client), "broker", _BROKER)
    if row_counts is not None:
        row_count = F.count(F.lit(1)).alias("rows")
        clients, brokers = clients.observe(row_counts[0], row_count), brokers.observe(row_counts[1], row_count)
    if not paired:
        joined = clients.unionByName(brokers, allowMissingColumns=True)
    else:
        condition = F.col("client_key") == F.col("broker_key")
        if repeated:
            clients, brokers = (
                _number_repeats(clients, "client_key", "start_ns"),
                _number_repeats(brokers, "broker_key", "broker_start_ns"),
            )
            condition = condition & (clients["number"] == brokers["number"])
        # Both are too large to broadcast: hash the partitions of one, and do not sort.
        joined = clients.join(brokers.hint("shuffle_hash"), condition, "full")
    return check(joined.withColumn("run_code", F.coalesce("client_run", "broker_run")), REQUESTS)


def _number_repeats(side: DataFrame, key: str, start: str) -> DataFrame:
    return side.withColumn("number", F.row_number().over(Window.partitionBy(key).orderBy(start)))


def _side(rows: DataFrame, tier: str, columns: dict[str, str]) -> DataFrame:
    # Requests that were never sent match nothing; their start spreads them over the partitions of the shuffle.
    number = F.when(F.col("request") > 0, F.col("request")).otherwise(-F.col("start_ns"))
    salt = F.when(F.col("request") > 0, F.lit("")).otherwise(F.lit(tier))
    return rows.select(
        F.xxhash64(run_code(), "client", number, salt).alias(f"{tier}_key"),
        run_code().alias(f"{tier}_run"),
        code().alias(f"{tier}_code"),
        *(F.col(name).alias(alias) for name, alias in columns.items()),
    )


def names_of(rows: DataFrame) -> DataFrame:
    """The names of the codes of trace rows."""
    return of_names(rows.select("run", "tier", "operation", "outcome").distinct())


def of_names(names: DataFrame) -> DataFrame:
    """The names with their codes; `names` must be distinct."""
    own = F.struct("operation", "outcome")
    successes = F.col("outcome").isin(*SUCCESSES)
    answered = F.struct(F.lit(ALL).alias("operation"), F.lit(ANSWERED).alias("outcome"))
    groups = F.when(successes, F.array(own, answered)).otherwise(F.array(own))
    exploded = names.select("run", "tier", F.explode(groups).alias("group")).distinct()
    coded = exploded.select("run", "tier", "group.*").withColumns(
        {
            "run_code": run_code(),
            "code": code(),
            "answered_code": F.when(successes, F.xxhash64("tier", F.lit(ALL), F.lit(ANSWERED))),
        }
    )
    return check(coded, NAMES)


def run_code() -> Column:
    """The code of a run: the hash of its id."""
    return F.xxhash64("run")


def code() -> Column:
    """The code of a tier, operation and outcome: their hash. 64 bits hardly ever collide."""
    return F.xxhash64("tier", "operation", "outcome")
