"""`stafette analyze` on logs that are not ours, and on a run that still goes on; all in one Spark.

That of logs with a mapping is on the page `docs/how-to/analyse-your-logs.md`, which runs as a test.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stafette.report import result_files
from tests.support.mlmq_logs import HEADER
from tests.support.spark_processes import analyze
from tests.support.synthetic_runs import make_run, requests

pytestmark = pytest.mark.slow

FIRST = 1_383_000_000_000


def test_logs_of_mlmq(spark_connect: str, tmp_path: Path) -> None:
    run = tmp_path / "test 56"
    (run / "clients").mkdir(parents=True)
    lines = [HEADER]
    lines += [f"{10 + n % 7};{FIRST + 10 * n};CSndReq#OK#SendMessageRequest:SendMessageResponse;" for n in range(2_000)]
    lines[1000] = "twelve;yesterday;CSndReq"
    (run / "clients" / "perf.log").write_text("\n".join(lines) + "\n")

    done = analyze("--remote", spark_connect, str(run), "--source", "mlmq", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert "1 rejected" in done.stdout
    assert str(tmp_path / "out" / "report.html") in done.stdout
    [reject] = result_files.load(tmp_path / "out")["rejects"].to_pylist()
    assert (Path(reject["file"]).name, reject["line"]) == ("perf.log", 1001)
    counted = [row for row in json.loads((tmp_path / "out" / "summary.json").read_text()) if row["operation"] != "all"]
    assert [(row["run"], row["tier"], row["outcome"], row["count"]) for row in counted] == [
        ("test 56", "client", "ok", 1_999)
    ]
    assert 10 <= counted[0]["p50_ms"] <= 16


def test_a_run_is_followed_and_then_analysed(spark_connect: str, tmp_path: Path) -> None:
    make_run(tmp_path, requests(2_000), file_rows=500)
    done = analyze("--remote", spark_connect, str(tmp_path), "--follow", "--json")
    assert done.returncode == 0, done.stderr
    *live, last = [json.loads(line) for line in done.stdout.splitlines()]

    def counts(rows: list[dict[str, object]]) -> dict[object, object]:
        return {(row["tier"], row["operation"], row["outcome"]): row["count"] for row in rows}

    assert live, "nothing was shown while it went on"
    assert {key: live_count for key, live_count in counts(live[-1]).items() if key in counts(last)} == counts(last)
