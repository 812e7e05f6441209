"""Errors as HTTP answers: a page for people, ``{"error", "code", "message"}`` for scripts."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from stafette import errors
from stafette.web.access import LoginRequired
from stafette.web.rendering import page

log = logging.getLogger(__name__)

STATUS: dict[type[errors.StafetteError], int] = {
    errors.NotFound: 404,
    errors.InvalidRequest: 400,
    errors.NotAuthenticated: 401,
    errors.PermissionDenied: 403,
    errors.QueueNotFound: 404,
    errors.ClientNotFound: 404,
    errors.QueueExists: 409,
    errors.QueueNotEmpty: 409,
    errors.AlreadyOnline: 409,
    errors.LeaseLost: 409,
    errors.KeyConflict: 409,
    errors.MessageTooLarge: 413,
    errors.Overloaded: 429,
    errors.ServerFull: 503,
    errors.Unavailable: 503,
    errors.RequestTimeout: 504,
}
REFUSALS = (LoginRequired, errors.StafetteError, HTTPException)
NAMES = {404: "NotFound", 405: "NotAllowed", 413: "MessageTooLarge", 415: "InvalidRequest"}
DETAILS = {404: "there is nothing at this URL", 405: "this URL does not support this method"}
"""For refusals of the framework itself."""


def status_of(error: errors.StafetteError) -> int:
    """The HTTP status of an error."""
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)


def wants_page(request: Request) -> bool:
    """Whether the answer is for a person."""
    return not request.scope["path"].startswith("/api/") and "text/html" in request.headers.get("accept", "")


def error_answer(request: Request, status: int, name: str, detail: str, code: int | None = None) -> Response:
    """An error as a page or as JSON."""
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if wants_page(request):
        return page(request, "problem.html", {"name": name, "detail": detail}, status=status, headers=headers)
    return JSONResponse({"error": name, "code": code, "message": detail}, status, headers=headers)


def refusal(request: Request, error: Exception) -> Response:
    """The answer to a request that was refused: by our rules, or by the framework's."""
    if isinstance(error, LoginRequired):
        return RedirectResponse(error.login_url, 303)
    if isinstance(error, errors.StafetteError):
        if error.confidential:
            log.warning("%s %s: %s", request.method, request.scope["path"], error)
        return error_answer(request, status_of(error), type(error).__name__, error.sentence, error.code)
    assert isinstance(error, HTTPException)
    default = HTTPException(error.status_code).detail
    detail = DETAILS.get(error.status_code, default) if error.detail == default else error.detail
    answer = error_answer(request, error.status_code, NAMES.get(error.status_code, "Refused"), detail)
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


def handle_errors(app: FastAPI) -> None:
    """Answer all errors, ours and the framework's, with `error_answer`."""

    async def _refused(request: Request, error: Exception) -> Response:
        return refusal(request, error)

    for kind in REFUSALS:
        app.add_exception_handler(kind, _refused)

    @app.exception_handler(RequestValidationError)
    async def _invalid_request(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        field, reason = ".".join(str(part) for part in first["loc"][1:]) or "the request", str(first["msg"])
        return error_answer(request, 422, "InvalidRequest", f"{field}: {reason[:1].lower()}{reason[1:]}")

    @app.exception_handler(Exception)
    async def _unexpected_error(request: Request, error: Exception) -> Response:
        log.error("%s %s failed", request.method, request.scope["path"], exc_info=error)
        return error_answer(request, 500, "InternalError", "internal error; see the log of the web process")
