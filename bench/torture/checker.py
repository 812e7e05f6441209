"""Which promises a history breaks. Pure: calls and what was left in, violations out.

Each message has a trail: sent (answered, in doubt or not done), handed out, acknowledged, left in its queue. Calls
overlap, so a rule about what came first compares the end of one call with the beginning of another, and nothing else.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from bench.torture.history import REPLY, Call, Handed
from stafette.errors import RequestOutcome

Flaw: TypeAlias = Literal[
    "lost", "duplicated", "invented", "torn", "mixed up", "altered", "out of order", "unfenced", "ended early",
    "unexpected error", "stuck",
]  # fmt: skip

PASSING = frozenset({"Unavailable", "RequestTimeout", "Overloaded", "ServerFull"})
"""Errors that a fault may cause. Any other means that the system is confused."""
LEASE_LOST = "LeaseLost"
GIVE_UP_SECONDS = 3.0
"""How long a client may take to name a read whose caller no longer waits; its timeout."""
REPEATED_READ_SECONDS = 0.02
"""A client pauses about so long before it repeats a read."""


class Violation(NamedTuple):
    """A broken promise."""

    flaw: Flaw
    sentence: str


@dataclass
class Findings:
    """What became of the messages of one use."""

    answered: int = 0
    in_doubt: int = 0
    not_done: int = 0
    came_out: int = 0
    """Messages that were handed out, or were still there at the end."""
    unanswered_reads: int = 0
    lost_with_client: int = 0
    """Messages that were on their way to a client that was killed, which is no violation."""
    violations: list[Violation] = field(default_factory=list)

    def count(self, flaw: Flaw) -> int:
        """Number of violations of a kind."""
        return sum(violation.flaw == flaw for violation in self.violations)


class Handout(NamedTuple):
    """A message in the answer of a read."""

    call: Call
    handed: Handed


@dataclass
class Trail:
    """What happened to one message in one queue."""

    reads: list[Handout] = field(default_factory=list)
    leases: list[Handout] = field(default_factory=list)
    settlements: list[Call] = field(default_factory=list)
    """Its acks and nacks."""
    left: list[Handed] = field(default_factory=list)

    @property
    def acks(self) -> list[Call]:
        """The acks that were answered."""
        return [call for call in self.settlements if call.began.kind == "ack" and call.outcome == "done"]

    @property
    def removals(self) -> int:
        """How often it was taken out of the queue for good."""
        return len(self.reads) + len(self.acks) + len(self.left)

    @property
    def may_be_gone(self) -> bool:
        """Whether an ack that is in doubt may have removed it."""
        return any(call.began.kind == "ack" and call.outcome == "unknown" for call in self.settlements)

    @property
    def handed(self) -> list[Handed]:
        """As readers saw it."""
        return [handout.handed for handout in self.leases + self.reads] + self.left


@dataclass
class Message:
    """What was sent under one body, and its trail in each queue."""

    sends: list[Call] = field(default_factory=list)
    trails: defaultdict[str, Trail] = field(default_factory=lambda: defaultdict(Trail))

    @property
    def outcome(self) -> RequestOutcome:
        """Done if one of its sends was; a repetition under a key makes up for those in doubt."""
        outcomes = {call.outcome for call in self.sends}
        return "done" if "done" in outcomes else "unknown" if "unknown" in outcomes else "not done"

    @property
    def queues(self) -> tuple[str, ...]:
        """Where it was sent to."""
        began = self.sends[0].began
        return began.queues[:1] if began.kind == "request" else began.queues


def check(calls: Iterable[Call], left: Iterable[Handed] = (), *, ordered: bool = False) -> Findings:
    """Hold all calls of a use, and what was left in its queues, against what is promised."""
    return _Checker(list(calls), ordered=ordered).check(left)


class _Checker:
    def __init__(self, calls: list[Call], *, ordered: bool) -> None:
        self._calls = calls
        self._ordered = ordered
        self._messages: defaultdict[str, Message] = defaultdict(Message)
        self._findings = Findings()
        self._losses: list[tuple[str, str]] = []
        """Body and queue."""

    def check(self, left: Iterable[Handed]) -> Findings:
        for call in self._calls:
            self._collect(call)
        for handed in left:
            self._messages[handed.body].trails[handed.queue].left.append(handed)
        for body, message in self._messages.items():
            self._check_message(body, message)
        self._judge_losses()
        if self._ordered:
            self._check_order()
        return self._findings

    def _violates(self, flaw: Flaw, sentence: str) -> None:
        self._findings.violations.append(Violation(flaw, sentence))

    # Collecting

    def _collect(self, call: Call) -> None:
        began, ended = call.began, call.ended
        if began.kind in ("send", "request"):
            self._messages[began.body].sends.append(call)
        if began.kind in ("ack", "nack"):
            self._messages[began.body].trails[began.queues[0]].settlements.append(call)
        if began.kind in ("receive", "request") and call.outcome == "unknown":
            self._findings.unanswered_reads += 1
        if ended is None:
            return
        if ended.error and ended.error not in PASSING and not _is_fenced_off(call):
            self._violates("unexpected error", f"{began.kind} of {began.client} failed with {ended.error}")
        if ended.outcome != "done":
            return
        for handed in ended.messages:
            if handed.queue != began.queues[-1]:
                self._violates("mixed up", f"{handed.body} of {handed.queue} came out of {began.queues[-1]}")
            if began.kind == "request" and handed.body != REPLY + began.body:
                self._violates("mixed up", f"{began.body} got {handed.body}")
            trail = self._messages[handed.body].trails[handed.queue]
            (trail.leases if began.kind == "lease" else trail.reads).append(Handout(call, handed))

    # One message

    def _check_message(self, body: str, message: Message) -> None:
        for queue, trail in message.trails.items():
            if trail.handed and not (message.sends and queue in message.queues):
                self._violates("invented", f"{body} came out of {queue} and was never sent there")
            self._check_trail(f"{body} in {queue}", trail)
        if not message.sends:
            return
        self._count(message)
        self._check_sends(body, message)
        if message.outcome == "not done" and any(trail.handed for trail in message.trails.values()):
            self._violates("invented", f"{body} came out although its send was answered with: not done")

    def _count(self, message: Message) -> None:
        findings = self._findings
        match message.outcome:
            case "done":
                findings.answered += 1
            case "unknown":
                findings.in_doubt += 1
            case "not done":
                findings.not_done += 1
        findings.came_out += sum(bool(message.trails[queue].handed) for queue in message.queues)

    def _check_sends(self, body: str, message: Message) -> None:
        """What was answered is there, in all queues, as it was sent, and under the ids of the answer."""
        present = [
            queue for queue in message.queues if message.trails[queue].removals or message.trails[queue].may_be_gone
        ]
        missing = [queue for queue in message.queues if queue not in present]
        if message.sends[0].began.expires:
            missing = []
        if message.outcome == "done":
            self._losses += [(body, queue) for queue in missing]
        elif present and missing:
            self._violates("torn", f"{body} is in {', '.join(present)} and not in {', '.join(missing)}")

        answers = {call.ended.ids for call in message.sends if call.ended and call.ended.ids}
        if len(answers) > 1:
            self._violates("mixed up", f"{body} was answered with several ids under one key: {sorted(answers)}")
        priority = message.sends[0].began.priority
        for position, queue in enumerate(message.queues):
            for handed in message.trails[queue].handed:
                if handed.priority != priority:
                    self._violates("altered", f"{body} has priority {handed.priority}; it was sent with {priority}")
                if any(handed.id != ids[position] for ids in answers):
                    self._violates("mixed up", f"{body} is {handed.id} in {queue}, not what its sender was answered")

    # One message in one queue

    def _check_trail(self, name: str, trail: Trail) -> None:
        if trail.removals > 1:
            self._violates("duplicated", f"{name} was taken {trail.removals} times")
        if trail.leases:
            self._check_leases(name, trail)

    def _check_leases(self, name: str, trail: Trail) -> None:
        acked = min((call.end for call in trail.acks), default=float("inf"))
        leases = sorted(trail.leases, key=lambda lease: lease.call.began.at)
        for lease in leases:
            if lease.call.began.at > acked:
                self._violates("duplicated", f"{name} was handed out after it was acknowledged")
        for first, second in pairwise(leases):
            if first.call.end >= second.call.began.at:
                continue
            if second.handed.deliveries <= first.handed.deliveries:
                self._violates("altered", f"{name} forgot deliveries: {second.handed.deliveries} after"
                               f" {first.handed.deliveries}")  # fmt: skip
            if second.call.end < self._held_until(first, trail):
                self._violates("duplicated", f"{name} was leased to two at once")
        self._check_settlements(name, trail)

    def _held_until(self, lease: Handout, trail: Trail) -> float:
        """Until when nobody else can have it: the lease's end at the earliest, or when its holder began to let go."""
        began = lease.call.began
        letting_go = (call.began.at for call in trail.settlements if call.began.lease == began.call)
        return min([began.at + began.seconds, *letting_go])

    def _check_settlements(self, name: str, trail: Trail) -> None:
        leases = {lease.call.began.call: lease.call for lease in trail.leases}
        settled: set[int] = set()
        """Leases that were given up, or may have been."""
        given_up: set[int] = set()
        for call in trail.settlements:
            kind, number = call.began.kind, call.began.lease
            lease = leases.get(number)
            if lease is None:
                continue
            seconds = lease.began.seconds
            if call.outcome == "done" and call.began.at > lease.end + seconds:
                self._violates("unfenced", f"{name}: {kind} was accepted after the lease had ended")
            elif call.outcome == "done" and number in given_up:
                self._violates("unfenced", f"{name}: {kind} was accepted after the lease had been given up")
            elif _is_fenced_off(call) and number not in settled and call.end < lease.began.at + seconds:
                self._violates("ended early", f"{name}: the lease was lost before its end")
            if call.outcome != "not done":
                settled.add(number)
            if call.outcome == "done":
                given_up.add(number)

    # All messages

    def _judge_losses(self) -> None:
        """What was on its way to a client that was killed may be lost: as many messages as its reads could take.

        So may what was taken by a read that had failed or was cancelled just before, of which the client had not told.
        """
        last_heard: dict[str, float] = {}
        for call in self._calls:
            heard = call.began.at if call.ended is None else call.end
            last_heard[call.began.client] = max(heard, last_heard.get(call.began.client, 0.0))
        killed = {call.began.client for call in self._calls if call.ended is None}
        forgivable = Counter[str]()
        for call in self._calls:
            if call.began.kind not in ("receive", "request") or call.outcome != "unknown":
                continue
            client = call.began.client
            if call.ended is None or (client in killed and call.end >= last_heard[client] - GIVE_UP_SECONDS):
                forgivable[call.began.queues[-1]] += call.began.count
        for body, queue in self._losses:
            if forgivable[queue]:
                forgivable[queue] -= 1
                self._findings.lost_with_client += 1
            else:
                self._violates("lost", f"{body} was sent to {queue} with an answer, and is gone")

    def _check_order(self) -> None:
        """Of two messages that a sender sent one after the other, the later is not handed out before the earlier.

        Nothing follows where another read, between the earlier one's send and its read, may have had the message and
        given it back: one that failed, or took so long that its client may have repeated it.
        """
        suspects = [
            call
            for call in self._calls
            if call.began.kind == "receive"
            and (call.outcome != "done" or call.end - call.began.at >= REPEATED_READ_SECONDS)
        ]
        for body, queue, sent_at, read in self._overtaken():
            if not any(
                call is not read and call.began.queues[-1] == queue and call.began.at < read.end and call.end > sent_at
                for call in suspects
            ):
                self._violates("out of order", f"{body} came out of {queue} after one that was sent later")

    def _overtaken(self) -> Iterator[tuple[str, str, float, Call]]:
        """Messages for which a later one was read before their own read began: body, queue, when sent, the read."""
        lanes: defaultdict[tuple[str, str], list[tuple[float, str, Call]]] = defaultdict(list)
        for body, message in self._messages.items():
            for queue, trail in message.trails.items():
                if message.sends and message.outcome == "done" and trail.reads:
                    lanes[queue, body.rpartition("/")[0]].append((message.sends[0].began.at, body, trail.reads[0].call))
        for (queue, _), lane in lanes.items():
            earliest_end = float("inf")
            for sent_at, body, read in sorted(lane, key=lambda entry: entry[0], reverse=True):
                if earliest_end < read.began.at:
                    yield body, queue, sent_at, read
                earliest_end = min(earliest_end, read.end)


def _is_fenced_off(call: Call) -> bool:
    """Whether an ack or nack came too late, which is an answer like any other."""
    return call.began.kind in ("ack", "nack") and call.ended is not None and call.ended.error == LEASE_LOST
