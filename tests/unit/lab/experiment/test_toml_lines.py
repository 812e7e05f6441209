"""Lines of keys: in every shape that TOML has, and whatever the values look like."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stafette.lab.experiment.toml_lines import Keys, key_lines, line_of

TEXT = '''\
name = "a" # b = 1
run.duration = 30.0
question = """
seed = 1
[run]
\\""" ""quoted""
"""

[system] # [other]
brokers = 2
"max clients" = 1
'a.b' = { c = 1, d.e = [2, { f = 3 }] }
note = \'\'\'
workers = 7\'\'\'\'\'
workers = 1

[clients.alice]
queues = [
    "q-1", # first = 2
    "]",
    [1, 2],
]
size = { uniform = [1, 2] }
when = 1979-05-27 07:32:00
[[faults]]
at = 1
[faults.more]
x = 1
[[ faults ]]
at = 2
[[faults.parts]]
y = 1
[[faults.parts]]
y = 2

[clients]
z = 1
"\\u00e4 = 2" = 3
'''


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("name",), 1),
        (("run", "duration"), 2),
        (("run",), 2),
        (("seed",), None),
        (("run", "seed"), 2),
        (("system",), 9),
        (("system", "brokers"), 10),
        (("system", "max clients"), 11),
        (("system", "a.b", "c"), 12),
        (("system", "a.b", "d", "e", 1, "f"), 12),
        (("system", "workers"), 15),
        (("clients", "alice"), 17),
        (("clients", "alice", "queues"), 18),
        (("clients", "alice", "queues", 1), 20),
        (("clients", "alice", "queues", 2, 1), 21),
        (("clients", "alice", "first"), 17),
        (("clients", "alice", "size", "uniform", 1), 23),
        (("clients", "alice", "size", "choice"), 23),
        (("clients", "alice", "when"), 24),
        (("faults",), 25),
        (("faults", 0, "at"), 26),
        (("faults", 0, "more", "x"), 28),
        (("faults", 1), 29),
        (("faults", 1, "at"), 30),
        (("faults", 1, "parts", 1, "y"), 34),
        (("faults", 2), 25),
        (("clients",), 36),
        (("clients", "z"), 37),
        (("clients", "ä = 2"), 38),
        (("other",), None),
        ((), None),
    ],
)
def test_a_key_is_found_or_else_what_is_around_it(keys: Keys, line: int | None) -> None:
    assert line_of(TEXT, keys) == line


def test_every_key_of_the_text_is_found() -> None:
    assert set(key_lines(TEXT)) == set(ways(tomllib.loads(TEXT)))


def test_line_ends_of_windows_do_not_matter() -> None:
    assert key_lines(TEXT.replace("\n", "\r\n")) == key_lines(TEXT)


PROFILES = """\
[run]
duration = 30.0
[clients.alice]
count = 1
size = 1
[profiles.quick]
run.duration = 1.0
clients.alice.count = 2
clients.bob.count = 3
"""


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (("run", "duration"), 7),
        (("clients", "alice", "count"), 8),
        (("clients", "alice", "size"), 5),
        (("clients", "alice", "behaviour"), 3),
        (("clients", "bob", "behaviour"), 9),
        (("seed",), None),
        ((), None),
    ],
)
def test_what_a_profile_gives_is_found_in_the_profile(keys: Keys, line: int | None) -> None:
    assert line_of(PROFILES, keys, profile="quick") == line


def ways(value: Any, keys: Keys = ()) -> Iterator[Keys]:
    """The way to everything in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inside in inner:
        yield (*keys, key)
        yield from ways(inside, (*keys, key))


KEYS = st.sampled_from(["a", "b-1", '"a.b"', "'c d'", '"x # = ["', '"\\"]"', "1"])
"""As written, so that quotes of both kinds occur."""

SCALARS = st.sampled_from(
    [
        "1", "-2.5", "true", "1979-05-27 07:32:00", '"a = 1"', "'[b]'", '"# no \\" comment"', '""', "''",
        '"""\nc = 1\n[d]\n"""', "'''\n[[e]]\n\"\"\"\n'''", '""""""', '"""\\""" """', '"""a"""""',
    ]
)  # fmt: skip
BREAKS = st.sampled_from(["", " ", "\n", " # b = 2, ]\n", "\n\n  "])


@st.composite
def lists(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    items = draw(st.lists(inner, max_size=3))
    comma = draw(st.sampled_from(["", ","])) if items else ""
    return "[" + ",".join(draw(BREAKS) + item + draw(BREAKS) for item in items) + comma + draw(BREAKS) + "]"


@st.composite
def inline_tables(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    pairs = draw(st.dictionaries(KEYS, inner, max_size=3))
    return "{" + ", ".join(f"{key} = {value}" for key, value in pairs.items()) + "}"


VALUES = st.recursive(SCALARS, lambda inner: lists(inner) | inline_tables(inner), max_leaves=5)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[Keys, int]]:
    """A text, and the lines of the keys that stand at the beginning of one."""
    text = ""
    lines: dict[Keys, int] = {}
    counts: dict[str, int] = {}
    for number in range(draw(st.integers(1, 5))):
        keys: Keys = ()
        if number:
            text += draw(st.sampled_from(["", "\n", "# [no] = 1\n"]))
            name, is_list = draw(st.sampled_from([(f"t{number}", False), ("list", True)]))
            counts[name] = counts.get(name, 0) + 1
            keys = (name, counts[name] - 1) if is_list else (name,)
            lines[keys] = text.count("\n") + 1
            text += f"[[{name}]]\n" if is_list else f"[ {name} ] # c\n"
        for key in draw(st.lists(KEYS, unique=True, max_size=4)):
            lines[*keys, *tomllib.loads(f"{key} = 1")] = text.count("\n") + 1
            text += f"{key} = {draw(VALUES)}\n"
    return text, lines


@given(documents())
def test_every_key_of_any_text_is_found_in_its_line(document: tuple[str, dict[Keys, int]]) -> None:
    text, lines = document
    assert set(key_lines(text)) == set(ways(tomllib.loads(text)))
    assert {keys: line_of(text, keys) for keys in lines} == lines


@given(documents(), st.data())
def test_a_text_that_breaks_off_is_scanned_up_to_there(
    document: tuple[str, dict[Keys, int]], data: st.DataObject
) -> None:
    text, lines = document
    part = text[: data.draw(st.integers(0, len(text)))]
    whole_lines = part.count("\n")
    for keys, line in lines.items():
        if line < whole_lines:
            assert line_of(part, keys) == line


@given(st.text(alphabet="a.=[]{}\"'#,\\ \n1"))
def test_no_text_at_all_makes_it_fail(text: str) -> None:
    line_of(text, ("a", 0, "b"))


def test_what_nests_too_deep_is_left_out() -> None:
    assert line_of("a = 1\nb = " + "[" * 100_000, ("a",)) == 1
