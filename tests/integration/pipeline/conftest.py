"""One Spark for all tests of the pipeline: it takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from stafette.pipeline import session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores of this machine."""
    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": session.LOOPBACK,
        "spark.connect.grpc.binding.port": "0",
    }
    started = session.start(master="local[2]", conf=settings)
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def connect(spark: SparkSession) -> str:
    """Where commands find that same Spark: each would start its own, which takes longer than what they do."""
    assert spark._jvm is not None
    service = getattr(spark._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
    port = getattr(service, "MODULE$").localPort()  # that is how Java sees an object of Scala's
    return f"sc://{session.LOOPBACK}:{port}"
