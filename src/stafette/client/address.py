"""Connection URLs: ``stafette://host:7470``, several brokers separated by commas, ``stafettes://`` with TLS."""

from __future__ import annotations

import ipaddress
import re
import ssl
from dataclasses import dataclass
from urllib.parse import parse_qsl

from stafette.errors import InvalidRequest

DEFAULT_PORT = 7470
MAX_PORT = 65535
_EXAMPLE = "write stafette://127.0.0.1:7470, or stafettes://… for TLS, several brokers with commas between them"

_URL = re.compile(r"(?P<scheme>stafettes?)://(?P<brokers>[^/?#]*)/?(\?(?P<options>[^#]*))?", re.IGNORECASE)
_BROKER = re.compile(r"(\[(?P<ipv6>[^\[\]]+)\]|(?P<host>[^\[\]:@%\s]+))(:(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True)
class Address:
    """The brokers of a connection URL, and whether to use TLS."""

    brokers: tuple[tuple[str, int], ...]
    """Host and port of each; the first is tried first."""
    tls: bool = False
    authority: str | None = None
    """A file with the certificates to trust, instead of the system's."""

    @classmethod
    def parse(cls, url: str) -> Address:
        """Parse a URL; raises InvalidRequest for anything unknown in it."""
        parts = _URL.fullmatch(url)
        if parts is None:
            raise InvalidRequest(f"{url!r} is not a Stafette URL; {_EXAMPLE}")
        tls = parts["scheme"].lower() == "stafettes"
        options = parse_qsl(parts["options"] or "", keep_blank_values=True)
        authority = options[0][1] if [name for name, _ in options] == ["ca"] else None
        if options and not (authority and tls):
            raise InvalidRequest(f"the only option in {url!r} may be ?ca=FILE, once and with stafettes://; {_EXAMPLE}")
        return cls(tuple(_broker(item, url) for item in parts["brokers"].split(",")), tls, authority)

    def tls_context(self) -> ssl.SSLContext | None:
        """The TLS context; None without TLS."""
        if not self.tls:
            return None
        try:
            return ssl.create_default_context(cafile=self.authority)
        except OSError as error:
            raise InvalidRequest(f"cannot read the certificates in {self.authority}: {error}") from error


def _broker(item: str, url: str) -> tuple[str, int]:
    parts = _BROKER.fullmatch(item)
    if parts is None:
        raise InvalidRequest(f"{item!r} in {url!r} is not a host and port; {_EXAMPLE}")
    port = int(parts["port"] or DEFAULT_PORT)
    if not 1 <= port <= MAX_PORT:
        raise InvalidRequest(f"port {port} in {url!r} is not between 1 and {MAX_PORT}")
    if parts["ipv6"]:
        try:
            return str(ipaddress.IPv6Address(parts["ipv6"])), port
        except ValueError as error:
            raise InvalidRequest(f"{item!r} in {url!r} is not an IPv6 address: {error}") from error
    return parts["host"], port
