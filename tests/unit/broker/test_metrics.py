"""What a broker counts: answers, those that failed, and the messages in them."""

from __future__ import annotations

from datetime import UTC, datetime

from stafette.broker.diagnostics import Recent
from stafette.broker.metrics import Metrics
from stafette.database.maintenance import Work
from stafette.model import Draft, Leased, Message, Selection
from stafette.protocol import messages as wire

MESSAGE = Message(1, "jobs", "alice", None, None, 5, datetime(2020, 1, 1, tzinfo=UTC), 0, None, b"")


def test_messages_are_counted_where_they_are_sent_and_handed_out() -> None:
    metrics = Metrics()
    send = wire.Send(1, [Draft(("jobs",), b"")])
    read = Selection("jobs")
    for request, answer in (
        (send, wire.Sent(1, [[4]])),
        (send, wire.Sent(1, [[5, 6], [7]])),
        (send, wire.Failed(1, 102, "QueueNotFound", "there is none", "caller", "not done")),
        (wire.Receive(1, read), wire.Messages(1, [MESSAGE, MESSAGE])),
        (wire.Receive(1, read), wire.Messages(1, [])),
        (wire.Peek(1, read), wire.Messages(1, [MESSAGE])),
        (wire.Browse(1, "jobs"), wire.Messages(1, [MESSAGE])),
        (wire.Lease(1, read), wire.Leases(1, [Leased(MESSAGE, 7)])),
        (wire.Ack(1, 1, 7), wire.Done(1)),
    ):
        metrics.answer(request, answer)
    assert (metrics.sent, metrics.handed_out) == (4, 3)
    assert (sum(metrics.answered.values()), sum(metrics.failed.values())) == (9, 1)


def test_means_are_of_what_came_since_the_last_time() -> None:
    metrics, recent = Metrics(), Recent()
    assert recent.means(metrics) == {"mean_batch": None, "mean_queue_ms": None, "mean_database_ms": None}
    for requests in (1, 3):
        metrics.batch_requests.add(requests)
        metrics.queue_seconds.add(0.002, requests)
        metrics.database_seconds.add(0.01 * requests)
    assert recent.means(metrics) == {"mean_batch": 2.0, "mean_queue_ms": 2.0, "mean_database_ms": 20.0}
    metrics.batch_requests.add(8)
    metrics.database_seconds.add(0.001)
    assert recent.means(metrics) == {"mean_batch": 8.0, "mean_queue_ms": None, "mean_database_ms": 1.0}


def test_work_is_what_came_on_top() -> None:
    assert Work(sent=5, queue_seconds=1.5) - Work(sent=2, queue_seconds=0.5) == Work(sent=3, queue_seconds=1.0)
