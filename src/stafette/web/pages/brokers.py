"""Brokers: the load of each, where its time goes, and draining one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from stafette.database.views import BrokerRow
from stafette.errors import InvalidRequest
from stafette.web.access import Administrator, TheSite, Viewer
from stafette.web.pages.overview import SPANS, Span
from stafette.web.rendering import page, plural, redirect
from stafette.web.site import Site

router = APIRouter()

METRICS = (
    "in_flight", "parked", "mean_batch", "mean_queue_ms", "mean_database_ms", "answered", "failed", "resident_bytes",
    "cpu_seconds", "uptime_seconds", "draining", "url", "pid",
)  # fmt: skip


class RequestRates:
    """Requests per second of each broker, between the last two heartbeats that this process has read."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[datetime, int, float]] = {}
        """By broker: time of the heartbeat, requests answered until then, rate."""

    def of(self, broker: BrokerRow) -> float | None:
        """The rate of one broker; before its second heartbeat, the mean since its start."""
        if broker.figures is None or broker.figures_at is None:
            return None
        answered, seconds = int(broker.figures.get("answered", 0)), float(broker.figures.get("uptime_seconds", 1.0))
        at, answered_before, rate = self._last.get(
            broker.id, (broker.figures_at, answered, answered / max(seconds, 1.0))
        )
        if broker.figures_at > at:
            rate = (answered - answered_before) / (broker.figures_at - at).total_seconds()
        self._last[broker.id] = (broker.figures_at, answered, rate)
        return rate

    def forget_all_but(self, brokers: Iterable[BrokerRow]) -> None:
        """Forget brokers that are no longer listed."""
        ids = {broker.id for broker in brokers}
        self._last = {broker: last for broker, last in self._last.items() if broker in ids}


def load(broker: BrokerRow, rates: RequestRates) -> dict[str, Any]:
    """The metrics of a broker that the page shows; None for those that it has not published."""
    metrics = broker.figures or {}
    return {name: metrics.get(name) for name in METRICS} | {"rate": rates.of(broker) if broker.alive else None}


@router.get("/brokers")
async def brokers(request: Request, site: TheSite, _operator: Viewer, span: Span = "1h") -> Response:
    """All brokers, those that are alive first."""
    rows = sorted(await site.console.brokers(), key=lambda broker: (not broker.alive, broker.name, broker.id))
    if not hasattr(request.app.state, "request_rates"):
        request.app.state.request_rates = RequestRates()
    rates: RequestRates = request.app.state.request_rates
    rates.forget_all_but(rows)
    values = {
        "brokers": [(broker, load(broker, rates)) for broker in rows],
        "alive": sum(broker.alive for broker in rows),
        "span": span,
        "spans": list(SPANS),
    }
    return page(request, "brokers.html", values)


async def _find_broker(site: Site, number: int) -> BrokerRow:
    for broker in await site.console.brokers():
        if broker.id == number and broker.alive:
            return broker
    raise InvalidRequest(f"no broker with ID {number} is alive; load the list again")


@router.get("/brokers/{number:int}/drain")
async def confirm_drain(request: Request, site: TheSite, _operator: Administrator, number: int) -> Response:
    """The page that asks for confirmation."""
    broker = await _find_broker(site, number)
    values = {
        "title": f"Drain {broker.name}?",
        "question": f"The broker has {plural(broker.clients, 'client')}. It accepts no new ones, answers requests in"
        " flight, sends its clients to other brokers, and exits. Start it again on its machine when it is needed.",
        "condition": None,
        "button": "Drain the broker",
        "dangerous": True,
        "crumbs": [("/brokers", "Brokers")],
        "back": "/brokers",
        "problem": None,
    }
    return page(request, "confirm.html", values)


@router.post("/brokers/{number:int}/drain")
async def drain(site: TheSite, operator: Administrator, number: int) -> Response:
    """Drain the broker."""
    broker = await _find_broker(site, number)
    await site.console.drain(operator, broker.id)
    return redirect("/brokers", f"broker {broker.name} was told to drain")
