"""`python -m stafette` is the `stafette` command; as a file it is what `spark-submit` runs."""

import sys
from pathlib import Path

if sys.path and Path(sys.path[0]).resolve() == Path(__file__).resolve().parent:
    del sys.path[0]  # a script's own folder comes first, and modules of ours have the names of Python's

from stafette.cli import main

main()
