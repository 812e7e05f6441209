"""Brokers: how much each has to do, where its time goes, and sending one home."""

from __future__ import annotations

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


@router.get("/brokers")
async def brokers(request: Request, site: TheSite, _who: Viewer, span: Span = "1h") -> Response:
    """All of them, the living first."""
    found = sorted(await site.console.brokers(), key=lambda broker: (not broker.alive, broker.name, broker.id))
    values = {
        "brokers": [(broker, load(broker)) for broker in found],
        "alive": sum(broker.alive for broker in found),
        "span": span,
        "spans": list(SPANS),
    }
    return page(request, "brokers.html", values)


def load(broker: BrokerRow) -> dict[str, Any]:
    """The figures of a broker that the page shows; None for what it has not said."""
    said = broker.figures or {}
    return {name: said.get(name) for name in FIGURES}


FIGURES = (
    "clients", "connections", "in_flight", "parked", "requests_per_second", "mean_batch", "queue_ms", "database_ms",
    "resident_bytes", "cpu_seconds", "uptime_seconds", "draining", "url", "pid", "failed", "answered", "refusals",
)  # fmt: skip


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
    await site.console.drain(broker.id)
    await site.changed(who.role, who.address, "drain", broker.name, f"broker {broker.id}")
    return done("/brokers", f"broker {broker.name} was told to drain")
