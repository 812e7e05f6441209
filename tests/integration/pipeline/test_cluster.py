"""The same tables from a standalone cluster and through Spark Connect as on this machine alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stafette.report import result_files, result_tables
from tests.support.java_options import SHORT_LIVED
from tests.support.spark_frames import analyzed_runs
from tests.support.spark_processes import TIMEOUT_SECONDS, Server, analyze, conf, server, submitted
from tests.support.synthetic_runs import make_run, requests

pytestmark = pytest.mark.slow

MASTER = "org.apache.spark.deploy.master.Master"
INTERVALS = ("mean_interval_ms", "interval", "throughput_interval_per_s")
"""Keys of summary.json that are several columns of the table."""
WORKER = "org.apache.spark.deploy.worker.Worker"


def analyzed(runs: Path, out: Path, *options: str) -> Path:
    done = analyze(str(runs), "--out", str(out), "--json", *options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((out / "summary.json").read_text())
    assert "<h1" in (out / "report.html").read_text()
    return out


def tables(out: Path) -> dict[str, list[dict[str, Any]]]:
    """All tables, their rows in an order of their own."""
    return {
        name: sorted(
            (_rounded(row) for row in table.to_pylist()), key=lambda row: [str(value) for value in row.values()]
        )
        for name, table in result_files.load(out).items()
    }


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Sums of fractions depend on their order, in the last digits."""
    return {name: float(f"{value:.9g}") if isinstance(value, float) else value for name, value in row.items()}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        name = f"made-0001/{seed:03d}-single-r{seed}"
        make_run(folder / name.replace("/", "/runs/"), requests(20_000, seed=seed, run=name), run=name)
    return folder


@pytest.fixture(scope="module")
def here(spark: SparkSession, runs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    out = tmp_path_factory.mktemp("here") / "out"
    analyzed_runs(spark, str(runs), out=out)
    results = tables(out)
    assert len(results["summary"]) > 4
    return results


def test_the_summary_has_the_documented_keys(here: dict[str, Any]) -> None:
    assert here["summary"][0].keys() >= set(result_tables.SUMMARY_KEYS) - set(INTERVALS)
    assert result_tables.SUMMARY_KEYS == (
        "run", "tier", "operation", "outcome", "count", "mean_ms", "stddev_ms", "mean_interval_ms", "interval",
        "p50_ms", "p95_ms", "p99_ms", "max_ms", "throughput_per_s", "throughput_interval_per_s",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("/nowhere",), "there is no folder /nowhere"),
        ((".", "--source", "csv"), "--mapping and --source csv need each other"),
        ((".", "--conf", "x"), "'x' is not KEY=VALUE"),
        ((".", "--limits", "1,x"), "'x' is not a number"),
        ((".", "--window", "0"), "a window of 0 s cannot be"),
        ((".", "--follow", "--source", "mlmq"), "--follow needs exactly one folder"),
        ((".", "--master", "local", "--remote", "sc://head"), "--master and --remote exclude each other"),
    ],
)
def test_what_cannot_be_is_said_before_spark_starts(arguments: tuple[str, ...], says: str) -> None:
    done = analyze(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    [sentence] = done.stderr.splitlines()
    assert says in sentence


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[tuple[list[str], list[Server]]]:
    """A standalone cluster: options to use it, and its workers."""
    with ExitStack() as running:
        start = [MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = running.enter_context(server(folder, "spark-class", *start, says=r"Starting Spark master at (\S+)"))
        worker = [WORKER, "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g", master.said]
        servers = [
            running.enter_context(server(folder, "spark-class", *worker, says="(registered) with master"))
            for _ in range(workers)
        ]
        settings = [
            "spark.driver.host=127.0.0.1", "spark.executor.memory=600m", "spark.sql.shuffle.partitions=2",
            f"spark.executor.extraJavaOptions={SHORT_LIVED}", "spark.pyspark.python=/nowhere",
        ]  # fmt: skip
        yield ["--master", master.said, *conf(*settings)], servers


def test_a_standalone_cluster_that_shares_a_url_alone(runs: Path, here: dict[str, Any], tmp_path: Path) -> None:
    """Traces, requests and results are below a URL that only Spark knows; workers have no Python."""
    data = tmp_path / "data"
    shutil.copytree(runs, data / "runs", ignore=shutil.ignore_patterns("requests"))
    mount = f"spark.hadoop.fs.viewfs.mounttable.lab.link./data={data.as_uri()}"
    with cluster(tmp_path) as (options, _):
        done = analyze("viewfs://lab/data/runs", "--json", *options, *conf(mount))
    assert done.returncode == 0, done.stderr
    out = data / "runs" / "analysis"
    assert json.loads(done.stdout) == json.loads((out / "summary.json").read_text())
    assert "<h1" in (out / "report.html").read_text()
    assert (data / "runs" / "requests" / "data").is_dir()
    assert tables(out) == here


def test_a_worker_that_is_killed_changes_nothing(runs: Path, here: dict[str, Any], tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "runs", ignore=shutil.ignore_patterns("requests"))
    with cluster(tmp_path) as (options, workers):
        command = [sys.executable, "-m", "stafette", "analyze", str(tmp_path / "runs"), "--json", *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as analysis:
            assert analysis.stderr is not None
            for line in analysis.stderr:
                if line.strip() == "aggregate":
                    workers[0].kill()
            assert analysis.wait(TIMEOUT_SECONDS) == 0
    assert tables(tmp_path / "runs" / "analysis") == here


def test_spark_submit_and_its_master_are_respected(runs: Path, here: dict[str, Any], tmp_path: Path) -> None:
    options = ["--master", "local[1]", *conf("spark.ui.enabled=false")]
    refused = submitted(options, str(runs), "--out", str(tmp_path / "out"), "--master", "local[2]")
    assert (refused.returncode, "spark-submit has chosen a master already" in refused.stdout) == (1, True)
    done = submitted(options, str(runs), "--out", str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out" / "facts.json").read_text())["master"] == "local[1]"
    assert tables(tmp_path / "out") == here


def test_spark_connect(runs: Path, here: dict[str, Any], spark_connect: str, tmp_path: Path) -> None:
    assert tables(analyzed(runs, tmp_path / "out", "--remote", spark_connect)) == here
