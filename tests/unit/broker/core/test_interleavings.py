"""Whatever the order in which clients, database and clock act: every request has one answer, a session's requests take
effect in order, no message waits beside a read that wants it, and nothing is left behind.

The database is a model: a batch takes effect at one moment (`execute`) and is answered at a later one (`answer`), so
that a read may look before a send whose answer overtakes its own.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stafette.broker.core.broker import Outcome
from stafette.broker.core.dispatcher import Batch
from stafette.broker.core.operation import GIVE_BACK
from stafette.broker.core.session import State
from stafette.model import Message
from stafette.protocol import messages as wire
from tests.support.core_script import Script, ScriptedConnection, plain_outcome, receive, send

QUEUES = ("jobs", "mail")
NAMES = ("alice", "bob", "carol")

queues = st.sampled_from(QUEUES)
clients = st.integers(0, len(NAMES) - 1)


class Life:
    """One connection, and what was asked and answered on it."""

    def __init__(self, connection: ScriptedConnection) -> None:
        self.connection = connection
        self.asked: list[int] = []
        self.executed: list[int] = []
        """Requests in the order in which they took effect, first tries only."""
        self.gone = False


class Interleavings(RuleBasedStateMachine):
    """A core with a few clients, over a model of the database."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 1
        self.lives: dict[int, Life] = {}
        self.all_lives: list[Life] = []
        self.stored: Counter[str] = Counter()
        self.dispatched: list[Batch] = []
        self.executed: list[tuple[Batch, list[Outcome]]] = []
        self.received: dict[int, str] = {}
        """What each receive has taken, and from which queue, unless it was cancelled."""

    @initialize(batch=st.integers(1, 4), connections=st.integers(1, 3), in_flight=st.integers(4, 30))
    def start(self, batch: int, connections: int, in_flight: int) -> None:
        self.script = Script(batch=batch, connections=connections, in_flight=in_flight, in_flight_per_client=8)

    # Clients

    @rule(client=clients)
    def connect(self, client: int) -> None:
        if client not in self.lives and not self.script.core.draining:
            life = self.lives[client] = Life(self.script.open(NAMES[client], client=client + 1))
            self.all_lives.append(life)

    @rule(client=clients, queue=queues, delay=st.sampled_from([None, 5.0]))
    def send(self, client: int, queue: str, delay: float | None) -> None:
        self._ask(client, send(self._number(), queue, delay=delay))

    @rule(client=clients, queue=st.none() | queues, wait=st.sampled_from([None, 3.0, 30.0]), repeat=st.integers(1, 3))
    def receive(self, client: int, queue: str | None, wait: float | None, repeat: int) -> None:
        self._ask(client, *(receive(self._number(), queue, wait=wait) for _ in range(repeat)))

    @rule(client=clients)
    def list_queues(self, client: int) -> None:
        self._ask(client, wire.ListQueues(self._number()), wire.Echo(self._number(), b""))

    @rule(client=clients, data=st.data())
    def cancel(self, client: int, data: st.DataObject) -> None:
        if (life := self.lives.get(client)) and life.asked:
            self._ask(client, wire.Cancel(self._number(), data.draw(st.sampled_from(life.asked))))

    @rule(client=clients)
    def bye(self, client: int) -> None:
        self._ask(client, wire.Bye(self._number()))

    @rule(client=clients)
    def hang_up(self, client: int) -> None:
        if life := self.lives.pop(client, None):
            life.gone = True
            self.script.hang_up(life.connection)

    @rule(client=clients, paused=st.booleans())
    def stop_or_go_on_reading(self, client: int, paused: bool) -> None:
        if (life := self.lives.get(client)) and life.connection.session.write_paused != paused:
            session = life.connection.session
            if paused:
                self.script.core.pause_writing(session, 100, self.script.now)
            else:
                self.script.core.resume_writing(session, self.script.now, partial=False)
            self.script.flush()

    # The rest of the world

    @rule()
    def dispatch(self) -> None:
        self.dispatched += self.script.batches()

    @precondition(lambda self: self.dispatched)
    @rule(data=st.data())
    def execute(self, data: st.DataObject) -> None:
        """A batch takes effect."""
        batch = self.dispatched.pop(data.draw(st.integers(0, len(self.dispatched) - 1)))
        for ticket in batch.tickets:
            if not ticket.deadline:
                next(life for life in self.all_lives if life.connection.session is ticket.session).executed.append(
                    ticket.request.id
                )
        self.executed.append((batch, [self._effect(ticket.request) for ticket in batch.tickets]))

    @precondition(lambda self: self.executed)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        """The answers of a batch come back."""
        self._complete(*self.executed.pop(data.draw(st.integers(0, len(self.executed) - 1))))

    @rule(seconds=st.sampled_from([0.5, 2.0, 20.0]))
    def tick(self, seconds: float) -> None:
        self.script.tick(seconds)

    @rule(client=clients)
    def disconnect(self, client: int) -> None:
        if session := self.script.core.sessions.get(client + 1):
            self.script.core.disconnect(session.client, session.token, self.script.now)
        self.script.flush()

    @rule(unlikely=st.integers(0, 9))
    def drain(self, unlikely: int) -> None:
        if not unlikely and not self.script.core.draining:
            self.script.core.drain(self.script.now)
            self.script.flush()

    # What must hold

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "script"):
            return
        core = self.script.core
        backlogs = sum(len(session.backlog or ()) for session in core.connected)
        assert core.admission.active == backlogs + core.dispatcher.outstanding
        for session in core.connected:
            assert session.in_flight >= 0
            assert session.run_size >= 0

    @invariant()
    def answers_are_given_once(self) -> None:
        for life in self.all_lives:
            answered = [answer.id for answer in life.connection.answers]
            assert len(set(answered)) == len(answered)
            assert set(answered) <= set(life.asked)

    @invariant()
    def order_is_kept(self) -> None:
        for life in self.all_lives:
            assert life.executed == sorted(life.executed)

    def teardown(self) -> None:
        """Let everything come to its end."""
        if not hasattr(self, "script"):
            return
        for client in list(self.lives):
            self.stop_or_go_on_reading(client, False)
        self._work()
        self._no_message_waits_beside_a_read()
        self.script.tick(100.0)
        self._work()
        core = self.script.core
        for life in self.all_lives:
            if not life.gone:
                assert sorted(answer.id for answer in life.connection.answers) == sorted(life.asked)
                assert life.connection.session.in_flight == 0
                answers = {answer.id: answer for answer in life.connection.answers if type(answer) is wire.Messages}
                assert all(answers[number].messages for number in self.received.keys() & answers.keys())
        assert (core.admission.active, core.dispatcher.outstanding, len(core.waiting)) == (0, 0, 0)
        assert (core.waiting._by_session, core.waiting._trying, core.waiting._parked) == ({}, {}, {})
        assert core.waiting.next_deadline() is None

    def _no_message_waits_beside_a_read(self) -> None:
        waiting = self.script.core.waiting.queues
        for queue, count in self.stored.items():
            assert not count or not waiting & {queue, ""}, f"{count} messages in {queue}, and reads wait for {waiting}"

    def _work(self) -> None:
        """Let the database finish: an answer frees the connection that a batch waits for, or lets a client's next
        requests begin."""
        dispatcher = self.script.core.dispatcher
        while (batches := self.dispatched + self.script.batches()) or self.executed or dispatcher.has_news:
            self.dispatched = []
            self.executed += [(batch, [self._effect(ticket.request) for ticket in batch.tickets]) for batch in batches]
            self._answer_all()

    def _answer_all(self) -> None:
        while self.executed:
            self._complete(*self.executed.pop(0))

    def _complete(self, batch: Batch, outcomes: list[Outcome]) -> None:
        if batch.operation is GIVE_BACK:
            for queue in QUEUES:
                self.script.core.arrived(queue)
        self.script.complete(batch, *outcomes)

    def _ask(self, client: int, *requests: wire.Request) -> None:
        life = self.lives.get(client)
        if life and life.connection.session.state in (State.OPEN, State.LEAVING) and life.connection.reading:
            life.asked += [request.id for request in requests]
            self.script.say(life.connection, *requests)

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers

    def _effect(self, request: wire.Request) -> Outcome:
        if isinstance(request, wire.Send):
            if not request.drafts[0].delay:
                self.stored.update(request.drafts[0].queues)
        elif isinstance(request, wire.Receive):
            choices = QUEUES if request.selection.queue is None else (request.selection.queue,)
            for queue in choices:
                if self.stored[queue]:
                    self.stored[queue] -= 1
                    self.received[request.id] = queue
                    return wire.Messages(request.id, [_message(queue)])
        elif isinstance(request, wire.Cancel) and (taken_from := self.received.pop(request.request, None)):
            self.stored[taken_from] += 1
        return plain_outcome(request)


def _message(queue: str) -> Message:
    return Message(1, queue, "somebody", None, None, 5, datetime.fromtimestamp(0, UTC), 0, None, b"")


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=150, stateful_step_count=60)
