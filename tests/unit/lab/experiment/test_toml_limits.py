"""Limits of a TOML text, which hold before it is parsed."""

from __future__ import annotations

import contextlib
import time
import tomllib
from pathlib import Path

import pytest

from stafette.errors import InvalidRequest
from stafette.lab.experiment import experiment_file, toml_limits
from stafette.lab.experiment.experiment_file import InvalidExperiment
from stafette.lab.experiment.experiment_library import LIBRARY
from stafette.lab.experiment.toml_limits import MOST_BYTES, MOST_DEPTH, MOST_KEYS, TooLarge

TOO_DEEP = "is nested more deeply than 16 levels"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a" + ".a" * 80_000 + " = 1", f"line 1 {TOO_DEEP}"),
        ("b = 1\n[a" + " . a" * 20 + "]", f"line 2 {TOO_DEEP}"),
        ('"a"' + "." + ".".join(["'b'"] * 30) + " = 1", TOO_DEEP),
        ("1.1" + ".1" * 60_000 + " = 1", TOO_DEEP),
        ("a = " + "[" * 1000, TOO_DEEP),
        ("a = " + "{a = " * 1000, TOO_DEEP),
        ("\n".join(f"a{number} = 1" for number in range(MOST_KEYS + 1)), "has 2,001 keys"),
        ("\n".join(f"[a{number}]" for number in range(MOST_KEYS + 1)), "has 2,001 keys"),
        ("a = [" + "{b = 1}," * (MOST_KEYS + 1) + "]", "has 2,002 keys"),
        (" " * (MOST_BYTES + 1), "too long"),
        ("ö" * (MOST_BYTES // 2 + 1), "too long"),
    ],
    ids=["dots", "header", "quoted", "numbers", "lists", "tables", "keys", "headers", "inline", "bytes", "not ASCII"],
)  # fmt: skip
def test_what_is_too_large_is_refused_before_it_is_parsed(
    text: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tomllib, "loads", lambda _text: pytest.fail("it was parsed"))
    with pytest.raises(TooLarge, match=says):
        toml_limits.loads(text)
    with pytest.raises(InvalidExperiment, match=says):
        experiment_file.parse(text, folder=Path())


@pytest.mark.parametrize(
    "text",
    [
        'a = "' + "[" * 100 + '"',
        "a = '" + "b = 1 " * 3000 + "'",
        '"""' + "[{\n" * 1000 + '"""',
        "# " + ".a" * 100,
        "a = [" + "1.5, " * 20_000 + "]",
        "a" + ".a" * (MOST_DEPTH - 1) + " = 1",
    ],
)
def test_strings_comments_and_long_lists_do_not_count(text: str) -> None:
    toml_limits.check(text)


@pytest.mark.parametrize(
    "piece", ['\\"', '"', "'", '""a', "''a", " ", "\t.", "#", "\n", "\\", '"""', "a ", '"a', "= "], ids=repr
)
def test_no_text_takes_more_than_a_pass(piece: str) -> None:
    """A quadratic check would take a hundred times as long for ten times the text; time itself is not judged."""

    def seconds(size: int) -> float:
        text = f'a = "{piece * (size // len(piece))}'
        begin = time.process_time()
        with contextlib.suppress(TooLarge):
            toml_limits.check(text)
        return time.process_time() - begin

    small, large = (min(seconds(size) for _ in range(3)) for size in (15_000, 150_000))
    assert large < 40 * small + 0.1


def test_the_whole_library_is_far_below_the_limits() -> None:
    for path in LIBRARY.glob("**/*.toml"):
        toml_limits.check(path.read_text() * 10)


def test_a_file_is_not_read_beyond_its_limit() -> None:
    with pytest.raises(InvalidRequest, match="/dev/zero: the text is too long"):
        experiment_file.read(Path("/dev/zero"))
