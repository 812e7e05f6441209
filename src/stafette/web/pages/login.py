"""Logging in and out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from stafette.database.audit import Actor
from stafette.errors import NotAuthenticated, Overloaded
from stafette.web.access import SESSION_COOKIE, TheSite, Viewer, client_ip
from stafette.web.operators import SESSION_SECONDS
from stafette.web.problems import status_of
from stafette.web.rendering import page

router = APIRouter()


def local_path(target: str) -> str:
    """The target if it is a path on this site, otherwise `/`: a login must not redirect to another site."""
    return target if target.startswith("/") and not target.startswith(("//", "/\\")) else "/"


@router.get("/login")
async def login_form(request: Request, next: str = "/") -> Response:  # noqa: A002
    """The form for the secret."""
    return page(request, "login.html", {"next": local_path(next), "problem": None})


@router.post("/login")
async def log_in(
    request: Request, site: TheSite, secret: Annotated[str, Form()], next: Annotated[str, Form()] = "/"  # noqa: A002
) -> Response:  # fmt: skip
    """Check the secret and open a session."""
    try:
        role = await site.operators.by_secret(secret.strip(), client_ip(request))
    except (NotAuthenticated, Overloaded) as error:
        values = {"next": local_path(next), "problem": str(error)}
        return page(request, "login.html", values, status=status_of(error))
    token = await site.operators.open_session(Actor(role, client_ip(request)))
    answer = RedirectResponse(local_path(next), 303)
    answer.set_cookie(
        SESSION_COOKIE,
        token,
        max_age=SESSION_SECONDS,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


@router.post("/logout")
async def log_out(request: Request, site: TheSite, operator: Viewer) -> Response:
    """End the session."""
    if operator.token is not None:
        await site.operators.close_session(operator.token)
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="strict")
    return answer
