"""docs/analysis.md is what the code has: every table, column, key and option."""

from __future__ import annotations

import re

from stafette.report import result_tables
from tests.support.command_reference import commands, flags
from tests.support.reference_pages import DOCS, codes, plain, rows, section


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
