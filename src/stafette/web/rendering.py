"""Templates, and how numbers, times and bytes are written on pages. Everything is escaped; nothing is marked safe."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
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
from stafette.web.naming import in_address

HERE = Path(__file__).parent
STATIC = HERE / "static"
SAID = "stafette_said"
"""The cookie that carries one sentence from an action to the page after it."""

NAVIGATION = (
    ("/", "Overview"),
    ("/queues", "Queues"),
    ("/clients", "Clients"),
    ("/brokers", "Brokers"),
    ("/lab", "Laboratory"),
    ("/audit", "Audit"),
    ("/api", "API"),
)
REFRESHES = ((0, "refresh by hand"), (2, "every 2 s"), (5, "every 5 s"), (30, "every 30 s"))


def page(
    request: Request,
    template: str,
    values: Mapping[str, Any],
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A page for whoever asks."""
    who = getattr(request.state, "operator", None)
    refreshed = request.headers.get("x-refresh") is not None
    said = None if refreshed else request.cookies.get(SAID)
    text = (
        _environment()
        .get_template(template)
        .render(
            {
                "operator": who,
                "csrf": "" if who is None else who.csrf,
                "path": request.url.path,
                "address": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
                "said": None if said is None else unquote(said),
                "now": datetime.now(UTC),
                **values,
            }
        )
    )
    answer = HTMLResponse(text, status, headers=dict(headers or {}))
    if said is not None:
        answer.delete_cookie(SAID, path="/", httponly=True, samesite="strict")
    return answer


def done(address: str, sentence: str) -> Response:
    """Go on to a page, which says what was done."""
    answer = RedirectResponse(address, 303)
    answer.set_cookie(SAID, quote(sentence[:500]), max_age=60, path="/", httponly=True, samesite="strict")
    return answer


@functools.cache
def _environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals |= {
        "navigation": NAVIGATION, "refreshes": REFRESHES, "version": stafette.__version__, "stamp": _stamp(),
        "queue_options": QUEUE_OPTIONS,
    }  # fmt: skip
    found.filters |= {
        "number": number, "decimal": decimal, "size": size, "age": age, "when": when, "iso": iso, "name": in_address,
        "shown": shown, "duration": duration,
    }  # fmt: skip
    return found


def _stamp() -> str:
    """Changes with the static files, so that browsers may keep them for good."""
    newest = max(path.stat().st_mtime_ns for path in STATIC.iterdir())
    return f"{newest:x}"


@functools.cache
def plotly_script() -> Path:
    """Plotly's script, as its package brings it."""
    spec = find_spec("plotly")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"


# Filters


def number(value: float | None) -> str:
    """A count."""
    return "–" if value is None else f"{value:,.0f}"


def decimal(value: float | None, digits: int = 1) -> str:
    """A measured value."""
    return "–" if value is None or math.isnan(value) else f"{value:,.{digits}f}"


def size(value: float | None) -> str:
    """Bytes."""
    if value is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024 or unit == "GiB":
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    raise AssertionError


def duration(seconds: float | None) -> str:
    """A stretch of time, in its two largest units."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    whole = int(seconds)
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    kept = [f"{count} {unit}" for count, unit in parts if count]
    return " ".join(kept[:2])


def age(at: datetime | None) -> str:
    """How long ago something was."""
    return "–" if at is None else duration((datetime.now(UTC) - at).total_seconds())


def when(at: datetime | None) -> str:
    """A time, for people."""
    return "–" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def iso(at: datetime) -> str:
    """A time, for machines."""
    return at.astimezone(UTC).isoformat()


def shown(body: bytes, limit: int = 120) -> str:
    """The beginning of a body as text on one line; what cannot be shown becomes a small square."""
    text = body[:limit].decode(errors="replace")
    return "".join(letter if letter.isprintable() else "▫" for letter in text)
