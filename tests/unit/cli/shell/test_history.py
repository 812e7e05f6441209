"""What the shell's history keeps, and for whom."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from stafette.cli.shell.command_history import history_file, may_store, open_history


@pytest.mark.parametrize(
    ("line", "is_stored"),
    [
        ("send jobs hello", True),
        (" send jobs hello", False),
        ("", False),
        ("connect a:1 as b secret=abc", False),
        ("connect a:1 as b 'secret=abc'", False),
        ("connect a:1 as b --secret abc", False),
        ("send jobs the secret is out", True),
    ],
)
def test_what_history_keeps(line: str, is_stored: bool, tmp_path: Path) -> None:
    assert may_store(line) == is_stored
    path = tmp_path / "new" / "history"
    open_history(path).append_string(line)
    assert (line in path.read_text().splitlines() or f"+{line}" in path.read_text().splitlines()) == is_stored


def test_the_history_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = history_file()
    assert path == tmp_path / "stafette" / "shell_history"
    path.parent.mkdir()
    path.write_text("")
    path.chmod(0o644)
    open_history(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_a_place_for_it_history_is_for_this_time_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = open_history(tmp_path / "file" / "history")
    history.append_string("queues")
    assert history.get_strings() == ["queues"]
