"""Several broker processes on one port, and the parent that looks after them.

The parent does nothing but start workers, start again those that die, pass on the signal to stop, and end when all have
ended. A socket pair ties each worker to it: over it the worker reports that it serves, or why it cannot; and when the
parent dies its end closes, which the worker takes for the signal to stop. The first worker must serve before the others
are started, so that what is wrong with all of them is said once.
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

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a dead worker is started again: doubling with each death in a row."""

HEALTHY_SECONDS = 60.0
"""A worker that lived so long was well: its death is the first in a row."""

ERROR = 1
STOP = (signal.SIGTERM, signal.SIGINT)
REPORT_BYTES = 65536


class Report(msgspec.Struct):
    """What a worker says once: that it serves on a port, or the error that keeps it from that."""

    port: int = 0
    code: int = 0
    sentence: str = ""


@dataclass
class Worker:
    """One place among the workers, and the process that fills it, if any."""

    number: int
    pid: int | None = None
    lifeline: socket.socket | None = None
    started_at: float = 0.0
    deaths: int = 0
    due_at: float | None = None
    """When to start it (again)."""

    def last_words(self) -> str:
        """The error that it reported at the end, if it did; also closes the lifeline."""
        assert self.lifeline is not None
        self.lifeline.setblocking(False)
        with suppress(OSError):
            said = self.lifeline.recv(REPORT_BYTES)
            self.close()
            reports = msgspec.json.Decoder(Report).decode_lines(said)
            return next((f"failed: {report.sentence}" for report in reports if report.code), "")
        return ""

    def close(self) -> None:
        """Let go of the lifeline of a process that has ended."""
        if self.lifeline is not None:
            self.lifeline.close()
            self.lifeline = None


class Workers:
    """The parent."""

    def __init__(self, settings: BrokerSettings, count: int) -> None:
        self._settings = settings
        self._workers = [Worker(number) for number in range(count)]
        self._stopping = False
        self._code = 0

    def run(self, started: Callable[[int], None]) -> int:
        """Serve until told to stop; returns the exit code. `started` learns the port."""
        self._settings.check()
        held = reserve(self._settings.host, self._settings.port)
        self._settings = replace(self._settings, port=port_of(held))
        woken, wake = socket.socketpair()
        wake.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        for number in (*STOP, signal.SIGCHLD):
            signal.signal(number, self._on_signal)
        first, *others = self._workers
        self._start(first)
        try:
            if self._serves(first):
                started(self._settings.port)
                for worker in others:
                    worker.due_at = 0.0
            while any(worker.pid or worker.due_at is not None for worker in self._workers):
                self._start_those_due()
                if select.select([woken], [], [], self._pause())[0]:
                    woken.recv(REPORT_BYTES)
                self._bury()
            return self._code
        finally:
            signal.set_wakeup_fd(-1)  # the sockets go now, and signals may still come

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Pass the signal to stop on; for a child's end it is enough that it wakes us."""
        if number in STOP:
            self._stopping = True
            for worker in self._workers:
                worker.due_at = None
                if worker.pid:
                    os.kill(worker.pid, signal.SIGTERM)

    # Starting

    def _start(self, worker: Worker) -> None:
        """Fork a worker; signals wait meanwhile, so that it is known to whoever passes them on."""
        ours, theirs = socket.socketpair()
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP)
        try:
            if self._stopping:
                return
            pid = os.fork()
            if not pid:
                self._be(worker.number, ours, theirs)
            worker.pid, worker.lifeline, worker.started_at, worker.due_at = pid, ours, time.monotonic(), None
        finally:
            theirs.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP)

    def _be(self, number: int, parents: socket.socket, lifeline: socket.socket) -> NoReturn:
        """Be that worker, to the end of the process."""
        code = ERROR
        try:
            signal.set_wakeup_fd(-1)
            for caught in (*STOP, signal.SIGCHLD):
                signal.signal(caught, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP)
            parents.close()
            for other in self._workers:  # or a brother would keep the lifeline of this one open
                if other.lifeline:
                    other.lifeline.close()
            called = self._settings.name and f"{self._settings.name}/{number + 1}"
            code = _work(replace(self._settings, name=called), number, lifeline)
        except BaseException:
            log.exception("worker %d failed", number)
        finally:
            logging.shutdown()
            os._exit(code)

    def _serves(self, worker: Worker) -> bool:
        """Wait until a worker serves; raise what keeps it from that. False when it was told to stop before."""
        assert worker.lifeline is not None
        said = worker.lifeline.recv(REPORT_BYTES)
        report = msgspec.json.decode(said, type=Report) if said else None
        if report is None and not self._stopping:
            raise InternalError("the first worker died before it served; its log says why")
        if report is not None and report.code:
            raise from_code(report.code, report.sentence)
        return report is not None

    # Burying, and starting again

    def _bury(self) -> None:
        for worker in self._workers:
            if worker.pid is None:
                continue
            ended, status = os.waitpid(worker.pid, os.WNOHANG)
            if not ended:
                continue
            worker.pid = None
            code = os.waitstatus_to_exitcode(status)
            if code == 0 or (self._stopping and code == -signal.SIGTERM):
                worker.close()
            elif self._stopping:
                self._code = ERROR
            else:
                self._let_rise(worker, ended, worker.last_words() or _manner(code))

    def _let_rise(self, worker: Worker, pid: int, why: str) -> None:
        """Have a worker started again, later each time that it dies soon."""
        now = time.monotonic()
        worker.deaths = 1 if now - worker.started_at > HEALTHY_SECONDS else worker.deaths + 1
        pause = min(FIRST_PAUSE * 2.0 ** (worker.deaths - 1), LONGEST_PAUSE)
        worker.due_at = now + pause
        log.error("worker %d (process %d) %s; starting it again in %g seconds", worker.number, pid, why, pause)

    def _start_those_due(self) -> None:
        for worker in self._workers:
            if worker.due_at is not None and worker.due_at <= time.monotonic():
                self._start(worker)

    def _pause(self) -> float | None:
        due = [worker.due_at for worker in self._workers if worker.due_at is not None]
        return max(min(due) - time.monotonic(), 0.0) if due else None


def _work(settings: BrokerSettings, number: int, lifeline: socket.socket) -> int:
    """What a worker does; returns its exit code."""

    def say(report: Report) -> None:
        with suppress(OSError):  # the parent has died, which the lifeline will tell
            lifeline.sendall(msgspec.json.encode(report) + b"\n")

    try:
        uvloop.run(
            serve(
                settings,
                listening=bind(settings.host, settings.port, shared=True),
                lifeline=lifeline,
                worker=number,
                started=lambda port: say(Report(port=port)),
            )
        )
    except StafetteError as error:
        say(Report(code=error.code, sentence=str(error)))
        return ERROR
    return 0


def _manner(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"died with exit code {code}"
