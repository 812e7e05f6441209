"""The options of a queue, one test for each."""

from __future__ import annotations

import pytest

from stafette.model import QUEUE_OPTIONS, QueueOption

each_option = pytest.mark.parametrize(("name", "option"), QUEUE_OPTIONS.items(), ids=QUEUE_OPTIONS)


def unset(option: QueueOption) -> bool | None:
    return False if option.kind == "flag" else None
