"""Authentication and authorisation: the rules, which the guard applies, and what routes get as dependencies.

A browser sends a session cookie, a script sends ``Authorization: Bearer SECRET``. Only administrators may change
something. With a cookie, a change must also carry the CSRF token of the form and come from one of our pages, because a
browser adds cookies to requests that other sites make it send.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from stafette.database.audit import Actor
from stafette.database.views import Role
from stafette.errors import NotAuthenticated, PermissionDenied
from stafette.web.hosts import is_same_origin
from stafette.web.site import Site

SESSION_COOKIE = "stafette_session"
CSRF_FIELD = "csrf"
CSRF_HEADER = "X-CSRF-Token"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

bearer = HTTPBearer(auto_error=False, description="The administrator's or the viewer's secret.")
"""Only for the API's description; `authenticate` reads the header."""


@dataclass(frozen=True)
class Operator(Actor):
    """The operator who sent a request."""

    role: Role
    token: str | None = None
    """Of the session; None for a script, which sends its secret with each request."""

    @property
    def may_change(self) -> bool:
        """Whether the operator is an administrator."""
        return self.role == "admin"

    @property
    def csrf(self) -> str:
        """The token that a form of this session must carry."""
        return "" if self.token is None else hashlib.sha256(f"csrf:{self.token}".encode()).hexdigest()


class LoginRequired(Exception):
    """A person must log in first; after that the browser returns to the requested page."""

    def __init__(self, request: Request) -> None:
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        self.login_url = "/login" if target == "/" else f"/login?next={quote(target, safe='')}"


def get_site(request: Request) -> Site:
    """The parts of the running application."""
    site: Site = request.app.state.site
    return site


def client_ip(request: Request) -> str:
    """The IP address that a request comes from."""
    return request.client.host if request.client else "-"


async def authenticate(request: Request) -> Operator:
    """The operator who sent a request; raises if there is no valid secret or session."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    operators, ip = get_site(request).operators, client_ip(request)
    if scheme.lower() == "bearer":
        return Operator(await operators.by_secret(secret.strip(), ip), ip)
    token = request.cookies.get(SESSION_COOKIE)
    role = await operators.by_session(token) if token else None
    if token is None or role is None:
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            raise LoginRequired(request)
        raise NotAuthenticated("log in, or send the header `Authorization: Bearer SECRET`")
    return Operator(role, ip, token)


def check_same_origin(request: Request) -> None:
    """Raise PermissionDenied if another site made the browser send this request."""
    origin, fetch_site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if origin is not None and not is_same_origin(origin, request.scope["scheme"], request.headers.get("host", "")):
        raise PermissionDenied(f"the request comes from a page of {origin[:100]}; use the console's own pages")
    if fetch_site not in (None, "same-origin", "none"):
        raise PermissionDenied("the request comes from a page of another site; use the console's own pages")


def check_csrf_token(operator: Operator, token: str) -> None:
    """Raise PermissionDenied unless a change in a session carries the session's token."""
    if not hmac.compare_digest(token.encode(), operator.csrf.encode()):
        raise PermissionDenied("the form has expired or comes from another session; load the page again")


def check_may_change(operator: Operator) -> None:
    """Raise PermissionDenied for a viewer."""
    if not operator.may_change:
        raise PermissionDenied("viewers cannot change anything; log in with the administrator's secret")


def get_operator(request: Request) -> Operator:
    """The operator whom the guard has let in."""
    operator: Operator = request.state.operator
    return operator


async def require_administrator(request: Request, operator: Annotated[Operator, Depends(get_operator)]) -> Operator:
    """The operator who sent a request; raises if it is no administrator, or if the form has no token."""
    check_may_change(operator)
    if request.state.token_in_form:
        check_csrf_token(operator, str((await request.form()).get(CSRF_FIELD, "")))
    return operator


TheSite = Annotated[Site, Depends(get_site)]
Viewer = Annotated[Operator, Depends(get_operator)]
Administrator = Annotated[Operator, Depends(require_administrator)]
