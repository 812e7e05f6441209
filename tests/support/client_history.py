"""What clients asked for and were told, and whether that can be true.

Every message's body is unique. Each call is noted when it is made and again when its answer is there, so that at the
end we know of every body whether it must be somewhere, may be, or must not be.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

import asyncpg

from stafette.client.aio import Client
from stafette.errors import BY_CODE, RequestTimeout, StafetteError, Unavailable

QUEUE = "work"
T = TypeVar("T")


@dataclass
class History:
    """The calls of all clients."""

    answered: set[bytes] = field(default_factory=set)
    """Sends that were answered with ids."""
    refused: set[bytes] = field(default_factory=set)
    """Sends that were answered with an error that says that nothing has happened."""
    unknown: set[bytes] = field(default_factory=set)
    """Sends without an answer, so far or for good."""
    taken: Counter[bytes] = field(default_factory=Counter)
    """Bodies received, or acknowledged, with an answer."""
    unknown_acks: set[bytes] = field(default_factory=set)
    unknown_reads: int = 0
    """Receives without an answer: each may have removed one message."""
    errors: Counter[type[StafetteError]] = field(default_factory=Counter)
    answers: int = 0
    _numbers: count[int] = field(default_factory=count)
    _progress: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def send(self, client: Client, *, key: bool = False) -> None:
        body = f"message {next(self._numbers)} of {client.name}".encode()
        self.unknown.add(body)
        outcome = await self._outcome(client.send(QUEUE, body, key=body.decode() if key else None))
        if not isinstance(outcome, StafetteError):
            self.answered.add(body)
        elif outcome.outcome == "not done":
            self.refused.add(body)
        else:
            return
        self.unknown.discard(body)

    async def receive(self, client: Client) -> None:
        outcome = await self._outcome(client.receive(QUEUE, wait=0.5))
        if isinstance(outcome, StafetteError):
            self.unknown_reads += outcome.outcome != "not done"
        elif outcome is not None:
            self.taken[outcome.body] += 1

    async def lease(self, client: Client) -> None:
        lease = await self._outcome(_awaited(client.lease(QUEUE, seconds=3600, wait=0.5)))
        if lease is None or isinstance(lease, StafetteError):
            return
        body = lease.message.body
        outcome = await self._outcome(lease.ack())
        if isinstance(outcome, StafetteError):
            self.unknown_acks.add(body)
        else:
            self.taken[body] += 1

    async def _outcome(self, call: Awaitable[T]) -> T | StafetteError:
        """The answer, or the error if it is one that a fault may cause; any other is a defect."""
        try:
            answer = await call
        except (Unavailable, RequestTimeout) as error:
            self.errors[BY_CODE[error.code]] += 1
            return error
        async with self._progress:
            self.answers += 1
            self._progress.notify_all()
        return answer

    async def more_answers(self, answers: int) -> None:
        """Wait until so many more calls have been answered."""
        goal = self.answers + answers
        async with asyncio.timeout(60), self._progress:
            await self._progress.wait_for(lambda: self.answers >= goal)

    async def check(self, database: str, reader: Client) -> None:
        """Compare with what is left in the database, then read all that and compare again."""
        connection = await asyncpg.connect(database)
        left = Counter[bytes](
            row[0]
            for row in await connection.fetch(
                "SELECT body FROM stafette.ready UNION ALL SELECT body FROM stafette.leased"
                " UNION ALL SELECT body FROM stafette.delayed UNION ALL SELECT body FROM stafette.dead"
            )
        )
        await connection.execute("UPDATE stafette.leased SET leased_until = now() - interval '1 second'")
        await connection.close()
        self.compare(left)
        drained = Counter[bytes]()
        while drained.total() < left.total():
            message = await reader.receive(QUEUE, wait=30)
            assert message is not None, f"{left.total() - drained.total()} messages are there but nobody gets them"
            drained[message.body] += 1
        assert drained == left

    def compare(self, left: Counter[bytes]) -> None:
        """Every answered send was delivered once or is still there; nothing else was delivered or is there."""
        for found in (self.taken, left):
            assert max(found.values(), default=1) == 1, "a message is there, or was delivered, twice"
        gone, here = set(self.taken), set(left)
        assert not gone & here, "a message was delivered and is still there"
        assert gone | here <= self.answered | self.unknown, "a message that was refused, or never sent"
        missing = self.answered - gone - here - self.unknown_acks
        assert len(missing) <= self.unknown_reads, f"{len(missing)} messages are lost"


async def _awaited(call: Awaitable[T]) -> T:
    return await call


class Load:
    """Clients that go on through every failure until they are stopped."""

    def __init__(self) -> None:
        self._stopped = asyncio.Event()

    async def until_stopped(self, behaviour: Callable[[], Awaitable[None]]) -> None:
        while not self._stopped.is_set():
            await behaviour()
            await asyncio.sleep(0)  # a failure may come without giving way to other tasks

    def stop(self) -> None:
        self._stopped.set()
