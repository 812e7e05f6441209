"""docs/metrics.md is what brokers have: every metric, service and bound."""

from __future__ import annotations

import re
from contextlib import suppress

from stafette import errors
from stafette.broker.maintenance.heartbeat import Heartbeat
from stafette.broker.maintenance.history import WriteHistory
from stafette.broker.metrics import BATCH_BOUNDS, SECONDS_BOUNDS
from stafette.broker.prometheus import BrokerCollector
from stafette.broker.server import SERVICES
from tests.support.brokers import Connect, StartBroker
from tests.support.reference_pages import DOCS, codes, plain, rows, section
from tests.support.waiting import until

METRICS = section("metrics.md", "Metrics of a broker")


async def test_every_metric_is_told_with_its_type_and_labels(brokers: StartBroker, connect: Connect) -> None:
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
    assert told["service", "upkeep"] == [
        Heartbeat.__name__,
        *(service.__name__ for service in SERVICES),
        WriteHistory.__name__,
    ]
    for bounds in (BATCH_BOUNDS, SECONDS_BOUNDS):
        assert f"are {', '.join(map(str, bounds))}" in plain(METRICS)


def test_alerts_name_metrics_that_there_are() -> None:
    known = {codes(row[0])[0] for row in rows(METRICS, head="metric")}
    used = set(re.findall(r"stafette_[a-z_]+", (DOCS / "metrics.md").read_text()))
    assert {name.removesuffix("_bucket") for name in used} == known
