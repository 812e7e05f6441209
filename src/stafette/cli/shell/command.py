"""`stafette shell` as a command: on a terminal a conversation, in a pipe a script."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from stafette.cli.broker_link import Data, Name, Secret, Url


def shell(
    url: Url = None,
    name: Name = None,
    secret: Secret = None,
    data: Data = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only look; hides what changes something.")] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="In a script: go on after an error; the last one is the exit code.")
    ] = False,
) -> None:
    """Talk with a broker, on a terminal or from a pipe.

    A terminal gets completion and history; a pipe is a script with a command per line.

    Example: stafette shell --name alice

    Example: echo 'send jobs hello' | stafette shell
    """
    from stafette.cli.shell.state import Start, State

    state = State(Start(url, name, secret, data, "read-only" if read_only else "full"))
    debug = "--debug" in sys.argv[1:]  # which belongs to all commands
    if sys.stdin.isatty():
        from stafette.cli.shell.screen import Screen

        raise typer.Exit(Screen(state, debug=debug).run())
    from stafette.cli.shell.script import Script

    raise typer.Exit(Script(state, sys.stdin, keep_going=keep_going, debug=debug).run())
