"""Many hellos at once: which go together, when a secret is checked, and who gives way."""

from __future__ import annotations

from typing import Any

import pytest

from stafette.broker.core import hellos
from stafette.broker.core.hellos import SecretDue
from stafette.broker.core.session import State, session_number
from stafette.broker.limits import SILENT_SECONDS
from stafette.errors import NotAuthenticated, Unavailable
from stafette.protocol import messages as wire
from tests.support.core_script import Script, ScriptedConnection, ids, kinds, receive, send


def says_hello(script: Script, name: str, **fields: Any) -> ScriptedConnection:
    connection = script.connect()
    script.say(connection, wire.Hello(1, wire.VERSION, name, **fields))
    return connection


def names(script: Script) -> list[list[str]]:
    """Who is in the calls that have not yet been answered."""
    return [[pending.hello.name for pending in call] for call in script.calls]


# Calls


def test_hellos_that_come_during_a_call_go_together_in_the_next() -> None:
    script = Script()
    first, *others = [says_hello(script, name) for name in ("alice", "bob", "carol")]
    assert names(script) == [["alice"]]
    script.answer_hellos(script.opened("alice"))
    assert kinds(first.answers) == ["Welcome"]
    assert names(script) == [["bob", "carol"]]
    script.answer_hellos(NotAuthenticated("another secret"), script.opened("carol"))
    assert [kinds(other.answers) for other in others] == [["NotAuthenticated"], ["Welcome"]]
    assert script.core.hellos.pending == 0


def test_a_call_has_only_so_many_hellos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hellos, "HELLO_BATCH", 2)
    script = Script()
    for name in ("alice", "bob", "carol", "dave"):
        says_hello(script, name)
    script.answer_hellos(script.opened("alice"))
    assert names(script) == [["bob", "carol"]]
    script.answer_hellos(script.opened("bob"), script.opened("carol"))
    assert names(script) == [["dave"]]


def test_two_connections_of_one_client_do_not_go_together_and_the_later_has_the_session() -> None:
    script = Script()
    says_hello(script, "busy")
    older, newer = says_hello(script, "alice", session=7), says_hello(script, "alice", session=7)
    script.answer_hellos(script.opened("busy"))
    assert names(script) == [["alice"]]
    script.answer_hellos(script.opened("alice", client=1))
    script.answer_hellos(script.opened("alice", client=1))
    assert older.aborted
    assert kinds(newer.answers) == ["Welcome"]
    assert script.core.sessions[1] is newer.session
    assert newer.session.number == session_number(7)


def test_who_hangs_up_before_its_call_is_not_in_it() -> None:
    script = Script()
    says_hello(script, "busy")
    script.hang_up(says_hello(script, "hasty"))
    script.answer_hellos(script.opened("busy"))
    assert names(script) == []


# Secrets


def test_a_secret_is_checked_once_and_then_the_hello_goes_on() -> None:
    script = Script()
    alice = says_hello(script, "alice", secret="secret")
    script.answer_hellos(SecretDue("hash"))
    [(pending, stored)] = script.checks
    assert (pending.hello.name, pending.secret, stored) == ("alice", None, "hash")
    script.check_secret("hash")
    assert names(script) == [["alice"]]
    assert script.calls[0][0].secret == "hash"
    script.answer_hellos(script.opened("alice"))
    assert kinds(alice.answers) == ["Welcome"]


def test_few_secrets_are_checked_at_the_same_time_and_others_go_past_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hellos, "SECRETS_AT_ONCE", 1)
    script = Script()
    for name in ("alice", "bob"):
        says_hello(script, name, secret="secret")
        script.answer_hellos(SecretDue("hash"))
    assert [pending.hello.name for pending, _ in script.checks] == ["alice"]
    carol = says_hello(script, "carol")
    script.answer_hellos(script.opened("carol"))
    assert kinds(carol.answers) == ["Welcome"]
    script.check_secret(NotAuthenticated("another secret"))
    assert [pending.hello.name for pending, _ in script.checks] == ["bob"]


def test_the_secret_of_who_has_hung_up_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hellos, "SECRETS_AT_ONCE", 1)
    script = Script()
    checked, waiting, in_call = (says_hello(script, name, secret="secret") for name in ("alice", "bob", "carol"))
    script.answer_hellos(SecretDue("hash"))
    script.answer_hellos(SecretDue("hash"), SecretDue("hash"))
    for connection in (checked, waiting, in_call):
        script.hang_up(connection)
    script.check_secret("hash")
    assert (script.checks, script.calls, script.core.hellos.pending) == ([], [], 0)


def test_a_drain_refuses_hellos_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hellos, "SECRETS_AT_ONCE", 1)
    script = Script()
    checked, waiting, in_call = (says_hello(script, name, secret="secret") for name in ("alice", "bob", "carol"))
    script.answer_hellos(SecretDue("hash"))
    script.answer_hellos(SecretDue("hash"), script.opened("carol"))
    gathered = says_hello(script, "dave"), says_hello(script, "erin")
    script.core.drain(script.now)
    script.flush()
    assert kinds(waiting.answers) == kinds(gathered[1].answers) == ["Unavailable"]
    script.check_secret("hash")
    script.answer_hellos(SecretDue(None))
    assert kinds(checked.answers) == kinds(gathered[0].answers) == ["Unavailable"]
    assert kinds(in_call.answers) == ["Welcome"]
    assert (script.checks, script.calls, script.core.hellos.pending) == ([], [], 0)


def test_a_broker_that_fills_up_meanwhile_checks_no_more_secrets() -> None:
    script = Script(clients=1)
    alice = says_hello(script, "alice", secret="secret")
    says_hello(script, "bob")
    script.answer_hellos(SecretDue("hash"))
    script.answer_hellos(script.opened("bob"))
    script.check_secret("hash")
    assert kinds(alice.answers) == ["ServerFull"]
    late = says_hello(script, "late", secret="secret")
    assert kinds(late.answers) == ["ServerFull"]


# Who gives way


@pytest.fixture
def room_for_three(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("SILENT_CONNECTIONS", "PENDING_HELLOS", "SECRETS_WAITING"):
        monkeypatch.setattr(hellos, limit, 3)


@pytest.mark.usefixtures("room_for_three")
def test_who_has_been_silent_longest_gives_way_to_newcomers() -> None:
    script = Script()
    oldest, *others = [script.connect() for _ in range(3)]
    script.now += SILENT_SECONDS
    newcomer = script.connect()
    script.flush()
    assert oldest.aborted
    assert not any(connection.aborted for connection in (*others, newcomer))
    assert script.core.admission.refusals == {"gave way": 1}


@pytest.mark.usefixtures("room_for_three")
def test_nobody_gives_way_at_once_but_in_time() -> None:
    script = Script()
    *oldest, third, fourth, fifth = [script.connect() for _ in range(5)]
    script.now += SILENT_SECONDS - 0.1
    script.core.drop_idle(script.now)
    script.flush()
    assert not any(connection.aborted for connection in oldest)
    script.now += 0.1
    script.core.drop_idle(script.now)
    script.flush()
    assert [connection.aborted for connection in oldest] == [True, True]
    assert not any(connection.aborted for connection in (third, fourth, fifth))


@pytest.mark.usefixtures("room_for_three")
def test_clients_that_are_welcome_or_have_said_hello_are_not_silent() -> None:
    script = Script()
    welcome = [script.open(f"client {number}") for number in range(5)]
    waiting = [says_hello(script, f"newcomer {number}") for number in range(3)]
    for _ in range(3):
        script.connect()
    script.now += SILENT_SECONDS
    script.core.drop_idle(script.now)
    script.flush()
    assert not any(connection.aborted for connection in (*welcome, *waiting))


@pytest.mark.usefixtures("room_for_three")
def test_who_waits_longest_for_a_call_gives_way_but_not_who_is_in_it() -> None:
    script = Script()
    in_call, oldest, *others = [says_hello(script, f"client {number}") for number in range(4)]
    assert (in_call.aborted, oldest.aborted) == (False, True)
    assert not any(connection.aborted for connection in others)
    script.hang_up(oldest)
    script.answer_hellos(script.opened("client 0"))
    assert names(script) == [["client 2", "client 3"]]


@pytest.mark.usefixtures("room_for_three")
def test_who_waits_longest_for_a_check_gives_way_but_not_who_is_being_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hellos, "SECRETS_AT_ONCE", 1)
    monkeypatch.setattr(hellos, "PENDING_HELLOS", 100)
    script = Script()
    connections = []
    for number in range(5):
        connections.append(says_hello(script, f"client {number}", secret="secret"))
        script.answer_hellos(SecretDue("hash"))
    assert [connection.aborted for connection in connections] == [False, True, False, False, False]
    script.hang_up(connections[1])
    for _ in range(4):
        script.check_secret(NotAuthenticated("another secret"))
    assert (script.checks, script.core.hellos.pending) == ([], 0)


@pytest.mark.usefixtures("room_for_three")
def test_who_hung_up_or_was_refused_makes_room() -> None:
    script = Script()
    script.hang_up(script.connect())
    for number in range(3):
        says_hello(script, f"stranger {number}")
        script.answer_hellos(NotAuthenticated("another secret"))
    impatient = script.connect()
    script.say(impatient, send(1))
    for _ in range(3):
        script.connect()
    assert script.core.hellos.surplus_silent(script.now + SILENT_SECONDS) == []


# Sessions that go on elsewhere


def test_a_session_that_has_moved_is_hung_up_on_and_its_reads_take_nothing() -> None:
    script = Script()
    alice, bob = script.open("alice", client=1), script.open("bob", client=2)
    script.say(alice, receive(2, wait=60))
    script.work()
    assert script.core.end_moved(1, alice.session.token)
    script.core.arrived("jobs")
    script.flush()
    assert alice.aborted
    assert script.batches() == []
    script.hang_up(alice)
    script.say(bob, send(2))
    script.work()
    assert kinds(alice.answers) == []
    assert (script.core.admission.active, len(script.core.waiting)) == (0, 0)


def test_a_read_that_is_in_the_database_meanwhile_is_not_tried_again() -> None:
    script = Script()
    alice = script.open("alice", client=1)
    script.say(alice, receive(2, wait=60))
    batch = script.batch()
    script.core.arrived("jobs")  # it may have missed that
    script.core.end_moved(1, alice.session.token)
    script.complete(batch)
    assert script.batches() == []
    script.hang_up(alice)
    assert len(script.core.waiting) == 0


def test_what_has_not_begun_is_not_begun_for_a_session_that_has_moved() -> None:
    script = Script(connections=1)
    alice, bob = script.open("alice", client=1), script.open("bob", client=2)
    script.say(bob, send(2))
    busy = script.batch()
    script.say(alice, receive(2))
    script.core.end_moved(1, alice.session.token)
    script.complete(busy)
    assert script.batches() == []


def test_what_waited_for_its_turn_is_dropped_with_a_session_that_has_moved() -> None:
    script = Script(batch=1)
    alice = script.open("alice", client=1)
    script.say(alice, *(receive(number) for number in (2, 3, 4)))
    batch = script.batch()
    script.core.end_moved(1, alice.session.token)
    script.flush()
    script.complete(batch)
    assert script.batches() == []
    script.hang_up(alice)
    assert (script.core.admission.active, alice.session.in_flight) == (0, 0)


def test_only_the_connection_that_was_left_is_ended() -> None:
    script = Script()
    alice = script.open("alice", client=1)
    assert not script.core.end_moved(1, alice.session.token + 1)
    assert not script.core.end_moved(2, alice.session.token)
    script.flush()
    assert not alice.aborted


def test_a_session_that_leaves_gets_its_answers_also_when_it_has_moved() -> None:
    script = Script()
    alice = script.open("alice", client=1)
    script.say(alice, send(2))
    batch = script.batch()
    script.core.drain(script.now)
    assert not script.core.end_moved(1, alice.session.token)
    script.complete(batch)
    assert not alice.aborted
    assert kinds(alice.answers) == ["Sent"]


@pytest.mark.parametrize("waits", [None, 60.0])
def test_a_read_that_the_database_refuses_to_a_session_ends_it_without_an_answer(waits: float | None) -> None:
    script = Script()
    alice = script.open("alice")
    script.say(alice, receive(2, wait=waits), send(3))
    batch, *_ = script.batches()
    assert ids(batch) == [2]
    script.complete(batch, NotAuthenticated("this session continues at another connection"))
    assert alice.aborted
    assert alice.answers == []
    script.hang_up(alice)
    assert (script.core.admission.active, script.core.dispatcher.outstanding, alice.session.in_flight) == (0, 0, 0)
    assert script.core.waiting._trying == {}


def test_a_read_that_is_refused_to_a_session_that_leaves_is_sent_on() -> None:
    script = Script()
    alice = script.open("alice")
    script.say(alice, receive(2))
    batch = script.batch()
    script.core.drain(script.now)
    script.complete(batch, NotAuthenticated("this session continues at another connection"))
    assert kinds(alice.answers) == ["Goodbye"]
    assert not alice.aborted


def test_reads_of_an_older_connection_take_nothing_once_the_client_is_back() -> None:
    script = Script()
    old = script.open("alice", client=1)
    script.say(old, receive(2, wait=60))
    script.work()
    script.open("alice", client=1)
    script.core.arrived("jobs")
    script.flush()
    assert old.aborted
    assert script.batches() == []


def test_a_session_opened_while_the_database_was_asked_is_not_evicted() -> None:
    script = Script()
    lost = script.open("alice", client=1)
    before = list(script.core.sessions.values())
    newcomer = script.open("bob", client=2)
    assert script.core.evict(before, {}) == [lost.session]
    script.flush()
    assert not newcomer.aborted


def test_a_call_that_fails_refuses_all_its_hellos() -> None:
    script = Script()
    alice = says_hello(script, "alice")
    script.answer_hellos(Unavailable("the database is away"))
    assert kinds(alice.answers) == ["Unavailable"]
    assert alice.session.state is State.LEAVING
