"""The `stafette` command. Data goes to standard output, everything said about it to standard error."""

from __future__ import annotations

import sys

from stafette.cli.app import app
from stafette.cli.exits import exit_code
from stafette.errors import StafetteError

__all__ = ["main"]


def main() -> None:
    """Run the command; an error is one sentence and an exit code, unless --debug asks for the traceback."""
    try:
        app()
    except StafetteError as error:
        if "--debug" in sys.argv[1:]:
            raise
        print(f"stafette: {error}", file=sys.stderr)
        sys.exit(exit_code(error))
