"""The tests that docs/explanation/security.md names are there."""

from __future__ import annotations

import re

from tests.support.document_pages import ROOT
from tests.support.reference_pages import DOCS, codes


def test_each_test_that_is_named_is_there() -> None:
    named = [name for name in codes((DOCS / "explanation" / "security.md").read_text()) if name.endswith(".py")]
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []
    assert all(re.fullmatch(r"[a-z_/]+\.py", name) for name in named)
