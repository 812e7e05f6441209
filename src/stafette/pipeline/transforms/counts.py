"""How often each response time occurs, in two passes over the rows that never sort, and move hardly any of them.

The first counts by group, window and bin (`coarse`). From so little one knows in which bin every percentile lies, and
the second pass counts by the microsecond, but only what falls into those bins (`exact`). Both are sums: they merge, and
a stream can keep them up to date.

Strings are left behind at once: a group is the hash of its names, and everything else of a key is packed into one more
integer, because Spark aggregates by two integers at twice the speed of four strings. What the hashes stand for is
looked up afterwards (`names`). Measured alternatives are in docs/performance.md.

::

    place = window + 1 (31 bits) | windows from start to end (12) | starts, ends in the measured window (2) | bin (18)
    spot  = window + 1 (22 bits) | starts in the measured window (1) | microseconds (40)

Window 0 begins when the load does; what begins earlier has window -1.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from stafette.pipeline.run_times import RunTimes
from stafette.pipeline.schema import check, small
from stafette.pipeline.transforms.bins import bin_of

NAMES = ("run", "tier", "operation", "outcome")
Names = tuple[str, str, str, str]
BIN_BITS, FLAG_BITS, LENGTH_BITS, SPOT_BITS = 18, 2, 12, 40
MOST_LENGTH = 2**LENGTH_BITS - 1
MOST_WINDOWS = 2**22 - 2
STARTS, ENDS = 2, 1
"""The flags of a place."""
SAMPLED = 1021
"""One request of so many is looked at first to learn names: a prime, so that no pattern of requests escapes it."""


def _longs(*names: str) -> list[StructField]:
    return [StructField(name, LongType()) for name in names]


COARSE = StructType(
    [*_longs("code", "place", "count", "total_ns"), StructField("squares", DoubleType()),
     *_longs("longest_ns", "bytes", "messages")]
)  # fmt: skip
EXACT = StructType(_longs("code", "spot", "count"))
CODES = StructType([*_longs("code"), *(StructField(name, StringType()) for name in NAMES)])


def coarse(rows: DataFrame, runs: Sequence[RunTimes], window_ns: int) -> DataFrame:
    """Counts, sums and sums of squares by group, window and bin."""
    keyed = _keyed(rows, runs, window_ns)
    place = _packed(
        (F.col("window"), 0), (F.col("length"), LENGTH_BITS), (F.col("flags"), FLAG_BITS), (F.col("bin"), BIN_BITS)
    )
    response = F.col("response_ns").cast("double")
    counted = keyed.select("code", place.alias("place"), "response_ns", "bytes", "messages").groupBy("code", "place")
    return check(
        counted.agg(
            F.count(F.lit(1)).alias("count"),
            F.sum("response_ns").alias("total_ns"),
            F.sum(response * response).alias("squares"),
            F.max("response_ns").alias("longest_ns"),
            F.sum("bytes").alias("bytes"),
            F.sum("messages").alias("messages"),
        ),
        COARSE,
    )


def exact(
    rows: DataFrame, runs: Sequence[RunTimes], window_ns: int, *, of_windows: DataFrame, of_runs: DataFrame
) -> DataFrame:
    """Counts by the microsecond in the bins that are asked for: of single windows, and of whole runs.

    `of_windows` has code, window (as in a place, from 1) and bin, `of_runs` code and bin, neither twice. What is only
    in a bin of its run is counted as window 0 with its flag. Hashes of these keys may collide: then too much is
    counted, which does no harm.
    """
    keyed = _keyed(rows, runs, window_ns)
    windows = of_windows.select(F.xxhash64("code", "window", "bin").alias("in_window")).distinct()
    whole = of_runs.select(F.xxhash64("code", "bin").alias("in_run")).distinct()
    found = (
        keyed.select(
            "code", "window", "flags", "value",
            F.xxhash64("code", "window", "bin").alias("window_key"),
            F.xxhash64("code", "bin").alias("run_key"),
        )
        .join(F.broadcast(windows), F.col("window_key") == F.col("in_window"), "left")
        .join(F.broadcast(whole), F.col("run_key") == F.col("in_run"), "left")
        .where(F.col("in_window").isNotNull() | F.col("in_run").isNotNull())
    )  # fmt: skip
    window = F.when(F.col("in_window").isNotNull(), F.col("window")).otherwise(F.lit(0).cast("long"))
    starts = F.shiftright(F.col("flags"), 1)
    spot = _packed((window, 0), (starts, 1), (F.col("value"), SPOT_BITS))
    counted = found.select("code", spot.alias("spot")).groupBy("code", "spot").agg(F.count(F.lit(1)).alias("count"))
    return check(counted, EXACT)


def coded(spark: SparkSession, known: Sequence[Names]) -> DataFrame:
    """The codes of names that are known already; Spark makes no job for it."""
    told = small(spark, known, ", ".join(f"{name} string" for name in NAMES))
    return check(told.select(code().alias("code"), *NAMES), CODES)


def names(rows: DataFrame, *, only: Sequence[int] | None = None, sampled: bool = False) -> DataFrame:
    """What the codes stand for: of all rows, of a sample of them, or of some codes."""
    chosen = rows.where(F.col("request") % SAMPLED == 0) if sampled else rows
    coded = chosen.select(code().alias("code"), *NAMES)
    if only is not None:
        coded = coded.where(F.col("code").isin(*only))
    return check(coded.distinct(), CODES)


def code() -> Column:
    """A group's number: the hash of its names. 64 bits hardly ever collide; the job looks whether they did."""
    return F.xxhash64(run_code(), *NAMES[1:])


def run_code() -> Column:
    """A run's number. Its name is the longest, and so is hashed only once."""
    return F.xxhash64("run")


def response() -> Column:
    """From the intended start for a client, from the start for a broker, which has no say in when it is asked."""
    return F.col("end_ns") - F.when(F.col("tier") == "client", F.col("intended_ns")).otherwise(F.col("start_ns"))


def _keyed(rows: DataFrame, runs: Sequence[RunTimes], window_ns: int) -> DataFrame:
    """The parts of a key, of each row that belongs to one of the runs."""
    placed = rows.select(
        code().alias("code"), run_code().alias("run_code"), response().alias("response_ns"), "intended_ns",
        "end_ns", "bytes", "messages",
    ).join(F.broadcast(_times(rows.sparkSession, runs)), "run_code")  # fmt: skip
    window, last = _window("intended_ns", window_ns), _window("end_ns", window_ns)
    value = F.expr("response_ns div 1000")
    return placed.select(
        "code",
        window.alias("window"),
        F.least(last - window, F.lit(MOST_LENGTH).cast("long")).alias("length"),
        (_inside("intended_ns") * STARTS + _inside("end_ns") * ENDS).alias("flags"),
        "response_ns",
        value.alias("value"),
        bin_of(value).alias("bin"),
        "bytes",
        "messages",
    )


def _times(spark: SparkSession, runs: Sequence[RunTimes]) -> DataFrame:
    known = [(run.run, run.load.start_ns, run.measured.start_ns, run.measured.end_ns) for run in runs]
    told = small(spark, known, "run string, load_start long, measured_start long, measured_end long")
    return told.select(run_code().alias("run_code"), "load_start", "measured_start", "measured_end")


def _window(moment: str, window_ns: int) -> Column:
    """The window that a moment is in, plus one; 0 before the load."""
    since = F.expr(f"({moment} - load_start + {window_ns}L) div {window_ns}L")
    return F.when(F.col(moment) < F.col("load_start"), F.lit(0).cast("long")).otherwise(
        F.least(since, F.lit(MOST_WINDOWS + 1).cast("long"))
    )


def _inside(moment: str) -> Column:
    inside = (F.col(moment) >= F.col("measured_start")) & (F.col(moment) < F.col("measured_end"))
    return F.when(inside, F.lit(1).cast("long")).otherwise(F.lit(0).cast("long"))


def _packed(*parts: tuple[Column, int]) -> Column:
    """Integers side by side in one: each with the bits it takes, those of the first left open."""
    packed = parts[0][0]
    for part, bits in parts[1:]:
        packed = F.shiftleft(packed, bits).bitwiseOR(part.cast("long"))
    return packed
