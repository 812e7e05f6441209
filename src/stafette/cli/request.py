"""`stafette request` and `stafette reply`: a question with an answer, from both ends."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Annotated

import typer

from stafette.cli.broker_link import Data, Name, Secret, Url, connect
from stafette.cli.completion import QueueName
from stafette.cli.exits import NoMessage
from stafette.cli.message_io import Body, NoNewline, Priority, Receiver, as_object, read_body, show_message
from stafette.cli.output import Json, say, show_json
from stafette.cli.progress import Progress
from stafette.cli.receive import FOLLOW_SECONDS, Count, Follow, Wait, how_many
from stafette.errors import StafetteError
from stafette.model import DEFAULT_PRIORITY

if TYPE_CHECKING:
    from stafette.client.sync import Lease
    from stafette.model import Message

LEASE_SECONDS = 30.0
RENEWAL_SECONDS = LEASE_SECONDS / 3
"""While a command still works on the answer, the request stays ours."""

PAUSE_SECONDS = 1.0
"""Until a request that a command failed at is handed out again, perhaps to the same command."""


class CommandFailed(StafetteError):
    """The command of --exec gave no answer."""


def request(
    queue: QueueName,
    body: Body = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.001, metavar="SECONDS", help="How long to wait for the answer.")
    ] = 10.0,
    receiver: Receiver = None,
    priority: Priority = DEFAULT_PRIORITY,
    no_newline: NoNewline = False,
    url: Url = None,
    name: Name = None,
    secret: Secret = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Send a request and print the answer to it.

    Exit code 5 when none came in time.

    Example: stafette request prices CHF --timeout 2
    """
    content = read_body(body)
    with connect(url, name, secret, data) as me:
        with Progress(f"waiting for the answer from {queue}; Ctrl-C ends it"):
            answer = me.request(queue, content, timeout=timeout, receiver=receiver, priority=priority)
        show_message(answer, as_json=as_json, newline=not no_newline)


def reply(
    queue: QueueName,
    body: Body = None,
    wait: Wait = None,
    command: Annotated[
        str | None,
        typer.Option("--exec", metavar="COMMAND", help="Gets the request on its standard input and prints the answer."),
    ] = None,
    count: Count = None,
    follow: Follow = False,
    url: Url = None,
    name: Name = None,
    secret: Secret = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Take a request out of a queue and answer it.

    The request is gone when its answer is on disk; when anything fails, it is back in the queue. Prints the ids of the
    answers. Exit code 4 when there is no request, 5 when none came in time.

    Example: stafette reply prices --exec ./price-of --follow
    """
    if command is not None and body is not None:
        raise typer.BadParameter("the answer is either BODY or what --exec prints", param_hint="--exec")
    wanted = how_many(count, all_=False, follow=follow, wait=wait)
    content = read_body(body) if command is None else b""
    answered = 0
    with connect(url, name, secret, data) as me:
        while wanted is None or answered < wanted:
            with Progress(f"waiting for a request in {queue}; Ctrl-C ends it"):
                lease = me.lease(queue, seconds=LEASE_SECONDS, wait=FOLLOW_SECONDS if follow else wait)
            if not lease and not follow:
                break
            with lease as work:
                if work is None or work.message is None:
                    continue
                try:
                    answer = content if command is None else _answer_of(command, work.message, work)
                except CommandFailed as error:
                    work.nack(delay=PAUSE_SECONDS)
                    if not follow:
                        raise
                    say(f"stafette: {error}")
                    continue
                _show(work.message, me.reply(work.message, answer), as_json=as_json)
            answered += 1
    if not answered:
        raise NoMessage(queue, wait)


def _answer_of(command: str, message: Message, lease: Lease) -> bytes:
    """What a command prints when it is fed with the request; the lease is kept alive for as long as it takes."""
    with subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        given: bytes | None = message.body
        try:
            while True:
                try:
                    answer, _ = process.communicate(given, timeout=RENEWAL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    given = None  # it goes on where it stopped
                    lease.extend(LEASE_SECONDS)
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        how = f"exit code {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
        raise CommandFailed(f"the command ended with {how}; request {message.id} is back in {message.queue}")
    return answer


def _show(message: Message, ids: list[int], *, as_json: bool) -> None:
    if as_json:
        show_json({"request": as_object(message), "ids": ids})
    else:
        print("\n".join(map(str, ids)), flush=True)
