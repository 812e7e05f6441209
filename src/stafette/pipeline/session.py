"""The Spark session: on this machine with settings that fit it, on a cluster, or through Spark Connect."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import psutil
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stafette.errors import InvalidRequest, Unavailable
from stafette.pipeline import java

LOCAL = "local[*]"
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""The variable by which `spark-submit` tells the Python program that it starts about its Java process."""
LOOPBACK = "127.0.0.1"
GIBIBYTE = 1024**3
LARGEST_MEMORY = 4 * GIBIBYTE
"""Of the Java process, when everything runs on this machine. Our jobs spill to disk rather than need more."""
QUICK_MEMORY = GIBIBYTE
"""Enough for small inputs, and as fast for them as more."""
LOGGING = Path(__file__).with_name("log4j2.properties")
WARNINGS = "-Xlog:disable -Xlog:all=warning:stderr -Xlog:cds*=off:stderr -XX:+DisplayVMOutputToStderr"
"""Java's own go where ours go; it would have them among the results. An archive of classes that does not fit is left
out, which nobody needs to hear."""

SQL = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "64m",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
}
"""Of any session, also through Spark Connect. A join whose parts are all smaller than that hashes them; larger ones are
sorted, which takes twice as long but spills to disk. So are values that are collected for more groups than these: the
default of 128 has nearly all windows sorted, which doubles their time."""
JAVA_OPTIONS = f"-Dlog4j2.configurationFile=file:{LOGGING} {WARNINGS}"
QUICK_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Compiled code need not be good where most of it runs once; this halves the processor time of small analyses."""
QUICK_SQL = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
"""Planning anew after each stage makes a job of each; so few rows fit into one part."""
ALWAYS = {
    **SQL,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def start(
    *,
    master: str | None = None,
    remote: str | None = None,
    conf: Mapping[str, str] | None = None,
    quick: bool = False,
) -> SparkSession:
    """Start a session, or the one that runs already: where it is said, else where the environment says, else here.

    `quick` is for little to do: less time to start, and less speed for what takes long.
    """
    submitted = SUBMITTED in os.environ
    if submitted and (master or remote):
        raise InvalidRequest("spark-submit has chosen a master already; leave --master and --remote out")
    if master is None:
        remote, master = remote or os.environ.get(java.REMOTE), LOCAL
    try:
        if submitted:
            return _configured(SparkSession.builder.appName("stafette"), SQL | dict(conf or {})).getOrCreate()
        if remote:
            builder = SparkSession.builder.remote(remote)
            return _configured(builder, SQL | dict(conf or {})).getOrCreate()
        os.environ.pop(java.REMOTE, None)  # Spark takes no master beside it
        home = java.home()
        os.environ["JAVA_HOME"] = str(home)
        local = master.startswith("local")
        if local:
            os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)  # else Spark looks for an address, and tells of it
        options = [JAVA_OPTIONS, *java.class_archive(home, write=quick and local), *(QUICK_JAVA if quick else ())]
        chosen = ALWAYS | {"spark.driver.extraJavaOptions": " ".join(options)}
        if local:
            chosen |= _local(QUICK_MEMORY if quick else LARGEST_MEMORY)
        chosen |= (QUICK_SQL if quick else {}) | dict(conf or {})
        return _configured(SparkSession.builder.master(master).appName("stafette"), chosen).getOrCreate()
    except PySparkException as error:
        raise Unavailable(f"Spark did not start on {remote or master}: {_first_line(error)}") from error


def _configured(builder: SparkSession.Builder, conf: Mapping[str, str]) -> SparkSession.Builder:
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder


def _local(max_memory: int) -> dict[str, str]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = min(max_memory, psutil.virtual_memory().total // 4)
    return {
        "spark.driver.memory": f"{memory // 1024**2}m",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.default.parallelism": str(2 * cores),
    }


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
