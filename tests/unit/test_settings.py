"""Settings of several values, wherever they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from stafette import settings


def test_a_setting_of_several_values_has_spaces_between_them_or_is_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STAFETTE_LAB_HOSTS", raising=False)
    assert settings.load().lab_hosts == ()
    (tmp_path / "stafette.toml").write_text('lab_hosts = ["a", "b c"]\n')
    assert settings.load().lab_hosts == ("a", "b c")
    monkeypatch.setenv("STAFETTE_LAB_HOSTS", "d  lab@e:22")
    assert settings.load().lab_hosts == ("d", "lab@e:22")
    assert settings.load(lab_hosts="f").lab_hosts == ("f",)
