"""The code on the pages runs, and prints what they say it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.document_pages import ROOT, Unclear, blocks, pages
from tests.support.document_session import fits, run_page

WITH_CODE = [page for page in pages() if re.search(r"^\s*```(sh|python|sql)\b", page.read_text(), re.MULTILINE)]
ANALYSES = (ROOT / "docs/tutorial.md", ROOT / "docs/spark.md", ROOT / "docs/how-to/analyse-your-logs.md")
"""Pages that analyse something."""


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page(page: Path, request: pytest.FixtureRequest) -> None:
    run_page(page, request.getfixturevalue("no_java") if page in ANALYSES else {})


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_says_what_happens_with_its_blocks(page: Path) -> None:
    blocks(page)


def _page(folder: Path, *lines: str) -> Path:
    page = folder / "page.md"
    page.write_text("\n".join(lines) + "\n")
    return page


def test_blocks_share_a_shell_and_a_folder(tmp_path: Path) -> None:
    run_page(_page(
        tmp_path,
        "```sh", "greeting=hello; mkdir inner; cd inner", "```",
        "<!-- file: inner/there.py -->", "```python", "print('from a file')", "```",
        "```sh", "echo $greeting; python there.py; echo aside >&2; pwd", "```",
        "<!-- prints -->", "```text", "hello", "…", "aside", "/…/page/inner", "```",
        "```python", "import there", "```",
        "<!-- prints -->", "```text", "from a file", "```",
    ))  # fmt: skip


def test_a_wrong_output_names_the_line_and_what_was_printed(tmp_path: Path) -> None:
    page = _page(tmp_path, "```sh", "echo one", "```", "", "<!-- prints -->", "```text", "two", "```")
    with pytest.raises(AssertionError, match=r"page.md:6: the block in line 1 prints something else\n(.*\n)*\+one"):
        run_page(page)


def test_a_failing_command_names_the_line_and_what_was_printed(tmp_path: Path) -> None:
    page = _page(tmp_path, "```sh", "true", "```", "", "```sh", "echo so far; false | true; echo on", "```")
    with pytest.raises(AssertionError, match=r"page.md:5: the block ended with exit code 1\n(.*\n)*so far"):
        run_page(page)


def test_a_block_that_leaves_early_does_not_pass_for_the_rest(tmp_path: Path) -> None:
    page = _page(tmp_path, "```sh", "exit 0", "```", "", "```sh", "false", "```")
    with pytest.raises(AssertionError, match=r"page.md:1: the block ended with exit code 0"):
        run_page(page)


def test_a_failure_that_is_meant_must_happen(tmp_path: Path) -> None:
    run_page(_page(tmp_path, "<!-- fails: 3 -->", "```sh", "exit 3", "```", "```sh", "true", "```"))
    page = _page(tmp_path, "<!-- fails: 3 -->", "```sh", "true", "```")
    with pytest.raises(AssertionError, match=r"page.md:2: the block ended with exit code 0, not 3"):
        run_page(page)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["```bash", "true", "```"], "call it `sh`"),
        (["<!-- prints -->", "```text", "x", "```"], "no block before this one runs"),
        (["<!-- prints -->", "", "and then", "", "```text", "x", "```"], "right before the block"),
        (["<!-- not run -->", "```sh", "x", "```"], "say why"),
        (["<!-- file: /etc/passwd -->", "```text", "x", "```"], "within the session's folder"),
        (["<!-- fails: 1 -->", "```text", "x", "```"], "cannot fail"),
        (["```sh", "true", "```", "<!-- prints -->"], "no block after it"),
    ],
)
def test_a_page_that_is_unclear(tmp_path: Path, lines: list[str], problem: str) -> None:
    with pytest.raises(Unclear, match=problem):
        blocks(_page(tmp_path, *lines))


@pytest.mark.parametrize(
    ("page", "printed", "is_so"),
    [
        ("a\n", "a", True), ("a", "a  \n\n", True), ("a", "b", False), ("a", "a\nb", False), ("a\n…", "a\nb\nc", True),
        ("…\nc", "a\nb\nc", True), ("a\n…\nc", "a\nc", True), ("took … ms", "took 3.4 ms", True),
        ("took … ms", "took 3\n4 ms", False), ("", "", True), ("", "a", False), ("a.c", "abc", False),
    ],
)  # fmt: skip
def test_what_is_printed_fits(page: str, printed: str, is_so: bool) -> None:
    assert fits(page, printed) == is_so
