"""Defects that are planted, one at a time, to see that the checker finds each: a check that cannot fail proves nothing.

The product has no switch for any of this. A defect of the database is an edit of the source of a stored function, which
then replaces that function in the database of this one run; a defect of broker or client is Python that runs in that
process before it starts. Each names the use and the fault by which it shows, and what the checker calls it. An edit
whose text is not in the source any more is refused, so this list stays true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.torture import faults, uses
from bench.torture.checker import Flaw
from bench.torture.runner import Run, torture
from bench.torture.system import Planted
from stafette.database.schema import SQL
from stafette.errors import InvalidRequest

SECONDS = 90.0
"""For the strikes of one defect, at most."""


class Edit(NamedTuple):
    """A text in the file of a stored function, and what it becomes."""

    function: str
    before: str
    after: str


@dataclass(frozen=True)
class Defect:
    """A promise that this run breaks on purpose."""

    name: str
    use: str
    flaws: tuple[Flaw, ...]
    """What the checker may call it."""
    edits: tuple[Edit, ...] = ()
    broker: str = ""
    load: str = ""
    fault: str = "nothing"
    strikes: int = 5

    def planted(self) -> Planted:
        """What to put into the system."""
        return Planted(_replacements(self.edits), self.broker, self.load)


class Search(NamedTuple):
    """Whether a defect was found."""

    defect: Defect
    run: Run

    @property
    def flaws(self) -> list[Flaw]:
        """What the checker saw of it, each kind once."""
        seen = dict.fromkeys(violation.flaw for _, violation in self.run.violations)
        return [flaw for flaw in seen if flaw in self.defect.flaws]


async def search(defect: Defect, say: Callable[[str], None]) -> Search:
    """Plant a defect in a system of its own, and look for it."""
    say(f"planted: {defect.name} ({defect.use}; {defect.fault})")
    use = next(use for use in uses.USES if use.name == defect.use)
    fault = faults.BY_NAME[defect.fault]
    run = await torture(fault, [use], strikes=defect.strikes, seconds=SECONDS, planted=defect.planted())
    return Search(defect, run)


def _replacements(edits: tuple[Edit, ...]) -> tuple[str, ...]:
    """The sources of the functions that these edits change, changed."""
    sources: dict[Path, str] = {}
    for edit in edits:
        path = SQL / "functions" / f"{edit.function}.sql"
        source = sources.get(path) or path.read_text()
        if edit.before not in source:
            raise InvalidRequest(f"{edit.function}.sql does not have {edit.before!r}; plant this defect differently")
        sources[path] = source.replace(edit.before, edit.after, 1)
    return tuple(sources.values())


_SEND, _RECEIVE, _TAKE = "messages/send_batch", "messages/receive_batch", "messages/take_batch"
_GIVE_BACK, _LOCK, _EXPIRE = "leases/give_back", "leases/lock_leases", "leases/expire_leases"

_ACKS_THAT_NEVER_FAIL = """
from stafette.database.messages import Messages
from stafette.errors import StafetteError

ack = Messages.ack

async def ack_or_pretend(self, leases):
    try:
        return await ack(self, leases)
    except StafetteError:
        return [None] * len(leases)

Messages.ack = ack_or_pretend
"""

_SENDS_THAT_NEVER_FAIL = """
import itertools
from stafette.database.messages import Messages
from stafette.errors import StafetteError

send, ids = Messages.send_together, itertools.count(10**12)

async def send_or_pretend(self, groups):
    try:
        return await send(self, groups)
    except StafetteError:
        return [[[next(ids) for _ in request.draft.queues] for request in group] for group in groups]

Messages.send_together = send_or_pretend
"""

_RECEIVES_THAT_GIVE_UP = """
from stafette.client.failover import Failover

receive = Failover.receive

async def receive_and_give_up(self, request):
    answer = await receive(self, request)
    if answer.messages:
        self.give_up(request)
    return answer

Failover.receive = receive_and_give_up
"""

DEFECTS: tuple[Defect, ...] = (
    Defect(
        "a send is answered before it is on disk", "send", ("lost",), fault="postmaster killed",
        edits=(Edit(_SEND, "    PERFORM stafette.lock_catalog();\n",
                    "    PERFORM stafette.lock_catalog(), set_config('synchronous_commit', 'off', true);\n"),),
    ),
    Defect(
        "a send is answered before the standby has it", "send", ("lost",), fault="standby promoted", strikes=3,
        edits=(Edit(_SEND, "    PERFORM stafette.lock_catalog();\n",
                    "    PERFORM stafette.lock_catalog(), set_config('synchronous_commit', 'local', true);\n"),),
    ),
    Defect(
        "a send that failed is answered with ids", "send", ("lost",), fault="postmaster killed",
        broker=_SENDS_THAT_NEVER_FAIL,
    ),
    Defect(
        "a send whose answer was lost is called not done", "send", ("invented",), fault="connection cut",
        load="from stafette.protocol.client import Lost\nLost.outcome = 'not done'",
    ),
    Defect(
        "a send without a key is repeated", "send", ("duplicated",), fault="connection cut",
        load="from stafette.client import failover\nfailover.may_repeat = lambda *_, **__: True",
    ),
    Defect(
        "the ids of a batch are shifted", "send", ("mixed up",),
        edits=(Edit(_SEND, "CASE WHEN a.stored THEN a.id ",
                    "CASE WHEN a.stored THEN lag(a.id, 1, a.id) OVER (ORDER BY a.place) "),),
    ),
    Defect(
        "messages without an end are dropped as expired", "send", ("lost",),
        edits=(Edit("messages/drop_expired", "WHERE r.expires_at <= now()",
                    "WHERE coalesce(r.expires_at, r.arrived_at) <= now()"),),
        strikes=12,
    ),
    Defect(
        "a key is not stored", "send with key", ("duplicated",), fault="connection cut",
        edits=(Edit(_SEND, "DISTINCT ON (sender, key) sender, key,",
                    "DISTINCT ON (sender, key) sender, key || clock_timestamp(),"),),
    ),
    Defect(
        "a repetition is answered with new ids", "send with key", ("mixed up",), fault="connection cut",
        edits=(Edit(_SEND, "THEN k.ids[a.part] END", "THEN a.id END"),),
    ),
    Defect(
        "one of several queues is left out", "several queues", ("lost",),
        edits=(Edit(_SEND, "FROM good WHERE delay IS NULL OR delay = 0",
                    "FROM good WHERE (delay IS NULL OR delay = 0) AND id % 20 <> 0"),),
    ),
    Defect(
        "a receive removes a message and answers without it", "receive", ("lost",),
        edits=(Edit(_RECEIVE, "FROM taken AS t\n    ORDER BY", "FROM taken AS t WHERE t.id % 7 <> 0\n    ORDER BY"),),
    ),
    Defect(
        "the answers of a batch are shifted", "receive", ("mixed up",),
        edits=(Edit(_RECEIVE, "SELECT t.place, t.fault", "SELECT t.place % cardinality(asks) + 1, t.fault"),),
    ),
    Defect(
        "two readers get the same message", "receive", ("duplicated",), strikes=12,
        edits=(Edit(_TAKE, "LIMIT q.wanted\n        FOR UPDATE SKIP LOCKED", "LIMIT q.wanted"),
               Edit(_TAKE, "), deleted AS (\n            DELETE FROM stafette.ready AS r WHERE r.ctid = ANY (tids)"
                           " RETURNING r.*\n        )",
                    "), gone AS (\n            DELETE FROM stafette.ready AS r WHERE r.ctid = ANY (tids)\n        ),"
                    " deleted AS (\n            SELECT r.* FROM stafette.ready AS r WHERE r.ctid = ANY (tids)"
                    "\n        )")),
    ),
    Defect(
        "the newest message comes first", "receive", ("out of order",), strikes=8,
        edits=(Edit(_TAKE, "ORDER BY r.rank, r.id LIMIT", "ORDER BY r.rank, r.id DESC LIMIT"),),
    ),
    Defect(
        "a page leaves out its last message", "receive many", ("lost",),
        edits=(Edit(_TAKE, "AND d.turn <= p.up_to;", "AND d.turn <= p.up_to - (p.wanted > 1)::integer;"),),
    ),
    Defect(
        "what was received is not kept", "receive", ("lost",), fault="connection cut",
        edits=(Edit(_RECEIVE, "WHERE sessions[t.place] IS NOT NULL AND t.fault IS NULL", "WHERE false"),),
    ),
    Defect(
        "a receive that is sent again gets other messages", "receive", ("lost",), fault="connection cut",
        edits=(Edit("messages/replay_batch", "AND r.client_id = a.client", "AND false"),),
    ),
    Defect(
        "what was given up does not go back", "receive cancelled", ("lost",),
        edits=(Edit("messages/give_back_received", "WHERE stafette.is_held(r.queue_id, r.receiver_id)",
                    "WHERE false"),),
    ),
    Defect(
        "what has arrived is given up", "receive", ("duplicated",),
        load=_RECEIVES_THAT_GIVE_UP,
    ),
    Defect(
        "a session that has moved reads on", "receive", ("lost",), fault="broker frozen", strikes=8,
        edits=(Edit("messages/resolve_asks", "WHEN a.token IS NOT NULL AND a.token IS DISTINCT FROM n.token THEN 108",
                    "WHEN false THEN 108"),),
    ),
    Defect(
        "an ack does not look at its token", "lease", ("unfenced",), strikes=12,
        edits=(Edit(_LOCK, "WHERE l.token = a.token AND l.holder_id = a.client AND ", "WHERE "),),
    ),
    Defect(
        "an ack does not look at the lease's end", "lease", ("unfenced",), strikes=8,
        edits=(Edit(_LOCK, " AND l.leased_until > now()", ""),),
    ),
    Defect(
        "an acknowledged message is kept", "lease", ("duplicated",),
        edits=(Edit("leases/ack_batch", "DELETE FROM stafette.leased AS l WHERE ",
                    "DELETE FROM stafette.leased AS l WHERE l.id % 5 <> 0 AND "),),
    ),
    Defect(
        "an ack that failed is answered with done", "lease", ("duplicated",), fault="postmaster killed",
        broker=_ACKS_THAT_NEVER_FAIL,
    ),
    Defect(
        "a lease ends before its time", "lease", ("ended early", "duplicated"), strikes=8,
        edits=(Edit(_EXPIRE, "WHERE l.leased_until <= now()", "WHERE l.leased_until <= now() + interval '900 ms'"),),
    ),
    Defect(
        "a lease that ran out takes its message along", "lease", ("lost",),
        edits=(Edit(_EXPIRE, "PERFORM stafette.give_back(ids, NULL);",
                    "DELETE FROM stafette.leased AS l WHERE l.id = ANY (ids);"),),
    ),
    Defect(
        "a message that is given back is dropped", "lease", ("lost",),
        edits=(Edit(_GIVE_BACK, "FROM returned WHERE NOT exhausted AND coalesce(delay, 0) = 0",
                    "FROM returned WHERE NOT exhausted AND coalesce(delay, 0) = 0 AND id % 5 <> 0"),),
    ),
    Defect(
        "a message that is given back loses its priority", "lease", ("altered",),
        edits=(Edit(_GIVE_BACK, "SELECT id, store_id, receiver_id, sender_id, rank, deliveries,",
                    "SELECT id, store_id, receiver_id, sender_id, 9, deliveries,"),),
    ),
    Defect(
        "a message that is given back forgets its deliveries", "lease", ("altered",),
        edits=(Edit(_GIVE_BACK, "SELECT id, store_id, receiver_id, sender_id, rank, deliveries,",
                    "SELECT id, store_id, receiver_id, sender_id, rank, 0,"),),
    ),
    Defect(
        "a delayed message never becomes ready", "lease", ("lost",),
        edits=(Edit("messages/promote_delayed", "FROM deleted\n", "FROM deleted WHERE id % 3 <> 0\n"),),
    ),
    Defect(
        "a reply goes to another request", "request", ("mixed up",),
        edits=(Edit("messages/resolve_asks", "a.place, a.client, q.store_id, s.id, a.context,",
                    "a.place, a.client, q.store_id, s.id, NULL::bigint,"),),
    ),
    Defect(
        "a transaction receives more than it is shown", "sql", ("lost",),
        edits=(Edit("sql_api/receive", "ARRAY[wanted], ARRAY[NULL::bigint], 4611686018427387904\n    ) LOOP",
                    "ARRAY[wanted + 1], ARRAY[NULL::bigint], 4611686018427387904\n    ) LIMIT 1 LOOP"),),
    ),
)  # fmt: skip
