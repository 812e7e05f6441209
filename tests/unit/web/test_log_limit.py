"""Lines of one kind are limited per second; others and the audit are not."""

from __future__ import annotations

import logging

import pytest

from stafette.web.log_limit import LineLimit

NOW = "stafette.web.log_limit.time.monotonic"


def record(line: int = 1, text: str = "from %s", name: str = "any") -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, "module.py", line, text, ("somebody",), None)


def test_the_next_line_says_how_many_were_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = LineLimit(2)
    monkeypatch.setattr(NOW, lambda: 10.0)
    assert [limit.filter(record()) for _ in range(5)] == [True, True, False, False, False]
    assert limit.filter(record(line=2)), "another kind has its own limit"
    monkeypatch.setattr(NOW, lambda: 11.0)
    first, second = record(), record()
    assert limit.filter(first)
    assert limit.filter(second)
    assert [first.getMessage(), second.getMessage()] == ["from somebody (and 3 lines like this)", "from somebody"]


def test_the_audit_is_complete() -> None:
    limit = LineLimit(1)
    assert all(limit.filter(record(name="stafette.audit")) for _ in range(5))
