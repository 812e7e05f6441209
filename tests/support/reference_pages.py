"""Reads the tables of the reference pages, so that tests can hold them against the code."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def section(page: str, title: str) -> str:
    """The text of a page between a heading and the next of the same or a higher level."""
    found = re.search(
        rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,2}} |^\1 |\Z)", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL
    )
    assert found, f"docs/{page} has no section {title}"
    return found[2]


def rows(text: str, head: str = "") -> list[list[str]]:
    """The rows of the tables in a text, without their heads; of those only whose head begins with a word."""
    tables = re.findall(rf"^\| {re.escape(head)}.*\|\n\|[-|:]+\|\n((?:\|.*\|\n?)*)", text, re.MULTILINE)
    return [[cell.strip() for cell in row[1:-1].split("|")] for table in tables for row in table.splitlines()]


def codes(cell: str) -> list[str]:
    """What a cell has in backticks, in order."""
    return re.findall(r"`([^`]+)`", cell)


def plain(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())
