"""The reference on paper, where only a running system can tell: metrics of a broker, and functions of the database."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress

import asyncpg
import pytest

from stafette import errors
from stafette.broker.maintenance.history import WriteHistory
from stafette.broker.metrics import BATCH_BOUNDS, SECONDS_BOUNDS
from stafette.broker.prometheus import BrokerCollector
from stafette.broker.runtime import Runtime
from stafette.broker.server import SERVICES
from stafette.client.aio import Client
from tests.support.reference_pages import DOCS, codes, plain, rows, section
from tests.support.waiting import until

METRICS = section("metrics.md", "Metrics of a broker")
SIGNATURES = """
SELECT proname, proargnames[1:pronargs] AS names,
       ARRAY(SELECT format_type(kind, NULL) FROM unnest(proargtypes) WITH ORDINALITY AS a (kind, place) ORDER BY place)
           AS types,
       ARRAY(SELECT pg_get_function_arg_default(oid, place) FROM generate_series(1, pronargs) AS place) AS defaults,
       proargnames[pronargs + 1:] AS result_names,
       ARRAY(SELECT format_type(kind, NULL) FROM unnest(proallargtypes[pronargs + 1:]) AS kind) AS result_types
FROM pg_proc WHERE pronamespace = 'stafette'::regnamespace
"""
SHORT = {"timestamp with time zone": "timestamptz"}


async def test_every_metric_is_told_with_its_type_and_labels(
    brokers: Callable[..., Awaitable[tuple[Runtime, str]]], connect: Callable[..., Awaitable[Client]]
) -> None:
    runtime, url = await brokers()
    alice = await connect("alice", url=url)
    await alice.create_queue("jobs")
    with suppress(errors.AlreadyOnline):  # so that there is a refusal to see
        await connect("alice", url=url)
    await until(lambda: {service for service, _ in runtime.core.metrics.rounds} >= {"Heartbeat"})

    found = []
    for metric in BrokerCollector(runtime).collect():
        labels = dict.fromkeys(label for sample in metric.samples for label in sample.labels if label != "le")
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        found.append([f"`{name}`", metric.type, ", ".join(f"`{label}`" for label in labels)])
    assert [row[:3] for row in rows(METRICS, head="metric")] == found


def test_the_services_and_bounds_are_those_of_the_broker() -> None:
    told = {(codes(row[0])[0], row[1]): codes(row[2]) for row in rows(METRICS, head="label")}
    assert told["service", "upkeep"] == [*(service.__name__ for service in SERVICES), WriteHistory.__name__]
    for bounds in (BATCH_BOUNDS, SECONDS_BOUNDS):
        assert f"are {', '.join(map(str, bounds))}" in plain(METRICS)


def test_alerts_name_metrics_that_there_are() -> None:
    known = {codes(row[0])[0] for row in rows(METRICS, head="metric")}
    used = set(re.findall(r"stafette_[a-z_]+", (DOCS / "metrics.md").read_text()))
    assert {name.removesuffix("_bucket") for name in used} == known


@pytest.mark.parametrize("function", ["send", "send_to_all", "receive"])
async def test_the_arguments_of_a_function_are_those_of_the_database(database: str, function: str) -> None:
    connection = await asyncpg.connect(database)
    known = {row["proname"]: row for row in await connection.fetch(SIGNATURES)}
    await connection.close()
    ours = known[function]
    expected = [
        [f"`{name}`", kind, re.sub(r"::[\w ]+", "", default or "")]
        for name, kind, default in zip(ours["names"], ours["types"], ours["defaults"], strict=True)
    ]
    page = (DOCS / "sql-api.md").read_text()
    told = {
        title: [row[:3] for row in rows(section("sql-api.md", f"`{title}`"), head="argument")]
        for title in re.findall(r"^## `(stafette\..*)`$", page, re.MULTILINE)
    }
    of = {re.sub(r"stafette\.(\w+).*", r"\1", title): arguments for title, arguments in told.items()}
    if function == "send_to_all":
        of[function] = [of["send"][0], *of[function], *of["send"][2:]]
    assert of[function] == expected
    if ours["result_names"]:
        [title] = [title for title in told if title.startswith(f"stafette.{function}(")]
        columns = [row[:2] for row in rows(section("sql-api.md", f"`{title}`"), head="column")]
        assert columns == [
            [f"`{name}`", SHORT.get(kind, kind)]
            for name, kind in zip(ours["result_names"], ours["result_types"], strict=True)
        ]


async def test_the_database_has_no_function_that_is_not_told(database: str) -> None:
    connection = await asyncpg.connect(database)
    known = {row["proname"] for row in await connection.fetch(SIGNATURES)}
    await connection.close()
    page = (DOCS / "sql-api.md").read_text()
    internal = {name for row in rows(section("sql-api.md", "Internal functions")) for name in codes(row[1])}
    assert known == internal | set(re.findall(r"^## `stafette\.(\w+)\(", page, re.MULTILINE))
