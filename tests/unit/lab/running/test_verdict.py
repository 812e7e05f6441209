"""Every check holds for a sound run, and fails for the one fault that it is there to find."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stafette.lab.running.summarise import summarise
from stafette.lab.running.trace_rows import Rows, read
from stafette.lab.running.verdict import RunMetadata, check, verdict
from stafette.runs.closed_loop import ClosedLoop
from stafette.runs.outcomes import UNANSWERED
from stafette.runs.records import Check, Done, Spread
from stafette.runs.window import Window
from tests.support.run_traces import MILLISECOND, SECOND, Row, at_broker, report, run_of

WINDOW = Window(0, 10 * SECOND)
NODES = ("load-1", "broker-1")


def worker(cpu_share: float = 0.3, late_ms: float = 0.1, starved_share: float = 0.0) -> Done:
    return Done(100, {}, 100, cpu_share, Spread(late_ms, late_ms, late_ms), Spread(), 100, 0, starved_share)


METADATA = RunMetadata(nodes=NODES, preloaded=5, remaining=10, workers={"load-1": worker()})


def request(number: int, operation: str = "send", outcome: str = "ok", messages: int = 1) -> Row:
    start = number * 50 * MILLISECOND
    return Row("alice-1", number, operation, outcome, start, start, start + 40 * MILLISECOND, messages)


def sound() -> list[Row]:
    """20 messages sent, 10 received one by one, 5 leased and acknowledged; with the 5 preloaded, 10 are left."""
    asked = [request(number) for number in range(1, 21)]
    asked += [request(number, "receive") for number in range(21, 31)]
    asked += [request(number, "lease") for number in range(31, 36)]
    asked += [request(number, "ack") for number in range(36, 41)]
    asked += [request(41, "receive", "empty", 0), request(42, "send", "QueueNotFound", 0)]
    return [*asked, *map(at_broker, asked)]


def checked(
    folder: Path | Rows, made_up: list[Row] | None = None, metadata: RunMetadata = METADATA
) -> dict[str, Check]:
    rows = folder if isinstance(folder, Rows) else run_of(folder, made_up or [])
    return {found.name: found for found in check(rows, summarise(rows, WINDOW), metadata)}


def failed(checks: dict[str, Check]) -> list[str]:
    return [name for name, found in checks.items() if not found.ok]


def place_of(rows: list[Row], tier: str, number: int) -> int:
    [place] = [place for place, row in enumerate(rows) if (row.tier, row.request) == (tier, number)]
    return place


def altered(tier: str, number: int, **changes: object) -> list[Row]:
    rows = sound()
    place = place_of(rows, tier, number)
    rows[place] = replace(rows[place], **changes)  # type: ignore[arg-type]
    return rows


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
    disturbed = checked(tmp_path, rows, replace(METADATA, faults=True))
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
    checks = checked(tmp_path, direct, replace(METADATA, nodes=["load-1"], brokers=False))
    assert list(checks) == ["complete", "answered", "messages", "generator"]
    assert failed(checks) == []


def test_no_broker_row_at_all(tmp_path: Path) -> None:
    checks = checked(tmp_path, [row for row in sound() if row.tier == "client"], replace(METADATA, nodes=["load-1"]))
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


# messages


def test_a_message_that_is_lost(tmp_path: Path) -> None:
    checks = checked(tmp_path, sound(), replace(METADATA, remaining=9))
    assert failed(checks) == ["messages"]
    assert checks["messages"].sentence == (
        "1 message missing, and nothing explains it: 5 preloaded + 20 sent against 15 received + 9 left"
    )
    assert (checks["messages"].expected, checks["messages"].found) == ("25 messages", "24 messages")


def test_a_message_that_is_there_twice(tmp_path: Path) -> None:
    checks = checked(tmp_path, sound(), replace(METADATA, remaining=12))
    assert failed(checks) == ["messages"]
    assert checks["messages"].sentence.startswith("2 messages too many, and nothing explains it: ")


def test_messages_that_were_not_counted_are_not_checked(tmp_path: Path) -> None:
    assert "messages" not in checked(tmp_path, sound(), replace(METADATA, remaining=None))


@pytest.mark.parametrize(("left", "explained"), [(7, False), (8, True), (9, True), (10, True), (11, True), (12, False)])
def test_requests_whose_effect_is_not_known_explain_so_much_and_no_more(
    tmp_path: Path, left: int, explained: bool
) -> None:
    doubtful = [
        request(50, "send", "Lost", 0),
        request(51, "receive", "TooLate", 0),
        request(52, "ack", "Cancelled", 0),
    ]
    checks = checked(tmp_path, [*sound(), *doubtful], replace(METADATA, remaining=left))
    assert checks["messages"].ok == explained
    if left != 10:
        assert (
            "1 sends whose effect is not known and 2 receives whose effect is not known" in checks["messages"].sentence
        )
        assert ("can explain it" if explained else "cannot explain it") in checks["messages"].sentence


def test_a_doubtful_request_may_have_moved_as_many_as_the_largest(tmp_path: Path) -> None:
    more = [request(50, "receive", "ok", 7), request(51, "receive", "Lost", 0)]
    balance = replace(METADATA, preloaded=12)
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
    assert checked(tmp_path, rows, replace(METADATA, remaining=9, brokers=brokers))["messages"].ok == explained


def test_purged_messages_are_counted_and_deleted_queues_cannot_be(tmp_path: Path) -> None:
    purged = [*sound(), request(50, "purge", "ok", 4)]
    assert checked(tmp_path, purged, replace(METADATA, remaining=6))["messages"].sentence.startswith(
        "no message was lost"
    )
    deleted = [*sound(), request(50, "delete_queue", "ok", 0)]
    assert checked(tmp_path, deleted, replace(METADATA, remaining=6))["messages"].ok
    assert not checked(tmp_path, deleted, replace(METADATA, remaining=11))["messages"].ok


# complete


def test_a_process_that_left_no_end_report(tmp_path: Path) -> None:
    run_of(tmp_path, sound())
    (tmp_path / "broker-broker-1.json").unlink()
    checks = checked(read(tmp_path))
    assert failed(checks) == ["complete"]
    assert checks["complete"].sentence == "the trace is not complete: broker-1 left no end report"


def test_a_process_that_left_nothing_at_all(tmp_path: Path) -> None:
    checks = checked(tmp_path, sound(), replace(METADATA, nodes=(*NODES, "broker-2")))
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
    both = replace(METADATA, nodes=("load-1", "broker-1", "broker-1"))
    assert failed(checked(read(tmp_path), metadata=both)) == []
    (tmp_path / "broker-broker-1-17.json").unlink()
    checks = checked(read(tmp_path), metadata=both)
    assert failed(checks) == ["complete"]
    assert checks["complete"].sentence == (
        "the trace is not complete: broker-1 left no end report; broker-1 reported 2 rows, but its files have 42"
    )


# generator


def test_a_worker_that_uses_its_whole_core(tmp_path: Path) -> None:
    workers = {"load-1": worker(0.4), "load-2": worker(0.9)}
    checks = checked(tmp_path, sound(), replace(METADATA, workers=workers))
    assert failed(checks) == ["generator"]
    assert checks["generator"].sentence == (
        "the load generator was saturated, so the figures may be its own: load-2 used 90% of a core; "
        "use more load_processes, more client hosts or fewer clients"
    )


def open_loop(steps: int, late: float = 0.001) -> list[Row]:
    """So many steps of two requests in ten seconds; the first of each bears the step's intended start."""
    rows = []
    for number in range(steps):
        intended = number * 10 * SECOND // steps
        start = intended + round(late * SECOND)
        end = start + 20 * MILLISECOND
        name = f"open-loop-{number % 3}"
        rows.append(Row(name, 2 * number + 1, "echo", "ok", intended, start, end))
        rows.append(Row(name, 2 * number + 2, "echo", "ok", end, end, end + MILLISECOND))
    return [*rows, *map(at_broker, rows)]


@pytest.mark.parametrize(("late", "mean_ms", "saturated"), [(4.9, 20.0, False), (5.1, 20.0, True), (5.1, 60.0, False)])
def test_steps_that_start_late(tmp_path: Path, late: float, mean_ms: float, saturated: bool) -> None:
    rows = run_of(tmp_path, open_loop(1000))
    summary = summarise(rows, WINDOW)
    slow = msgspec.structs.replace(summary, overall=msgspec.structs.replace(summary.overall, mean_ms=mean_ms))
    metadata = RunMetadata(nodes=NODES, workers={"load-1": worker(late_ms=late)}, rates={"open-loop": 100.0})
    [generator] = [found for found in check(rows, slow, metadata) if found.name == "generator"]
    assert generator.ok != saturated
    if saturated:
        assert "load-1 started its steps 5.1 ms late on average; use more load_processes" in generator.sentence
    assert check(rows, slow, replace(metadata, rates={}))[-1].ok  # a closed loop has no intended starts


@pytest.mark.parametrize(("rate", "saturated"), [(400.0, False), (420.0, False), (422.0, True), (800.0, True)])
def test_a_rate_that_was_not_reached(tmp_path: Path, rate: float, saturated: bool) -> None:
    metadata = RunMetadata(nodes=NODES, workers={"load-1": worker()}, rates={"open-loop": rate})
    generator = checked(tmp_path, open_loop(4000), metadata)["generator"]
    assert generator.ok != saturated
    if saturated:
        assert f"open-loop started 400.0 steps per second instead of {rate:.1f}" in generator.sentence
        assert generator.sentence.endswith("use more load_processes, more client hosts or a lower rate")


def test_chance_alone_does_not_make_a_generator_slow(tmp_path: Path) -> None:
    """Of 100 random arrivals 80 come once in fifty runs; 60 hardly ever do."""
    metadata = RunMetadata(nodes=NODES, rates={"open-loop": 10.0})
    assert checked(tmp_path, open_loop(80), metadata)["generator"].ok
    assert not checked(tmp_path, open_loop(60), metadata)["generator"].ok


def test_a_group_that_did_not_start_at_all(tmp_path: Path) -> None:
    metadata = RunMetadata(nodes=NODES, rates={"carl": 10.0})
    assert "carl started 0.0 steps per second" in checked(tmp_path, sound(), metadata)["generator"].sentence


# Little's law


def closed_loop(clients: int, response: float, think_time: float) -> list[Row]:
    """Clients that ask, think and ask again from five seconds before the window until after it."""
    rows = []
    cycle = response + think_time
    for number in range(clients):
        begin = -5.0 + number / clients * cycle
        for turn in range(int(17 / cycle)):
            start = round((begin + turn * cycle) * SECOND)
            rows.append(Row(f"bob-{number}", turn + 1, "echo", "ok", start, start, start + round(response * SECOND)))
    return [*rows, *map(at_broker, rows)]


def test_littles_law(tmp_path: Path) -> None:
    rows = run_of(tmp_path, closed_loop(20, 0.1, 0.3))
    metadata = RunMetadata(nodes=NODES, closed_loop=ClosedLoop(20, 0.3))
    law = checked(rows, metadata=metadata)["littles law"]
    assert (law.ok, law.advisory) == (True, True)
    assert law.sentence == "Little's law holds: X·R + S·Z = 20.0 for 20 clients"
    assert checked(rows, metadata=replace(metadata, closed_loop=ClosedLoop(20, 0.3, steps_per_s=50.0)))[
        "littles law"
    ].ok
    assert not checked(rows, metadata=replace(metadata, closed_loop=ClosedLoop(20, 0.3, steps_per_s=25.0)))[
        "littles law"
    ].ok


def test_littles_law_that_does_not_hold_is_advice(tmp_path: Path) -> None:
    rows = run_of(tmp_path, closed_loop(20, 0.1, 0.3))
    checks = checked(rows, metadata=RunMetadata(nodes=NODES, closed_loop=ClosedLoop(25, 0.3)))
    assert failed(checks) == ["littles law"]
    judged = verdict(list(checks.values()))
    assert judged.valid
    assert judged.sentences[0].startswith("Little's law does not hold: X·R + S·Z = 20.0 for 25 clients; ")


# Verdict


def test_a_verdict_tells_the_serious_first() -> None:
    checks = [
        Check("littles law", False, "", "", "advice", advisory=True),
        Check("seen", True, "", "", "fine"),
        Check("messages", False, "", "", "serious"),
    ]
    judged = verdict(checks)
    assert (judged.valid, judged.sentences) == (False, ["serious", "advice"])


def test_a_generator_that_waited_for_a_core_is_as_bad_as_one_that_used_it(tmp_path: Path) -> None:
    metadata = replace(METADATA, workers={"load-1": worker(0.5, starved_share=0.45)})
    told = checked(tmp_path, sound(), metadata)["generator"]
    assert not told.ok
    assert "load-1 used 50% of a core and waited for one 45% of the time" in told.sentence
