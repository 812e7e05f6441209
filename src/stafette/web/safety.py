"""Security headers of every answer: a browser must never run what a message contains."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PLOTLY_STYLE = "'sha256-ji27qzEtxXZW+7dun6UwjHXJ18e6WAin1VvNtkzIE/o='"
"""The one style sheet that Plotly's script adds when it is loaded; another version of Plotly has another hash."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src 'self' {PLOTLY_STYLE}",
        "style-src-attr 'unsafe-inline'",  # Plotly needs it; our own pages have none
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
HTTPS_ONLY = "max-age=31536000"
"""For a year a browser that came by https once comes by https only (HSTS), to this host and not to those below it."""
SANDBOXED = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    " img-src data: blob:; frame-ancestors 'none'"
)
"""For a full report: one file with its own scripts, which cannot reach anything outside it."""


class SafetyHeaders:
    """Adds the headers that an answer does not set itself. Only static files may be cached."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and add headers to its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
                if scope["scheme"] == "https":
                    headers.setdefault("Strict-Transport-Security", HTTPS_ONLY)
            await send(message)

        await self._app(scope, receive, with_headers)
