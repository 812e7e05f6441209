"""Commands that send and read messages."""

from __future__ import annotations

from typing import Any

from stafette.cli.exits import NOT_FOUND, TIMED_OUT
from stafette.cli.shell import show
from stafette.cli.shell.commands import Talk, command
from stafette.cli.shell.grammar import CLIENT, SECONDS, TEXT, WHOLE, YES_NO, choice
from stafette.cli.shell.state import Need
from stafette.errors import StafetteError

RECEIVE_LEASE_SECONDS = 60.0
"""How long `receive` may take to show a message; then somebody else gets it."""

FILTERS = {"sender": CLIENT, "context": WHOLE, "order": choice("priority", "arrival")}
WAIT = {"wait": SECONDS}


class Nothing(StafetteError):
    """There was no message: no error to a person, but one to a script that counts on it."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def source(talk: Talk, queue: str | None, options: dict[str, Any]) -> str | None:
    """Where to read when no queue is named: anywhere with a sender or a context, else from one's personal queue."""
    return queue or (None if {"sender", "context"} & set(options) else f"@{talk.client.name}")


def nothing(queue: str | None, options: dict[str, Any]) -> Nothing:
    """What to say when no message was there, or none came."""
    place = f"in {queue}" if queue else "like that"
    if options.get("wait"):
        return Nothing(f"no message came within {options['wait']:g} seconds {place}", TIMED_OUT)
    return Nothing(f"no message {place}", NOT_FOUND)


async def _body(talk: Talk, words: tuple[str, ...]) -> str:
    return " ".join(words) if words else await talk.ask_body()


@command(
    "send QUEUE[,QUEUE…] [BODY]",
    needs=(Need.CONNECTED, Need.MAY_CHANGE),
    at_least=1,
    words=("queue",),
    options={
        "priority": WHOLE, "receiver": CLIENT, "context": WHOLE, "delay": SECONDS, "ttl": SECONDS, "key": TEXT,
        "allow-unknown": YES_NO,
    },
)  # fmt: skip
async def send(talk: Talk, queue: str, *words: str, **options: Any) -> None:
    """Send a message, to one queue or several, and print its id in each.

    Without a BODY it is asked for: lines, up to one that is a lone dot.
    """
    ids = await talk.client.send(queue.split(","), await _body(talk, words), **options)
    show.result("\n".join(str(one) for one in ids))


@command("peek [QUEUE]", needs=(Need.CONNECTED,), at_most=1, words=("queue",), options={**FILTERS, **WAIT})
async def peek(talk: Talk, queue: str | None = None, **options: Any) -> None:
    """Show the next message and leave it there.

    Without a queue it is from your personal one, or with a sender or a context from any.
    """
    queue = source(talk, queue, options)
    found = await talk.client.peek(queue, **options)
    if found is None:
        raise nothing(queue, options)
    show.messages([found])


@command(
    "receive [QUEUE]",
    needs=(Need.CONNECTED, Need.MAY_CHANGE),
    at_most=1,
    words=("queue",),
    options={**FILTERS, **WAIT},
)
async def receive(talk: Talk, queue: str | None = None, **options: Any) -> None:
    """Show the next message and remove it.

    Without a queue it is from your personal one, or with a sender or a context from any. It is removed after it was
    shown: Ctrl-C or a broken connection loses nothing.
    """
    queue = source(talk, queue, options)
    async with talk.client.lease(queue, seconds=RECEIVE_LEASE_SECONDS, **options) as taken:
        if taken is None:
            raise nothing(queue, options)
        show.messages([taken.message])
    talk.state.last = taken.message


@command(
    "browse QUEUE",
    needs=(Need.CONNECTED,),
    at_least=1,
    at_most=1,
    words=("queue",),
    options={"after": WHOLE, "limit": WHOLE},
)
async def browse(talk: Talk, queue: str, **options: Any) -> None:
    """Show the messages in a queue in order of arrival, 100 unless told, and leave them there.

    after=ID goes on from after a message.
    """
    found = await talk.client.browse(queue, **options)
    if not found:
        raise nothing(queue, {})
    show.messages(found)


@command(
    "request QUEUE [BODY]",
    needs=(Need.CONNECTED, Need.MAY_CHANGE),
    at_least=1,
    words=("queue",),
    options={"timeout": SECONDS, "receiver": CLIENT, "priority": WHOLE},
)
async def request(talk: Talk, queue: str, *words: str, **options: Any) -> None:
    """Send a request, wait for the reply and show it, 10 seconds unless told with timeout."""
    show.messages([await talk.client.request(queue, await _body(talk, words), **options)])


@command(
    "reply [BODY]",
    needs=(Need.CONNECTED, Need.MAY_CHANGE, Need.ANSWERABLE),
    options={"priority": WHOLE},
)
async def reply(talk: Talk, *words: str, **options: Any) -> None:
    """Answer the message that is held, which is then done, or else the one received last."""
    message = talk.state.answerable
    assert message is not None
    held = talk.state.held if talk.state.holding else None
    ids = await talk.client.reply(message, await _body(talk, words), **options)
    show.result("\n".join(str(one) for one in ids))
    if held is not None:
        await talk.state.end_lease(held.lease.ack())
    talk.state.last = None
