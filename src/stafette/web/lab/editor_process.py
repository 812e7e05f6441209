"""Reads experiments for the pages, in a process that may be ended: a text from a browser may take long, or much memory.

Each line of its input is an order, and is answered with one event. The end of the input ends the process.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from stafette.errors import InvalidRequest, StafetteError
from stafette.lab.child_environment import limit_memory
from stafette.lab.experiment.reach import Reach
from stafette.lab.jobs.job_events import send_event, take_output
from stafette.lab.series import continuation
from stafette.lab.series.series_folder import Series
from stafette.web.lab import editor, form
from stafette.web.lab.editor_state import TextProblem


class CheckText(msgspec.Struct, tag=True):
    """Check a text, after the changes of the form were put into it."""

    text: str
    folder: str
    reach: Reach
    changes: list[tuple[str, str]] = []
    """Fields and what was typed into them."""
    name: str | None = None
    """For a text without a name."""
    rename: str | None = None
    """A new name, put into the text first."""


class CheckSeries(msgspec.Struct, tag=True):
    """Check whether a series can go on."""

    folder: str
    reach: Reach


Order = CheckText | CheckSeries


def _answer(order: Order) -> object:
    if isinstance(order, CheckSeries):
        order.reach.check(continuation.experiment_of(Series(Path(order.folder))))
        return None
    text, refusals = order.text.replace("\r\n", "\n"), []
    if order.rename is not None:
        text = editor.rename(text, order.rename)
    for path, value in order.changes:
        try:
            text = form.set_field(text, path, value)
        except InvalidRequest as error:
            refusals.append(TextProblem(None, error.sentence))
    state = editor.check(text, Path(order.folder), name=order.name, reach=order.reach)
    return msgspec.structs.replace(state, problems=[*refusals, *state.problems])


def main() -> None:
    """Answer orders until the input ends."""
    limit_memory()
    out = take_output()
    for line in sys.stdin.buffer:
        try:
            answer = _answer(msgspec.json.decode(line, type=Order))
            send_event(out, "end", answer=msgspec.to_builtins(answer))
        except StafetteError as error:
            send_event(out, "end", refusal=error.sentence)


if __name__ == "__main__":
    main()
