"""What a page says about its own code: a page is a session, and comments that readers do not see tell how it goes.

::

    <!-- file: NAME -->        the next block is written to NAME instead of run
    <!-- prints -->            the next block is what the last one that ran printed; … stands for anything
    <!-- fails: N -->          the next block ends with exit code N
    <!-- not run: REASON -->   the next block is left out

Blocks of `sh`, `python` and `sql` run; all others are there to be looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
RUN = ("sh", "python", "sql")
ALIASES = {"bash": "sh", "shell": "sh", "zsh": "sh", "py": "python", "python3": "python", "psql": "sql"}
DIRECTIVE = re.compile(r"<!--\s*(?P<word>file|prints|fails|not run)\b:?\s*(?P<value>.*?)\s*-->", re.DOTALL)

Part = Literal["run", "write", "compare"]


class Unclear(Exception):
    """A page that does not say what is to happen with a block."""


@dataclass(frozen=True)
class Block:
    """A block of a page that has a part in its session."""

    part: Part
    line: int
    language: str
    text: str
    name: str = ""
    """Of the file to write."""
    exit_code: int = 0
    """Of the block that is run."""


def pages() -> list[Path]:
    """Every page whose code is to run."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def documents() -> list[Path]:
    """Every page that a reader may come across."""
    others = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "experiments/README.md")
    return [*pages(), *(ROOT / name for name in others)]


def parse(path: Path) -> list[Token]:
    """A page's parts, as GitHub sees them."""
    return MarkdownIt("gfm-like", {"linkify": False}).parse(path.read_text())


def blocks(path: Path) -> list[Block]:
    """The blocks of a page's session, in order."""
    found: list[Block] = []
    for said, token in _fences(path):
        assert token.map is not None
        block = _block(f"{path.name}:{token.map[0] + 1}", said, token)
        if block is None:
            continue
        if block.part == "compare" and not any(earlier.part == "run" for earlier in found):
            raise Unclear(f"{path.name}:{block.line}: no block before this one runs and could have printed it")
        found.append(block)
    return found


def _fences(path: Path) -> Iterator[tuple[dict[str, str], Token]]:
    """Each block of code with what the comments right before it say."""
    said: dict[str, str] = {}
    for token in parse(path):
        if token.type == "fence":
            yield said, token
            said = {}
            continue
        if said:
            where = f"{path.name}:{(token.map or [0])[0]}"
            if token.type != "html_block":
                raise Unclear(f"{where}: a comment about a block must stand right before the block")
        if token.type == "html_block":
            said |= {match["word"]: match["value"] for match in DIRECTIVE.finditer(token.content)}
    if said:
        raise Unclear(f"{path.name}: the last comment about a block has no block after it")


def _block(where: str, said: dict[str, str], token: Token) -> Block | None:
    assert token.map is not None
    language, line = token.info.strip(), token.map[0] + 1
    if language in ALIASES:
        raise Unclear(f"{where}: call it `{ALIASES[language]}`, so that it runs, not `{language}`")
    if len(said) > 1:
        raise Unclear(f"{where}: one comment about a block is enough, not {' and '.join(said)}")
    if "file" in said:
        if not said["file"] or Path(said["file"]).is_absolute() or ".." in Path(said["file"]).parts:
            raise Unclear(f"{where}: a file needs a name within the session's folder, not {said['file']!r}")
        return Block("write", line, language, token.content, name=said["file"])
    if "prints" in said:
        return Block("compare", line, language, token.content)
    if "not run" in said:
        if not said["not run"]:
            raise Unclear(f"{where}: say why this is not run")
        return None
    if language not in RUN:
        if "fails" in said:
            raise Unclear(f"{where}: a block of {language or 'no language'} does not run, so it cannot fail")
        return None
    return Block("run", line, language, token.content, exit_code=int(said.get("fails", "0")))
