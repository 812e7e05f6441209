"""The console does not show messages to other machines unprotected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import stafette


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--host", "0.0.0.0"), "0.0.0.0 can be reached from other machines"),
        (("--tls-key", "key.pem"), "TLS needs both a certificate and its key"),
    ],
)
async def test_what_strangers_could_read_is_refused(
    database: str, tmp_path: Path, options: tuple[str, ...], sentence: str
) -> None:
    refused = stafette("web", "--database", database, "--data", str(tmp_path), "--port", "0", *options)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.splitlines()[-1].startswith(f"stafette: {sentence}")
