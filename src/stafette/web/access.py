"""Who asks, and whether they may: dependencies for routes.

A browser shows a cookie, a script an ``Authorization: Bearer SECRET``. What changes something is for administrators;
and when it comes with a cookie it must also bear the form's token and come from a page of ours, because a browser adds
cookies to what other sites make it send.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote, urlsplit

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from stafette.database.audit import Actor
from stafette.database.views import Role
from stafette.errors import NotAuthenticated, PermissionDenied
from stafette.web.site import Site

COOKIE = "stafette_session"
FIELD = "csrf"
HEADER = "X-CSRF-Token"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

bearer = HTTPBearer(auto_error=False, description="The administrator's or the viewer's secret.")
"""Named in the API's description; reading the header is done here."""


@dataclass(frozen=True)
class Operator(Actor):
    """Who asks."""

    role: Role
    token: str | None = None
    """Of the session; None for a script, which shows its secret each time."""

    @property
    def may_change(self) -> bool:
        """Whether it is an administrator."""
        return self.role == "admin"

    @property
    def csrf(self) -> str:
        """What a form of this session must bear."""
        return "" if self.token is None else hashlib.sha256(f"csrf:{self.token}".encode()).hexdigest()


class LoginNeeded(Exception):
    """A person is to log in first, and then go on to where they wanted."""

    def __init__(self, request: Request) -> None:
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        self.address = "/login" if wanted == "/" else f"/login?next={quote(wanted, safe='')}"


def site(request: Request) -> Site:
    """All that pages need."""
    found: Site = request.app.state.site
    return found


def address_of(request: Request) -> str:
    """Where a request comes from."""
    return request.client.host if request.client else "-"


async def operator(request: Request) -> Operator:
    """Who asks; raises unless we know them."""
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    operators, address = site(request).operators, address_of(request)
    if kind.lower() == "bearer":
        return _known(request, Operator(await operators.by_secret(secret.strip(), address), address))
    token = request.cookies.get(COOKIE)
    role = await operators.by_session(token) if token else None
    if token is None or role is None:
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            raise LoginNeeded(request)
        raise NotAuthenticated("log in, or send the header `Authorization: Bearer SECRET`")
    return _known(request, Operator(role, address, token))


def _known(request: Request, who: Operator) -> Operator:
    """Templates and error pages want to know, too."""
    request.state.operator = who
    return who


def from_own_page(request: Request) -> None:
    """Raise when a browser says that another site made it send this."""
    origin, fetched = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise PermissionDenied(f"the request comes from a page of {origin}; use the console's own pages")
    if fetched not in (None, "same-origin", "none"):
        raise PermissionDenied("the request comes from a page of another site; use the console's own pages")


async def administrator(request: Request, who: Annotated[Operator, Depends(operator)]) -> Operator:
    """Who asks, when they may change things."""
    if who.token is not None and request.method not in SAFE_METHODS:
        from_own_page(request)
        said = request.headers.get(HEADER)
        if said is None and request.headers.get("content-type", "").startswith(
            ("application/x-www-form-urlencoded", "multipart/form-data")
        ):
            said = str((await request.form()).get(FIELD, ""))
        if not hmac.compare_digest((said or "").encode(), who.csrf.encode()):
            raise PermissionDenied("the form is too old or not ours; load the page again")
    if not who.may_change:
        raise PermissionDenied("you may look, but not change things; log in with the administrator's secret")
    return who


TheSite = Annotated[Site, Depends(site)]
Viewer = Annotated[Operator, Depends(operator)]
Administrator = Annotated[Operator, Depends(administrator)]
