"""The question before something is deleted permanently."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation, and abort without it; where there is no terminal, --yes is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("required where there is no terminal to ask on", param_hint="--yes")
    typer.confirm(question, abort=True, err=True)
