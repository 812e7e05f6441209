"""The pipeline's results, made with DuckDB: requests as Parquet, and the tables of these requests.

Codes are hashes of DuckDB's own; everything else is the same to the last digit. Each table is one statement on the
Parquet files, as a person who knows SQL would write it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from stafette.pipeline.run_times import RunTimes
from stafette.report.result_tables import PERCENTILES, WINDOW_PERCENTILES
from stafette.runs.outcomes import SUCCESSES
from stafette.trace import PHASES

SUCCESS = ", ".join(f"'{outcome}'" for outcome in SUCCESSES)
CLIENT_PHASES = ("queue_ns", "encode_ns", "read_ns")
PROBLEM = " ".join(
    [
        "CASE WHEN tier NOT IN ('client', 'broker') THEN 'there is no such tier'",
        "WHEN request < 0 THEN 'request is negative'",
        "WHEN intended_ns < 0 THEN 'it was to start before the epoch'",
        "WHEN start_ns < intended_ns THEN 'it starts before it was to'",
        "WHEN end_ns < start_ns THEN 'it ends before it starts'",
        "WHEN bytes < 0 THEN 'bytes are negative'",
        "WHEN messages < 0 THEN 'messages are negative'",
        "WHEN batch < 1 THEN 'its batch is not positive'",
        *(f"WHEN {phase} < 0 THEN '{phase} is negative'" for phase in PHASES),
        "END",
    ]
)
CODE = "(hash(tier || '/' || operation || '/' || outcome) >> 1)::BIGINT"
RUN_CODE = "(hash(run) >> 1)::BIGINT"
SIDE = f"SELECT *, {CODE} AS code, {RUN_CODE} AS run_code, nullif(request, 0) AS number FROM rows"
JOINED = ", ".join(
    [
        "coalesce(c.run_code, b.run_code) AS run_code, c.code AS client_code, b.code AS broker_code",
        "c.client, c.request, c.intended_ns, c.start_ns, c.end_ns",
        *(f"c.{name} AS client_{name}" for name in CLIENT_PHASES),
        "c.bytes, c.messages::BIGINT AS messages",
        "b.node AS broker, b.start_ns AS broker_start_ns, b.end_ns AS broker_end_ns",
        *(f"b.{name}" for name in PHASES),
        "b.batch, b.bytes AS broker_bytes, b.messages::BIGINT AS broker_messages",
    ]
)
BY_TIER = """
    SELECT run_code, client_code AS code, intended_ns AS begin_ns, end_ns, end_ns - intended_ns AS response_ns, bytes,
        messages FROM requests WHERE client_code IS NOT NULL
    UNION ALL
    SELECT run_code, broker_code, broker_start_ns, broker_end_ns, broker_end_ns - broker_start_ns, broker_bytes,
        broker_messages FROM requests WHERE broker_code IS NOT NULL"""
OWN_NETWORK = " - ".join(f"coalesce(client_{name}, 0)" for name in CLIENT_PHASES)
NETWORK = f"end_ns - intended_ns - {OWN_NETWORK} - (broker_end_ns - broker_start_ns - coalesce(write_ns, 0))"


def connect(cores: int, memory: str, spill: Path) -> duckdb.DuckDBPyConnection:
    """A connection with an empty memory."""
    return duckdb.connect(config={"threads": cores, "memory_limit": memory, "temp_directory": str(spill)})


class Checks:
    """The names in the traces, and the problems of their rows: one pass over all columns."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, traces: Path, out: Path) -> None:
        connection.execute(
            f"""CREATE TABLE checked AS SELECT run, tier, operation, outcome, {PROBLEM} AS reason, count(*) AS count
            FROM read_parquet('{traces}/**/traces/*.parquet') GROUP BY ALL"""
        )
        self.reasons: pa.Table = connection.sql(
            "SELECT reason, sum(count)::BIGINT AS count FROM checked WHERE reason IS NOT NULL GROUP BY reason"
        ).to_arrow_table()
        self.where = f"WHERE ({PROBLEM}) IS NULL" if self.reasons.num_rows else ""
        connection.execute(
            f"""COPY (SELECT DISTINCT {RUN_CODE} AS run_code, {CODE} AS code, run, tier, operation, outcome
            FROM checked WHERE reason IS NULL) TO '{out}/names.parquet'"""
        )


def requests_at_once(connection: duckdb.DuckDBPyConnection, traces: Path, out: Path) -> pa.Table:
    """Write the requests of all runs with one join; returns the number of rows with each problem."""
    checks = Checks(connection, traces, out)
    keys = "c.run = b.run AND c.client = b.client AND c.number = b.number"
    _join(connection, f"{traces}/**/traces/*.parquet", checks.where, keys, out / "requests.parquet")
    return checks.reasons


def requests_by_run(connection: duckdb.DuckDBPyConnection, traces: Path, out: Path) -> pa.Table:
    """The same with a join for each run."""
    checks = Checks(connection, traces, out)
    for number, folder in enumerate(sorted(traces.rglob("traces"))):
        keys = "c.client = b.client AND c.number = b.number"
        _join(connection, f"{folder}/*.parquet", checks.where, keys, out / f"requests-{number:03d}.parquet")
    return checks.reasons


def _join(connection: duckdb.DuckDBPyConnection, files: str, where: str, keys: str, out: Path) -> None:
    connection.execute(
        f"""COPY (
            WITH rows AS NOT MATERIALIZED (FROM read_parquet('{files}') {where}),
            c AS NOT MATERIALIZED ({SIDE} WHERE tier = 'client'),
            b AS NOT MATERIALIZED ({SIDE} WHERE tier = 'broker')
            SELECT {JOINED} FROM c FULL JOIN b ON {keys}
        ) TO '{out}' (FORMAT parquet)"""
    )


def tables(
    connection: duckdb.DuckDBPyConnection, requests: Iterable[str], names: str, times: Sequence[RunTimes]
) -> dict[str, pa.Table]:
    """Summary, windows, breakdown and joins, of files of requests."""
    files = ", ".join(f"'{file}'" for file in requests)
    connection.execute(
        f"""CREATE OR REPLACE VIEW requests AS FROM read_parquet([{files}], hive_partitioning = false);
        CREATE OR REPLACE TABLE names AS FROM read_parquet('{names}', hive_partitioning = false)"""
    )
    _make_groups(connection, times)
    statements = {"summary": _summary(), "windows": _windows(), "breakdown": _breakdown(), "joins": _joins()}
    return {name: connection.sql(statement).to_arrow_table() for name, statement in statements.items()}


def _make_groups(connection: duckdb.DuckDBPyConnection, times: Sequence[RunTimes]) -> None:
    """Codes with their names, and with the code of all answered requests of their tier, if they are successes."""
    rows = [
        {"run": span.run, "load_start": span.load.start_ns, "load_end": span.load.end_ns, "window_ns": span.window_ns,
         "measured_start": span.measured.start_ns, "measured_end": span.measured.end_ns} for span in times
    ]  # fmt: skip
    connection.register("given_times", pa.Table.from_pylist(rows))
    answered_code = CODE.replace("operation", "'all'").replace("outcome", "'answered'")
    connection.execute(
        f"""CREATE OR REPLACE TABLE times AS SELECT run_code, given_times.* FROM given_times
            JOIN (SELECT DISTINCT run, run_code FROM names) USING (run);
        CREATE OR REPLACE TABLE own AS SELECT DISTINCT code, tier, operation, outcome,
            CASE WHEN outcome IN ({SUCCESS}) THEN {answered_code} END AS whole FROM names;
        CREATE OR REPLACE TABLE codes AS SELECT code, tier, operation, outcome FROM own
            UNION SELECT whole, tier, 'all', 'answered' FROM own WHERE whole IS NOT NULL;
        CREATE OR REPLACE VIEW by_tier AS {BY_TIER}"""
    )


def _ranked(percentiles: dict[str, int]) -> str:
    """The percentiles by nearest rank, as one list."""
    return "[" + ", ".join(f"{thousandths / 1000}" for thousandths in percentiles.values()) + "]"


def _picked(percentiles: dict[str, int]) -> str:
    return ", ".join(f"ranked[{index}] / 1000 AS {name}" for index, name in enumerate(percentiles, 1))


def _with_answered(metrics: str, keys: str = "") -> str:
    """The metrics of each group, and of all answered requests, from `rows`."""
    return f"""
        SELECT run_code, code, {keys} {metrics} FROM rows GROUP BY ALL
        UNION ALL SELECT run_code, whole, {keys} {metrics} FROM rows JOIN own USING (code)
        WHERE whole IS NOT NULL GROUP BY ALL"""


def _summary() -> str:
    metrics = f"""count(*) FILTER (begun) AS count, avg(response_ns) FILTER (begun) / 1e6 AS mean_ms,
        stddev_samp(response_ns) FILTER (begun) / 1e6 AS stddev_ms,
        quantile_disc(response_ns // 1000, {_ranked(PERCENTILES)}) FILTER (begun) AS ranked,
        max(response_ns) FILTER (begun) / 1e6 AS max_ms, count(*) FILTER (done) AS answers,
        coalesce(sum(bytes) FILTER (begun), 0)::BIGINT AS bytes,
        coalesce(sum(messages) FILTER (begun), 0)::BIGINT AS messages"""
    return f"""WITH rows AS NOT MATERIALIZED (
            SELECT by_tier.*, begin_ns >= measured_start AND begin_ns < measured_end AS begun,
                end_ns >= measured_start AND end_ns < measured_end AS done
            FROM by_tier JOIN times USING (run_code) WHERE begun OR done),
        figures AS ({_with_answered(metrics)})
        SELECT run, tier, operation, outcome, count, mean_ms, stddev_ms, {_picked(PERCENTILES)}, max_ms,
            answers / ((measured_end - measured_start) / 1e9) AS throughput_per_s, bytes, messages
        FROM figures JOIN times USING (run_code) JOIN codes USING (code)"""


def _windows() -> str:
    inside = "begin_ns >= measured_start AND begin_ns < measured_end"
    begun = f"""count(*) AS count, sum(response_ns) AS total_ns, max(response_ns) AS longest_ns,
        quantile_disc(response_ns // 1000, {_ranked(WINDOW_PERCENTILES)}) AS ranked,
        count(*) FILTER ({inside}) AS measured_count,
        coalesce(sum(response_ns) FILTER ({inside}), 0) AS measured_total_ns"""
    ended = """count(*) AS answers,
        count(*) FILTER (end_ns >= measured_start AND end_ns < measured_end) AS measured_answers"""
    events = "(SELECT *, ({moment} - load_start) // window_ns AS number FROM by_tier JOIN times USING (run_code) " \
        "WHERE {moment} >= load_start AND {moment} < load_end)"  # fmt: skip
    return f"""WITH
        begun AS (WITH rows AS NOT MATERIALIZED {events.format(moment="begin_ns")} {_with_answered(begun, "number,")}),
        ended AS (WITH rows AS NOT MATERIALIZED {events.format(moment="end_ns")} {_with_answered(ended, "number,")}),
        lengths AS (SELECT *, least(load_start + (number + 1) * window_ns, load_end) - load_start - number * window_ns
            AS length FROM begun FULL JOIN ended USING (run_code, code, number)
            JOIN times USING (run_code) JOIN codes USING (code))
        SELECT run, tier, operation, outcome, number * window_ns / 1e9 AS second, coalesce(count, 0) AS count,
            coalesce(answers, 0) / (length / 1e9) AS throughput_per_s, total_ns / (count * 1e6) AS mean_ms,
            {_picked(WINDOW_PERCENTILES)}, longest_ns / 1e6 AS max_ms, coalesce(measured_count, 0) AS measured_count,
            coalesce(measured_total_ns, 0) / 1e6 AS measured_total_ms, coalesce(measured_answers, 0) AS measured_answers
        FROM lengths"""


def _breakdown() -> str:
    columns = {f"{name.removesuffix('_ns')}_ms": name for name in PHASES}
    columns |= {f"client_{name.removesuffix('_ns')}_ms": f"client_{name}" for name in CLIENT_PHASES}
    columns |= {"client_ms": "end_ns - intended_ns", "unexplained_ms": NETWORK}
    means = ", ".join(f"avg({expression}) / 1e6 AS {name}" for name, expression in columns.items())
    return f"""SELECT any_value(run) AS run, any_value(operation) AS operation, any_value(outcome) AS outcome,
            count(*) AS count, {means}
        FROM requests JOIN times USING (run_code) JOIN codes ON code = client_code
        WHERE broker_code IS NOT NULL AND intended_ns >= measured_start AND intended_ns < measured_end
        GROUP BY run_code, client_code"""


def _joins() -> str:
    return """WITH counted AS (SELECT run_code, count(client_code) AS client_rows, count(broker_code) AS broker_rows,
            count(*) FILTER (client_code IS NOT NULL AND broker_code IS NOT NULL) AS joined,
            count(*) FILTER (client_code IS NOT NULL AND request = 0) AS never_sent
            FROM requests GROUP BY run_code)
        SELECT run, client_rows, broker_rows, joined, client_rows - joined - never_sent AS client_only,
            broker_rows - joined AS broker_only, never_sent
        FROM counted JOIN times USING (run_code)"""


def same_requests(connection: duckdb.DuckDBPyConnection, ours: tuple[str, str], theirs: tuple[str, str]) -> bool:
    """Whether two pairs of files, requests and names, have the same requests, whatever their codes."""
    return _sum_of(connection, *ours) == _sum_of(connection, *theirs)


def _sum_of(connection: duckdb.DuckDBPyConnection, requests: str, names: str) -> tuple[object, ...]:
    """The number of rows, and the sum of their hashes with names instead of codes."""
    row = connection.execute(
        f"""WITH names AS (FROM read_parquet('{names}', hive_partitioning = false)),
        runs AS (SELECT DISTINCT run_code, run FROM names),
        codes AS (SELECT DISTINCT code, tier || '/' || operation || '/' || outcome AS text FROM names),
        named AS (SELECT r.* EXCLUDE (run_code, client_code, broker_code), run, c.text AS client_text,
            b.text AS broker_text FROM read_parquet('{requests}', hive_partitioning = false) r
            JOIN runs USING (run_code) LEFT JOIN codes c ON c.code = client_code
            LEFT JOIN codes b ON b.code = broker_code)
        SELECT count(*), sum(hash(named)) FROM named"""
    ).fetchone()
    assert row is not None
    return row
