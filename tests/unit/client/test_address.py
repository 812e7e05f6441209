"""Connection URLs: what they mean, and that everything else is refused with a sentence."""

from __future__ import annotations

import pytest

from stafette.client.address import Address
from stafette.errors import InvalidRequest


@pytest.mark.parametrize(
    ("url", "brokers"),
    [
        ("stafette://127.0.0.1:7470", [("127.0.0.1", 7470)]),
        ("stafette://broker", [("broker", 7470)]),
        ("stafette://broker/", [("broker", 7470)]),
        ("STAFETTE://broker:1", [("broker", 1)]),
        ("stafette://a:7470,b.example:65535,c", [("a", 7470), ("b.example", 65535), ("c", 7470)]),
        ("stafette://[::1]:7471", [("::1", 7471)]),
        ("stafette://[::1]", [("::1", 7470)]),
        ("stafette://[fe80::1%eth0]:1,[2001:db8::7],a:2", [("fe80::1%eth0", 1), ("2001:db8::7", 7470), ("a", 2)]),
    ],
)
def test_brokers_are_read_in_order(url: str, brokers: list[tuple[str, int]]) -> None:
    assert Address.parse(url) == Address(tuple(brokers))


def test_tls_may_name_whom_to_trust() -> None:
    assert Address.parse("stafettes://a,b:1") == Address((("a", 7470), ("b", 1)), tls=True)
    assert Address.parse("stafettes://a?ca=/etc/our%20ca.pem").authority == "/etc/our ca.pem"
    assert Address.parse("stafettes://a/?ca=ca.pem") == Address((("a", 7470),), tls=True, authority="ca.pem")


@pytest.mark.parametrize(
    "url",
    [
        "", "127.0.0.1:7470", "http://a", "stafette:a", "stafette://", "stafette://a,", "stafette://,a",
        "stafette://a b", "stafette://a:", "stafette://a:0", "stafette://a:65536", "stafette://a:x", "stafette://a:-1",
        "stafette://:7470", "stafette://me@a", "stafette://a/queue", "stafette://a#b", "stafette://::1",
        "stafette://[::1", "stafette://[::1]7470", "stafette://[nonsense]:1", "stafette://[1.2.3.4]",
        "stafette://a?ca=x", "stafettes://a?ca=", "stafettes://a?ca=x&ca=y", "stafettes://a?key=x",
    ],
)  # fmt: skip
def test_anything_else_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest):
        Address.parse(url)


def test_without_tls_there_is_nothing_to_trust() -> None:
    assert Address.parse("stafette://a").tls_context() is None


def test_certificates_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"missing\.pem"):
        Address.parse("stafettes://a?ca=/missing.pem").tls_context()
