"""From requests to result tables: functions from DataFrame to DataFrame, and nothing but aggregation.

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
"""Values of windows up to this length are sorted; of longer ones, which repeat each value often, counted."""
NETWORK = "network"
BROKER_PHASES = tuple(phase.removesuffix("_ns") for phase in trace.PHASES)
CLIENT_PHASE_NAMES = tuple(name.removesuffix("_ns") for name in CLIENT_PHASES.values())
PHASES = (*CLIENT_PHASE_NAMES, NETWORK, *BROKER_PHASES)
"""Names of the phases of a request, in the order of the table."""


def group_names(names: DataFrame) -> DataFrame:
    """The codes of `requests.names_of`, once for all runs: with their names and `answered_code`."""
    return names.select("code", "answered_code", "tier", "operation", "outcome").distinct()


def by_tier(requests: DataFrame) -> DataFrame:
    """A row for each tier that knows a request: its code, when it began, when it ended, and how long it took.

    A client's time begins at the intended start; a broker's when it was asked.
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
    """Counts by group and microsecond of what began in the measured window; groups of all answered beside others."""
    inside = times.join(rows, run_times).where(times.measured("begin_ns"))
    sums = ("bytes", "messages")
    own = counts.count(inside, GROUP, "response_ns", sums)
    return counts.merge(also_answered(own, names), GROUP, sums)


def also_answered(frame: DataFrame, names: DataFrame) -> DataFrame:
    """The rows by code, and those of successes once more with the code of all answered requests."""
    coded = frame.join(F.broadcast(names.select("code", "answered_code")), "code")
    both = F.array_compact(F.array("code", "answered_code"))
    columns = [name for name in frame.columns if name != "code"]
    return coded.select(F.explode(both).alias("code"), *columns)


def summary(measured: DataFrame, limits_us: Sequence[int]) -> DataFrame:
    """Figures of each group, from `measured_counts`."""
    return counts.figures(measured, GROUP, PERCENTILES, limits_us=limits_us, sums=("bytes", "messages"))


def distribution(measured: DataFrame) -> DataFrame:
    """How many requests of each group fall into which bin, from `measured_counts`."""
    low, high = counts.bin_edges()
    return measured.groupBy(*GROUP, low.alias("low_us"), high.alias("high_us")).agg(F.sum("count").alias("count"))


def windows(rows: DataFrame, run_times: DataFrame, names: DataFrame, window_ns: int) -> DataFrame:
    """Each window of each group in which something began or ended."""
    timed = times.join(rows, run_times)
    begun = timed.where(times.loaded("begin_ns")).withColumn("window", times.window("begin_ns"))
    ended = timed.where(times.loaded("end_ns")).withColumn("window", times.window("end_ns"))
    figures = _sorted(begun, names) if window_ns <= SORTED_WINDOW_NS else _counted(begun, names)
    keys = (*GROUP, "window")
    answers = ended.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("answers"), F.count_if(times.measured("end_ns")).alias("measured_answers")
    )
    summed = (
        also_answered(answers, names)
        .groupBy(*keys)
        .agg(F.sum("answers").alias("answers"), F.sum("measured_answers").alias("measured_answers"))
    )
    return figures.join(summed, list(keys), "full")


def _measured_part() -> tuple[Column, Column]:
    inside = times.measured("begin_ns")
    return (
        F.count_if(inside).alias("measured_count"),
        F.sum(F.when(inside, F.col("response_ns")).otherwise(0)).alias("measured_total_ns"),
    )


def _sorted(begun: DataFrame, names: DataFrame) -> DataFrame:
    """Percentiles of short windows: all values of each, sorted. Three times as fast as counts, which hardly repeat."""
    keys = (*GROUP, "window")
    own = begun.groupBy(*keys).agg(
        F.count(F.lit(1)).alias("count"), F.sum("response_ns").alias("total_ns"),
        F.max("response_ns").alias("longest_ns"), *_measured_part(),
        F.collect_list(F.expr("response_ns div 1000L")).alias("values"),
    )  # fmt: skip
    sums = ("count", "total_ns", "measured_count", "measured_total_ns")
    whole = also_answered(own, names).groupBy(*keys).agg(
        *(F.sum(name).alias(name) for name in sums), F.max("longest_ns").alias("longest_ns"),
        F.sort_array(F.flatten(F.collect_list("values"))).alias("values"),
    )  # fmt: skip
    ranks = {
        name: F.expr(f"values[cast((count * {thousandths} + 999) div 1000 as int) - 1]")
        for name, thousandths in WINDOW_PERCENTILES.items()
    }
    return whole.withColumns(ranks).drop("values")


def _counted(begun: DataFrame, names: DataFrame) -> DataFrame:
    keys = (*GROUP, "window")
    inside = times.measured("begin_ns")
    parted = begun.withColumns(
        {
            "measured_count": F.when(inside, F.lit(1)).otherwise(F.lit(0)).cast("long"),
            "measured_total_ns": F.when(inside, F.col("response_ns")).otherwise(F.lit(0).cast("long")),
        }
    )
    sums = ("measured_count", "measured_total_ns")
    own = counts.count(parted, keys, "response_ns", sums)
    merged = counts.merge(also_answered(own, names), keys, sums)
    return counts.figures(merged, keys, WINDOW_PERCENTILES, sums=sums).drop("squares")


def phases(requests: DataFrame, run_times: DataFrame) -> DataFrame:
    """Figures of each phase of what both tiers know and was to start in the measured window, by the client's code.

    The number of a phase is that in `PHASES`; the one after the last is the whole, as the client saw it.
    """
    both = times.join(_both(requests), run_times).where(times.measured("intended_ns"))
    spent = [*map(_phase_expression, PHASES), "end_ns - intended_ns"]
    pairs = ", ".join(f"{number}, {expression}" for number, expression in enumerate(spent))
    stacked = both.select(
        "run_code", F.col("client_code").alias("code"), F.expr(f"stack({len(spent)}, {pairs}) as (phase, spent_ns)")
    ).where(F.col("spent_ns").isNotNull())
    keys = (*GROUP, "phase")
    return counts.figures(counts.count(stacked, keys, "spent_ns"), keys, PERCENTILES)


def phase_means(requests: DataFrame, run_times: DataFrame) -> DataFrame:
    """The means of the phases side by side, in nanoseconds, of what `phases` is about."""
    both = times.join(_both(requests), run_times).where(times.measured("intended_ns"))
    spent = {name: F.expr(_phase_expression(name)) for name in PHASES}
    return both.groupBy("run_code", F.col("client_code").alias("code")).agg(
        F.count(F.lit(1)).alias("count"),
        (F.sum(F.col("end_ns") - F.col("intended_ns")) / F.count(F.lit(1))).alias("client"),
        *((F.sum(column) / F.count(column)).alias(name) for name, column in spent.items()),
    )


def tiers(requests: DataFrame, run_times: DataFrame) -> DataFrame:
    """By run and window (null: outside of the load): requests by the tiers that know them, and sums of the phases.

    The phases are of requests that both tiers know.
    """
    moment = requests.withColumn("moment", F.coalesce("intended_ns", "broker_start_ns"))
    timed = times.join(moment, run_times)
    window = F.when(times.loaded("moment"), times.window("moment"))
    client, broker = F.col("client_code").isNotNull(), F.col("broker_code").isNotNull()
    spent = {name: F.when(client & broker, F.expr(_phase_expression(name))) for name in PHASES}
    sums = [F.sum(column).alias(f"{name}_total_ns") for name, column in spent.items()]
    sums += [F.count(column).alias(f"{name}_count") for name, column in spent.items()]
    return timed.groupBy("run_code", window.alias("window")).agg(
        F.count_if(client).alias("client_rows"),
        F.count_if(broker).alias("broker_rows"),
        F.count_if(client & broker).alias("joined"),
        F.count_if(client & (F.col("request") == 0)).alias("never_sent"),
        *sums,
    )


def _both(requests: DataFrame) -> DataFrame:
    return requests.where(F.col("client_code").isNotNull() & F.col("broker_code").isNotNull())


def _phase_expression(name: str) -> str:
    """A phase in nanoseconds. What the broker writes is on its way to the client already: it is network and rest."""
    if name != NETWORK:
        return f"{name}_ns"
    own = " - ".join(f"coalesce({column}, 0L)" for column in CLIENT_PHASES.values())
    return f"end_ns - intended_ns - {own} - (broker_end_ns - broker_start_ns - coalesce(write_ns, 0L))"


def named(table: DataFrame, run_times: DataFrame, names: DataFrame) -> DataFrame:
    """A table by group, with run, tier, operation and outcome in place of codes."""
    coded = table.join(F.broadcast(run_times.select("run_code", "run")), "run_code")
    whole = coded.join(F.broadcast(names.select("code", "tier", "operation", "outcome")), "code")
    rest = [name for name in table.columns if name not in GROUP]
    return whole.select("run", "tier", "operation", "outcome", *rest)
