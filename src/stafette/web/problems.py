"""Errors as answers: a page for people, ``{"error", "code", "message"}`` for scripts, with the status that fits."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from stafette import errors
from stafette.web.access import LoginNeeded
from stafette.web.rendering import page

log = logging.getLogger(__name__)

STATUS: dict[type[errors.StafetteError], int] = {
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
NAMES = {404: "NotFound", 405: "NotAllowed"}
SENTENCES = {404: "there is nothing at this address", 405: "this address cannot be used in this way"}
"""For what the framework itself refuses."""


def status_of(error: errors.StafetteError) -> int:
    """The HTTP status of an error."""
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)


def wants_page(request: Request) -> bool:
    """Whether a person looks at the answer."""
    return not request.url.path.startswith("/api/") and "text/html" in request.headers.get("accept", "")


def told(request: Request, status: int, name: str, sentence: str, code: int | None = None) -> Response:
    """An error as an answer."""
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if wants_page(request):
        return page(request, "problem.html", {"name": name, "sentence": sentence}, status=status, headers=headers)
    return JSONResponse({"error": name, "code": code, "message": sentence}, status, headers=headers)


def handle_errors(app: FastAPI) -> None:
    """Turn every error of ours, and every refusal of the framework, into such an answer."""

    @app.exception_handler(LoginNeeded)
    async def _login(_request: Request, error: Exception) -> Response:
        assert isinstance(error, LoginNeeded)
        return RedirectResponse(error.address, 303)

    @app.exception_handler(errors.StafetteError)
    async def _ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, errors.StafetteError)
        return told(request, status_of(error), type(error).__name__, str(error), error.code)

    @app.exception_handler(RequestValidationError)
    async def _refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:]) or "the request"
        return told(request, 422, "InvalidRequest", f"{where}: {str(first['msg'])[:1].lower()}{str(first['msg'])[1:]}")

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        usual = HTTPException(error.status_code).detail
        sentence = SENTENCES.get(error.status_code, usual) if error.detail == usual else error.detail
        answer = told(request, error.status_code, NAMES.get(error.status_code, "Refused"), sentence)
        for name, value in (error.headers or {}).items():
            answer.headers[name] = value
        return answer

    @app.exception_handler(Exception)
    async def _unknown(request: Request, error: Exception) -> Response:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return told(request, 500, "InternalError", "something went wrong here; the log of the web process says what")
