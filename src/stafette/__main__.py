"""`python -m stafette` is the `stafette` command."""

from stafette.cli import main

main()
