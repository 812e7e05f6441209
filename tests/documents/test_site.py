"""The site is built without a warning, and needs nobody but itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.document_pages import ROOT

LOADS = re.compile(
    r"""<(?:script|img|source|iframe)\b[^>]*?\b(?:src|srcset)\s*=\s*["']?(?P<element>(?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\brel\s*=\s*["']?(?:stylesheet|icon|preload|preconnect))[^>]*?\bhref\s*=\s*["']?(?P<link>(?:https?:)?//[^"'\s>]+)"""
    r"""|(?:@import\s+|url\()\s*["']?(?P<style>(?:https?:)?//[^"')\s]+)""",
    re.IGNORECASE,
)


@pytest.mark.slow
def test_the_site(tmp_path: Path) -> None:
    site = tmp_path / "site"
    options = ("--quiet", "--fail-on-warning", "--keep-going", "-c", "docs", "-d", str(tmp_path / "doctrees"))
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, ".", str(site)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (built.returncode, built.stderr) == (0, "")

    pages = {str(page.relative_to(site)) for page in site.rglob("*.html")}
    sources = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")]
    assert {str(page.relative_to(ROOT).with_suffix(".html")) for page in sources} <= pages
    assert "stafette lab run" in (site / "docs/cli.html").read_text()
    assert "allow_unknown" in (site / "docs/python.html").read_text()
    assert "/api/v1/overview" in (site / "docs/rest.html").read_text()

    files = [file for suffix in ("html", "css") for file in site.rglob(f"*.{suffix}")]
    elsewhere = [(file.name, found[0]) for file in files for found in LOADS.finditer(file.read_text())]
    assert elsewhere == []
    pictures = {
        (page, link)
        for page in pages
        for link in _pictures(site / page)
        if not (site / page).parent.joinpath(link).exists()
    }
    assert pictures == set()


def _pictures(page: Path) -> list[str]:
    found = re.findall(r"""<(?:img|source)\b[^>]*?\b(?:src|srcset)\s*=\s*"([^"]+)""", page.read_text())
    return [link for link in found if not link.startswith("data:")]


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example/x.js">', '<img alt="" src=//cdn.example/x.png>',
        '<link rel="stylesheet" href="http://fonts.example/f.css">', '<link href="//x.example" rel="preconnect">',
        "@import 'https://fonts.example/f.css'", "src: url(https://fonts.example/f.woff)",
    ],
)  # fmt: skip
def test_what_would_be_loaded_from_elsewhere_is_noticed(html: str) -> None:
    assert LOADS.search(html)
