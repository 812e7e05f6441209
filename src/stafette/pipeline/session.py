"""The Spark session: on this machine with settings that fit it, on a cluster, or through Spark Connect."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import psutil
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from stafette.errors import Unavailable
from stafette.pipeline import java

LOCAL = "local[*]"
LOOPBACK = "127.0.0.1"
GIBIBYTE = 1024**3
LARGEST_MEMORY = 4 * GIBIBYTE
"""Of the Java process, when everything runs on this machine. Our jobs spill to disk rather than need more."""
JOIN_PARTS = 64
"""Into which all shuffles are cut at first; Spark then puts small parts together. 50 million rows make 40 MB each."""
LOGGING = Path(__file__).with_name("log4j2.properties")
WARNINGS = "-Xlog:disable -Xlog:all=warning:stderr -XX:+DisplayVMOutputToStderr"
"""Java's own go where ours go; it would have them among the results."""

SQL = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "64m",
}
"""Of any session, also through Spark Connect. A join whose parts are all smaller than that hashes them; larger ones are
sorted, which takes twice as long but spills to disk."""
ALWAYS = {
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{LOGGING} {WARNINGS}",
    **SQL,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def start(
    *, master: str | None = None, remote: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Start a session, or the one that runs already: where it is said, else where the environment says, else here."""
    if master is None:
        remote, master = remote or os.environ.get(java.REMOTE), LOCAL
    try:
        if remote:
            builder = SparkSession.builder.remote(remote)
            return _configured(builder, SQL | dict(conf or {})).getOrCreate()
        os.environ.pop(java.REMOTE, None)  # Spark takes no master beside it
        os.environ["JAVA_HOME"] = str(java.home())
        local = master.startswith("local")
        if local:
            os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)  # else Spark looks for an address, and tells of it
        chosen = ALWAYS | (_local() if local else {}) | dict(conf or {})
        return _configured(SparkSession.builder.master(master).appName("stafette"), chosen).getOrCreate()
    except PySparkException as error:
        raise Unavailable(f"Spark did not start on {remote or master}: {_first_line(error)}") from error


def _configured(builder: SparkSession.Builder, conf: Mapping[str, str]) -> SparkSession.Builder:
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder


def _local() -> dict[str, str]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = min(LARGEST_MEMORY, psutil.virtual_memory().total // 4)
    return {
        "spark.driver.memory": f"{memory // 1024**2}m",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.default.parallelism": str(2 * cores),
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": str(JOIN_PARTS),
    }


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
