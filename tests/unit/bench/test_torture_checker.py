"""The checker of `make torture` sees every kind of broken promise, and nothing where none is broken."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from bench.torture.checker import Findings, Flaw, check
from bench.torture.history import (
    Began,
    Call,
    Ended,
    Handed,
    History,
    Kind,
    longest_silence,
    settle_reads,
    settle_sends,
)
from stafette.errors import RequestOutcome

SEND_ID = 7


class Script:
    """Calls one after the other, each a second after the one before and a second long, unless it says when."""

    def __init__(self) -> None:
        self.history = History()
        self._numbers = count(1)
        self._now = 0.0

    def call(
        self, kind: Kind, *queues: str, outcome: RequestOutcome | None = "done", at: tuple[float, float] | None = None,
        error: str = "", ids: tuple[int, ...] = (), messages: tuple[Handed, ...] = (), **fields: Any,
    ) -> int:  # fmt: skip
        """A call from beginning to end; one without an outcome has no end. Returns its number."""
        number = next(self._numbers)
        begins, ends = at or (self._now + 1.0, self._now + 2.0)
        self._now = max(self._now, ends)
        self.history.add(Began(number, begins, "use", kind, "client", queues, **fields))
        if outcome is not None:
            self.history.add(Ended(number, ends, outcome, error, ids, messages))
        return number

    def send(self, body: str, *queues: str, outcome: RequestOutcome | None = "done", **fields: Any) -> None:
        """A send, whose message gets an id if it is answered."""
        queues = queues or ("q",)
        ids = tuple(range(SEND_ID, SEND_ID + len(queues))) if outcome == "done" else ()
        self.call("send", *queues, body=body, outcome=outcome, **{"ids": ids, **fields})

    def receive(self, body: str, **fields: Any) -> None:
        """A read that gets this message, at once."""
        at = self._now + 1.0, self._now + 1.001
        self.call("receive", "q", messages=(message(body),), **{"at": at, **fields})

    def lease(self, body: str, *, deliveries: int = 1, seconds: float = 10.0, **fields: Any) -> int:
        """A lease of this message."""
        return self.call("lease", "q", seconds=seconds, messages=(message(body, deliveries=deliveries),), **fields)

    def ack(self, body: str, lease: int, **fields: Any) -> None:
        """An ack of this lease."""
        self.call("ack", "q", body=body, lease=lease, **fields)

    def check(self, *left: Handed, ordered: bool = False) -> Findings:
        return check(self.history.of_use("use"), left, ordered=ordered)

    def flaws(self, *left: Handed, ordered: bool = False) -> list[Flaw]:
        return [violation.flaw for violation in self.check(*left, ordered=ordered).violations]


def message(body: str, queue: str = "q", **fields: Any) -> Handed:
    return Handed(**{"id": SEND_ID, "queue": queue, "body": body, **fields})


@pytest.fixture
def script() -> Script:
    return Script()


# Sends


def test_what_was_answered_comes_out_or_is_left(script: Script) -> None:
    script.send("read")
    script.receive("read")
    script.send("left")
    findings = script.check(message("left"))
    assert (findings.answered, findings.came_out, findings.violations) == (2, 2, [])


def test_what_was_answered_and_is_gone_is_lost(script: Script) -> None:
    script.send("a")
    assert script.flaws() == ["lost"]


@pytest.mark.parametrize("left", [(), (message("a"),)])
def test_what_is_in_doubt_may_be_there_or_not(script: Script, left: tuple[Handed, ...]) -> None:
    script.send("a", outcome="unknown")
    findings = script.check(*left)
    assert (findings.in_doubt, findings.violations) == (1, [])


def test_what_was_not_done_must_not_come_out(script: Script) -> None:
    script.send("a", outcome="not done")
    assert script.flaws() == []
    assert script.flaws(message("a")) == ["invented"]


def test_what_nobody_sent_is_invented(script: Script) -> None:
    script.receive("a")
    assert script.flaws() == ["invented"]


def test_what_was_sent_elsewhere_is_invented_here(script: Script) -> None:
    script.send("a", "other", outcome="unknown")
    script.receive("a")
    assert script.flaws() == ["invented"]


def test_a_key_whose_repetition_was_stored_twice(script: Script) -> None:
    script.send("a", outcome="unknown")
    script.send("a")
    assert script.flaws(message("a")) == []
    assert script.flaws(message("a"), message("a")) == ["duplicated"]


def test_a_key_that_is_answered_with_other_ids(script: Script) -> None:
    script.send("a")
    script.send("a", ids=(99,))
    assert set(script.flaws(message("a"))) == {"mixed up"}


def test_a_message_under_another_id_than_its_sender_was_answered(script: Script) -> None:
    script.send("a")
    assert script.flaws(message("a", id=99)) == ["mixed up"]


def test_a_message_with_another_priority(script: Script) -> None:
    script.send("a", priority=9)
    assert script.flaws(message("a", priority=5)) == ["altered"]


def test_a_message_in_some_of_its_queues(script: Script) -> None:
    script.send("a", "q", "r", outcome="unknown")
    assert script.flaws() == []
    assert script.flaws(message("a"), message("a", "r", id=SEND_ID + 1)) == []
    assert script.flaws(message("a")) == ["torn"]


def test_a_request_may_vanish_with_time(script: Script) -> None:
    script.call("request", "q", "@client", body="a", expires=True, outcome="unknown", error="RequestTimeout")
    assert script.flaws() == []


def test_a_reply_to_another_request(script: Script) -> None:
    for body in ("a", "b"):
        script.call("send", "@client", body=f"reply to {body}", ids=(SEND_ID,))
    script.call("request", "q", "@client", body="a", messages=(message("reply to b", "@client"),), expires=True)
    assert script.flaws(message("reply to a", "@client"), message("a")) == ["mixed up"]


def test_an_error_that_no_fault_explains(script: Script) -> None:
    script.send("a", outcome="unknown", error="Unavailable")
    assert script.flaws() == []
    script.send("b", outcome="unknown", error="InternalError")
    assert script.flaws() == ["unexpected error"]


# Receives


def test_a_message_that_came_out_twice(script: Script) -> None:
    script.send("a")
    script.receive("a")
    assert script.flaws(message("a")) == ["duplicated"]
    script.receive("a")
    assert script.flaws() == ["duplicated"]


def test_a_message_of_another_queue(script: Script) -> None:
    script.send("a", "r")
    script.call("receive", "q", messages=(message("a", "r"),))
    assert script.flaws() == ["mixed up"]


def test_a_read_without_an_answer_excuses_nothing(script: Script) -> None:
    script.send("a")
    script.call("receive", "q", outcome="unknown", error="Unavailable")
    findings = script.check()
    assert findings.unanswered_reads == 1
    assert findings.count("lost") == 1


def test_a_killed_client_loses_as_many_as_were_on_their_way(script: Script) -> None:
    for body in ("a", "b", "c"):
        script.send(body)
    script.call("receive", "q", outcome=None, count=2)
    findings = script.check()
    assert (findings.lost_with_client, findings.count("lost")) == (2, 1)


@pytest.mark.parametrize(("killed_at", "lost"), [(11.0, 0), (20.0, 1)])
def test_a_client_that_is_killed_may_not_have_told_what_it_gave_up(script: Script, killed_at: float, lost: int) -> None:
    script.send("a")
    script.call("receive", "q", outcome="unknown", at=(9.0, 10.0))
    script.call("send", "other", body="b", outcome=None, at=(killed_at, 0.0))
    findings = script.check()
    assert (findings.lost_with_client, findings.count("lost")) == (1 - lost, lost)


# Leases


def test_a_message_may_be_leased_again_and_acknowledged_once(script: Script) -> None:
    script.send("a")
    script.lease("a", seconds=1.0)
    script.ack("a", script.lease("a", deliveries=2))
    assert script.flaws() == []


def test_two_acks_of_one_message(script: Script) -> None:
    script.send("a")
    script.ack("a", script.lease("a", seconds=1.0))
    script.ack("a", script.lease("a", deliveries=2))
    assert set(script.flaws()) == {"duplicated"}


def test_a_message_that_comes_again_after_its_ack(script: Script) -> None:
    script.send("a")
    script.ack("a", script.lease("a"))
    assert script.flaws() == []
    script.lease("a", deliveries=2)
    assert script.flaws() == ["duplicated"]


def test_an_ack_in_doubt_may_have_removed_the_message_or_not(script: Script) -> None:
    script.send("a")
    script.ack("a", script.lease("a"), outcome="unknown", error="Unavailable")
    assert script.flaws() == []
    assert script.flaws(message("a")) == []


def test_an_ack_that_is_still_in_the_queue(script: Script) -> None:
    script.send("a")
    script.ack("a", script.lease("a"))
    assert script.flaws(message("a")) == ["duplicated"]


def test_a_message_that_two_hold_at_once(script: Script) -> None:
    script.send("a")
    script.lease("a", seconds=10.0)
    script.lease("a", deliveries=2)
    assert script.flaws(message("a")) == ["duplicated"]


def test_one_that_its_holder_has_begun_to_give_back_is_not_held(script: Script) -> None:
    script.send("a")
    script.call("nack", "q", body="a", lease=script.lease("a", seconds=10.0))
    script.lease("a", deliveries=2)
    assert script.flaws(message("a")) == []


def test_deliveries_that_are_forgotten(script: Script) -> None:
    script.send("a")
    script.lease("a", seconds=0.5)
    script.lease("a", deliveries=1)
    assert script.flaws(message("a")) == ["altered"]


def test_an_ack_after_the_end_of_its_lease(script: Script) -> None:
    script.send("a")
    lease = script.lease("a", seconds=0.5)
    script.ack("a", lease, outcome="not done", error="LeaseLost")
    assert script.flaws(message("a")) == []
    script.ack("a", lease)
    assert script.flaws() == ["unfenced"]


def test_an_ack_after_the_message_was_given_back(script: Script) -> None:
    script.send("a")
    lease = script.lease("a", seconds=100.0)
    script.call("nack", "q", body="a", lease=lease)
    script.ack("a", lease)
    assert script.flaws() == ["unfenced"]


def test_a_lease_that_is_lost_before_its_end(script: Script) -> None:
    script.send("a")
    script.ack("a", script.lease("a", seconds=100.0), outcome="not done", error="LeaseLost")
    assert script.flaws(message("a")) == ["ended early"]


def test_one_that_was_given_up_in_doubt_may_be_lost_before_its_end(script: Script) -> None:
    script.send("a")
    lease = script.lease("a", seconds=100.0)
    script.ack("a", lease, outcome="unknown", error="Unavailable")
    script.ack("a", lease, outcome="not done", error="LeaseLost")
    assert script.flaws() == []


# Order


def test_a_message_that_is_overtaken_by_a_later_one_of_its_sender(script: Script) -> None:
    for body in ("sender/1", "sender/2"):
        script.send(body)
    for body in ("sender/2", "sender/1"):
        script.receive(body)
    assert script.flaws(ordered=True) == ["out of order"]
    assert script.flaws() == []


def test_reads_at_the_same_time_have_no_order(script: Script) -> None:
    for body in ("sender/1", "sender/2"):
        script.send(body)
    script.receive("sender/2", at=(10.0, 20.0))
    script.receive("sender/1", at=(15.0, 25.0))
    assert script.flaws(ordered=True) == []


def test_messages_of_two_senders_have_no_order(script: Script) -> None:
    script.send("one/1")
    script.send("two/1")
    script.receive("two/1")
    script.receive("one/1")
    assert script.flaws(ordered=True) == []


def test_a_failed_read_excuses_what_it_may_have_held(script: Script) -> None:
    for body in ("sender/1", "sender/2"):
        script.send(body)
    script.call("receive", "q", outcome="unknown", error="Unavailable")
    for body in ("sender/2", "sender/1"):
        script.receive(body)
    assert script.flaws(ordered=True) == []


def test_so_does_a_read_that_its_client_may_have_repeated(script: Script) -> None:
    for body in ("sender/1", "sender/2"):
        script.send(body)
    script.call("receive", "q", at=(5.0, 100.0))
    script.receive("sender/2", at=(10.0, 10.001))
    script.receive("sender/1", at=(11.0, 11.001))
    assert script.flaws(ordered=True) == []


# SQL


def test_rows_settle_the_doubt_about_sends(script: Script) -> None:
    script.send("stored", outcome="unknown")
    script.send("rolled back", outcome="unknown")
    settle_sends(script.history.of_use("use"), {"stored"})
    assert script.flaws(message("stored"), message("rolled back")) == ["invented"]
    assert script.flaws() == ["lost"]


def test_rows_settle_what_was_read(script: Script) -> None:
    script.send("a")
    script.call("receive", "q", outcome="unknown", error="Unavailable")
    calls: list[Call] = settle_reads(script.history.of_use("use"), [message("a")])
    assert check(calls).violations == []
    assert [violation.flaw for violation in check(calls, [message("a")]).violations] == ["duplicated"]


def test_answers_are_counted_by_use(script: Script) -> None:
    script.send("a")
    script.send("b", outcome="unknown")
    assert script.history.answers == {"use": 1}


def test_the_longest_silence_is_between_two_answers(script: Script) -> None:
    for ends in (1.0, 2.0, 10.0):
        script.send(f"at {ends}", at=(0.0, ends))
    script.send("in doubt", at=(0.0, 5.0), outcome="unknown")
    assert longest_silence(script.history.of_use("use")) == 8.0
    assert longest_silence([]) == 0.0
