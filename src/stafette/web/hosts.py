"""Names under which the console may be addressed, and the origins of its own pages.

A page of another site can have its name resolve to our address, and then be of the same origin for a browser (DNS
rebinding). So a request that addresses a name that is not ours is refused. Proxies are believed only where the operator
names them: anybody can write `X-Forwarded-For` into a request, also on this machine.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from stafette.errors import InvalidRequest

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LOOPBACK = ("localhost", "127.0.0.1", "::1")
DEFAULT_PORTS = {"http": 80, "https": 443}
LONGEST_SHOWN = 100
"""Characters of a stranger's text in an error."""


@dataclass(frozen=True)
class Hosts:
    """Which names and addresses are ours."""

    names: frozenset[str] = frozenset(LOOPBACK)
    any_address: bool = False
    """Whether every address is ours. A name is needed to lead a browser astray."""

    @classmethod
    def of(cls, listening: str, further: Sequence[str] = ()) -> Self:
        """Those of the host that we listen on, of this machine if that is every host, and `further` ones."""
        is_wildcard = listening in ("", "0.0.0.0", "::")  # noqa: S104
        names = [*LOOPBACK, *further, *([socket.gethostname()] if is_wildcard else [listening])]
        return cls(frozenset(_plain(name) for name in names), is_wildcard)

    def check(self, header: str | None) -> None:
        """Raise InvalidRequest if a request is for another host."""
        name = _plain(_split_port(header or "")[0])
        if name not in self.names and not (self.any_address and _is_address(name)):
            raise InvalidRequest(
                f"this console has no name {name[:LONGEST_SHOWN]!r}; use one of its addresses,"
                " or start it with --allowed-hosts and that name"
            )


def is_same_origin(origin: str, scheme: str, host: str) -> bool:
    """Whether a page of `origin` is ours, if requests come to `host` by `scheme`. Pages by http are not those by https.

    A page by https may send to us by http: that is how it looks behind a proxy that ends TLS and is not named to us.
    """
    origin_scheme, _, netloc = origin.partition("://")
    if origin_scheme not in (("https",) if scheme == "https" else ("http", "https")):
        return False
    default = DEFAULT_PORTS[origin_scheme]
    return _with_port(netloc, default) == _with_port(host, default)


def _with_port(netloc: str, default: int) -> tuple[str, str]:
    name, port = _split_port(netloc)
    return _plain(name), port or str(default)


def _split_port(netloc: str) -> tuple[str, str]:
    """A host, which may be an IPv6 address in brackets, and the port after it."""
    host, colon, port = netloc.rpartition(":")
    if not colon or "]" in port:
        host, port = netloc, ""
    return host.strip("[]"), port


def _plain(name: str) -> str:
    return name.strip().lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Addresses and networks."""
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError as error:
        raise InvalidRequest(
            f"trusted_proxies: {error}; give IP addresses or networks, such as 10.0.0.7 and 10.1.0.0/16"
        ) from error


def forwarded_client(peer: str, forwarded_for: str, trusted: Sequence[Network]) -> str:
    """The address that a request comes from: the last one on its way that is not a trusted proxy.

    Each proxy appends the address that it was asked from, so what is left of an address that nobody trusts may be made
    up. If the proxies say nothing that is an address, it is the proxy itself.
    """
    client = peer
    for address in reversed([item.strip() for item in forwarded_for.split(",") if item.strip()]):
        if not _is_trusted(client, trusted) or not _is_address(address):
            break
        client = address
    return client


def forwarded_scheme(peer: str, scheme: str, forwarded_proto: str, trusted: Sequence[Network]) -> str:
    """The scheme that the browser uses."""
    proto = forwarded_proto.strip().lower()
    return proto if _is_trusted(peer, trusted) and proto in DEFAULT_PORTS else scheme


def _is_trusted(address: str, trusted: Sequence[Network]) -> bool:
    return _is_address(address) and any(ipaddress.ip_address(address) in network for network in trusted)


class Forwarded:
    """Gives a request the address and the scheme of the browser, if a trusted proxy passes it on."""

    def __init__(self, app: ASGIApp, trusted: Sequence[Network]) -> None:
        self._app = app
        self._trusted = trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http" and self._trusted and scope.get("client"):
            scope = {**scope, **self._seen_by_proxy(scope)}
        await self._app(scope, receive, send)

    def _seen_by_proxy(self, scope: Scope) -> Mapping[str, object]:
        peer, headers = scope["client"][0], Headers(scope=scope)
        return {
            "client": (forwarded_client(peer, ",".join(headers.getlist("x-forwarded-for")), self._trusted), 0),
            "scheme": forwarded_scheme(peer, scope["scheme"], headers.get("x-forwarded-proto", ""), self._trusted),
        }
