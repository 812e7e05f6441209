"""What several behaviours have in common: bodies and priorities, where a message goes, how a read waits.

Each part is a base class with its parameters. Parts are on the generator's hottest path, so they compute in the
constructor what does not vary.
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
from stafette.lab.behaviours.behaviour import Behaviour, ClientContext, Contradictions, Parameters, check_group
from stafette.lab.experiment.distribution import Choice, Distribution, Exponential, Fixed, Uniform
from stafette.model import DEFAULT_PRIORITY, Message

Result = TypeVar("Result")
AnyDistribution = Fixed | Uniform | Choice | Exponential

ANYONE = "anyone"
LARGEST_BODY = 16 * 2**20
"""Bytes; more than a broker accepts, less than would exhaust the generator's memory."""
RANDOM_BYTES = random.Random("noise").randbytes(2**18)  # noqa: S311
"""Bodies are slices of this: random, so that no tier can compress them, and generated once, because generating a body
costs more than sending it."""


def _check_priority(priority: AnyDistribution) -> AnyDistribution:
    if isinstance(priority, Fixed) and priority.fixed not in range(1, 11):
        raise ValueError("a priority is a whole number from 1 to 10")
    return priority


def _check_size(size: AnyDistribution) -> AnyDistribution:
    if not size.mean <= LARGEST_BODY:
        raise ValueError(f"a body has at most {LARGEST_BODY} bytes")
    return size


class SendParameters(Parameters):
    """Parameters of a client that sends."""

    size: Annotated[Distribution, AfterValidator(_check_size)] = Fixed(fixed=200)
    """Bytes in a body."""

    priority: Annotated[Distribution, AfterValidator(_check_priority)] = Fixed(fixed=DEFAULT_PRIORITY)
    """1 to 10; values of a distribution are rounded and clamped to this range."""


class QueueSendParameters(SendParameters):
    """Parameters of a client that sends to several queues."""

    targets: int = Field(default=1, ge=1)
    """Number of queues that each message is sent to."""

    receiver: str = Field(default=ANYONE, min_length=1)
    """The receiver of a message: "anyone", or a group, of which one client is drawn for each message."""


class OneQueueParameters(Parameters):
    """Parameters of a client that uses one queue."""

    queues: list[str] | None = Field(default=None, min_length=1, max_length=1)
    """The queue; by default the first one created for the run."""


class BatchParameters(Parameters):
    """Parameters of a client that only reads."""

    batch: int = Field(default=1, ge=1)
    """Most messages that a read returns."""


class RequestParameters(SendParameters):
    """Parameters of a client that waits for a response."""

    patience: float = Field(default=10.0, gt=0, le=60)
    """Seconds after which it gives up a request. It is not counted; the trace has the reads that returned nothing."""


class QueueUser(Behaviour):
    """A client that needs queues."""

    @classmethod
    def contradictions(
        cls, parameters: Any, group: str, groups: Mapping[str, int], queues: Sequence[str]
    ) -> Contradictions:
        """Require a queue."""
        yield from super().contradictions(parameters, group, groups, queues)
        if not parameters.queues and not queues:
            yield "queues", "these clients need a queue; name some, or set preload.queues to at least 1"


class OneQueueUser(QueueUser):
    """A client that uses one queue, always the same."""

    def __init__(self, client: Client, client_context: ClientContext, parameters: Any) -> None:
        super().__init__(client, client_context, parameters)
        self.queue = self.queues[0]


class Sender(Behaviour):
    """A client that sends."""

    def __init__(self, client: Client, client_context: ClientContext, parameters: Any) -> None:
        super().__init__(client, client_context, parameters)
        self.size = integer_draw(parameters.size, client_context.rng, 0, LARGEST_BODY)
        self.priority = integer_draw(parameters.priority, client_context.rng, 1, 10)

    def body(self) -> bytes:
        """A new body."""
        return random_body(self.size(), self.rng)


class QueueSender(QueueUser, Sender):
    """A client that sends to queues drawn at random."""

    def __init__(self, client: Client, client_context: ClientContext, parameters: Any) -> None:
        super().__init__(client, client_context, parameters)
        self._targets: int = parameters.targets
        self._receiver_group: str | None = None if parameters.receiver == ANYONE else parameters.receiver

    @classmethod
    def contradictions(
        cls, parameters: Any, group: str, groups: Mapping[str, int], queues: Sequence[str]
    ) -> Contradictions:
        """Require as many queues as a message has targets, and clients in the receiver's group."""
        yield from super().contradictions(parameters, group, groups, queues)
        if 0 < (count := len(parameters.queues or queues)) < parameters.targets:
            queues_text = "only 1 queue" if count == 1 else f"only {count} queues"
            yield "targets", f"these clients have {queues_text}; lower it or give them more"
        if parameters.receiver != ANYONE:
            yield from check_group("receiver", parameters.receiver, groups)

    async def send_message(self) -> None:
        """Send one message to as many queues as it has targets."""
        target = self.any_queue() if self._targets == 1 else self.rng.sample(self.queues, self._targets)
        await self.client.send(target, self.body(), receiver=self._receiver(), priority=self.priority())

    def _receiver(self) -> str | None:
        if self._receiver_group is None:
            return None
        if self._receiver_group == self.client_context.group:
            return self.client_context.another_client()
        return f"{self._receiver_group}-{self.rng.randint(1, self.client_context.groups[self._receiver_group])}"


class Reader(Behaviour):
    """A client that receives messages: its reads wait in the broker, or it repeats them."""

    async def read(self, queue: str, *, context: int | None = None) -> Message | None:
        """The next message of a queue; None if none arrives within `parameters.wait`."""
        messages = await self.read_many(queue, 1, context=context)
        return messages[0] if messages else None

    async def read_many(self, queue: str, count: int, *, context: int | None = None) -> list[Message]:
        """Up to `count` messages of a queue; none if none arrives within `parameters.wait`."""
        receive, parameters = self.client.receive_many, self.parameters
        if parameters.retry_delay is None:
            return await receive(queue, count, context=context, wait=parameters.wait)
        return await self.retry(lambda: receive(queue, count, context=context))

    async def retry(self, read: Callable[[], Awaitable[Result]]) -> Result:
        """Repeat a read until it returns something or `parameters.wait` is over; pause after each empty one."""
        deadline = time.monotonic() + self.parameters.wait
        while not (result := await read()):
            if self.parameters.retry_delay:
                await asyncio.sleep(self.parameters.retry_delay)
            if time.monotonic() >= deadline:
                break
        return result


class Relay(Sender, Reader):
    """A client that sends one message at first, and from then on forwards the messages it receives."""

    def __init__(self, client: Client, client_context: ClientContext, parameters: Any) -> None:
        super().__init__(client, client_context, parameters)
        self._unsent = 1
        """New messages that are still to be sent."""

    async def step(self) -> None:
        """Send the first message; later, forward the next one."""
        if self._unsent:
            self._unsent -= 1
            await self._forward(None)
        elif (message := await self.await_message()) is not None:
            await self._forward(message)

    async def await_message(self) -> Message | None:
        """The next message for this client, or None."""
        raise NotImplementedError

    async def forward(self, message: Message | None) -> None:
        """Send a message to another client; None: a new message."""
        raise NotImplementedError

    async def _forward(self, message: Message | None) -> None:
        try:
            await self.forward(message)
        except StafetteError:
            self._unsent += 1  # send a new one next time, or each refused send would leave one message fewer to relay
            raise


class Requester(Sender, Reader):
    """A client that sends requests and waits for the response to each."""

    def new_context(self) -> int:
        """A context for a request and its response, not used by anybody else."""
        return self.rng.getrandbits(62)

    async def response(self, queue: str, context: int) -> Message | None:
        """The response with this context; None if none arrives within `parameters.patience`."""
        deadline = time.monotonic() + self.parameters.patience
        while (message := await self.read(queue, context=context)) is None and time.monotonic() < deadline:
            pass
        return message


def integer_draw(distribution: AnyDistribution, rng: random.Random, least: int, most: int) -> Callable[[], int]:
    """A function that draws integers from a distribution, clamped to bounds."""
    if isinstance(distribution, Fixed):
        value = min(most, max(least, round(distribution.fixed)))
        return lambda: value
    draw = distribution.draw
    return lambda: min(most, max(least, round(draw(rng))))


def random_body(size: int, rng: random.Random) -> bytes:
    """A body of this size."""
    if size > len(RANDOM_BYTES):
        return (RANDOM_BYTES * (size // len(RANDOM_BYTES) + 1))[:size]
    start = int(rng.random() * (len(RANDOM_BYTES) - size + 1))
    return RANDOM_BYTES[start : start + size]
