"""The reference on paper is the one in the code: every setting, flag, exit code, error, column and key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from stafette import errors, settings, trace
from stafette.broker.limits import BROKER_LEASE_SECONDS, MEBIBYTE, Limits
from stafette.broker.notifications import POLL_SECONDS
from stafette.cli import exits
from stafette.cli.app import COMMANDS
from stafette.cli.lazy import load
from stafette.database import schema
from stafette.lab.running import sampling
from stafette.protocol import client
from stafette.protocol.messages import failure
from stafette.report import result_tables
from stafette.runs import records
from stafette.runs.closed_loop import ClosedLoop
from stafette.runs.outcomes import UNANSWERED
from stafette.runs.records import Check, Done, FactsFound, Offset, Spread, Verdict
from stafette.runs.summary import Figures, Part, PerSecond, Summary
from stafette.web.problems import status_of
from tests.support.reference_pages import DOCS, codes, plain, rows, section

SETTINGS = settings.Settings.__struct_fields__


def commands() -> dict[str, Any]:
    """Every command that can be given, by what one types."""

    def within(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        inner = getattr(command, "commands", {})
        if not inner or command.invoke_without_command:
            yield name, command
        for word, found in inner.items():
            yield from within(f"{name} {word}", found)

    return {name: found for word, lazy in COMMANDS.items() for name, found in within(word, load(word, lazy))}


def flags(command: Any) -> dict[str, Any]:
    """The flags of a command with their defaults."""
    return {
        flag: option.default
        for option in command.params
        for flag in option.opts
        if flag.startswith("--") and not flag.endswith("-completion")  # Typer's own, of every group
    }


# Configuration


def test_every_setting_is_told_with_its_flag_and_variable() -> None:
    told = [row[:3] for row in rows(section("configuration.md", "Settings"))]
    known = {flag for command in commands().values() for flag in flags(command)}
    assert told == [
        [f"`{name}`", f"`--{name}`" if f"--{name}" in known else "", f"`{settings.PREFIX}{name.upper()}`"]
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
        taken = {f"--{setting}" for setting in SETTINGS} & set(flags(command))
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
    asked = schema.require_durability.__code__.co_consts
    assert set(codes(row[3])) == {name for constant in asked if isinstance(constant, tuple) for name in constant}


# Errors


def test_every_error_is_told_with_its_codes_and_group() -> None:
    for title, group, base in (
        ("Yours", "caller", errors.CallerError),
        ("Try again", "again", errors.TryAgain),
        ("Ours", "ours", errors.InternalError),
    ):
        told = [row[:5] for row in rows(section("errors.md", title), head="class | code")]
        assert told == [
            [f"`{kind.__name__}`", str(code), f"`{errors.SQLSTATE_CLASS}{code}`", str(status_of(kind(""))),
             str(exits.exit_code(kind("")))]
            for code, kind in sorted(errors.BY_CODE.items())
            if issubclass(kind, base)
        ]  # fmt: skip
        assert {failure(1, errors.BY_CODE[int(row[1])]("")).group for row in told} == {group}
    groups = rows((DOCS / "errors.md").read_text(), head="class | covers")
    bases = {kind.__name__ for kind in vars(errors).values() if isinstance(kind, type) and kind.__subclasses__()}
    assert {codes(row[0])[0] for row in groups} == (bases & set(vars(errors))) - set(leaves()) | {"InternalError"}


def leaves() -> list[str]:
    return [kind.__name__ for kind in errors.BY_CODE.values()]


def test_the_clients_own_errors_are_told() -> None:
    told = {codes(row[0])[0]: codes(row[1])[0] for row in rows(section("errors.md", "Try again"), head="class, in")}
    assert told == {
        name: kind.__mro__[1].__name__
        for name, kind in vars(client).items()
        if isinstance(kind, type) and issubclass(kind, errors.StafetteError) and kind.__module__ == client.__name__
    }


def test_what_sql_raises_is_what_the_functions_raise() -> None:
    sql = "".join(path.read_text() for path in schema.function_files())
    raised = {int(code) for code in re.findall(r"(?:raise_fault\(\s*|THEN )(1\d\d)\b", sql)} | {110}
    assert raised == {*range(100, 109), 110}
    assert "SQL raises 100 to 108 and 110" in plain(section("errors.md", "Yours"))


def test_the_limits_in_the_sentences_are_those_of_the_code() -> None:
    assert f"a frame is larger than the broker allows ({Limits().frame // MEBIBYTE} MiB)" in section(
        "errors.md", "Yours"
    )
    assert f"looks again every {POLL_SECONDS:g} seconds" in plain((DOCS / "sql-api.md").read_text())
    assert f"after {BROKER_LEASE_SECONDS:g} seconds without a heartbeat" in (DOCS / "metrics.md").read_text()


# Traces


def shown(kind: pa.DataType) -> str:
    plain_kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return {"string": "text", "double": "float64"}.get(str(plain_kind), str(plain_kind))


def test_every_column_of_a_trace_is_told() -> None:
    told = [row[:3] for row in rows(section("traces.md", "Traces"))]
    assert told == [[f"`{field.name}`", shown(field.type), "yes" * field.nullable] for field in trace.SCHEMA]
    text = section("traces.md", "Traces")
    assert set(UNANSWERED) <= set(codes(text))
    assert f"chunks of {trace.CHUNK_ROWS:,} rows, or of what gathered in {trace.CHUNK_SECONDS:g} seconds" in plain(text)
    assert f"({trace.MAX_WAITING_CHUNKS} chunks wait)" in plain(text)


def keys_told(page: str, title: str) -> list[str]:
    return [key for row in rows(section(page, title), head="key") for key in codes(row[0])]


def test_every_key_of_the_records_is_told() -> None:
    for title, record in (
        ("End reports", trace.EndReport),
        ("run.json", records.RunRecord),
        ("series.json", records.SeriesRecord),
    ):
        told = keys_told("traces.md", title)
        assert sorted(told) == sorted(record.__struct_fields__), title


@pytest.mark.parametrize(
    ("title", "parts"),
    [
        (
            "run.json",
            [records.Machine, FactsFound, Offset, records.Messages, Done, Spread, Summary, Part, Figures, PerSecond,
             ClosedLoop, Check, Verdict, records.ThresholdResult],
        ),
        ("series.json", [records.Planned]),
    ],
)  # fmt: skip
def test_every_key_inside_the_records_is_told(title: str, parts: list[type[msgspec.Struct]]) -> None:
    told = set(codes(section("traces.md", title)))
    for part in parts:
        assert set(part.__struct_fields__) <= told, part.__name__


def test_every_column_of_the_samples_is_told() -> None:
    told = {codes(row[0])[0]: row[1] for row in rows(section("traces.md", "Samples"))}
    schemas = {
        name.removeprefix("_").lower(): value for name, value in vars(sampling).items() if isinstance(value, pa.Schema)
    }
    assert set(told) == {f"{name}.parquet" for name in schemas}
    for name, found in schemas.items():
        cell = told[f"{name}.parquet"]
        assert codes(cell) == found.names
        if f"all {shown(found.types[0])}" in cell:
            assert set(found.types) == {found.types[0]}
        else:
            assert re.findall(r"` (int64|text|float64)", cell) == [shown(kind) for kind in found.types]
    assert f"more than {sampling.LARGEST_SHARE:.0%} of the time".replace("%", " %") in plain(
        section("traces.md", "Samples")
    )


# The analysis


def test_every_table_of_the_analysis_is_told_with_its_columns() -> None:
    told = {codes(row[0])[0]: row[1] for row in rows(section("analysis.md", "What it leaves behind"))}
    assert list(told) == list(result_tables.TABLES)
    values = {"ok", "empty", "answered", "error", "mva", "bounds", "mm1", "mmm", "usl"}
    for name, found in result_tables.TABLES.items():
        columns = [word for word in codes(told[name]) if word not in values - set(found.names)]
        assert sorted(columns) == sorted(found.names), name


def test_the_keys_of_the_summary_are_told() -> None:
    text = plain(section("analysis.md", "What it leaves behind"))
    listed = re.search(r"`summary.json` is a list of objects with exactly (.*?):", text)
    assert listed
    assert codes(listed[1]) == list(result_tables.SUMMARY_KEYS)


def test_every_option_of_the_analysis_is_told() -> None:
    told = {flag for row in rows((DOCS / "analysis.md").read_text(), head="option") for flag in codes(row[0])}
    ours = {flag for flag in flags(commands()["analyze"]) if flag != "--help"}
    assert told - {"RUN_FOLDER…"} == ours


# SQL


def test_every_function_is_told_as_public_or_internal() -> None:
    public = re.findall(r"^## `stafette\.(\w+)\(", (DOCS / "sql-api.md").read_text(), re.MULTILINE)
    internal = [name for row in rows(section("sql-api.md", "Internal functions")) for name in codes(row[1])]
    assert len(internal) == len(set(internal))
    assert sorted([*public, *internal]) == sorted(path.stem for path in schema.function_files())
