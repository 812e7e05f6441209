"""Every planted defect can still be planted: what it edits is there, and its use and fault exist."""

from __future__ import annotations

import pytest

from bench.torture import faults, uses
from bench.torture.defects import DEFECTS, Defect, Edit
from stafette.errors import InvalidRequest


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_can_be_planted(defect: Defect) -> None:
    assert defect.use in {use.name for use in uses.USES}
    assert defect.fault in faults.BY_NAME
    planted = defect.planted()
    assert len(planted.sql) == len({edit.function for edit in defect.edits})
    assert planted.sql or planted.broker or planted.load
    for patch in (planted.broker, planted.load):
        compile(patch, defect.name, "exec")


def test_there_are_twenty_at_least() -> None:
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS) >= 20


def test_an_edit_whose_text_is_gone_is_refused() -> None:
    defect = Defect("gone", "send", ("lost",), (Edit("messages/send_batch", "no such text", ""),))
    with pytest.raises(InvalidRequest, match="plant this defect differently"):
        defect.planted()
