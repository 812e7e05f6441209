"""The command `stafette shell`: interactive on a terminal, a script in a pipe."""

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
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Connect read-only; hides commands that change something.")
    ] = False,
    keep_going: Annotated[
        bool,
        typer.Option(
            "--keep-going", help="In a script, continue after an error; the exit code is that of the last one."
        ),
    ] = False,
) -> None:
    """Type commands for a broker on one connection, or run a script of them.

    On a terminal there are completion and history; standard input from a pipe is a script with a command per line.

    Example: stafette shell --name alice

    Example: echo 'send jobs hello' | stafette shell
    """
    from stafette.cli.shell.state import Start, State

    state = State(Start(url, name, secret, data, "read-only" if read_only else "full"))
    debug = "--debug" in sys.argv[1:]  # main() has taken it out of the arguments
    if sys.stdin.isatty():
        from stafette.cli.shell.screen import Screen

        raise typer.Exit(Screen(state, debug=debug).run())
    from stafette.cli.shell.script import Script

    raise typer.Exit(Script(state, sys.stdin, keep_going=keep_going, debug=debug).run())
