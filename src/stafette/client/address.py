"""Connection URLs: ``stafette://host:7470``, several brokers separated by commas, ``stafettes://`` with TLS."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from stafette.errors import InvalidRequest

DEFAULT_PORT = 7470
_EXAMPLE = "write stafette://127.0.0.1:7470, or stafettes://… for TLS, several brokers with commas between them"


@dataclass(frozen=True)
class Address:
    """Where brokers are, and how to talk to them."""

    brokers: tuple[tuple[str, int], ...]
    tls: bool = False
    authority: str | None = None
    """A file with the certificates to trust, instead of the system's."""

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read a URL; refuse what we would not understand."""
        parts = urlsplit(url)
        if parts.scheme not in ("stafette", "stafettes"):
            raise InvalidRequest(f"{url!r} is not a Stafette URL; {_EXAMPLE}")
        options = parse_qs(parts.query, keep_blank_values=True)
        unknown = set(options) - {"ca"}
        if unknown or parts.path not in ("", "/") or parts.fragment or "@" in parts.netloc:
            raise InvalidRequest(f"{url!r} says more than host, port and ?ca=FILE; {_EXAMPLE}")
        brokers = tuple(_broker(item, url) for item in parts.netloc.split(","))
        return cls(brokers, tls=parts.scheme == "stafettes", authority=options["ca"][0] if "ca" in options else None)

    def tls_context(self) -> ssl.SSLContext | None:
        """What encrypts the connection, if anything does."""
        if not self.tls:
            return None
        try:
            return ssl.create_default_context(cafile=self.authority)
        except OSError as error:
            raise InvalidRequest(f"cannot read the certificates in {self.authority}: {error}") from error


def _broker(item: str, url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{item}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidRequest(f"{item!r} in {url!r} is not a host and port: {error}; {_EXAMPLE}") from error
    if not host:
        raise InvalidRequest(f"{url!r} names no host; {_EXAMPLE}")
    return unquote(host), port or DEFAULT_PORT
