"""Checks of messages and of the reports of processes: each fails for the one fault that it is there to find."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stafette.lab.running.trace_rows import read
from tests.support.run_traces import report, run_of
from tests.support.verdict_rows import CONTEXT, NODES, checked, failed, request, sound

# messages


def test_a_message_that_is_lost(tmp_path: Path) -> None:
    checks = checked(tmp_path, sound(), replace(CONTEXT, remaining=9))
    assert failed(checks) == ["messages"]
    assert checks["messages"].sentence == (
        "1 message missing, and nothing explains it: 5 preloaded + 20 sent against 15 received + 9 left"
    )
    assert (checks["messages"].expected, checks["messages"].found) == ("25 messages", "24 messages")


def test_a_message_that_is_there_twice(tmp_path: Path) -> None:
    checks = checked(tmp_path, sound(), replace(CONTEXT, remaining=12))
    assert failed(checks) == ["messages"]
    assert checks["messages"].sentence.startswith("2 messages too many, and nothing explains it: ")


def test_messages_that_were_not_counted_are_not_checked(tmp_path: Path) -> None:
    assert "messages" not in checked(tmp_path, sound(), replace(CONTEXT, remaining=None))


@pytest.mark.parametrize(("left", "explained"), [(7, False), (8, True), (9, True), (10, True), (11, True), (12, False)])
def test_requests_whose_effect_is_not_known_explain_so_much_and_no_more(
    tmp_path: Path, left: int, explained: bool
) -> None:
    doubtful = [
        request(50, "send", "Lost", 0),
        request(51, "receive", "TooLate", 0),
        request(52, "ack", "Cancelled", 0),
    ]
    checks = checked(tmp_path, [*sound(), *doubtful], replace(CONTEXT, remaining=left))
    assert checks["messages"].ok == explained
    if left != 10:
        assert (
            "1 sends whose effect is not known and 2 receives whose effect is not known" in checks["messages"].sentence
        )
        assert ("can explain it" if explained else "cannot explain it") in checks["messages"].sentence


def test_a_doubtful_request_may_have_moved_as_many_as_the_largest(tmp_path: Path) -> None:
    more = [request(50, "receive", "ok", 7), request(51, "receive", "Lost", 0)]
    balance = replace(CONTEXT, preloaded=12)
    assert checked(tmp_path, [*sound(), *more], replace(balance, remaining=3))["messages"].ok
    assert not checked(tmp_path, [*sound(), *more], replace(balance, remaining=2))["messages"].ok


@pytest.mark.parametrize(
    ("number", "outcome", "brokers", "explained"),
    [(50, "Unavailable", True, True), (0, "Unavailable", True, False), (0, "Unavailable", False, True),
     (50, "Overloaded", True, False)],
)  # fmt: skip
def test_what_cannot_have_had_an_effect_explains_nothing(
    tmp_path: Path, number: int, outcome: str, brokers: bool, explained: bool
) -> None:
    rows = [*sound(), replace(request(50, "receive", outcome, 0), request=number)]
    assert checked(tmp_path, rows, replace(CONTEXT, remaining=9, brokers=brokers))["messages"].ok == explained


def test_purged_messages_are_counted_and_deleted_queues_cannot_be(tmp_path: Path) -> None:
    purged = [*sound(), request(50, "purge", "ok", 4)]
    assert checked(tmp_path, purged, replace(CONTEXT, remaining=6))["messages"].sentence.startswith(
        "no message was lost"
    )
    deleted = [*sound(), request(50, "delete_queue", "ok", 0)]
    assert checked(tmp_path, deleted, replace(CONTEXT, remaining=6))["messages"].ok
    assert not checked(tmp_path, deleted, replace(CONTEXT, remaining=11))["messages"].ok


# complete


def test_a_process_that_left_no_end_report(tmp_path: Path) -> None:
    run_of(tmp_path, sound())
    (tmp_path / "broker-broker-1.json").unlink()
    checks = checked(read(tmp_path))
    assert failed(checks) == ["complete"]
    assert checks["complete"].sentence == "the trace is not complete: broker-1 left no end report"


def test_a_process_that_left_nothing_at_all(tmp_path: Path) -> None:
    checks = checked(tmp_path, sound(), replace(CONTEXT, nodes=(*NODES, "broker-2")))
    assert failed(checks) == ["complete"]
    assert (checks["complete"].expected, checks["complete"].found) == (
        "84 rows of 3 processes",
        "84 rows of 2 processes",
    )


def test_rows_that_were_dropped(tmp_path: Path) -> None:
    run_of(tmp_path, sound())
    report(tmp_path, "broker", "broker-1", 42, 3, "the disk did not keep up")
    checks = checked(read(tmp_path))
    assert failed(checks) == ["complete"]
    assert "broker-1 dropped 3 rows (the disk did not keep up)" in checks["complete"].sentence


def test_rows_that_were_reported_and_are_not_there(tmp_path: Path) -> None:
    run_of(tmp_path, sound())
    report(tmp_path, "client", "load-1", 43)
    checks = checked(read(tmp_path))
    assert failed(checks) == ["complete"]
    assert "load-1 reported 43 rows, but its files have 42" in checks["complete"].sentence


def test_processes_may_share_a_name(tmp_path: Path) -> None:
    """As those of one broker, or one that was started again; each writes its own report."""
    run_of(tmp_path, sound())
    report(tmp_path, "broker", "broker-1", 40)
    (tmp_path / "broker-broker-1.json").rename(tmp_path / "broker-broker-1-17.json")
    report(tmp_path, "broker", "broker-1", 2)
    both = replace(CONTEXT, nodes=("load-1", "broker-1", "broker-1"))
    assert failed(checked(read(tmp_path), context=both)) == []
    (tmp_path / "broker-broker-1-17.json").unlink()
    checks = checked(read(tmp_path), context=both)
    assert failed(checks) == ["complete"]
    assert checks["complete"].sentence == (
        "the trace is not complete: broker-1 left no end report; broker-1 reported 2 rows, but its files have 42"
    )
