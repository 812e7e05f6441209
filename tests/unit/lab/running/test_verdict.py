"""Every check holds for a sound run, and fails for the one fault that it is there to find."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stafette.lab.running.verdict import verdict
from stafette.runs.outcomes import UNANSWERED
from stafette.runs.records import Check
from tests.support.run_traces import MILLISECOND, SECOND, Row, at_broker
from tests.support.verdict_rows import CONTEXT, altered, checked, failed, place_of, request, sound


def test_a_sound_run_passes_and_says_so(tmp_path: Path) -> None:
    checks = checked(tmp_path, sound())
    assert {name: found.sentence for name, found in checks.items()} == {
        "complete": "the trace is complete: 84 rows of 2 processes",
        "answered": "every request that was sent was answered, 42 in all",
        "seen": "every answered request was seen by exactly one broker, 42 in all",
        "agreement": "client and broker agree on all 42 requests",
        "messages": "no message was lost or doubled: 5 preloaded + 20 sent = 15 received + 10 left",
        "generator": "the load generator kept up: its busiest process used, or waited for, 30% of a core",
    }
    assert failed(checks) == []
    judged = verdict(list(checks.values()))
    assert (judged.valid, judged.sentences) == (True, ["all 6 checks hold"])
    assert msgspec.json.decode(msgspec.json.encode(checks["seen"]), type=Check) == checks["seen"]


# answered


@pytest.mark.parametrize("outcome", sorted(UNANSWERED))
def test_a_request_without_an_answer(tmp_path: Path, outcome: str) -> None:
    rows = altered("client", 41, outcome=outcome)
    checks = checked(tmp_path, rows)
    assert failed(checks) == ["answered"]  # that the broker did answer is no contradiction
    assert checks["answered"].found == "41 answers"
    assert f"of 42 requests 1 had no answer (1 {outcome})" in checks["answered"].sentence
    del rows[place_of(rows, "broker", 41)]
    assert failed(checked(tmp_path, rows)) == ["answered"]
    disturbed = checked(tmp_path, rows, replace(CONTEXT, faults=True))
    assert failed(disturbed) == ["answered"]
    assert verdict(list(disturbed.values())).valid


def test_what_was_never_sent_needs_no_answer(tmp_path: Path) -> None:
    unsent = Row("alice-2", 0, "send", "Unavailable"), Row("alice-3", 0, "send", "Lost")
    assert failed(checked(tmp_path, [*sound(), *unsent])) == []


# seen


def test_a_request_that_no_broker_saw(tmp_path: Path) -> None:
    rows = sound()
    del rows[place_of(rows, "broker", 7)]
    checks = checked(tmp_path, rows)
    assert failed(checks) == ["seen"]
    assert "1 answered requests are in no broker's trace (such as request 7 of alice-1)" in checks["seen"].sentence


def test_a_request_that_two_brokers_saw(tmp_path: Path) -> None:
    rows = sound()
    rows.append(replace(rows[place_of(rows, "broker", 7)], node="broker-2"))
    checks = checked(tmp_path, rows)
    assert failed(checks) == ["seen"]
    assert checks["seen"].found == "1 rows of the broker tier repeat a request"


def test_a_request_that_no_client_made(tmp_path: Path) -> None:
    rows = [*sound(), at_broker(Row("mallory-1", 7, "echo"))]
    checks = checked(tmp_path, rows)
    assert failed(checks) == ["seen"]
    assert checks["seen"].found == "1 rows of brokers belong to no client's request (such as request 7 of mallory-1)"


def test_a_request_that_a_client_made_twice(tmp_path: Path) -> None:
    checks = checked(tmp_path, [*sound(), request(41, "receive", "empty", 0)])
    assert failed(checks) == ["seen"]
    assert checks["seen"].found == "1 rows of the client tier repeat a request"


def test_without_brokers_nobody_else_can_have_seen_it(tmp_path: Path) -> None:
    direct = [replace(row, request=0) for row in sound() if row.tier == "client"]
    checks = checked(tmp_path, direct, replace(CONTEXT, nodes=["load-1"], brokers=False))
    assert list(checks) == ["complete", "answered", "messages", "generator"]
    assert failed(checks) == []


def test_no_broker_row_at_all(tmp_path: Path) -> None:
    checks = checked(tmp_path, [row for row in sound() if row.tier == "client"], replace(CONTEXT, nodes=["load-1"]))
    assert failed(checks) == ["seen"]
    assert checks["seen"].expected == "42 requests, one row in each tier"


keys = st.tuples(st.sampled_from(["a-1", "a-2", "b-1"]), st.sampled_from([0, 1, 2, 3, 2**62, 2**63 - 1]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(
    clients=st.lists(st.tuples(keys, st.sampled_from(["ok", "Overloaded", "Lost"])), min_size=1, max_size=20),
    brokers=st.lists(st.tuples(keys, st.sampled_from(["ok", "Overloaded"])), max_size=20),
)
def test_the_tiers_are_joined_as_a_simple_count_does(
    clients: list[tuple[tuple[str, int], str]], brokers: list[tuple[tuple[str, int], str]], tmp_path: Path
) -> None:
    rows = [Row(*key, outcome=outcome) for key, outcome in clients]
    rows += [at_broker(Row(*key, outcome=outcome)) for key, outcome in brokers]
    checks = checked(tmp_path / "traces", rows)

    sent = [(key, outcome) for key, outcome in clients if key[1]]
    asked, seen = Counter(key for key, _ in sent), Counter(key for key, _ in brokers)
    unseen = [key for key, outcome in sent if outcome != "Lost" and key not in seen]
    strangers = [key for key in seen.elements() if key not in asked]
    repeated = [sum(counts.values()) - len(counts) for counts in (asked, seen)]
    found = checks["seen"].found
    assert checks["seen"].ok == (not unseen and not strangers and repeated == [0, 0])
    for count, words in (
        (len(unseen), "answered requests are in no broker's trace"),
        (len(strangers), "rows of brokers belong to no client's request"),
        (repeated[0], "rows of the client tier repeat"),
        (repeated[1], "rows of the broker tier repeat"),
    ):
        assert (f"{count} {words}" in found) if count else (words not in found)
    if repeated == [0, 0]:
        differ = [key for key, outcome in sent if outcome != "Lost" and key in seen and outcome != dict(brokers)[key]]
        assert checks["agreement"].found == f"{len(differ)} outcomes differ, 0 spans are too long"


# agreement


def test_an_outcome_that_the_broker_tells_otherwise(tmp_path: Path) -> None:
    checks = checked(tmp_path, altered("broker", 7, outcome="Overloaded"))
    assert failed(checks) == ["agreement"]
    assert checks["agreement"].found == "1 outcomes differ, 0 spans are too long"


def test_a_broker_that_took_longer_than_the_client_waited(tmp_path: Path) -> None:
    start = request(7).start_ns
    longest = start + 40 * MILLISECOND + MILLISECOND  # clocks may differ by one
    assert failed(checked(tmp_path, altered("broker", 7, end_ns=longest, write_ns=0))) == []
    checks = checked(tmp_path, altered("broker", 7, end_ns=longest + 1, write_ns=0))
    assert failed(checks) == ["agreement"]
    assert checks["agreement"].found == "0 outcomes differ, 1 spans are too long"


def test_the_client_may_go_on_while_the_broker_still_writes(tmp_path: Path) -> None:
    late = request(7).end_ns + 5 * MILLISECOND
    assert failed(checked(tmp_path, altered("broker", 7, end_ns=late, write_ns=4 * MILLISECOND))) == []
    assert failed(checked(tmp_path, altered("broker", 7, end_ns=late, write_ns=4 * MILLISECOND - 1))) == ["agreement"]


def test_clocks_of_two_machines_need_not_agree(tmp_path: Path) -> None:
    hour = 3600 * SECOND
    rows = [
        replace(row, start_ns=row.start_ns + hour, end_ns=row.end_ns + hour) if row.tier == "broker" else row
        for row in sound()
    ]
    assert failed(checked(tmp_path, rows)) == []


def test_the_wait_for_a_late_generator_is_not_the_broker_s(tmp_path: Path) -> None:
    """The span that the client waited begins when it sent, not when it should have."""
    rows = altered("client", 7, intended_ns=0)
    rows[place_of(rows, "broker", 7)] = replace(rows[place_of(rows, "broker", 7)], start_ns=0)
    assert failed(checked(tmp_path, rows)) == ["agreement"]


# Verdict


def test_a_verdict_tells_the_serious_first() -> None:
    checks = [
        Check("littles law", False, "", "", "advice", advisory=True),
        Check("seen", True, "", "", "fine"),
        Check("messages", False, "", "", "serious"),
    ]
    judged = verdict(checks)
    assert (judged.valid, judged.sentences) == (False, ["serious", "advice"])
