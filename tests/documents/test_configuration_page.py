"""docs/configuration.md is what the code has: every setting, flag and exit code."""

from __future__ import annotations

import re
from fnmatch import fnmatch

import pytest

from stafette import settings
from stafette.cli import exits
from stafette.database.durability import DURABLE
from tests.support.command_reference import commands, flags
from tests.support.reference_pages import codes, rows, section

SETTINGS = settings.Settings.__struct_fields__


def flag_of(setting: str) -> str:
    return f"--{setting.replace('_', '-')}"


def test_every_setting_is_told_with_its_flag_and_variable() -> None:
    told = [row[:3] for row in rows(section("configuration.md", "Settings"))]
    known = {flag for command in commands().values() for flag in flags(command)}
    assert told == [
        [f"`{name}`", f"`{flag_of(name)}`" if flag_of(name) in known else "", f"`{settings.PREFIX}{name.upper()}`"]
        for name in SETTINGS
    ]


def test_the_defaults_of_folders_are_those_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    default = {codes(row[0])[0]: codes(row[3]) for row in rows(section("configuration.md", "Settings"))}
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert default["data"][0] == str(settings.Settings().data)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_DATA_HOME", "$XDG_DATA_HOME")
    assert default["data"][1] == str(settings.Settings().data)
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert default["data"][2].replace("~", "/home/me") == str(settings.Settings().data)
    found = settings.Settings()
    assert [default["runs"][0], default["experiments"][0]] == [found.runs_folder.name, found.experiments_folder.name]


def test_every_command_is_told_with_the_settings_it_takes() -> None:
    told = [(codes(row[0]), row[1]) for row in rows(section("configuration.md", "Which commands take them"))]
    used = set()
    for name, command in commands().items():
        matching = [
            (pattern, cell)
            for patterns, cell in told
            for pattern in patterns
            if name == pattern or fnmatch(name, pattern)
        ]
        assert len(matching) == 1, f"stafette {name} is in {len(matching)} rows"
        [(pattern, cell)] = matching
        used.add(pattern)
        taken = {flag_of(setting) for setting in SETTINGS} & set(flags(command))
        assert set(re.findall(r"--[a-z-]+", cell)) == taken, f"stafette {name}"
    assert used == {pattern for patterns, _ in told for pattern in patterns}


def test_the_flags_of_the_processes_are_all_there_with_their_defaults() -> None:
    told = {
        (command, flag): row[2]
        for row in rows(section("configuration.md", "Flags of the processes"))
        for command in codes(row[1])
        for flag in codes(row[0])
    }
    found = commands()
    ours = {
        (name, flag): default
        for name in ("up", "broker", "web", "db start")
        for flag, default in flags(found[name]).items()
        if flag not in ("--data", "--database", "--json", "--help")
    }
    assert set(told) == set(ours)
    for which, default in ours.items():
        if default not in (None, False, ""):
            assert told[which] == str(default), which


def test_every_exit_code_is_told() -> None:
    told = {int(row[0]) for row in rows(section("configuration.md", "Exit codes"), head="code")}
    ours = {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    assert told == ours | {0, 2}
    special = [row[0] for row in rows(section("configuration.md", "Exit codes"), head="command")]
    assert {name for cell in special for name in codes(cell)} <= set(commands())


def test_the_durability_that_can_be_waived_is_told() -> None:
    [row] = [row for row in rows(section("configuration.md", "Flags of the processes")) if "unsafe" in row[0]]
    assert set(codes(row[3])) >= set(DURABLE)
