"""Clients whose calls are written down: each before it is made, and when it has ended."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any, TypeVar

from bench.torture.history import REPLY, Began, Ended, Event, Handed, Kind
from stafette.client.aio import Client
from stafette.client.lease import Lease
from stafette.errors import BY_CODE, RequestOutcome, StafetteError
from stafette.model import Message

Answer = TypeVar("Answer")

WAIT = 0.5
"""Seconds that a read waits."""
REQUEST_SECONDS = 4.0
PAGE = 5
"""Messages of one receive_many."""
ERROR_PAUSE = 0.01
CANCEL_SECONDS = 0.02
"""Cancelled reads are cancelled within this time: before, while or after the broker answers."""


class Recorder:
    """Numbers the calls and hands their events on."""

    def __init__(self, write: Callable[[Event], None], first_call: int) -> None:
        self._write = write
        self._calls = count(first_call)

    def begin(self, use: str, kind: Kind, client: str, queues: tuple[str, ...], **fields: Any) -> int:
        """A call is about to be made; returns its number."""
        call = next(self._calls)
        self._write(Began(call, time.monotonic(), use, kind, client, queues, **fields))
        return call

    def end(self, call: int, outcome: RequestOutcome = "done", **fields: Any) -> None:
        """It has ended."""
        self._write(Ended(call, time.monotonic(), outcome, **fields))


class Actor:
    """A client whose calls are written down; an error is an outcome like any other."""

    def __init__(self, use: str, client: Client, recorder: Recorder) -> None:
        self._use = use
        self._client = client
        self._recorder = recorder

    @property
    def name(self) -> str:
        return self._client.name

    async def send(
        self, queues: Sequence[str], body: str, *, key: str | None = None, priority: int = 5
    ) -> RequestOutcome:
        call = self._begin("send", tuple(queues), body=body, priority=priority)
        ids = await self._answer(call, self._client.send(queues, body, key=key, priority=priority))
        if isinstance(ids, StafetteError):
            return ids.outcome
        self._recorder.end(call, ids=tuple(ids))
        return "done"

    async def receive(self, queue: str) -> Message | None:
        call = self._begin("receive", (queue,))
        message = await self._answer(call, self._client.receive(queue, wait=WAIT))
        if isinstance(message, StafetteError):
            return None
        self._recorder.end(call, messages=_handed([message] if message else []))
        return message

    async def receive_or_cancel(self, queue: str) -> None:
        """Receive; half of the calls are cancelled in the middle, unless they are quicker."""
        call = self._begin("receive", (queue,))
        receiving = asyncio.ensure_future(self._answer(call, self._client.receive(queue, wait=WAIT)))
        patience = random.uniform(0.0, CANCEL_SECONDS) if random.random() < 0.5 else None
        await asyncio.wait([receiving], timeout=patience)
        receiving.cancel()
        try:
            message = await receiving
        except asyncio.CancelledError:
            self._recorder.end(call, "unknown")
            return
        if not isinstance(message, StafetteError):
            self._recorder.end(call, messages=_handed([message] if message else []))

    async def receive_many(self, queue: str) -> None:
        call = self._begin("receive", (queue,), count=PAGE)
        messages = await self._answer(call, self._client.receive_many(queue, PAGE, wait=WAIT))
        if not isinstance(messages, StafetteError):
            self._recorder.end(call, messages=_handed(messages))

    async def lease(self, queue: str, seconds: float) -> tuple[int, Lease] | None:
        """The lease, and the number of the call that settles refer to."""
        call = self._begin("lease", (queue,), seconds=seconds)
        lease = await self._answer(call, _awaited(self._client.lease(queue, seconds=seconds, wait=WAIT)))
        if isinstance(lease, StafetteError):
            return None
        self._recorder.end(call, messages=_handed([lease.message] if lease else []))
        return (call, lease) if lease else None

    async def ack(self, leased: tuple[int, Lease]) -> None:
        await self._settle("ack", leased, lambda lease: lease.ack())

    async def nack(self, leased: tuple[int, Lease], delay: float | None = None) -> None:
        await self._settle("nack", leased, lambda lease: lease.nack(delay))

    async def _settle(self, kind: Kind, leased: tuple[int, Lease], settle: Callable[[Lease], Awaitable[None]]) -> None:
        lease_call, lease = leased
        call = self._begin(kind, (lease.message.queue,), body=lease.message.text, lease=lease_call)
        if not isinstance(await self._answer(call, settle(lease)), StafetteError):
            self._recorder.end(call)

    async def request(self, queue: str, body: str) -> None:
        call = self._begin("request", (queue, f"@{self.name}"), body=body, expires=True)
        reply = await self._answer(call, self._client.request(queue, body, timeout=REQUEST_SECONDS))
        if not isinstance(reply, StafetteError):
            self._recorder.end(call, messages=_handed([reply]))

    async def reply(self, message: Message) -> None:
        body = REPLY + message.text
        call = self._begin("send", (f"@{message.sender}",), body=body, priority=message.priority)
        ids = await self._answer(call, self._client.reply(message, body))
        if not isinstance(ids, StafetteError):
            self._recorder.end(call, ids=tuple(ids))

    def _begin(self, kind: Kind, queues: tuple[str, ...], **fields: Any) -> int:
        return self._recorder.begin(self._use, kind, self.name, queues, **fields)

    async def _answer(self, call: int, answer: Awaitable[Answer]) -> Answer | StafetteError:
        try:
            return await answer
        except StafetteError as error:
            kind = BY_CODE.get(error.code, type(error))
            self._recorder.end(call, error.outcome, error=kind.__name__)
            await asyncio.sleep(ERROR_PAUSE)  # an error may come without giving way to other tasks
            return error


async def _awaited(answer: Awaitable[Answer]) -> Answer:
    return await answer


def _handed(messages: Sequence[Message]) -> tuple[Handed, ...]:
    return tuple(handed(message) for message in messages)


def handed(message: Message) -> Handed:
    """What the history keeps of a message."""
    return Handed(message.id, message.queue, message.text, message.priority, message.deliveries)
