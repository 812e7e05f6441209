"""The web application: middleware, routes, and what lives as long as the process."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, Response
from starlette.middleware import Middleware
from starlette.staticfiles import StaticFiles

import stafette
from stafette.web.api import answers, routes
from stafette.web.guard import Guard
from stafette.web.hosts import Forwarded
from stafette.web.naming import RawPath
from stafette.web.pages import (
    api,
    audit,
    brokers,
    clients,
    lab_pages,
    login,
    message,
    overview,
    queue_actions,
    queues,
    search,
)
from stafette.web.problems import handle_errors
from stafette.web.rendering import STATIC, plotly_script
from stafette.web.safety import SafetyHeaders
from stafette.web.site import WebSettings, open_site

PAGES = (
    login.router, overview.router, queues.router, queue_actions.router, message.router, clients.router, brokers.router,
    search.router, audit.router, api.router,
)  # fmt: skip
CACHE_FOREVER = "public, max-age=31536000, immutable"


class CachedStaticFiles(StaticFiles):
    """Files that browsers may cache forever: their URLs change with their content."""

    def file_response(self, *arguments: object, **options: object) -> Response:
        """A file with the header that lets browsers cache it."""
        answer: Response = super().file_response(*arguments, **options)  # type: ignore[arg-type]
        answer.headers["Cache-Control"] = CACHE_FOREVER
        return answer


def make_app(settings: WebSettings) -> FastAPI:
    """The web application for one database."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_site(settings) as site, contextlib.AsyncExitStack() as stack:
            if settings.lab:
                await stack.enter_async_context(site.job_queue.working())
            app.state.site = site
            yield

    app = FastAPI(
        title="Stafette",
        version=stafette.__version__,
        description="Administration of Stafette, and sending and receiving for scripts.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
        middleware=[
            Middleware(Forwarded, trusted=settings.trusted_proxies),
            Middleware(RawPath),
            Middleware(SafetyHeaders),
            Middleware(Guard, hosts=settings.hosts),
        ],
    )
    handle_errors(app)

    @app.get("/static/plotly.min.js", include_in_schema=False)
    async def plotly(_request: Request) -> Response:
        return FileResponse(plotly_script(), media_type="text/javascript", headers={"Cache-Control": CACHE_FOREVER})

    app.mount("/static", CachedStaticFiles(directory=STATIC), name="static")
    for router in (*PAGES, lab_pages.router if settings.lab else lab_pages.switched_off):
        app.include_router(router, include_in_schema=False)
    app.include_router(routes.router)
    app.openapi = lambda: answers.describe(app)  # type: ignore[method-assign]
    return app
