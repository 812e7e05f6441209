"""Files that are complete or absent, and locks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stafette.files import try_lock, write_atomically


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    for content in (b"first", "zweite – Zeile"):
        write_atomically(path, content, mode=0o600)
        assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_mode_that_is_given_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "script", "exit", mode=0o755)
        write_atomically(tmp_path / "record", "{}")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "script", tmp_path / "record")] == [0o755, 0o600]


def test_readers_never_see_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    write_atomically(path, b"before")

    def power_cut(_descriptor: int) -> None:
        assert path.read_bytes() == b"before"
        raise OSError("power cut")

    monkeypatch.setattr(os, "fsync", power_cut)
    with pytest.raises(OSError, match="power cut"):
        write_atomically(path, b"after")
    assert path.read_bytes() == b"before"


def test_a_lock_excludes_others_until_its_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("w") as holder, path.open("w") as other:
        assert try_lock(holder)
        assert not try_lock(other)
        assert not try_lock(other.fileno(), shared=True)
        holder.close()
        assert try_lock(other, shared=True)
        with path.open("w") as third:
            assert try_lock(third, shared=True)
            assert not try_lock(third)
