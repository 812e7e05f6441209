"""What a running broker tells its operator: figures, memory, and what every thread and task is doing right now."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import resource
import sys
import threading
import traceback
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from stafette.broker.figures import Figures
from stafette.broker.node import Node

STATEMENT = Path("/proc/self/statm")
KIBIBYTE = 1024
LARGEST_PLACES = 10


def status(node: Node, url: str) -> dict[str, object]:
    """The node's figures."""
    figures = node.figures
    return {
        "broker": node.name,
        "pid": os.getpid(),
        "url": url,
        "uptime_seconds": round(figures.uptime, 3),
        "draining": node.draining,
        "clients": len(node.sessions),
        "connections": len(node.connections),
        "in_flight": node.engine.outstanding,
        "parked": len(node.parking),
        "answered": sum(figures.answered.values()),
        "failed": sum(figures.failed.values()),
        "batches": sum(figures.batch_requests.counts),
        "database_seconds": round(figures.database_seconds.total, 3),
        "received_bytes": figures.received_bytes,
        "sent_bytes": figures.sent_bytes,
        "refusals": dict(node.refusals),
    }


class Recent:
    """Means since they were last asked for."""

    def __init__(self) -> None:
        self._before = (0, 0.0, 0, 0.0, 0.0)

    def means(self, figures: Figures) -> dict[str, object]:
        """The size of a batch, and how many milliseconds requests waited and batches took; None: there were none."""
        now = (
            sum(figures.batch_requests.counts),
            figures.batch_requests.total,
            sum(figures.queue_seconds.counts),
            figures.queue_seconds.total,
            figures.database_seconds.total,
        )
        batches, requests, waits, waited, database = (new - old for new, old in zip(now, self._before, strict=True))
        self._before = now
        return {
            "mean_batch": round(requests / batches, 2) if batches else None,
            "mean_queue_ms": round(waited / waits * 1000, 3) if waits else None,
            "mean_database_ms": round(database / batches * 1000, 3) if batches else None,
        }


def published(node: Node, recent: Recent) -> dict[str, object]:
    """What operators elsewhere get to know of a node."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        **status(node, node.url),
        "sent": node.figures.sent,
        "received": node.figures.handed_out,
        **recent.means(node.figures),
        "resident_bytes": _resident_bytes(),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 3),
    }


def memory(node: Node) -> dict[str, object]:
    """How much memory there is in use and what may be holding it; cheap enough for a broker under load."""
    sessions = list(node.sessions.values())
    return {
        "broker": node.name,
        "pid": os.getpid(),
        "resident_bytes": _resident_bytes(),
        "python_blocks": sys.getallocatedblocks(),
        "connections": len(node.connections),
        "sessions": len(sessions),
        "pending": sum(session.in_flight for session in sessions),
        "parked": len(node.parking),
        "unsent_bytes": sum(connection.unsent for connection in node.connections),
        "tasks": len(asyncio.all_tasks()),
        "garbage_counts": list(gc.get_count()),
        "garbage_collections": [generation["collections"] for generation in gc.get_stats()],
        "allocated_at": _largest_places(),
    }


def stacks(loop: asyncio.AbstractEventLoop) -> str:
    """The stack of every thread and every task. May be called while the loop is stuck."""
    text = io.StringIO()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        print(f"Thread {names.get(ident, ident)}", file=text)
        text.writelines(traceback.format_stack(frame))
    for task in sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name()):
        print(f"Task {task.get_name()} {task.get_coro()}", file=text)
        text.writelines(_awaits(task.get_coro()))
    return text.getvalue()


def _awaits(waiting: object) -> Iterator[str]:
    """Where a coroutine waits, and where the one waits that it waits for, down to the last."""
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is not None:
            yield from traceback.format_stack(frame, limit=1)
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)


def _resident_bytes() -> int:
    try:
        return int(STATEMENT.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # elsewhere than on Linux: the most there ever was
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIBIBYTE


def _largest_places() -> list[str] | str:
    """Where most memory was allocated, if that is being traced: it slows everything down."""
    if not tracemalloc.is_tracing():
        return "not traced; start the broker with PYTHONTRACEMALLOC=1"
    places = tracemalloc.take_snapshot().statistics("lineno")
    return [str(place) for place in places[:LARGEST_PLACES]]
