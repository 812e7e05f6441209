"""Names in URL paths: a queue may be called `a/b`, `?` or `..`, and each name is one segment of the path.

Servers usually pass on the decoded path, in which `a%2Fb` and `a/b` are the same. Here routes match the raw path, and
each segment `{…:name}` is decoded on its own. Browsers remove `.` and `..` even when they are encoded, so these, and
names that begin with a tilde, get one more tilde in front.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import ASGIApp, Receive, Scope, Send


def path_segment(name: str) -> str:
    """A name as a segment of a path."""
    return quote(f"~{name}" if name in (".", "..") or name.startswith("~") else name, safe="")


class NameConvertor(Convertor[str]):
    """`{queue:name}` in a route."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        """The name in a segment of a path."""
        return unquote(value).removeprefix("~")

    def to_string(self, value: str) -> str:
        """The segment of a path for a name."""
        return path_segment(value)


register_url_convertor("name", NameConvertor())


class RawPath:
    """Makes routes match the raw path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its raw path."""
        if scope["type"] == "http" and scope.get("raw_path"):
            scope = {**scope, "path": scope["raw_path"].decode("ascii", "replace").partition("?")[0]}
        await self._app(scope, receive, send)
