"""All pages of the laboratory; if its libraries are missing, one page that says so."""

from __future__ import annotations

from fastapi import APIRouter

from stafette.errors import NotFound
from stafette.web.access import Viewer

router = APIRouter()

try:
    from stafette.web.pages import lab_editor, lab_list, lab_queue, lab_series
except ImportError as error:  # the console works without the laboratory
    missing = (error.name or "").partition(".")[0]
    if missing in ("", "stafette"):
        raise

    @router.get("/lab")
    @router.get("/lab/{rest:path}")
    async def not_installed(_operator: Viewer, rest: str = "") -> None:
        """Say what to install."""
        raise NotFound(f"the laboratory needs {missing}; install stafette[lab]")
else:
    for module in (lab_list, lab_editor, lab_queue, lab_series):
        router.include_router(module.router, prefix="/lab")
