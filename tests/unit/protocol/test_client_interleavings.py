"""Requests, answers, deadlines, cancels and ends in any order: one outcome each, and nothing is sent after the end."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stafette.errors import StafetteError
from stafette.protocol import messages as wire
from stafette.protocol.client import ClientConnection, Outcome, State
from tests.support.client_conversation import JOBS, failed, leases, sent, stream, welcome

BETWEEN = st.floats(0.0, 1.0, width=16)
ANSWERS = st.sampled_from([wire.Done, failed, lambda number: wire.Goodbye(number, "leaving"), lambda n: leases(n, 7)])
REQUESTS = st.sampled_from([lambda: wire.Echo(0), lambda: wire.Receive(0, JOBS, 60.0), lambda: wire.Lease(0, JOBS)])


class Conversation(RuleBasedStateMachine):
    """A client and a broker that may say anything."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = ClientConnection(itertools.count(1))
        self.now = 0.0
        self.requests: dict[int, Any] = {}
        self.deadlines: dict[int, float] = {}
        self.outcomes: dict[int, object] = {}
        self.unread: list[bytes] = []

    def take(self, outcomes: list[Outcome]) -> None:
        for request_id, outcome, _ in outcomes:
            assert request_id in self.requests, "nobody asked for that"
            assert request_id not in self.outcomes, "a second outcome"
            self.outcomes[request_id] = outcome

    def ask(self, request: Any, seconds: float) -> None:
        was_closed = self.connection.state is State.CLOSED
        try:
            self.connection.request(request, self.now + seconds)
        except StafetteError:
            assert request.id == 0
        else:
            assert not was_closed
            self.requests[request.id], self.deadlines[request.id] = request, self.now + seconds

    @initialize(seconds=BETWEEN, is_welcome=st.booleans())
    def greet(self, seconds: float, is_welcome: bool) -> None:
        self.ask(wire.Hello(0, wire.VERSION, "alice"), seconds)
        if is_welcome:
            self.take(self.connection.receive_data(stream([welcome(1)])))

    @rule(make=REQUESTS, seconds=BETWEEN)
    def request(self, make: Any, seconds: float) -> None:
        self.ask(make(), seconds)

    @rule(seconds=BETWEEN)
    def say_bye(self, seconds: float) -> None:
        self.ask(wire.Bye(0), seconds)

    @rule(make=ANSWERS, data=st.data(), cut=st.integers(0, 40))
    @precondition(lambda self: self.requests)
    def answer(self, make: Any, data: st.DataObject, cut: int) -> None:
        """Answer a request, which may have its outcome already; the rest of the bytes may come later."""
        piece = b"".join(self.unread) + stream([make(data.draw(st.sampled_from(sorted(self.requests))))])
        self.unread = [piece[cut:]]
        self.take(self.connection.receive_data(piece[:cut]))

    @rule(answer=st.sampled_from([wire.Goodbye(0, "leaving"), failed(0), wire.Done(0), leases(0, 7)]))
    def announce(self, answer: wire.Answer) -> None:
        piece = b"".join(self.unread) + stream([answer])
        self.unread = []
        self.take(self.connection.receive_data(piece))

    @rule(seconds=BETWEEN)
    def expire(self, seconds: float) -> None:
        self.now += seconds
        self.take(self.connection.expire(self.now))
        pending = self.deadlines.keys() - self.outcomes.keys()
        assert all(self.deadlines[number] > self.now for number in pending)

    @rule()
    def hang_up(self) -> None:
        self.take(self.connection.hang_up())

    @rule()
    def lose(self) -> None:
        self.take(self.connection.closed(OSError("reset")))

    @invariant()
    def closed_means_finished_and_mute(self) -> None:
        sent(self.connection)
        if self.connection.state is State.CLOSED:
            assert self.outcomes.keys() == self.requests.keys()
            self.connection.give_back(leases(0, 7))
            assert self.connection.data_to_send() == []

    @invariant()
    def the_next_deadline_is_the_earliest_of_those_pending(self) -> None:
        pending = self.deadlines.keys() - self.outcomes.keys()
        assert self.connection.next_deadline() == min((self.deadlines[number] for number in pending), default=None)

    def teardown(self) -> None:
        self.take(self.connection.closed(None))
        assert self.outcomes.keys() == self.requests.keys()


TestConversation = Conversation.TestCase
