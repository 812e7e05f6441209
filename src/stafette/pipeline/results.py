"""Aggregations of requests for the result tables: functions from DataFrame to DataFrame.

A group is a run with a code of tier, operation and outcome (`requests.names_of`). The group of all answered requests of
a tier has a code of its own. Percentiles are whole microseconds, by nearest rank.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from stafette import trace
from stafette.pipeline import counts, times
from stafette.pipeline.requests import CLIENT_PHASES
from stafette.report.result_tables import PERCENTILES, WINDOW_PERCENTILES

GROUP = ("run_code", "code")
SORTED_WINDOW_NS = 60 * 10**9
"""Values of windows up to this length are sorted; those of longer ones, which repeat often, are counted."""
NETWORK = "network"
BROKER_PHASES = tuple(phase.removesuffix("_ns") for phase in trace.PHASES)
CLIENT_PHASE_NAMES = tuple(name.removesuffix("_ns") for name in CLIENT_PHASES.values())
PHASES = (*CLIENT_PHASE_NAMES, NETWORK, *BROKER_PHASES)
"""Names of the phases of a request, in the order of the table."""


def group_names(names: DataFrame) -> DataFrame:
    """The distinct codes of `requests.names_of` over all runs, with their names and `answered_code`."""
    return names.select("code", "answered_code", "tier", "operation", "outcome").distinct()


def by_tier(requests: DataFrame) -> DataFrame:
    """A row for each tier of a request: code, begin, end, and response time.

    A client's time begins at the intended start; a broker's at the arrival of the request.
    """
    clients = requests.where(F.col("client_code").isNotNull()).select(
        "run_code", F.col("client_code").alias("code"), F.col("intended_ns").alias("begin_ns"), "end_ns", "bytes",
        "messages",
    )  # fmt: skip
    brokers = requests.where(F.col("broker_code").isNotNull()).select(
        "run_code", F.col("broker_code").alias("code"), F.col("broker_start_ns").alias("begin_ns"),
        F.col("broker_end_ns").alias("end_ns"), F.col("broker_bytes").alias("bytes"),
        F.col("broker_messages").alias("messages"),
    )  # fmt: skip
    return clients.unionAll(brokers).withColumn("response_ns", F.col("end_ns") - F.col("begin_ns"))


def measured_counts(rows: DataFrame, run_times: DataFrame, names: DataFrame) -> DataFrame:
    """Counts by group and microsecond of requests that began in the measured window; also of all answered ones."""
    inside = times.join(rows, run_times).where(times.measured("begin_ns"))
    sums = ("bytes", "messages")
    own = counts.count(inside, GROUP, "response_ns", sums)
    return counts.merge(also_answered(own, names), GROUP, sums)


def also_answered(frame: DataFrame, names: DataFrame) -> DataFrame:
    """The rows, and those of successes once more with the code of all answered requests."""
    coded = frame.join(F.broadcast(names.select("code", "answered_code")), "code")
    both = F.array_compact(F.array("code", "answered_code"))
    columns = [name for name in frame.columns if name != "code"]
    return coded.select(F.explode(both).alias("code"), *columns)


def summary(group_counts: DataFrame, limits_us: Sequence[int]) -> DataFrame:
    """The metrics of each group, from `measured_counts`."""
    return counts.metrics(group_counts, GROUP, PERCENTILES, limits_us=limits_us, sums=("bytes", "messages"))


def distribution(group_counts: DataFrame) -> DataFrame:
    """The number of requests by group and bin, from `measured_counts`."""
    low, high = counts.bin_edges()
    return group_counts.groupBy(*GROUP, low.alias("low_us"), high.alias("high_us")).agg(F.sum("count").alias("count"))


def windows(rows: DataFrame, run_times: DataFrame, names: DataFrame, window_ns: int) -> DataFrame:
    """The windows of each group in which a request began or ended."""
    timed = times.join(rows, run_times)
    begins = timed.where(times.loaded("begin_ns")).withColumn("window", times.window("begin_ns"))
    ends = timed.where(times.loaded("end_ns")).withColumn("window", times.window("end_ns"))
    aggregate = _metrics_by_sorting if window_ns <= SORTED_WINDOW_NS else _metrics_by_counting
    keys = (*GROUP, "window")
    answers = ends.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("answers"), F.count_if(times.measured("end_ns")).alias("measured_answers")
    )
    answers = (
        also_answered(answers, names)
        .groupBy(*keys)
        .agg(F.sum("answers").alias("answers"), F.sum("measured_answers").alias("measured_answers"))
    )
    return aggregate(begins, names).join(answers, list(keys), "full")


def _measured_columns() -> tuple[Column, Column]:
    inside = times.measured("begin_ns")
    return (
        F.count_if(inside).alias("measured_count"),
        F.sum(F.when(inside, F.col("response_ns")).otherwise(0)).alias("measured_total_ns"),
    )


def _metrics_by_sorting(begins: DataFrame, names: DataFrame) -> DataFrame:
    """For short windows, whose values hardly repeat: three times as fast as counting them."""
    keys = (*GROUP, "window")
    own = begins.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("count"), F.sum("response_ns").alias("total_ns"),
        F.max("response_ns").alias("longest_ns"), *_measured_columns(),
        F.collect_list(F.expr("response_ns div 1000L")).alias("values"),
    )  # fmt: skip
    sums = ("count", "total_ns", "measured_count", "measured_total_ns")
    merged = also_answered(own, names).groupBy(*keys).agg(
        *(F.sum(name).alias(name) for name in sums), F.max("longest_ns").alias("longest_ns"),
        F.sort_array(F.flatten(F.collect_list("values"))).alias("values"),
    )  # fmt: skip
    ranks = {
        name: F.expr(f"values[cast((count * {thousandths} + 999) div 1000 as int) - 1]")
        for name, thousandths in WINDOW_PERCENTILES.items()
    }
    return merged.withColumns(ranks).drop("values")


def _metrics_by_counting(begins: DataFrame, names: DataFrame) -> DataFrame:
    keys = (*GROUP, "window")
    inside = times.measured("begin_ns")
    measured = begins.withColumns(
        {
            "measured_count": F.when(inside, F.lit(1)).otherwise(F.lit(0)).cast("long"),
            "measured_total_ns": F.when(inside, F.col("response_ns")).otherwise(F.lit(0).cast("long")),
        }
    )
    sums = ("measured_count", "measured_total_ns")
    own = counts.count(measured, keys, "response_ns", sums)
    merged = counts.merge(also_answered(own, names), keys, sums)
    return counts.metrics(merged, keys, WINDOW_PERCENTILES, sums=sums).drop("squares")


def phases(requests: DataFrame, run_times: DataFrame) -> DataFrame:
    """The metrics of each phase by the client's code: of requests of both tiers, intended in the measured window.

    `phase` is the index in `PHASES`; the one after the last is the response time of the client.
    """
    joined = times.join(_joined(requests), run_times).where(times.measured("intended_ns"))
    durations = [*map(_phase_expression, PHASES), "end_ns - intended_ns"]
    pairs = ", ".join(f"{number}, {expression}" for number, expression in enumerate(durations))
    stacked = joined.select(
        "run_code", F.col("client_code").alias("code"), F.expr(f"stack({len(durations)}, {pairs}) as (phase, spent_ns)")
    ).where(F.col("spent_ns").isNotNull())
    keys = (*GROUP, "phase")
    return counts.metrics(counts.count(stacked, keys, "spent_ns"), keys, PERCENTILES)


def phase_means(requests: DataFrame, run_times: DataFrame) -> DataFrame:
    """The means of the phases side by side, in nanoseconds, of the same requests as `phases`."""
    joined = times.join(_joined(requests), run_times).where(times.measured("intended_ns"))
    durations = {name: F.expr(_phase_expression(name)) for name in PHASES}
    return joined.groupBy("run_code", F.col("client_code").alias("code")).agg(
        F.count(F.lit(1)).alias("count"),
        (F.sum(F.col("end_ns") - F.col("intended_ns")) / F.count(F.lit(1))).alias("client"),
        *((F.sum(column) / F.count(column)).alias(name) for name, column in durations.items()),
    )


def tiers(requests: DataFrame, run_times: DataFrame) -> DataFrame:
    """By run and window (null: outside of the load): numbers of requests by tier, and sums of the phases.

    The phases are those of requests of both tiers.
    """
    with_moment = requests.withColumn("moment", F.coalesce("intended_ns", "broker_start_ns"))
    timed = times.join(with_moment, run_times)
    window = F.when(times.loaded("moment"), times.window("moment"))
    client, broker = F.col("client_code").isNotNull(), F.col("broker_code").isNotNull()
    durations = {name: F.when(client & broker, F.expr(_phase_expression(name))) for name in PHASES}
    sums = [F.sum(column).alias(f"{name}_total_ns") for name, column in durations.items()]
    sums += [F.count(column).alias(f"{name}_count") for name, column in durations.items()]
    return timed.groupBy("run_code", window.alias("window")).agg(
        F.count_if(client).alias("client_rows"),
        F.count_if(broker).alias("broker_rows"),
        F.count_if(client & broker).alias("joined"),
        F.count_if(client & (F.col("request") == 0)).alias("never_sent"),
        *sums,
    )


def _joined(requests: DataFrame) -> DataFrame:
    """The requests of both tiers."""
    return requests.where(F.col("client_code").isNotNull() & F.col("broker_code").isNotNull())


def _phase_expression(name: str) -> str:
    """A phase in nanoseconds. While the broker writes, the answer is on its way: this time is network and rest."""
    if name != NETWORK:
        return f"{name}_ns"
    own = " - ".join(f"coalesce({column}, 0L)" for column in CLIENT_PHASES.values())
    return f"end_ns - intended_ns - {own} - (broker_end_ns - broker_start_ns - coalesce(write_ns, 0L))"


def with_names(table: DataFrame, run_times: DataFrame, names: DataFrame) -> DataFrame:
    """A table by group, with run, tier, operation and outcome in place of codes."""
    with_runs = table.join(F.broadcast(run_times.select("run_code", "run")), "run_code")
    joined = with_runs.join(F.broadcast(names.select("code", "tier", "operation", "outcome")), "code")
    rest = [name for name in table.columns if name not in GROUP]
    return joined.select("run", "tier", "operation", "outcome", *rest)
