"""The guard: who a request comes from is settled, and whether its body may come, before any of the body is read.

Everything needs an operator unless it is listed here, so a new route is closed until somebody opens it; every change
needs an administrator. A form carries its CSRF token in its body, which is read only for an administrator from one of
our own pages. An upload carries it in the URL, because what it carries in its body would be stored first.
"""

from __future__ import annotations

from contextlib import ExitStack

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from stafette.web.access import (
    CSRF_FIELD,
    CSRF_HEADER,
    SAFE_METHODS,
    authenticate,
    check_csrf_token,
    check_may_change,
    check_same_origin,
)
from stafette.web.bodies import BODY_BYTES, IMPORT_BYTES, LOGIN_BYTES, BodyBudget, limited, too_large
from stafette.web.hosts import Hosts
from stafette.web.problems import REFUSALS, refusal

LOGIN, LOGOUT, IMPORT = "/login", "/logout", "/lab/import"
PUBLIC = (LOGIN, "/api/openapi.json")
PUBLIC_FOLDER = "/static/"
FORM, JSON = "application/x-www-form-urlencoded", "application/json"


def is_public(path: str) -> bool:
    """Whether strangers may request a URL."""
    return path in PUBLIC or path.startswith(PUBLIC_FOLDER)


def body_limit(path: str) -> int:
    """The most bytes that a request may have at a URL; strangers have none but at the login: the room is shared."""
    return {LOGIN: LOGIN_BYTES, IMPORT: IMPORT_BYTES}.get(path, 0 if is_public(path) else BODY_BYTES)


def announced_size(request: Request, path: str) -> int:
    """The size of a request's body; of one that comes in chunks, the most that it may have."""
    if "transfer-encoding" in request.headers:
        return body_limit(path)
    return int(request.headers.get("content-length", 0))


def media_type(request: Request) -> str:
    """The kind of a request's body."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_content_type(request: Request, path: str) -> None:
    """Raise if a body is of a kind that is of no use at a URL."""
    expected = JSON if path.startswith("/api/") else FORM if path == LOGIN else None
    if expected and announced_size(request, path) and media_type(request) != expected:
        raise HTTPException(415, f"the body is no {expected}; send it as that, with that Content-Type")


class Guard:
    """Lets in whom it may, and only as much as it may; all others are answered at once."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self._app = app
        self._hosts = hosts
        self._budget = BodyBudget()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, path = Request(scope), str(scope["path"])
        with ExitStack() as until_answered:
            try:
                await self._admit(request, path)
                size, limit = announced_size(request, path), body_limit(path)
                if size > limit:
                    raise too_large(limit)
                if path not in (LOGIN, IMPORT):  # one is small, the other goes to disk
                    until_answered.enter_context(self._budget.reserve(size))
            except REFUSALS as error:
                await refusal(request, error)(scope, receive, send)
            else:
                await self._app(scope, limited(receive, limit), send)

    async def _admit(self, request: Request, path: str) -> None:
        """Raise one of REFUSALS unless the request may go on; remembers whose it is."""
        self._hosts.check(request.headers.get("host"))
        is_change = request.method not in SAFE_METHODS
        if is_change:
            check_same_origin(request)
            check_content_type(request, path)
        if is_public(path):
            return
        operator = request.state.operator = await authenticate(request)
        request.state.token_in_form = False
        if is_change and path != LOGOUT:
            check_may_change(operator)
            if operator.token is not None:
                token = request.headers.get(CSRF_HEADER) or request.query_params.get(CSRF_FIELD)
                request.state.token_in_form = token is None and media_type(request) == FORM
                if not request.state.token_in_form:
                    check_csrf_token(operator, token or "")
