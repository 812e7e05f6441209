"""Commands about leases: one message at a time is held, until it is acknowledged, given back or lost."""

from __future__ import annotations

import time
from typing import Any

from stafette.cli.shell import show
from stafette.cli.shell.commands import Talk, command
from stafette.cli.shell.grammar import SECONDS, seconds
from stafette.cli.shell.on_messages import FILTERS, WAIT, nothing, source
from stafette.cli.shell.state import Held, Need, State
from stafette.errors import LeaseLost, StafetteError, Unavailable

DEFAULT_SECONDS = 30.0


@command(
    "lease [QUEUE]",
    needs=(Need.CONNECTED, Need.MAY_CHANGE, Need.NO_LEASE),
    at_most=1,
    words=("queue",),
    options={"seconds": SECONDS, **FILTERS, **WAIT},
)
async def lease(talk: Talk, queue: str | None = None, **options: Any) -> None:
    """Take the next message and hold it, for 30 seconds unless told.

    Then `ack` removes it and `nack` gives it back. Without a queue it is from your personal one, or with a sender or
    a context from any.
    """
    queue = source(talk, queue, options)
    options.setdefault("seconds", DEFAULT_SECONDS)
    taken = await talk.client.lease(queue, **options)
    if taken is None:
        raise nothing(queue, options)
    talk.state.held = Held(taken, time.monotonic() + options["seconds"])
    talk.state.last = None
    show.messages([taken.message])


@command("ack", needs=(Need.CONNECTED, Need.LEASE), at_most=0)
async def ack(talk: Talk) -> None:
    """Be done with the message that is held: it is removed."""
    held = _held(talk.state)
    await talk.state.end_lease(held.lease.ack())
    show.remark(f"message {held.lease.message.id} is done")


@command("nack [DELAY]", needs=(Need.CONNECTED, Need.LEASE), at_most=1)
async def nack(talk: Talk, delay: str | None = None) -> None:
    """Give the message that is held back, to be ready again after so many seconds."""
    after = None if delay is None else seconds(delay)
    held = _held(talk.state)
    await talk.state.end_lease(held.lease.nack(after))
    when = f", ready in {after:g} seconds" if after else ""
    show.remark(f"message {held.lease.message.id} is given back{when}")


@command("extend [SECONDS]", needs=(Need.CONNECTED, Need.LEASE), at_most=1)
async def extend(talk: Talk, longer: str = f"{DEFAULT_SECONDS:g}") -> None:
    """Hold the message for so many seconds from now, 30 unless told."""
    more = seconds(longer)
    held = _held(talk.state)
    asked = time.monotonic()
    try:
        await held.lease.extend(more)
    except LeaseLost:
        talk.state.held = None
        raise
    held.until = asked + more
    show.remark(f"message {held.lease.message.id} is held for {more:g} seconds from now")


def _held(state: State) -> Held:
    assert state.held is not None
    return state.held


async def give_back(state: State) -> None:
    """Before leaving: whoever waits for the message should not wait for the lease to run out."""
    held, state.held = state.held, None
    if held is None or held.left <= 0:
        return
    number, queue = held.lease.message.id, show.harmless(held.lease.message.queue)
    try:
        if state.away:
            raise Unavailable("nobody is there to take it")
        await held.lease.nack()
    except StafetteError:
        show.warn(f"message {number} could not be given back; it returns to {queue} when its lease runs out")
    else:
        show.warn(f"message {number} was held and is given back to {queue}")


def drop_if_over(state: State) -> None:
    """Tell once that a lease has run out, and forget it."""
    if state.held is not None and not state.holding:
        message, state.held = state.held.lease.message, None
        show.warn(f"the lease on message {message.id} ran out; it is back in {show.harmless(message.queue)}")
