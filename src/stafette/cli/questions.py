"""The question before something is destroyed for good."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm(question: str, *, yes: bool) -> None:
    """Go on only if a person says so; where there is nobody to ask, --yes must have said it before."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("it must be said where there is no terminal to be asked on", param_hint="--yes")
    typer.confirm(question, abort=True, err=True)
