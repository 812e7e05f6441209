"""The audit: which operator changed what, when, and from which IP address."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from stafette.database.audit import AuditLine
from stafette.web.access import TheSite, Viewer
from stafette.web.fields import BIGINT, build_url
from stafette.web.pages.queue_actions import ACTIONS
from stafette.web.rendering import page

router = APIRouter()

PAGE_LINES = 100
DELETE_DEAD = "delete dead messages"
QUEUE_ACTIONS = ("create queue", "delete queue", "send", "purge", "redrive", DELETE_DEAD)
CLIENT_ACTIONS = ("disconnect", "delete client")
COUNT = re.compile(r"(?:(\d+) messages|with its messages)?")


def detail(line: AuditLine) -> str:
    """The detail of a line; for an action on a queue, the notice that its page showed."""
    action = ACTIONS.get("delete-dead" if line.action == DELETE_DEAD else line.action.removesuffix(" queue"))
    count = COUNT.fullmatch(line.detail)
    return action.report(line.subject, int(count[1] or 0)) if action and count else line.detail


@router.get("/audit")
async def audit(
    request: Request, site: TheSite, _operator: Viewer, before: Annotated[int | None, Query(ge=1, lt=BIGINT)] = None
) -> Response:
    """A page of lines, the newest first."""
    lines = await site.console.audit.lines(before=before, limit=PAGE_LINES + 1)
    values = {
        "lines": [(line, detail(line)) for line in lines[:PAGE_LINES]],
        "queue_actions": QUEUE_ACTIONS,
        "client_actions": CLIENT_ACTIONS,
        "first": "/audit" if before else None,
        "next": build_url("/audit", before=lines[PAGE_LINES - 1].id) if len(lines) > PAGE_LINES else None,
    }
    return page(request, "audit.html", values)
