"""One fault, all uses at once: load, strikes at random moments; then the queues are drained and the history checked."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import stafette.aio
from bench.torture.actors import handed
from bench.torture.checker import Findings, Violation, check
from bench.torture.faults import Fault
from bench.torture.history import Handed, longest_silence, settle_reads, settle_sends
from bench.torture.system import NOTHING_PLANTED, Planted, System, running
from bench.torture.uses import Use
from bench.torture.waiting import LIMIT_SECONDS, until
from stafette.errors import InternalError, RequestTimeout, StafetteError

PROGRESS = 10
"""Answered calls of every use that show that it goes on."""
PAUSE_SECONDS = 0.5
"""The longest pause from then to the next strike."""
STRIKE_SECONDS = 120.0
"""How long a strike may take, with putting everything back."""
PAGE = 200
UNREAD = """
SELECT count(*) FROM (
    SELECT expires_at FROM stafette.ready UNION ALL SELECT expires_at FROM stafette.leased
    UNION ALL SELECT expires_at FROM stafette.delayed UNION ALL SELECT expires_at FROM stafette.dead
) AS m WHERE m.expires_at IS NULL OR m.expires_at > now()
"""


@dataclass
class Run:
    """What came of one fault."""

    fault: str
    strikes: int = 0
    seconds: float = 0.0
    silences: dict[str, float] = field(default_factory=dict)
    """By use: the longest time without an answer, in seconds."""
    findings: dict[str, Findings] = field(default_factory=dict)
    """By use."""
    problems: list[Violation] = field(default_factory=list)
    """What concerns no single use."""
    skipped: str = ""
    """Why there is nothing."""

    @property
    def violations(self) -> list[tuple[str, Violation]]:
        """All broken promises, with the use."""
        by_use = [(use, violation) for use, findings in self.findings.items() for violation in findings.violations]
        return [("all", violation) for violation in self.problems] + by_use


async def torture(
    fault: Fault, uses: Sequence[Use], *, strikes: int, seconds: float, planted: Planted = NOTHING_PLANTED
) -> Run:
    """Strike so often, for so many seconds at most, and check what came of it."""
    run = Run(fault.name)
    started = time.monotonic()
    with _folders() as (folder, data), fault.prepared(data):
        async with running(folder, fault.database(data), uses, planted) as system:
            deadline = time.monotonic() + seconds
            await _go_on(system)
            while run.strikes < strikes and time.monotonic() < deadline:
                await asyncio.sleep(random.uniform(0.0, PAUSE_SECONDS))
                try:
                    async with asyncio.timeout(STRIKE_SECONDS):
                        await fault.strike(system)
                    run.strikes += 1
                    await _go_on(system)
                except (StafetteError, TimeoutError) as error:
                    run.problems.append(Violation("stuck", f"after {run.strikes} strikes: {error}"))
                    break
            if not await system.load.stop():
                run.problems.append(Violation("stuck", "the load did not end; a call hangs, or it failed"))
            await _check(system, run)
    run.seconds = time.monotonic() - started
    return run


@contextmanager
def _folders() -> Iterator[tuple[Path, Path]]:
    """One for logs, and in it one for the database."""
    with tempfile.TemporaryDirectory(prefix="stafette-torture-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL's user passes through
        (folder / "database").mkdir()
        yield folder, folder / "database"


async def _go_on(system: System) -> None:
    """Wait until every use has had some more answers."""
    goals = {use.name: system.history.answers[use.name] + PROGRESS for use in system.uses}

    def waiting() -> list[str]:
        return [name for name, goal in goals.items() if system.history.answers[name] < goal]

    async def all_went_on() -> bool:
        return not waiting() or not system.load.runs

    try:
        await until(all_went_on, "all uses to go on")
    except RequestTimeout:
        raise RequestTimeout(f"{', '.join(waiting())} had no answers for {LIMIT_SECONDS:g} seconds") from None
    if not system.load.runs:
        raise InternalError(f"the load has failed: {system.load.last_words}")


async def _check(system: System, run: Run) -> None:
    try:
        left = await _drain(system)
    except (StafetteError, TimeoutError) as error:  # and without knowing what is left, nothing else can be said
        run.problems.append(Violation("stuck", f"the queues could not be drained: {error}"))
        return
    for use in system.uses:
        calls = system.history.of_use(use.name)
        run.silences[use.name] = longest_silence(calls)
        if use.sql:
            sent = await system.fetch("SELECT body FROM torture.sent")
            settle_sends(calls, {row["body"] for row in sent})
            taken = await system.fetch("SELECT id, 'sql', body, priority FROM torture.taken")
            calls = settle_reads(calls, [Handed(*row) for row in taken])
        queues = {queue for call in calls for queue in call.began.queues}
        run.findings[use.name] = check(calls, [entry for entry in left if entry.queue in queues], ordered=use.ordered)


async def _drain(system: System) -> list[Handed]:
    """Receive until nothing is left; leases have to run out first."""
    left: list[Handed] = []
    requesters = {call.began.client for call in system.history.calls.values() if call.began.kind == "request"}
    async with AsyncExitStack() as exits:
        drain = await exits.enter_async_context(await _connect(system, "drain"))
        readers = [(drain, queue) for use in system.uses for queue in use.queues]
        for name in sorted(requesters):
            requester = await exits.enter_async_context(await _connect(system, name))
            readers.append((requester, f"@{name}"))

        async def is_empty() -> bool:
            for reader, queue in readers:
                while messages := await reader.receive_many(queue, PAGE):
                    left.extend(map(handed, messages))
            return not (await system.fetch(UNREAD))[0][0]

        await until(is_empty, "the queues to be empty")
    return left


async def _connect(system: System, name: str) -> stafette.aio.Client:
    return await stafette.aio.connect(system.broker_url, name=name)
