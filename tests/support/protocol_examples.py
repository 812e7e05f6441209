"""The worked session in docs/protocol.md, frame by frame."""

from __future__ import annotations

import re

from stafette.protocol.frames import HEADER_BYTES
from tests.support.reference_pages import section

EXAMPLE = re.compile(r"```text\n(?P<says>.+)\n```\n\n```hex (?P<who>\w+) (?P<name>\w+)\n(?P<hex>[^`]+)```")


class Example:
    """One frame of the worked session."""

    def __init__(self, found: re.Match[str]) -> None:
        self.says, self.who, self.name = found["says"], found["who"], found["name"]
        self.stream = bytes.fromhex(re.sub(r";.*", "", found["hex"]))
        self.notes = re.findall(r"; *(.+)", found["hex"])

    @property
    def payload(self) -> bytes:
        return self.stream[HEADER_BYTES:]


EXAMPLES = [Example(found) for found in EXAMPLE.finditer(section("protocol.md", "A session, byte by byte"))]
