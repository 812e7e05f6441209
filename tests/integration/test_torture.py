"""`make torture` works: a short run of it, and one with a planted defect, which it finds."""

from __future__ import annotations

import pytest

from bench.torture import defects, faults, uses
from bench.torture.runner import torture

pytestmark = pytest.mark.slow

STRIKES = 2
SECONDS = 30.0


async def test_a_short_run_finds_nothing_wrong() -> None:
    use = next(use for use in uses.USES if use.name == "send with key")
    run = await torture(faults.BY_NAME["broker killed"], [use], strikes=STRIKES, seconds=SECONDS)
    assert run.strikes == STRIKES
    assert run.violations == []
    findings = run.findings[use.name]
    assert findings.answered >= STRIKES * 10
    assert findings.came_out >= findings.answered


async def test_a_planted_defect_is_found() -> None:
    defect = next(defect for defect in defects.DEFECTS if defect.name == "an acknowledged message is kept")
    result = await defects.search(defect, lambda step: None)
    assert "duplicated" in result.flaws
