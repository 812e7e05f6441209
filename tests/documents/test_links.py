"""No link of a document leads nowhere: files are in the repository, and anchors are headings, named as GitHub does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it.token import Token

from tests.support.document_pages import ROOT, documents, parse

IN_HTML = re.compile(r"""\b(?:href|src|srcset)\s*=\s*["']([^"'\s]+)""")
ANCHOR_IN_HTML = re.compile(r"""\b(?:id|name)\s*=\s*["']([^"']+)""")
LINES_OF_SOURCE = re.compile(r"L\d+(-L\d+)?")


@pytest.mark.parametrize("page", documents(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    dead = [f"{page.relative_to(ROOT)}:{line}: {link}: {why}" for line, link, why in dead_links(page, ROOT)]
    assert not dead, "\n".join(dead)


def dead_links(page: Path, root: Path) -> Iterator[tuple[int, str, str]]:
    """Line, link and what is wrong with it."""
    for line, link in links(page):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if not target.is_relative_to(root):
            yield line, link, "leads out of the repository"
        elif not target.exists():
            yield line, link, "there is no such file"
        elif parts.fragment and not _has_anchor(target, unquote(parts.fragment)):
            yield line, link, "there is no such heading"


def links(page: Path) -> Iterator[tuple[int, str]]:
    """Every link and picture of a page, with its line."""
    for token in parse(page):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "html_block":
            yield from _links_in_html(line, token.content)
        for child in token.children or ():
            if child.type in ("link_open", "image"):
                yield line, str(child.attrs.get("href") or child.attrs.get("src"))
            elif child.type == "html_inline":
                yield from _links_in_html(line, child.content)
            line += child.content.count("\n") + (child.type in ("softbreak", "hardbreak"))


def _links_in_html(line: int, html: str) -> Iterator[tuple[int, str]]:
    for number, text in enumerate(html.splitlines()):
        yield from ((line + number, link) for link in IN_HTML.findall(text))


def _has_anchor(target: Path, anchor: str) -> bool:
    if target.suffix != ".md":
        return LINES_OF_SOURCE.fullmatch(anchor) is not None
    return anchor in anchors(target)


@cache
def anchors(page: Path) -> set[str]:
    """What can stand after # in a link to a page."""
    found: set[str] = set()
    tokens = parse(page)
    for before, token in pairwise(tokens):
        if before.type == "heading_open":
            slug = _slug(token)
            found.add(
                slug if slug not in found else next(f"{slug}-{n}" for n in range(1, 99) if f"{slug}-{n}" not in found)
            )
        if token.type in ("html_block", "inline"):
            found.update(ANCHOR_IN_HTML.findall(token.content))
    return found


def _slug(heading: Token) -> str:
    """As GitHub makes it: the text in lower case, without punctuation, with hyphens for spaces."""
    text = "".join(child.content for child in heading.children or () if child.type in ("text", "code_inline"))
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def test_a_dead_link_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# It's `here`, now\n\n## Twice\n\n## Twice\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[good](other.md) and [good](other.md#its-here-now), [good](other.md#twice-1),\n"
        "[bad](gone.md), [bad](other.md#twice-2)\n"
        "and [bad](../out.md)\n\n<img\n src='gone.png'>\n\n`[code](none.md)` [away](https://example.org/x)\n"
    )
    assert list(dead_links(page, tmp_path)) == [
        (2, "gone.md", "there is no such file"),
        (2, "other.md#twice-2", "there is no such heading"),
        (3, "../out.md", "leads out of the repository"),
        (6, "gone.png", "there is no such file"),
    ]
