"""Several broker processes on one port, and the parent that supervises them.

The parent starts workers, restarts those that die, forwards the signal to stop, and ends when all have ended. Each
worker has a socket pair with the parent. Over it the worker reports that it serves, or why it cannot. If the parent
dies, its end closes and the worker stops. The first worker must serve before the others start, so that an error that
all of them would have is reported once.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import FrameType
from typing import NoReturn

import msgspec
import uvloop

from stafette.broker.listening import bind, port_of, reserve
from stafette.broker.process import serve
from stafette.broker.server import BrokerSettings
from stafette.errors import InternalError, StafetteError, from_code

log = logging.getLogger(__name__)

FIRST_RESTART_SECONDS, MAX_RESTART_SECONDS = 0.5, 30.0
"""Seconds before a dead worker is restarted: doubled with each death in a row."""

HEALTHY_SECONDS = 60.0
"""A worker that lived this long was healthy: its death counts as the first in a row."""

ERROR = 1
STOP = (signal.SIGTERM, signal.SIGINT)
REPORT_BYTES = 65536


class Report(msgspec.Struct):
    """What a worker reports: the port on which it serves, or the error that ends it."""

    port: int = 0
    code: int = 0
    message: str = ""


@dataclass
class Worker:
    """One of the workers, and its present process, if any."""

    number: int
    pid: int | None = None
    lifeline: socket.socket | None = None
    started_at: float = 0.0
    deaths: int = 0
    due_at: float | None = None
    """When to start it, or start it again."""

    def read_final_error(self) -> str:
        """The error that it reported before it ended, or ""; also closes the lifeline."""
        assert self.lifeline is not None
        self.lifeline.setblocking(False)
        with suppress(OSError):
            payload = self.lifeline.recv(REPORT_BYTES)
            self.close()
            reports = msgspec.json.Decoder(Report).decode_lines(payload)
            return next((f"failed: {report.message}" for report in reports if report.code), "")
        return ""

    def close(self) -> None:
        """Close the lifeline of a process that has ended."""
        if self.lifeline is not None:
            self.lifeline.close()
            self.lifeline = None


class Workers:
    """The parent process."""

    def __init__(self, settings: BrokerSettings, count: int) -> None:
        self._settings = settings
        self._workers = [Worker(number) for number in range(count)]
        self._stopping = False
        self._code = 0

    def run(self, started: Callable[[int], None]) -> int:
        """Serve until told to stop; returns the exit code. `started` is called with the port."""
        self._settings.check()
        reserved = reserve(self._settings.host, self._settings.port)
        self._settings = replace(self._settings, port=port_of(reserved))
        wakeup_reader, wakeup_writer = socket.socketpair()
        wakeup_writer.setblocking(False)
        signal.set_wakeup_fd(wakeup_writer.fileno(), warn_on_full_buffer=False)
        for number in (*STOP, signal.SIGCHLD):
            signal.signal(number, self._on_signal)
        first, *other_workers = self._workers
        self._start(first)
        try:
            if self._wait_until_serving(first):
                started(self._settings.port)
                for worker in other_workers:
                    worker.due_at = 0.0
            while any(worker.pid or worker.due_at is not None for worker in self._workers):
                self._start_due()
                if select.select([wakeup_reader], [], [], self._pause())[0]:
                    wakeup_reader.recv(REPORT_BYTES)
                self._reap()
            return self._code
        finally:
            signal.set_wakeup_fd(-1)  # the sockets close now, and signals may still come

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Forward the signal to stop. SIGCHLD needs no action: it wakes the loop."""
        if number in STOP:
            self._stopping = True
            for worker in self._workers:
                worker.due_at = None
                if worker.pid:
                    os.kill(worker.pid, signal.SIGTERM)

    # Starting

    def _start(self, worker: Worker) -> None:
        """Fork a worker. Signals are blocked until its pid is stored, so that it gets them too."""
        parent_end, child_end = socket.socketpair()
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP)
        try:
            if self._stopping:
                return
            pid = os.fork()
            if not pid:
                self._run_child(worker.number, parent_end, child_end)
            worker.pid, worker.lifeline, worker.started_at, worker.due_at = pid, parent_end, time.monotonic(), None
        finally:
            child_end.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP)

    def _run_child(self, index: int, parent_end: socket.socket, lifeline: socket.socket) -> NoReturn:
        """Run as the worker, until the process exits."""
        code = ERROR
        try:
            signal.set_wakeup_fd(-1)
            for number in (*STOP, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP)
            parent_end.close()
            for other in self._workers:  # else this child would keep the lifelines of other workers open
                if other.lifeline:
                    other.lifeline.close()
            name = self._settings.name and f"{self._settings.name}/{index + 1}"
            code = _run_worker(replace(self._settings, name=name), index, lifeline)
        except BaseException:
            log.exception("worker %d failed", index)
        finally:
            logging.shutdown()
            os._exit(code)

    def _wait_until_serving(self, worker: Worker) -> bool:
        """Wait until a worker serves; raises the error that it reports. False if we are told to stop before."""
        assert worker.lifeline is not None
        payload = worker.lifeline.recv(REPORT_BYTES)
        report = msgspec.json.decode(payload, type=Report) if payload else None
        if report is None and not self._stopping:
            raise InternalError("the first worker died before it served; see its log")
        if report is not None and report.code:
            raise from_code(report.code, report.message)
        return report is not None

    # Reaping and restarting

    def _reap(self) -> None:
        for worker in self._workers:
            if worker.pid is None:
                continue
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if not pid:
                continue
            worker.pid = None
            code = os.waitstatus_to_exitcode(status)
            if code == 0 or (self._stopping and code == -signal.SIGTERM):
                worker.close()
            elif self._stopping:
                self._code = ERROR
            else:
                self._schedule_restart(worker, pid, worker.read_final_error() or _exit_reason(code))

    def _schedule_restart(self, worker: Worker, pid: int, reason: str) -> None:
        """Restart a worker after a pause, which grows each time that it dies soon."""
        now = time.monotonic()
        worker.deaths = 1 if now - worker.started_at > HEALTHY_SECONDS else worker.deaths + 1
        pause = min(FIRST_RESTART_SECONDS * 2.0 ** (worker.deaths - 1), MAX_RESTART_SECONDS)
        worker.due_at = now + pause
        log.error("worker %d (process %d) %s; restarting it in %g seconds", worker.number, pid, reason, pause)

    def _start_due(self) -> None:
        for worker in self._workers:
            if worker.due_at is not None and worker.due_at <= time.monotonic():
                self._start(worker)

    def _pause(self) -> float | None:
        due = [worker.due_at for worker in self._workers if worker.due_at is not None]
        return max(min(due) - time.monotonic(), 0.0) if due else None


def _run_worker(settings: BrokerSettings, index: int, lifeline: socket.socket) -> int:
    """Run a broker in a worker process; returns the exit code."""

    def send_report(report: Report) -> None:
        with suppress(OSError):  # the parent has died; the lifeline will show it
            lifeline.sendall(msgspec.json.encode(report) + b"\n")

    try:
        uvloop.run(
            serve(
                settings,
                listening=bind(settings.host, settings.port, shared=True),
                lifeline=lifeline,
                worker=index,
                started=lambda port: send_report(Report(port=port)),
            )
        )
    except StafetteError as error:
        send_report(Report(code=error.code, message=str(error)))
        return ERROR
    return 0


def _exit_reason(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"died with exit code {code}"
