"""Texts of experiments are checked in a process that is ended when it takes too long or too much."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stafette.errors import InvalidRequest, Overloaded
from stafette.lab.experiment.reach import NOWHERE
from stafette.web.lab import editor, text_checks
from stafette.web.lab.text_checks import TextChecks

GROUP = '[clients.a]\nbehaviour = "{}"\ncount = 1\n'
WELL = GROUP.format("mix")


@pytest.fixture
async def checks(tmp_path: Path) -> AsyncIterator[TextChecks]:
    checks = TextChecks(tmp_path, NOWHERE)
    yield checks
    await checks.close()


async def plan_of(checks: TextChecks) -> int:
    state = await checks.check(WELL, name="x")
    assert state.plan is not None
    return state.plan.runs


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import signal\nwhile True: signal.pause()", "could not be checked within 3 seconds"),
        ("b = bytearray(3 * 2**30)", "is not enough memory|MemoryError"),
        ("import os\nos._exit(7)", "could not be checked .*exit code 7"),
    ],
    ids=["time", "memory", "exit"],
)
async def test_a_check_that_takes_all_there_is_is_ended_and_the_next_is_answered(
    code: str, says: str, checks: TextChecks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a behaviour does as it is imported stands for whatever a text may make the checks do."""
    (tmp_path / "slow.py").write_text(code)
    assert await plan_of(checks) == 3
    monkeypatch.setattr(text_checks, "CHECK_SECONDS", 3.0)
    try:
        state = await checks.check(GROUP.format("slow.py:Slow"), name="x")
    except InvalidRequest as error:
        sentence = str(error)
    else:
        [problem] = state.problems
        sentence = problem.message
    assert "\n" not in sentence
    assert re.search(says, sentence), sentence
    monkeypatch.undo()
    assert await plan_of(checks) == 3


async def test_of_very_many_problems_some_are_shown(checks: TextChecks) -> None:
    groups = "".join(f'[clients.g{number}]\nbehaviour = "mix"\ncount = 1\nqueues = ["q-99"]\n' for number in range(300))
    profiles = "".join(f"[profiles.p{number}]\npreload.queues = {number + 1}\n" for number in range(98))
    state = await checks.check(groups + profiles, name="x")
    assert len(state.problems) == editor.MOST_PROBLEMS


async def test_one_who_goes_away_does_not_get_the_answer_of_the_next(checks: TextChecks, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import signal\nwhile True: signal.pause()")
    slow = asyncio.create_task(checks.check(GROUP.format("slow.py:Slow"), name="x"))
    while checks._child is None:
        await asyncio.sleep(0)
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    assert await plan_of(checks) == 3


async def test_only_so_many_wait(checks: TextChecks, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import signal\nwhile True: signal.pause()")
    text = GROUP.format("slow.py:Slow")
    waiting = [asyncio.create_task(checks.check(text)) for _ in range(text_checks.MOST_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="try again"):
        await checks.check(text)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert await plan_of(checks) == 3
