"""Who is let in, who is not, and what happens to what comes before that is known."""

from __future__ import annotations

import pytest

from stafette.broker.core.hellos import SecretDue
from stafette.broker.core.session import TRANSITIONS, Session, State
from stafette.errors import NotAuthenticated
from stafette.protocol import messages as wire
from tests.support.core_script import Script, ScriptedConnection, ids, kinds, send


def hello(number: int = 1, name: str = "alice", **fields: object) -> wire.Hello:
    return wire.Hello(number, wire.VERSION, name, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("after", State)
def test_a_session_takes_only_the_steps_of_the_table(before: State, after: State) -> None:
    session = Session(ScriptedConnection())
    session.state = before
    if after in TRANSITIONS[before]:
        session.step(after)
        assert session.state is after
    else:
        with pytest.raises(AssertionError, match="cannot go"):
            session.step(after)
        assert session.state is before


def test_a_hello_is_authenticated_and_welcomed() -> None:
    script = Script(frame=5000, in_flight_per_client=7)
    connection = script.connect()
    script.say(connection, hello(timeout=3.0))
    assert connection.answers == []
    assert not connection.opened
    script.authenticate(connection, client=42)
    assert connection.opened
    assert connection.answers == [wire.Welcome(1, wire.VERSION, 42, "full", "broker-1", 5000, 7, 64 * 1024 * 1024)]
    session = connection.session
    assert (session.state, session.client, session.name, session.timeout) == (State.OPEN, 42, "alice", 3.0)
    assert script.core.sessions == {42: session}


@pytest.mark.parametrize(
    ("registered", "asked", "mode"),
    [
        ("full", "full", "full"),
        ("full", "read-only", "read-only"),
        ("read-only", "full", "read-only"),
        ("read-only", "read-only", "read-only"),
    ],
)
def test_a_client_may_do_what_both_it_and_its_registration_allow(registered: str, asked: str, mode: str) -> None:
    script = Script()
    connection = script.connect()
    script.say(connection, hello(mode=asked))
    script.authenticate(connection, mode=registered)  # type: ignore[arg-type]
    assert connection.session.mode == mode


@pytest.mark.parametrize(
    ("said", "failure"),
    [
        (wire.Hello(1, 99, "alice"), "InvalidRequest"),
        (wire.Hello(1, wire.VERSION, "alice", timeout=0.0), "InvalidRequest"),
        (wire.Echo(1, b""), "NotAuthenticated"),
    ],
)
def test_what_is_no_valid_hello_ends_the_connection(said: wire.Request, failure: str) -> None:
    script = Script()
    connection = script.connect()
    script.say(connection, said, wire.Echo(2, b"and then"))
    assert kinds(connection.answers) == [failure, "NotAuthenticated"]
    assert connection.closed
    assert script.calls == []
    assert connection.session in script.core.idle_timeouts  # it has to hang up


def test_what_comes_behind_a_hello_stays_on_its_connection_and_keeps_its_order() -> None:
    script = Script()
    connection = script.connect()
    script.say(connection, hello())
    assert not connection.reading
    script.say(connection, send(2), send(3))
    assert script.batches() == []
    script.authenticate(connection)
    assert connection.reading
    assert ids(script.batch()) == [2, 3]
    assert script.core.admission.active == 2


def test_nothing_behind_a_hello_counts_for_others() -> None:
    script = Script(in_flight=2)
    alice = script.open("alice")
    strangers = [script.connect() for _ in range(5)]
    for number, stranger in enumerate(strangers):
        script.say(stranger, hello(name=f"stranger {number}"), *(send(number) for number in range(2, 9)))
    assert script.core.admission.active == 0
    script.say(alice, send(2))
    script.work()
    assert kinds(alice.answers) == ["Sent"]


def test_a_listener_that_hands_over_what_comes_behind_a_hello_is_refused() -> None:
    script = Script()
    connection = script.connect()
    script.say(connection, hello())
    script.core.request(connection.session, send(2), script.now)
    script.flush()
    assert kinds(connection.answers) == ["Overloaded"]


def test_what_a_read_only_client_may_not_do_is_refused_also_behind_its_hello() -> None:
    script = Script()
    connection = script.connect()
    script.say(connection, hello(mode="read-only"), send(2), wire.ListQueues(3))
    script.authenticate(connection)
    assert kinds(connection.answers) == ["Welcome", "PermissionDenied"]
    assert ids(script.batch()) == [3]


def test_a_name_with_a_session_elsewhere_is_refused() -> None:
    script = Script()
    connection = script.connect()
    script.say(connection, hello())
    script.authenticate(connection, taken=True)
    assert kinds(connection.answers) == ["AlreadyOnline"]
    assert connection.closed
    assert script.released == []  # it is not ours to free


def test_a_failed_authentication_is_told_and_ends_the_connection() -> None:
    script = Script()
    connection = script.connect()
    script.say(connection, hello(), send(2))
    script.answer_hellos(NotAuthenticated("another secret"))
    assert kinds(connection.answers) == ["NotAuthenticated"]
    assert connection.closed
    script.hang_up(connection)
    assert script.core.admission.active == 0


def test_a_session_is_continued_by_the_next_one_of_its_client() -> None:
    script = Script()
    old = script.open("alice", client=1)
    new = script.open("alice", client=1)
    assert old.aborted
    script.hang_up(old)
    assert script.released == []  # the name belongs to the new session
    assert script.core.sessions == {1: new.session}
    script.hang_up(new)
    assert script.released == [(1, 2)]


def test_a_full_broker_says_so_before_it_asks_who_it_is() -> None:
    script = Script(clients=1)
    script.open("alice")
    connection = script.connect()
    script.say(connection, hello(name="bob"))
    assert kinds(connection.answers) == ["ServerFull"]
    assert script.calls == []


def test_the_last_room_goes_to_who_is_authenticated_first() -> None:
    script = Script(clients=1)
    slow, fast = script.connect(), script.connect()
    script.say(slow, hello(name="slow", secret="secret"))
    script.answer_hellos(SecretDue("hash"))
    script.say(fast, hello(name="fast"))
    script.check_secret("hash")
    script.authenticate(fast, client=1)
    script.authenticate(slow, client=2)
    assert kinds(fast.answers) == ["Welcome"]
    assert kinds(slow.answers) == ["ServerFull"]
    assert script.released == [(2, 2)]


def test_who_hangs_up_while_it_is_authenticated_leaves_its_name_free() -> None:
    script = Script()
    connection = script.connect()
    script.say(connection, hello(), send(2))
    script.hang_up(connection)
    script.authenticate(connection, client=7)
    assert script.released == [(7, 1)]
    assert script.core.sessions == {}
    assert script.batches() == []
    assert script.core.admission.active == 0


def test_who_is_authenticated_while_the_broker_drains_is_sent_on() -> None:
    script = Script()
    connection = script.connect()
    script.say(connection, hello())
    script.core.drain(script.now)
    script.authenticate(connection, client=7)
    late = script.connect()
    script.say(late, hello(name="late"))
    assert kinds(connection.answers) == kinds(late.answers) == ["Unavailable"]
    assert script.released == [(7, 1)]


def test_a_second_hello_is_refused_and_changes_nothing() -> None:
    script = Script()
    connection = script.open()
    script.say(connection, hello(2, name="bob"))
    assert kinds(connection.answers) == ["InvalidRequest"]
    assert connection.session.name == "alice"
