"""Templates, and how pages write numbers, times and bytes. Everything is escaped; nothing is marked safe."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

import stafette
from stafette.model import QUEUE_OPTIONS
from stafette.web.naming import path_segment
from stafette.web.site import Site

HERE = Path(__file__).parent
STATIC = HERE / "static"
NOTICE_COOKIE = "stafette_notice"
"""Carries the notice of an action to the page that follows it."""

NAVIGATION = (
    ("/", "Overview"),
    ("/queues", "Queues"),
    ("/clients", "Clients"),
    ("/brokers", "Brokers"),
    ("/lab", "Laboratory"),
    ("/audit", "Audit"),
    ("/api", "API"),
)
REFRESHES = ((0, "manual"), (2, "every 2 s"), (5, "every 5 s"), (30, "every 30 s"))


def page(
    request: Request,
    template: str,
    values: Mapping[str, Any],
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A page for the operator who sent the request."""
    operator = getattr(request.state, "operator", None)
    path, query = request.scope["path"], request.scope["query_string"].decode("latin-1")
    is_refresh = request.headers.get("x-refresh") is not None
    notice = None if is_refresh else request.cookies.get(NOTICE_COOKIE)
    text = (
        _environment()
        .get_template(template)
        .render(
            {
                "operator": operator,
                "csrf": "" if operator is None else operator.csrf,
                "path": path,
                "navigation": _navigation(request),
                "url": path + (f"?{query}" if query else ""),
                "notice": None if notice is None else unquote(notice),
                "now": datetime.now(UTC),
                **values,
            }
        )
    )
    answer = HTMLResponse(text, status, headers=dict(headers or {}))
    if notice is not None:
        answer.delete_cookie(NOTICE_COOKIE, path="/", httponly=True, samesite="strict")
    return answer


def _navigation(request: Request) -> Sequence[tuple[str, str]]:
    """The pages that there are."""
    site: Site = request.app.state.site
    return [entry for entry in NAVIGATION if site.settings.lab or entry[0] != "/lab"]


def redirect(url: str, notice: str) -> Response:
    """Redirect to a page that shows a notice of what was done."""
    answer = RedirectResponse(url, 303)
    answer.set_cookie(NOTICE_COOKIE, quote(notice[:500]), max_age=60, path="/", httponly=True, samesite="strict")
    return answer


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "refreshes": REFRESHES, "version": stafette.__version__,
        "static_version": _static_version(),
        "queue_options": QUEUE_OPTIONS,
    }  # fmt: skip
    environment.filters |= {
        "number": number, "decimal": decimal, "size": size, "age": age, "timestamp": timestamp, "iso": iso,
        "segment": path_segment, "preview": preview, "duration": duration, "plural": plural,
    }  # fmt: skip
    return environment


def _static_version() -> str:
    """Changes with the static files, so that browsers may cache them forever."""
    newest = max(path.stat().st_mtime_ns for path in STATIC.iterdir())
    return f"{newest:x}"


@functools.cache
def plotly_script() -> Path:
    """Plotly's script, out of its Python package."""
    spec = find_spec("plotly")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"


# Filters


def number(value: float | None) -> str:
    """A count."""
    return "–" if value is None else f"{value:,.0f}"


def plural(count: int, noun: str, plural_noun: str = "") -> str:
    """A count with its noun, such as `1 message` or `2 messages`."""
    return f"{number(count)} {noun if count == 1 else plural_noun or noun + 's'}"


def decimal(value: float | None, digits: int = 1) -> str:
    """A measured value."""
    return "–" if value is None or math.isnan(value) else f"{value:,.{digits}f}"


def size(value: float | None) -> str:
    """A number of bytes."""
    if value is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024 or unit == "GiB":
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    raise AssertionError


def duration(seconds: float | None) -> str:
    """A number of seconds, in its two largest units."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    total = int(seconds)
    parts = [(total // 86400, "d"), (total // 3600 % 24, "h"), (total // 60 % 60, "min"), (total % 60, "s")]
    return " ".join([f"{count} {unit}" for count, unit in parts if count][:2])


def age(at: datetime | None) -> str:
    """How long ago something was."""
    return "–" if at is None else duration((datetime.now(UTC) - at).total_seconds())


def timestamp(at: datetime | None) -> str:
    """A time, for people."""
    return "–" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def iso(at: datetime) -> str:
    """A time, for machines."""
    return at.astimezone(UTC).isoformat()


def preview(body: bytes, limit: int = 120) -> str:
    """The beginning of a body as one line of text, with small squares for what is not printable."""
    text = body[:limit].decode(errors="replace")
    return "".join(char if char.isprintable() else "▫" for char in text)
