"""Brokers: how much each has to do, where its time goes, and sending one home."""

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
from stafette.web.rendering import done, page
from stafette.web.site import Site

router = APIRouter()


FIGURES = (
    "in_flight", "parked", "mean_batch", "mean_queue_ms", "mean_database_ms", "answered", "failed", "resident_bytes",
    "cpu_seconds", "uptime_seconds", "draining", "url", "pid",
)  # fmt: skip


class Pace:
    """Requests per second of each broker, between its last two publications that were seen here."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[datetime, int, float]] = {}

    def of(self, broker: BrokerRow) -> float | None:
        """The pace of one; before a second publication, its mean since the start."""
        if broker.figures is None or broker.figures_at is None:
            return None
        answered, seconds = int(broker.figures.get("answered", 0)), float(broker.figures.get("uptime_seconds", 1.0))
        at, before, pace = self._seen.get(broker.id, (broker.figures_at, answered, answered / max(seconds, 1.0)))
        if broker.figures_at > at:
            pace = (answered - before) / (broker.figures_at - at).total_seconds()
        self._seen[broker.id] = (broker.figures_at, answered, pace)
        return pace

    def forget_all_but(self, brokers: Iterable[BrokerRow]) -> None:
        """Those that are not listed any more do not come back."""
        listed = {broker.id for broker in brokers}
        self._seen = {known: last for known, last in self._seen.items() if known in listed}


def load(broker: BrokerRow, pace: Pace) -> dict[str, Any]:
    """The figures of a broker that the page shows; None for what it has not said."""
    said = broker.figures or {}
    return {name: said.get(name) for name in FIGURES} | {"pace": pace.of(broker) if broker.alive else None}


@router.get("/brokers")
async def brokers(request: Request, site: TheSite, _who: Viewer, span: Span = "1h") -> Response:
    """All of them, the living first."""
    found = sorted(await site.console.brokers(), key=lambda broker: (not broker.alive, broker.name, broker.id))
    if not hasattr(request.app.state, "pace"):
        request.app.state.pace = Pace()
    pace: Pace = request.app.state.pace
    pace.forget_all_but(found)
    values = {
        "brokers": [(broker, load(broker, pace)) for broker in found],
        "alive": sum(broker.alive for broker in found),
        "span": span,
        "spans": list(SPANS),
    }
    return page(request, "brokers.html", values)


async def _the_broker(site: Site, number: int) -> BrokerRow:
    for broker in await site.console.brokers():
        if broker.id == number and broker.alive:
            return broker
    raise InvalidRequest(f"there is no broker {number} that is alive; look at the list again")


@router.get("/brokers/{number:int}/drain")
async def ask_drain(request: Request, site: TheSite, _who: Administrator, number: int) -> Response:
    """Ask first."""
    broker = await _the_broker(site, number)
    values = {
        "title": f"Drain {broker.name}?",
        "question": f"It takes no new clients, answers what it has taken on, asks its {broker.clients} clients to go"
        " elsewhere, and ends. Start it again on its machine when it is needed.",
        "doubt": None,
        "button": "Drain the broker",
        "dangerous": True,
        "crumbs": [("/brokers", "Brokers")],
        "back": "/brokers",
        "wrong": None,
    }
    return page(request, "confirm.html", values)


@router.post("/brokers/{number:int}/drain")
async def drain(site: TheSite, who: Administrator, number: int) -> Response:
    """Tell it to drain and end."""
    broker = await _the_broker(site, number)
    await site.console.drain(who, broker.id)
    return done("/brokers", f"broker {broker.name} was told to drain")
