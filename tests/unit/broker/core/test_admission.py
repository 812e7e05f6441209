"""What is taken on, and what is refused at once."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from stafette.broker.core.admission import Admission
from stafette.broker.core.operation import READS
from stafette.broker.core.session import Session
from stafette.broker.limits import Limits
from stafette.errors import Overloaded, PermissionDenied
from stafette.model import Selection
from stafette.protocol import messages as wire
from tests.support.core_script import Script, ScriptedConnection, ids, kinds, receive, send

CHANGES = [kind for kind in get_args(wire.Request) if kind not in {*READS, wire.Hello}]


def reader() -> Session:
    session = Session(ScriptedConnection())
    session.name = "reader"
    return session


def example(kind: type) -> wire.Request:
    """A request of a kind; what it says does not matter here."""
    fields: dict[str, object] = {field.name: None for field in msgspec.structs.fields(kind)}
    if "selection" in fields:
        fields["selection"] = Selection()
    request: wire.Request = kind(**fields)
    return request


@pytest.mark.parametrize("kind", CHANGES)
def test_what_changes_something_is_refused_to_read_only_clients(kind: type) -> None:
    assert isinstance(Admission(Limits()).refusal(reader(), example(kind)), PermissionDenied)


@pytest.mark.parametrize("kind", sorted(READS, key=str))
def test_what_only_looks_is_not(kind: type) -> None:
    assert Admission(Limits()).refusal(reader(), example(kind)) is None


def test_a_request_that_nobody_has_thought_of_is_refused_to_read_only_clients() -> None:
    class Shred(wire.Frame, tag=99):
        """A new kind of request."""

    shred: wire.Request = Shred(1)  # type: ignore[assignment]
    assert isinstance(Admission(Limits()).refusal(reader(), shred), PermissionDenied)


def test_one_client_has_its_limit_and_leaves_room_for_others() -> None:
    script = Script(in_flight_per_client=3, batch=1)
    greedy, modest = script.open("greedy"), script.open("modest")
    script.say(greedy, *(send(number) for number in range(2, 7)))
    assert [answer.id for answer in greedy.answers] == [5, 6]
    assert kinds(greedy.answers) == ["Overloaded"] * 2
    script.say(modest, send(2))
    assert modest.answers == []
    assert script.core.admission.refusals == {"Overloaded": 2}


def test_all_clients_together_have_theirs() -> None:
    script = Script(in_flight=2)
    alice, bob = script.open("alice"), script.open("bob")
    script.say(alice, send(2))
    script.say(bob, send(2), send(3))
    assert [(answer.id, kinds([answer])) for answer in bob.take_answers()] == [(3, ["Overloaded"])]
    script.work()
    script.say(bob, send(4))
    script.work()
    assert kinds(bob.answers) == ["Sent", "Sent"]


def test_reads_that_wait_do_not_count_but_do_again_when_they_are_woken() -> None:
    script = Script(in_flight=1)
    alice, bob = script.open("alice"), script.open("bob")
    script.say(alice, receive(2, wait=60))
    script.work()
    assert script.core.admission.active == 0
    script.core.arrived("jobs")
    script.flush()
    assert script.core.admission.active == 1
    script.say(bob, send(2))
    assert kinds(bob.answers) == ["Overloaded"]


def test_a_refusal_names_the_limit_that_was_met() -> None:
    admission, session = Admission(Limits(in_flight=1, in_flight_per_client=1)), reader()
    session.mode = "full"
    assert admission.refusal(session, send(1)) is None
    admission.active = 1
    assert "the broker" in str(admission.refusal(session, send(1)))
    session.in_flight = 1
    refusal = admission.refusal(session, send(1))
    assert isinstance(refusal, Overloaded)
    assert "this client" in str(refusal)


def test_requests_of_a_client_that_hung_up_no_longer_count() -> None:
    script = Script(batch=1)
    alice = script.open("alice")
    script.say(alice, *(send(number) for number in range(2, 6)))
    batch = script.batch()
    assert ids(batch) == [2]
    script.hang_up(alice)
    assert script.core.admission.active == 1
    script.complete(batch)
    assert script.core.admission.active == 0
