"""The README's Python runs as it stands there."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
SAYS = ["alice hello\nwork\n", "1.05\n"]


@pytest.mark.parametrize(("code", "says"), list(zip(EXAMPLES, SAYS, strict=True)), ids=["sync", "async"])
async def test_an_example(code: str, says: str, broker: str) -> None:
    here = code.replace("stafette://127.0.0.1:7470", broker)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", here, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    said, errors = await process.communicate()
    assert (said.decode(), errors.decode()) == (says, "")
