"""Coming in and going out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response

from stafette.database.audit import Actor
from stafette.errors import NotAuthenticated, Overloaded
from stafette.web.access import COOKIE, Operator, TheSite, address_of, from_own_page, operator
from stafette.web.operators import SESSION_SECONDS
from stafette.web.problems import status_of
from stafette.web.rendering import page

router = APIRouter()


def local(address: str) -> str:
    """An address of ours, whatever was asked for: nobody is led elsewhere."""
    return address if address.startswith("/") and not address.startswith(("//", "/\\")) else "/"


@router.get("/login")
async def ask(request: Request, next: str = "/") -> Response:  # noqa: A002
    """The form."""
    return page(request, "login.html", {"next": local(next), "wrong": None})


@router.post("/login")
async def enter(
    request: Request, site: TheSite, secret: Annotated[str, Form()], next: Annotated[str, Form()] = "/"  # noqa: A002
) -> Response:  # fmt: skip
    """Check the secret and begin a session."""
    from_own_page(request)
    try:
        role = await site.operators.by_secret(secret.strip(), address_of(request))
    except (NotAuthenticated, Overloaded) as error:
        return page(request, "login.html", {"next": local(next), "wrong": str(error)}, status=status_of(error))
    token = await site.operators.open_session(Actor(role, address_of(request)))
    answer = RedirectResponse(local(next), 303)
    answer.set_cookie(
        COOKIE, token, max_age=SESSION_SECONDS, path="/", httponly=True, samesite="strict", secure=site.settings.secure
    )
    return answer


@router.post("/logout")
async def leave(request: Request, site: TheSite, who: Annotated[Operator, Depends(operator)]) -> Response:
    """End the session."""
    from_own_page(request)
    if who.token is not None:
        await site.operators.close_session(who.token)
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return answer
