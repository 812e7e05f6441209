"""The error tree: codes are unique, in their group, and survive the way through SQL and wire."""

from __future__ import annotations

import pytest

from stafette import errors

GROUPS = {1: errors.CallerError, 2: errors.TryAgain, 3: errors.InternalError}


@pytest.mark.parametrize("kind", errors.BY_CODE.values())
def test_a_code_tells_class_and_group(kind: type[errors.StafetteError]) -> None:
    assert type(errors.from_code(kind.code, "so")) is kind
    assert type(errors.from_sqlstate(f"ST{kind.code}", "so")) is kind
    assert issubclass(kind, GROUPS[kind.code // 100])


def test_all_sixteen_are_there() -> None:
    assert len(errors.BY_CODE) == 16


def test_what_is_not_known_is_ours() -> None:
    assert type(errors.from_code(4711, "so")) is errors.InternalError
    assert errors.from_sqlstate("23505", "duplicate key") is None
