"""What several behaviours have in common: bodies and priorities, where a message goes, how a read waits.

Each part is a class to inherit from, with the parameters it understands beside it. They are on the generator's
hottest path, so what does not vary is settled when the client is made.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field

from stafette.client.aio import Client
from stafette.errors import StafetteError
from stafette.lab.behaviours.base import Behaviour, Contradictions, Parameters, Scene, without_clients
from stafette.lab.experiment.distribution import Choice, Distribution, Exponential, Fixed, Uniform
from stafette.model import DEFAULT_PRIORITY, Message

Found = TypeVar("Found")
AnyDistribution = Fixed | Uniform | Choice | Exponential

ANYONE = "anyone"
LARGEST_BODY = 16 * 2**20
"""Bytes; far beyond what a broker takes, and short of what would exhaust the generator's memory."""
NOISE = random.Random("noise").randbytes(2**18)  # noqa: S311
"""What bodies are cut from: random, so that no tier can compress it, and made once, since making it costs more than
sending it."""


def _is_a_priority(priority: AnyDistribution) -> AnyDistribution:
    if isinstance(priority, Fixed) and priority.fixed not in range(1, 11):
        raise ValueError("a priority is a whole number from 1 to 10")
    return priority


def _is_a_size(size: AnyDistribution) -> AnyDistribution:
    if not size.mean <= LARGEST_BODY:
        raise ValueError(f"a body has at most {LARGEST_BODY} bytes")
    return size


class Sending(Parameters):
    """Of a client that sends."""

    size: Annotated[Distribution, AfterValidator(_is_a_size)] = Fixed(fixed=200)
    """Bytes in a body."""

    priority: Annotated[Distribution, AfterValidator(_is_a_priority)] = Fixed(fixed=DEFAULT_PRIORITY)
    """1 to 10; what a distribution gives is rounded and kept within these."""


class Spreading(Sending):
    """Of a client that sends to queues of its choice."""

    targets: int = Field(default=1, ge=1)
    """Queues that a message goes to at once."""

    receiver: str = Field(default=ANYONE, min_length=1)
    """Whom a message is for: "anyone", or the name of a group, of which one client is drawn for each message."""


class OneQueue(Parameters):
    """Of a client that uses one queue."""

    queues: list[str] | None = Field(default=None, min_length=1, max_length=1)
    """The one; by default the first that was made for the run."""


class Batching(Parameters):
    """Of a client that only reads."""

    batch: int = Field(default=1, ge=1)
    """Messages that a read takes, at most."""


class Asking(Sending):
    """Of a client that waits for an answer."""

    patience: float = Field(default=10.0, gt=0, le=60)
    """Seconds after which it gives a request up. It counts nothing: the trace shows the reads that found nothing."""


class OnQueues(Behaviour):
    """A client that needs queues."""

    @classmethod
    def contradictions(
        cls, parameters: Any, group: str, groups: Mapping[str, int], queues: Sequence[str]
    ) -> Contradictions:
        """There must be a queue."""
        yield from super().contradictions(parameters, group, groups, queues)
        if not parameters.queues and not queues:
            yield "queues", "these clients need a queue; name some, or set preload.queues to at least 1"


class OnOneQueue(OnQueues):
    """A client that uses one queue, always the same."""

    def __init__(self, me: Client, scene: Scene, parameters: Any) -> None:
        super().__init__(me, scene, parameters)
        self.queue = self.queues[0]


class Sender(Behaviour):
    """A client that sends."""

    def __init__(self, me: Client, scene: Scene, parameters: Any) -> None:
        super().__init__(me, scene, parameters)
        self.size = whole(parameters.size, scene.chance, 0, LARGEST_BODY)
        self.priority = whole(parameters.priority, scene.chance, 1, 10)

    def body(self) -> bytes:
        """A new body."""
        return noise(self.size(), self.scene.chance)


class Spreader(OnQueues, Sender):
    """A client that sends to queues of its choice."""

    def __init__(self, me: Client, scene: Scene, parameters: Any) -> None:
        super().__init__(me, scene, parameters)
        self._targets: int = parameters.targets
        self._receivers: str | None = None if parameters.receiver == ANYONE else parameters.receiver

    @classmethod
    def contradictions(
        cls, parameters: Any, group: str, groups: Mapping[str, int], queues: Sequence[str]
    ) -> Contradictions:
        """As many queues as a message goes to at once, and clients to receive it."""
        yield from super().contradictions(parameters, group, groups, queues)
        if 0 < (count := len(parameters.queues or queues)) < parameters.targets:
            known = "only 1 queue" if count == 1 else f"only {count} queues"
            yield "targets", f"these clients have {known}; lower it or give them more"
        if parameters.receiver != ANYONE:
            yield from without_clients("receiver", parameters.receiver, groups)

    async def spread(self) -> None:
        """Send one message to some of the queues."""
        chance = self.scene.chance
        target = self.any_queue() if self._targets == 1 else chance.sample(self.queues, self._targets)
        await self.me.send(target, self.body(), receiver=self._receiver(), priority=self.priority())

    def _receiver(self) -> str | None:
        if self._receivers is None:
            return None
        if self._receivers == self.scene.group:
            return self.scene.another()
        return f"{self._receivers}-{self.scene.chance.randint(1, self.scene.groups[self._receivers])}"


class Reader(Behaviour):
    """A client that reads and removes: waiting in the broker, or asking again and again."""

    async def read(self, queue: str, *, context: int | None = None) -> Message | None:
        """The next message of a queue, or None when none came in the time that a read waits."""
        messages = await self.read_many(queue, 1, context=context)
        return messages[0] if messages else None

    async def read_many(self, queue: str, count: int, *, context: int | None = None) -> list[Message]:
        """Up to so many messages of a queue, or none when none came in the time that a read waits."""
        receive, parameters = self.me.receive_many, self.parameters
        if parameters.retry_delay is None:
            return await receive(queue, count, context=context, wait=parameters.wait)
        return await self.retry(lambda: receive(queue, count, context=context))

    async def retry(self, look: Callable[[], Awaitable[Found]]) -> Found:
        """Look until there is something or the time that a read waits is up, with a pause after each look in vain."""
        until = time.monotonic() + self.parameters.wait
        while not (found := await look()):
            if self.parameters.retry_delay:
                await asyncio.sleep(self.parameters.retry_delay)
            if time.monotonic() >= until:
                break
        return found


class Relay(Sender, Reader):
    """A client that puts one message into circulation and from then on passes on what it gets."""

    def __init__(self, me: Client, scene: Scene, parameters: Any) -> None:
        super().__init__(me, scene, parameters)
        self._owed = 1

    async def step(self) -> None:
        """Send the first message; later, pass on the next that comes."""
        if self._owed:
            self._owed -= 1
            await self._pass_on(None)
        elif (message := await self.await_message()) is not None:
            await self._pass_on(message)

    async def await_message(self) -> Message | None:
        """The next message for this client, if one came in time."""
        raise NotImplementedError

    async def forward(self, message: Message | None) -> None:
        """Send a message on to somebody, or a new one."""
        raise NotImplementedError

    async def _pass_on(self, message: Message | None) -> None:
        try:
            await self.forward(message)
        except StafetteError:
            self._owed += 1  # a new one next time, or each send that is refused would leave one message fewer to relay
            raise


class Asker(Sender, Reader):
    """A client that sends requests and waits for the response to each."""

    def new_context(self) -> int:
        """What joins a response to its request; nobody else has it."""
        return self.scene.chance.getrandbits(62)

    async def response(self, queue: str, context: int) -> Message | None:
        """The response with this context, or None when the client's patience is at its end."""
        until = time.monotonic() + self.parameters.patience
        while (message := await self.read(queue, context=context)) is None and time.monotonic() < until:
            pass
        return message


def whole(distribution: AnyDistribution, chance: random.Random, least: int, most: int) -> Callable[[], int]:
    """A function that draws whole numbers within bounds."""
    if isinstance(distribution, Fixed):
        always = min(most, max(least, round(distribution.fixed)))
        return lambda: always
    draw = distribution.draw
    return lambda: min(most, max(least, round(draw(chance))))


def noise(size: int, chance: random.Random) -> bytes:
    """So many random bytes."""
    if size > len(NOISE):
        return (NOISE * (size // len(NOISE) + 1))[:size]
    start = int(chance.random() * (len(NOISE) - size + 1))
    return NOISE[start : start + size]
