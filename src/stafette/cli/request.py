"""`stafette request` sends a request and waits for its answer; `stafette reply` answers requests."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Annotated

import typer

from stafette.cli.broker_link import Data, Name, Secret, Url, connect
from stafette.cli.completion import QueueName
from stafette.cli.exits import NoMessage
from stafette.cli.message_io import (
    Body,
    NoNewline,
    Priority,
    Receiver,
    as_object,
    delay_interrupt,
    read_body,
    show_message,
)
from stafette.cli.output import Json, say, show_json
from stafette.cli.progress import Progress
from stafette.cli.receive import FOLLOW_SECONDS, Count, Follow, Wait, message_limit
from stafette.errors import StafetteError
from stafette.model import DEFAULT_PRIORITY

if TYPE_CHECKING:
    from stafette.client.sync import Lease
    from stafette.model import Message

LEASE_SECONDS = 30.0
RENEWAL_SECONDS = LEASE_SECONDS / 3
"""How often the lease on a request is extended while the command of --exec works on it."""

PAUSE_SECONDS = 1.0
"""Delay before a request on which the command failed is delivered again, perhaps to the same command."""


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

    Exit code 5: no answer in time.

    Example: stafette request prices CHF --timeout 2
    """
    content = read_body(body)
    with connect(url, name, secret, data) as client:
        with Progress(f"waiting for the answer from {queue}; Ctrl-C ends it"):
            answer = client.request(queue, content, timeout=timeout, receiver=receiver, priority=priority)
        show_message(answer, as_json=as_json, newline=not no_newline)


def reply(
    queue: QueueName,
    body: Body = None,
    wait: Wait = None,
    command: Annotated[
        str | None,
        typer.Option(
            "--exec", metavar="COMMAND", help="Command that reads the request on standard input and prints the answer."
        ),
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

    The request is removed when its answer is on disk; after an error it is back in the queue. Prints the ids of the
    answers. Exit code 4: no request; 5: none arrived in time.

    Example: stafette reply prices --exec ./price-of --follow
    """
    if command is not None and body is not None:
        raise typer.BadParameter("give either BODY or --exec, not both", param_hint="--exec")
    limit = message_limit(count, all_=False, follow=follow, wait=wait)
    content = read_body(body) if command is None else b""
    answer_count = 0
    with connect(url, name, secret, data) as client:
        while limit is None or answer_count < limit:
            with Progress(f"waiting for a request in {queue}; Ctrl-C ends it"):
                lease = client.lease(queue, seconds=LEASE_SECONDS, wait=FOLLOW_SECONDS if follow else wait)
            if not lease and not follow:
                break
            with lease as work:
                if work is None or work.message is None:
                    continue
                try:
                    answer = content if command is None else _run_command(command, work.message, work)
                except CommandFailed as error:
                    work.nack(delay=PAUSE_SECONDS)
                    if not follow:
                        raise
                    say(f"stafette: {error}")
                    continue
                with delay_interrupt():  # a request that is answered must not come back
                    ids = client.reply(work.message, answer)
                    work.ack()
                    _show(work.message, ids, as_json=as_json)
            answer_count += 1
    if not answer_count:
        raise NoMessage(queue, wait)


def _run_command(command: str, message: Message, lease: Lease) -> bytes:
    """Run a command with the request as its input, and return its output; extends the lease meanwhile."""
    with subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        command_input: bytes | None = message.body
        try:
            while True:
                try:
                    answer, _ = process.communicate(command_input, timeout=RENEWAL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    command_input = None  # communicate() continues with the rest of it
                    lease.extend(LEASE_SECONDS)
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        reason = f"exit code {process.returncode}" if process.returncode > 0 else f"signal {-process.returncode}"
        raise CommandFailed(f"the command ended with {reason}; request {message.id} is back in {message.queue}")
    return answer


def _show(message: Message, ids: list[int], *, as_json: bool) -> None:
    if as_json:
        show_json({"request": as_object(message), "ids": ids})
    else:
        print("\n".join(map(str, ids)), flush=True)
