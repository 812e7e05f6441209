"""What operators did: who, from where, when, and to what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from stafette.web.access import TheSite, Viewer
from stafette.web.fields import BIGINT, address
from stafette.web.rendering import page

router = APIRouter()

LINES = 100
QUEUE_ACTIONS = ("create queue", "delete queue", "send", "purge", "redrive", "bury")
CLIENT_ACTIONS = ("disconnect", "delete client")


@router.get("/audit")
async def audit(
    request: Request, site: TheSite, _who: Viewer, before: Annotated[int | None, Query(ge=1, lt=BIGINT)] = None
) -> Response:
    """A page, the newest first."""
    lines = await site.console.audit_lines(before=before, limit=LINES + 1)
    values = {
        "lines": lines[:LINES],
        "queue_actions": QUEUE_ACTIONS,
        "client_actions": CLIENT_ACTIONS,
        "first": "/audit" if before else None,
        "next": address("/audit", before=lines[LINES - 1].id) if len(lines) > LINES else None,
    }
    return page(request, "audit.html", values)
