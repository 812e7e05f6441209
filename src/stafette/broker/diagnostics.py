"""What a running broker shows its operator: metrics, memory, and the stacks of all threads and tasks."""

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

from stafette.broker.metrics import Metrics
from stafette.broker.runtime import Runtime

STATM_FILE = Path("/proc/self/statm")
KIBIBYTE = 1024
MAX_ALLOCATION_SITES = 10


def status(runtime: Runtime, url: str) -> dict[str, object]:
    """The broker's metrics."""
    core, metrics = runtime.core, runtime.core.metrics
    return {
        "broker": runtime.name,
        "pid": os.getpid(),
        "url": url,
        "uptime_seconds": round(runtime.uptime, 3),
        "draining": core.draining,
        "clients": len(core.sessions),
        "connections": len(core.connected),
        "in_flight": core.dispatcher.outstanding,
        "parked": len(core.waiting),
        "answered": sum(metrics.answered.values()),
        "failed": sum(metrics.failed.values()),
        "batches": sum(metrics.batch_requests.counts),
        "database_seconds": round(metrics.database_seconds.total, 3),
        "received_bytes": metrics.received_bytes,
        "sent_bytes": metrics.sent_bytes,
        "refusals": dict(core.admission.refusals),
    }


class Recent:
    """Means since the last call of `means`."""

    def __init__(self) -> None:
        self._before = (0, 0.0, 0, 0.0, 0.0)

    def means(self, metrics: Metrics) -> dict[str, object]:
        """Mean batch size, and milliseconds that requests waited and batches took; None: there were none."""
        now = (
            sum(metrics.batch_requests.counts),
            metrics.batch_requests.total,
            sum(metrics.queue_seconds.counts),
            metrics.queue_seconds.total,
            metrics.database_seconds.total,
        )
        batches, requests, waits, waited, database = (new - old for new, old in zip(now, self._before, strict=True))
        self._before = now
        return {
            "mean_batch": round(requests / batches, 2) if batches else None,
            "mean_queue_ms": round(waited / waits * 1000, 3) if waits else None,
            "mean_database_ms": round(database / batches * 1000, 3) if batches else None,
        }


def published_metrics(runtime: Runtime, recent: Recent) -> dict[str, object]:
    """The metrics that a broker writes to the database, for operators on other machines."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        **status(runtime, runtime.url),
        "sent": runtime.core.metrics.sent,
        "received": runtime.core.metrics.handed_out,
        **recent.means(runtime.core.metrics),
        "resident_bytes": _resident_bytes(),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 3),
    }


def memory(runtime: Runtime) -> dict[str, object]:
    """Memory in use, and what may hold it; cheap enough for a broker under load."""
    core = runtime.core
    sessions = list(core.sessions.values())
    return {
        "broker": runtime.name,
        "pid": os.getpid(),
        "resident_bytes": _resident_bytes(),
        "python_blocks": sys.getallocatedblocks(),
        "connections": len(core.connected),
        "sessions": len(sessions),
        "pending": sum(session.in_flight for session in sessions),
        "parked": len(core.waiting),
        "unsent_bytes": sum(session.connection.unsent for session in core.connected),
        "tasks": len(asyncio.all_tasks()),
        "garbage_counts": list(gc.get_count()),
        "garbage_collections": [generation["collections"] for generation in gc.get_stats()],
        "allocated_at": _largest_allocations(),
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


def _awaits(awaitable: object) -> Iterator[str]:
    """The frame where a coroutine waits, then that of the coroutine it awaits, down to the last."""
    while awaitable is not None:
        frame = getattr(awaitable, "cr_frame", None) or getattr(awaitable, "gi_frame", None)
        if frame is not None:
            yield from traceback.format_stack(frame, limit=1)
        awaitable = getattr(awaitable, "cr_await", None) or getattr(awaitable, "gi_yieldfrom", None)


def _resident_bytes() -> int:
    try:
        return int(STATM_FILE.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux: the peak instead
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIBIBYTE


def _largest_allocations() -> list[str] | str:
    """Where most memory was allocated, if tracemalloc is on; it slows everything down."""
    if not tracemalloc.is_tracing():
        return "not traced; start the broker with PYTHONTRACEMALLOC=1"
    sites = tracemalloc.take_snapshot().statistics("lineno")
    return [str(site) for site in sites[:MAX_ALLOCATION_SITES]]
