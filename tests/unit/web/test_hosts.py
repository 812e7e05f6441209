"""Which hosts are ours, which pages are ours, and what a proxy may say."""

from __future__ import annotations

import socket

import pytest

from stafette.errors import InvalidRequest
from stafette.web.hosts import Hosts, forwarded_client, forwarded_scheme, is_same_origin, parse_networks

PROXIES = parse_networks(["10.0.0.7", "10.1.0.0/16", "::1"])


@pytest.mark.parametrize(
    ("listening", "further", "header"),
    [
        ("127.0.0.1", (), "127.0.0.1:7471"),
        ("127.0.0.1", (), "LocalHost:7471"),
        ("127.0.0.1", (), "localhost."),
        ("127.0.0.1", (), "[::1]:7471"),
        ("127.0.0.1", ("console.example", "Other.Example"), "other.example"),
        ("::1", (), "[::1]"),
        ("10.2.3.4", (), "10.2.3.4"),
        ("db.example", (), "db.example:80"),
        ("0.0.0.0", (), "10.2.3.4:7471"),
        ("::", (), "[fe80::1]:7471"),
        ("0.0.0.0", (), socket.gethostname()),
    ],
)
def test_our_names_and_addresses(listening: str, further: tuple[str, ...], header: str) -> None:
    Hosts.of(listening, further).check(header)


@pytest.mark.parametrize(
    ("listening", "header"),
    [
        ("127.0.0.1", "evil.example"),
        ("127.0.0.1", "127.0.0.1.evil.example"),
        ("127.0.0.1", "localhost.evil.example:7471"),
        ("127.0.0.1", "evil.example:127.0.0.1"),
        ("127.0.0.1", "10.2.3.4"),
        ("127.0.0.1", ""),
        ("127.0.0.1", None),
        ("127.0.0.1", "[::1"),
        ("0.0.0.0", "evil.example"),
        ("10.2.3.4", "10.2.3.5"),
    ],
)
def test_others(listening: str, header: str | None) -> None:
    with pytest.raises(InvalidRequest, match="has no name"):
        Hosts.of(listening).check(header)


@pytest.mark.parametrize(
    ("origin", "scheme", "host", "same"),
    [
        ("http://127.0.0.1:7471", "http", "127.0.0.1:7471", True),
        ("https://console.example", "https", "console.example", True),
        ("https://console.example", "https", "console.example:443", True),
        ("https://Console.example:443", "https", "console.example", True),
        ("http://console.example", "http", "console.example:80", True),
        ("https://console.example", "http", "console.example", True),
        ("http://console.example", "https", "console.example", False),
        ("http://console.example:443", "https", "console.example:443", False),
        ("https://console.example:8443", "https", "console.example", False),
        ("https://evil.example", "https", "console.example", False),
        ("https://console.example.evil.example", "https", "console.example", False),
        ("null", "http", "127.0.0.1", False),
        ("file://127.0.0.1", "http", "127.0.0.1", False),
        ("http://[", "http", "127.0.0.1", False),
        ("", "http", "", False),
    ],
)
def test_pages_of_ours(origin: str, scheme: str, host: str, same: bool) -> None:
    assert is_same_origin(origin, scheme, host) is same


@pytest.mark.parametrize(
    ("peer", "header", "client"),
    [
        ("127.0.0.1", "1.2.3.4", "127.0.0.1"),
        ("9.9.9.9", "1.2.3.4", "9.9.9.9"),
        ("10.0.0.7", "1.2.3.4", "1.2.3.4"),
        ("::1", "2001:db8::1", "2001:db8::1"),
        ("10.0.0.7", "1.2.3.4, 5.6.7.8", "5.6.7.8"),
        ("10.0.0.7", "1.2.3.4, 5.6.7.8, 10.1.2.3", "5.6.7.8"),
        ("10.0.0.7", "10.1.2.3", "10.1.2.3"),
        ("10.0.0.7", "", "10.0.0.7"),
        ("10.0.0.7", "unknown", "10.0.0.7"),
        ("10.0.0.7", "1.2.3.4, <script>", "10.0.0.7"),
        ("10.0.0.7", "1.2.3.4, unknown, 10.1.2.3", "10.1.2.3"),
    ],
)
def test_where_a_request_comes_from(peer: str, header: str, client: str) -> None:
    assert forwarded_client(peer, header, PROXIES) == client


@pytest.mark.parametrize(
    ("peer", "header", "scheme"),
    [("127.0.0.1", "https", "http"), ("10.0.0.7", "https", "https"), ("10.0.0.7", "ftp", "http")],
)
def test_how_a_request_comes(peer: str, header: str, scheme: str) -> None:
    assert forwarded_scheme(peer, "http", header, PROXIES) == scheme


@pytest.mark.parametrize("text", ["proxy.example", "10.0.0.1/8", "*"])
def test_what_is_no_network(text: str) -> None:
    with pytest.raises(InvalidRequest, match="give IP addresses or networks"):
        parse_networks([text])
