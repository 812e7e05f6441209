"""Names in addresses: a queue may be called `a/b`, `?`, or `..`, and each is one part of a path all the same.

Servers usually hand an application the path already decoded, in which `a%2Fb` and `a/b` are the same. Here routes see
the path as it came, and a part `{…:name}` is decoded on its own. Browsers fold `.` and `..` away even when they are
encoded, so these, and names that begin with a tilde, get one more tilde in front.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import ASGIApp, Receive, Scope, Send


def in_address(name: str) -> str:
    """A name as a part of a path."""
    return quote(f"~{name}" if name in (".", "..") or name.startswith("~") else name, safe="")


class NameConvertor(Convertor[str]):
    """`{queue:name}` in a route."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        """The name behind a part of a path."""
        return unquote(value).removeprefix("~")

    def to_string(self, value: str) -> str:
        """The part of a path for a name."""
        return in_address(value)


register_url_convertor("name", NameConvertor())


class RawPath:
    """Routes by the path as it came."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http" and scope.get("raw_path"):
            scope = {**scope, "path": scope["raw_path"].decode("ascii", "replace").partition("?")[0]}
        await self._app(scope, receive, send)
